"""The execution trace of one turn, made in two steps.

In: the values that a turn uses; after its reply, the reply. Out: the locked object. Never: stored, logged, counted or
cached; it lives in the response that asked for it.

Everything that could fail is done by `begin`, before the model is called: the id is made, the prompts are hashed, and
the object is checked against its type with an empty reply in it. `finish` puts a text and a time in.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from traceforge.canon import JSONObject
from traceforge.chat.chat_request import Ask
from traceforge.chat.execution_trace import ExecutionTrace, Inputs, Output
from traceforge.chat.prompt_layers import Layers
from traceforge.clock import now_text
from traceforge.conversion import convert
from traceforge.ids import new_id


class Draft(NamedTuple):
    """A trace that lacks the reply."""

    trace_id: str
    model: str
    session_id: str
    inputs: Inputs

    def finish(self, reply: str) -> JSONObject:
        """The trace of the turn that ended with this reply."""
        made = ExecutionTrace(self.trace_id, now_text(), self.model, self.session_id, self.inputs, Output(reply))
        built: JSONObject = msgspec.to_builtins(made)
        return built


def begin(ask: Ask, layers: Layers, model: str) -> Draft:
    """Do everything of a trace that could fail."""
    inputs = Inputs(layers.system.hash, layers.developer.hash, layers.session.hash, ask.message)
    draft = Draft(new_id("trc"), model, ask.session_id, inputs)
    convert(draft.finish(""), ExecutionTrace)
    return draft

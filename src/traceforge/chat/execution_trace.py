"""The execution trace: how one answer of the chat came about.

It is the object of the specification, with exactly its keys. Prompts appear as bare hex SHA-256 only.

The server never stores a trace; this module also reads one that a person saved from a response.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from traceforge.shape import NonEmptyText, Timestamp
from traceforge.shape.closed_format import ClosedFormat

PromptHash = Annotated[str, Meta(pattern=r"^[a-f0-9]{64}$(?!\n)", description="64 lower-case hex digits")]


class Inputs(Struct, forbid_unknown_fields=True, frozen=True):
    """What the model was given."""

    system_prompt_hash: PromptHash
    developer_prompt_hash: PromptHash
    session_prompt_hash: PromptHash
    user_message: NonEmptyText


class Output(Struct, forbid_unknown_fields=True, frozen=True):
    """The model's answer in an execution trace."""

    assistant_message: str


class ExecutionTrace(Struct, forbid_unknown_fields=True, frozen=True):
    """The content of an execution trace: the inputs and the output of one answer."""

    trace_id: NonEmptyText
    timestamp: Timestamp
    model: NonEmptyText
    session_id: NonEmptyText
    inputs: Inputs
    output: Output


_FORMAT = ClosedFormat(ExecutionTrace, rule="ET1", time="timestamp")

read_execution_trace = _FORMAT.read
write_execution_trace = _FORMAT.write
check_execution_trace = _FORMAT.check

"""The execution trace: how one answer of the chat came about (seed 001).

Exactly the seed's object, no key more and no key fewer. Prompts appear as bare hex SHA-256 only.

In: bytes. Out: an execution trace, or every reason why not. Never: holds a prompt's text, and is never stored by us;
this module reads one that a person saved from a response.
"""

from __future__ import annotations

from typing import Annotated, cast

import msgspec
from msgspec import Meta, Struct

from traceforge.canon import JSON, JSONObject, ecmascript_bytes, parse
from traceforge.errors import InvalidArtefact
from traceforge.findings import Finding
from traceforge.shape import Text, Timestamp, problems, time_problems

RULE = "ET1"

PromptHash = Annotated[str, Meta(pattern=r"^[a-f0-9]{64}$(?!\n)", description="64 lower-case hex digits")]


class Inputs(Struct, forbid_unknown_fields=True, frozen=True):
    """What the model was given."""

    system_prompt_hash: PromptHash
    developer_prompt_hash: PromptHash
    session_prompt_hash: PromptHash
    user_message: Text


class Output(Struct, forbid_unknown_fields=True, frozen=True):
    """What it said."""

    assistant_message: str


class ExecutionTrace(Struct, forbid_unknown_fields=True, frozen=True):
    """One explained answer."""

    trace_id: Text
    timestamp: Timestamp
    model: Text
    session_id: Text
    inputs: Inputs
    output: Output


def read_execution_trace(data: bytes) -> ExecutionTrace:
    """Read an execution trace.

    Raises:
        NotJSON: it is not JSON.
        InvalidArtefact: it breaks a rule; the error holds every finding.
    """
    value = parse(data)
    found = check_execution_trace(value)
    if found:
        raise InvalidArtefact(tuple(found))
    return msgspec.convert(value, ExecutionTrace)


def write_execution_trace(trace: ExecutionTrace) -> bytes:
    """Write an execution trace in the seed's key order."""
    return ecmascript_bytes(cast("JSONObject", msgspec.to_builtins(trace)), indent=2) + b"\n"


def check_execution_trace(value: JSON, file: str = "") -> list[Finding]:
    """Find everything that is wrong with a parsed execution trace."""
    found = problems(value, ExecutionTrace)
    if isinstance(value, dict):
        found += time_problems(value.get("timestamp"), "$.timestamp")
    return [Finding(file, problem.path, RULE, problem.message) for problem in found]

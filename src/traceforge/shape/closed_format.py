"""A format that is one closed object: its type is all of its rules, but for times that must exist.

In: bytes or values. Out: the typed object, its bytes, or every finding. Never: keeps a field the type does not have.
"""

from __future__ import annotations

from typing import Generic, TypeVar, cast

import msgspec

from traceforge.canon import JSON, JSONObject, ecmascript_bytes, parse_json
from traceforge.conversion import convert
from traceforge.errors import InvalidFile
from traceforge.findings import Finding
from traceforge.shape import find_problems, find_timestamp_problems

Value = TypeVar("Value", bound=msgspec.Struct)


class ClosedFormat(Generic[Value]):
    """Reads, writes and checks values of one type; `rule` names what a finding breaks, `time` its timestamp."""

    def __init__(self, shape: type[Value], *, rule: str, time: str) -> None:
        self._shape = shape
        self._rule = rule
        self._time = time

    def read(self, data: bytes) -> Value:
        """Read one object.

        Raises:
            NotJSON: it is not JSON.
            InvalidFile: it breaks a rule; the error holds every finding.
        """
        value = parse_json(data)
        findings = self.check(value)
        if findings:
            raise InvalidFile(tuple(findings))
        return convert(value, self._shape)

    def write(self, value: Value) -> bytes:
        """Write one object: two-space indent, the fields in the order of the type, a final newline."""
        return ecmascript_bytes(cast("JSONObject", msgspec.to_builtins(value)), indent=2) + b"\n"

    def check(self, value: JSON, file: str = "") -> list[Finding]:
        """Find everything that is wrong with a parsed object."""
        problems = find_problems(value, self._shape)
        if isinstance(value, dict):
            problems += find_timestamp_problems(value.get(self._time), f"$.{self._time}")
        return [Finding(file, problem.path, self._rule, problem.message) for problem in problems]

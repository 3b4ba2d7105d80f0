"""Shared pieces of text: findings, counts, sizes and tables.

In: findings and values. Out: text. Never: decides an exit code, prints, or colours.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from traceforge.findings import Finding
from traceforge.terminal import one_line

if TYPE_CHECKING:
    from traceforge.statistics.rate_interval import Interval

PROMPT_ONLY = "prompt checked, answer not checked"  # how every report describes gate: "request"
ANSWER_HINT = 'to check answers too, {}declare "gate": "behaviour" for the model'
_ROUNDING = 1e-6  # of a percent: the limits of a rate are computed to fewer digits than a float has


def finding_lines(findings: Iterable[Finding]) -> str:
    """One line per finding, `file: place: RULE message`, and below it its hint, once for findings of one file."""
    lines = []
    for (_, hint), group in groupby(findings, key=lambda finding: (finding.file, finding.hint)):
        for finding in group:
            place = f"{finding.file}: {finding.path}" if finding.path else finding.file
            lines.append(f"{one_line(place)}: {finding.rule} {one_line(finding.message)}")
        if hint:
            lines.append(hint_line(hint))
    return "\n".join(lines)


def hint_line(hint: str) -> str:
    """The line below an error or a finding that says what to do."""
    return f"    hint: {one_line(hint)}"


def answer_hint_lines(advice: Iterable[str | None]) -> Iterator[str]:
    """How to check answers too: `advice` is what each request could send, from `advise_parameters`."""
    parameters = {text for text in advice if text is not None}
    if any("seed" in text for text in parameters):
        yield ANSWER_HINT.format("send temperature 0 and, where the API has one, a seed; or ")
    elif parameters:
        yield ANSWER_HINT.format("send temperature 0, or " if any(parameters) else "")


def gate_counts(snapshots: int, prompt_only: int) -> str:
    """`9 snapshots: 4 prompt and answer, 5 prompt only`."""
    parts = _gate_parts(snapshots, prompt_only)
    return f"{count(snapshots, 'snapshot')}{f': {parts}' if parts else ''}"


def _gate_parts(snapshots: int, prompt_only: int) -> str:
    numbers = ((snapshots - prompt_only, "prompt and answer"), (prompt_only, "prompt only"))
    return ", ".join(f"{number} {noun}" for number, noun in numbers if number)


def audit_summary(checked: Mapping[str, int], findings: list[Finding], request_gated: int) -> str:
    """The last line of a check: what was checked, and the result."""
    parts = ", ".join(
        f"{count(number, kind)} ({_gate_parts(number, request_gated)})"
        if kind == "snapshot" and request_gated
        else count(number, kind)
        for kind, number in sorted(checked.items())
        if number
    )
    return f"checked {parts or 'nothing'}: {findings_verdict(findings) or 'all valid'}"


def findings_verdict(findings: list[Finding]) -> str:
    """The number of findings and of files that could not be checked; "" if there is neither."""
    unchecked = sum(finding.is_unchecked for finding in findings)
    wrong = len(findings) - unchecked
    parts = [count(wrong, "finding")] if wrong else []
    return ", ".join([*parts, f"{unchecked} could not be checked"] if unchecked else parts)


def count(number: int, noun: str) -> str:
    """`1 finding`, `2 findings`, `3 modelio`."""
    return f"{number} {noun}" if number == 1 or noun in _UNCOUNTED else f"{number} {noun}s"


def rate_range(interval: Interval) -> str:
    """`74 % or more`, `26 % or less`, `22 % to 78 %`: the true rates that fit, rounded to the outside."""
    low, high = math.floor(interval.low * 100 + _ROUNDING), math.ceil(interval.high * 100 - _ROUNDING)
    if interval.high >= 1.0:
        return f"{low} % or more"
    return f"{high} % or less" if interval.low <= 0.0 else f"{low} % to {high} %"


def split_node_id(test: str) -> tuple[str, str]:
    """The file with its class, and the function with its case, which may have `::` in its name."""
    function, bracket, case = test.partition("[")
    group, _, name = function.rpartition("::")
    return group, name + bracket + case


def bytes_text(number: int) -> str:
    """`512 bytes`, `12.3 kB`, `4.5 MB`."""
    if number < 1000:
        return count(number, "byte")
    size, units = number / 1000, ["TB", "GB", "MB", "kB"]
    while size >= 999.95 and len(units) > 1:
        size /= 1000
        units.pop()
    return f"{size:.1f} {units[-1]}"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], min_widths: Sequence[int] = ()) -> Iterator[str]:
    """A head and rows, each column as wide as its widest cell, and at least `min_widths`."""
    lines = [columns, *rows]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    widths = [max(pair) for pair in zip(widths, min_widths, strict=True)] if min_widths else widths
    for line in lines:
        cells = (
            cell.rjust(width) if name in _RIGHT else cell.ljust(width)
            for cell, width, name in zip(line, widths, columns, strict=True)
        )
        yield "  ".join(cells).rstrip()


_RIGHT = frozenset({"MS", "TOKENS", "STEPS", "ERRORS", "APPROVALS"})  # columns of numbers
_UNCOUNTED = frozenset({"modelio"})

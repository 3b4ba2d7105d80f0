"""How the calls of a gated run were compared, in lines of text.

Apart from `gate_text`, because every run of the pytest plugin prints these: `gate_text` also imports what compares
calls, which takes 0.4 of the time in which the whole plugin is imported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceforge.capture.hook.library_answers import MOCKS, LibraryScope
from traceforge.report.text_format import answer_hint_lines, count, gate_counts
from traceforge.snapshots.gate.gate_judgement import RunObservations
from traceforge.terminal import one_line

MOVES_SHOWN = 6


def observation_lines(observations: RunObservations) -> Iterator[str]:
    """Calls that were compared only in part, or not at all; and the gates of the snapshots that answered."""
    for declared, times in sorted(observations.volatile.items()):
        yield f"ignored as volatile: {one_line(declared)} ({count(times, 'time')})"
    for path, times in sorted(observations.uncompared_fields.items()):
        yield f"not compared: {one_line(path)} ({count(times, 'time')})"
    if observations.uncompared_calls:
        yield uncompared_line(observations.uncompared_calls, observations.uncompared_parts)
    if observations.unknown_heads:
        calls = count(observations.unknown_heads, "call")
        yield (
            f"{calls} compared without upstream or headers, which the snapshots do not know: "
            "to compare them, traceforge record --fresh -- COMMAND"
        )
    if observations.synthesised:
        yield f"{count(observations.synthesised, 'answer')} built from snapshots without a raw response"
    if observations.moved_calls:
        yield "calls that moved to another test, and are not counted as new:"
        yield from (f"    {one_line(line)}" for line in observations.moved_calls[:MOVES_SHOWN])
        if len(observations.moved_calls) > MOVES_SHOWN:
            yield f"    and {len(observations.moved_calls) - MOVES_SHOWN} more"
    if observations.ungated_calls:
        yield f"{count(observations.ungated_calls, 'call')} of tests that are marked as off: not checked"
    yield from library_lines(observations.library_counts, "compared")
    if observations.prompt_only_ids:
        yield gate_counts(len(observations.snapshot_ids), len(observations.prompt_only_ids))
        yield from answer_hint_lines(observations.answer_parameters)


def library_lines(counts: Mapping[LibraryScope, int], verb: str) -> Iterator[str]:
    """How many calls each recorder and each mock of the suite answered, and in which tests."""
    for library, calls in group_by_library(counts).items():
        names = ", ".join(one_line(scope or "(outside of tests)") for scope in list(calls)[:MOVES_SHOWN])
        more = f" and {len(calls) - MOVES_SHOWN} more" if len(calls) > MOVES_SHOWN else ""
        tests = count(len(calls), "test")
        answers = f"{count(sum(calls.values()), 'call')} of {tests} answered by {describe_library(library)}"
        yield f"{answers}, and not {verb}: {names}{more}"


def group_by_library(counts: Mapping[LibraryScope, int]) -> dict[str, dict[str, int]]:
    """The calls that each library answered, by scope."""
    by_library: dict[str, dict[str, int]] = {}
    for (library, scope), times in sorted(counts.items()):
        by_library.setdefault(library, {})[scope] = times
    return by_library


def describe_library(library: str) -> str:
    """The name of a library, and whether it is a mock."""
    return f"{one_line(library)} (a mock)" if library in MOCKS else one_line(library)


def uncompared_line(calls: int, parts: int) -> str:
    """How many calls had redacted parts that could not be compared."""
    compared = f"{count(calls, 'call')} compared without {count(parts, 'redacted value')}"
    return f"{compared}: the match key was missing when they were recorded, or is missing now"

"""Live checks for a page: every check, how often each snapshot got which answer, and where answers first differ.

In: reports of `traceforge check-live`. Out: plain data for `templates/live/`. Never: trusts a field: one of another
type is left out; judges an answer again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from traceforge.canon import JSON, JSONObject
from traceforge.compare.json_diff import ABSENT, ValueChange
from traceforge.report.check_live_text import answer_letter, divergence_text
from traceforge.snapshots.live.live_verdict import Divergence, LiveVerdict
from traceforge.ui.plots import Plot, sparkline
from traceforge.ui.views.diff_view import ChangeGroup, view_value_changes
from traceforge.ui.views.report_rows import read_row, read_text_row
from traceforge.wire.unified import as_object, as_text, list_objects

CALLS_MAX = 200  # Of one check on its page; more are counted.
ANSWERS_MAX = 26  # Distinct answers of one call.
RUNS_MAX = 200  # Rows of the table of runs.

_WORDS = {
    LiveVerdict.SAME: ("good", "the same"),
    LiveVerdict.CHANGED: ("bad", "changed"),
    LiveVerdict.VARIES: ("bad", "not deterministic"),
    LiveVerdict.UNCHECKED: ("warn", "not checked"),
}


class VerdictView(NamedTuple):
    """A verdict as a colour and a word."""

    kind: str
    word: str


class EqualAnswersView(NamedTuple):
    """Equal answers: how many runs gave them, and how they differ from the approved answer."""

    letter: str
    run_count: int
    share: float  # Of the answered runs, from 0 to 1.
    is_approved: bool
    sentence: str
    groups: tuple[ChangeGroup, ...]


class RunView(NamedTuple):
    """One run of one request."""

    number: int
    letter: str
    at: str
    model: str
    fingerprint: str
    tokens: float | None
    latency_ms: float | None
    attempts: int


class CheckedCallView(NamedTuple):
    """An approved call, and its live answers."""

    id: str
    provider: str
    verdict: VerdictView
    is_prompt_only: bool
    sentence: str
    answers: tuple[EqualAnswersView, ...]
    runs: tuple[RunView, ...]
    runs_omitted: int
    problems: tuple[str, ...]
    hint: str


class LiveCheckView(NamedTuple):
    """The page about one live check."""

    name: str
    at: str
    verdict: VerdictView
    counts: str
    calls: tuple[CheckedCallView, ...]
    omitted: int


class LiveCheckItem(NamedTuple):
    """One check in the list."""

    name: str
    at: str
    verdict: VerdictView
    snapshots: int
    calls: int
    counts: str
    models: tuple[str, ...]


class AnswerHistory(NamedTuple):
    """How the answers to one approved call varied, over all checks."""

    id: str
    provider: str
    verdict: VerdictView  # Of the newest check.
    checks: int
    runs: int
    different: int  # Runs that gave another answer than the approved or the most frequent one.
    distinct: Plot  # Distinct answers of each check, oldest first.
    last_name: str
    last_at: str


def list_check(name: str, report: JSONObject) -> LiveCheckItem:
    """One check as a row of the list."""
    snapshots = list_objects(report.get("snapshots"))
    answers = [answer for snapshot in snapshots for answer in list_objects(snapshot.get("answers"))]
    models = dict.fromkeys(as_text(answer.get("model")) for answer in answers)
    return LiveCheckItem(
        name,
        as_text(report.get("at")),
        _check_verdict(report),
        len(snapshots),
        len(answers),
        _count_verdicts(snapshots),
        tuple(model for model in models if model),
    )


def list_histories(reports: Sequence[tuple[str, JSONObject]]) -> list[AnswerHistory]:
    """The history of each approved call that was checked; `reports` are named, newest first."""
    by_id: dict[str, list[tuple[str, str, JSONObject]]] = {}
    for name, report in reports:
        for snapshot in list_objects(report.get("snapshots")):
            by_id.setdefault(as_text(snapshot.get("id")), []).append((name, as_text(report.get("at")), snapshot))
    histories = [_view_history(snapshot_id, checks) for snapshot_id, checks in by_id.items()]
    return sorted(histories, key=lambda history: (history.verdict.kind == "good", -history.different, history.id))


def _view_history(snapshot_id: str, checks: Sequence[tuple[str, str, JSONObject]]) -> AnswerHistory:
    name, at, newest = checks[0]
    distinct = [float(len(list_objects(snapshot.get("clusters")))) for _, _, snapshot in reversed(checks)]
    return AnswerHistory(
        snapshot_id,
        as_text(newest.get("provider")),
        _verdict(newest),
        len(checks),
        sum(_integer(snapshot.get("answered")) for _, _, snapshot in checks),
        sum(_integer(snapshot.get("different")) for _, _, snapshot in checks),
        sparkline(distinct, f"Distinct answers of {snapshot_id}"),
        name,
        at,
    )


def view_check(name: str, report: JSONObject) -> LiveCheckView:
    """One check, the calls that differ first."""
    snapshots = list_objects(report.get("snapshots"))
    ordered = sorted(snapshots, key=lambda snapshot: (_verdict(snapshot).kind == "good", as_text(snapshot.get("id"))))
    return LiveCheckView(
        name,
        as_text(report.get("at")),
        _check_verdict(report),
        _count_verdicts(snapshots),
        tuple(map(_view_call, ordered[:CALLS_MAX])),
        max(0, len(ordered) - CALLS_MAX),
    )


def _view_call(snapshot: JSONObject) -> CheckedCallView:
    clusters = list_objects(snapshot.get("clusters"))[:ANSWERS_MAX]
    answers = list_objects(snapshot.get("answers"))
    answered = max(len(answers), 1)
    why = Counter(as_text(failed.get("message")) for failed in list_objects(snapshot.get("failed")))
    message = as_text(snapshot.get("message"))
    return CheckedCallView(
        as_text(snapshot.get("id")),
        as_text(snapshot.get("provider")),
        _verdict(snapshot),
        as_text(snapshot.get("gate")) == "request",
        f"{_integer(snapshot.get('different'))} of {len(answers)} runs differ" if answers else "no run was answered",
        tuple(_view_answer(number, cluster, answered) for number, cluster in enumerate(clusters)),
        tuple(map(_view_run, answers[:RUNS_MAX])),
        max(0, len(answers) - RUNS_MAX),
        (*([message] if message else []), *(f"{text} ({times}×)" for text, times in why.most_common(3))),
        as_text(snapshot.get("hint")),
    )


def _view_answer(number: int, cluster: JSONObject, answered: int) -> EqualAnswersView:
    runs = cluster.get("runs")
    run_count = len(runs) if isinstance(runs, list) else 0
    first = as_object(cluster.get("first_difference"))
    word = first.get("word")
    divergence = Divergence(
        as_text(first.get("path")),
        as_text(first.get("before")),
        as_text(first.get("after")),
        word if isinstance(word, int) and not isinstance(word, bool) else None,
    )
    is_approved = cluster.get("approved") is True
    return EqualAnswersView(
        answer_letter(number),
        run_count,
        run_count / answered,
        is_approved,
        "the approved answer" if is_approved else divergence_text(divergence),
        tuple(_answer_groups(as_object(cluster.get("answer")))) if not is_approved else (),
    )


def _answer_groups(answer: JSONObject) -> Iterator[ChangeGroup]:
    for choice in list_objects(answer.get("choices")):
        rows = [read_text_row("text", choice["text"])] if "text" in choice else []
        rows += [read_row(as_object(choice[name])) for name in ("refusal", "finish_reason") if name in choice]
        rows += [read_row(row) for row in list_objects(choice.get("other"))]
        if rows:
            yield view_value_changes("Answer", rows)
        for change in list_objects(choice.get("tool_calls")):
            yield _tool_call_group(change)
    other = [read_row(row) for row in list_objects(answer.get("other"))]
    if other:
        yield view_value_changes("Answer", other)


def _tool_call_group(change: JSONObject) -> ChangeGroup:
    rows = [read_row(row) for row in list_objects(change.get("rows"))]
    if not rows:
        rows = [ValueChange("$", change.get("before", ABSENT), change.get("after", ABSENT))]
    kind = as_text(change.get("kind"))
    group = view_value_changes("Tool call", rows)
    kind = kind if kind in ("added", "removed", "moved") else "changed"
    return ChangeGroup(group.title, kind, group.fields, as_text(change.get("name")), group.omitted)


def _view_run(answer: JSONObject) -> RunView:
    return RunView(
        _integer(answer.get("run")),
        answer_letter(_integer(answer.get("cluster"))),
        as_text(answer.get("at")),
        as_text(answer.get("model")),
        as_text(answer.get("system_fingerprint")),
        _number(answer.get("tokens")),
        _number(answer.get("latency_ms")),
        _integer(answer.get("attempts")),
    )


def _check_verdict(report: JSONObject) -> VerdictView:
    match report.get("exit_code"):
        case 0:
            return VerdictView("good", "green")
        case 1:
            return VerdictView("bad", "red")
        case _:
            return VerdictView("warn", "not checked")


def _verdict(snapshot: JSONObject) -> VerdictView:
    text = as_text(snapshot.get("verdict"))
    kind, word = _WORDS[LiveVerdict(text) if text in set(LiveVerdict) else LiveVerdict.UNCHECKED]
    return VerdictView("warn" if kind == "bad" and snapshot.get("fails") is not True else kind, word)


def _count_verdicts(snapshots: Sequence[JSONObject]) -> str:
    counts = Counter(_verdict(snapshot).word for snapshot in snapshots)
    return ", ".join(f"{counts[word]} {word}" for _, word in _WORDS.values() if counts[word])


def _integer(value: JSON) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 31 else 0


def _number(value: JSON) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None

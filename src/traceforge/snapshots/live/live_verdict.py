"""The verdict of a live check: whether a model still gives the approved answer, in every run.

In: an approved call and its live answers. Out: the distinct answers with their runs, where each first differs, and
the verdict. Never: reads a clock or a file, or counts two answers as equal that `compare` tells apart.

*Varies*: the runs differ from each other. *Changed*: the runs agree on another answer than the approved one. The
count of "different outputs" is of runs that differ from the approved answer; if no run gave that, from the most
frequent one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import zip_longest

from traceforge.canon import JSON, JSONObject
from traceforge.compare.compared_call import ComparedCall
from traceforge.compare.comparison import Comparison, compare
from traceforge.compare.text_diff import count_words, split_tokens
from traceforge.findings import ExitCode
from traceforge.snapshots.formats.determinism_policy import REQUEST_GATE
from traceforge.snapshots.live.live_answer import FailedRequest, LiveAnswer
from traceforge.snapshots.tree.approved_calls import ApprovedCall
from traceforge.statistics.rate_interval import RateCount, exact_interval


class LiveVerdict(StrEnum):
    """The outcome of a live check of one call."""

    SAME = "same"
    CHANGED = "changed"
    VARIES = "varies"
    UNCHECKED = "unchecked"


@dataclass(frozen=True)
class Divergence:
    """The first difference of two answers: a word of their texts, or another field."""

    path: str
    before: str = ""
    after: str = ""
    word: int | None = None  # from 1; None if it is not in a text

    def to_json(self) -> JSONObject:
        """The fields that the command's `--json` prints."""
        return {"path": self.path, "word": self.word, "before": self.before, "after": self.after}


@dataclass
class AnswerCluster:
    """Equal answers, and the runs that gave them."""

    call: ComparedCall
    runs: list[int]
    comparison: Comparison  # with the approved answer

    @property
    def is_approved(self) -> bool:
        """Whether this is the approved answer."""
        return not self.comparison.answer_changes


@dataclass(frozen=True)
class CheckedCall:
    """One approved call, and its live answers."""

    approved: ApprovedCall
    runs: int  # requested
    answers: tuple[LiveAnswer, ...] = ()
    clusters: tuple[AnswerCluster, ...] = ()  # the approved answer first, then the most frequent
    failed: tuple[FailedRequest, ...] = ()
    unsendable: str = ""
    hint: str = ""

    @property
    def verdict(self) -> LiveVerdict:
        """A difference counts even if other runs failed."""
        if len(self.clusters) > 1:
            return LiveVerdict.VARIES
        if self.clusters and not self.clusters[0].is_approved:
            return LiveVerdict.CHANGED
        return LiveVerdict.SAME if len(self.answers) == self.runs else LiveVerdict.UNCHECKED

    @property
    def different_runs(self) -> int:
        """How many runs differ from the first cluster, or, if all agree, from the approved answer."""
        others = self.clusters[1:] or [cluster for cluster in self.clusters if not cluster.is_approved]
        return sum(len(cluster.runs) for cluster in others)

    @property
    def approved_count(self) -> RateCount:
        """How many of the runs with an answer gave the approved one."""
        approved = sum(len(cluster.runs) for cluster in self.clusters if cluster.is_approved)
        return RateCount(approved, len(self.answers))

    @property
    def is_request_gated(self) -> bool:
        """Whether only the prompt of this call is gated."""
        return self.approved.gate == REQUEST_GATE

    def is_failure(self, *, strict: bool) -> bool:
        """Whether the verdict makes the check fail; with `strict`, also if only the prompt is gated."""
        return self.verdict in (LiveVerdict.CHANGED, LiveVerdict.VARIES) and (strict or not self.is_request_gated)

    def cluster_of(self, run: int) -> int:
        """The index of the cluster that a run belongs to."""
        return next(index for index, cluster in enumerate(self.clusters) if run in cluster.runs)


def check_exit_code(results: Sequence[CheckedCall], *, strict: bool) -> ExitCode:
    """The exit code of a live check: a failure comes before what could not be checked."""
    if any(result.is_failure(strict=strict) for result in results):
        return ExitCode.FINDINGS
    if any(result.verdict is LiveVerdict.UNCHECKED or result.failed for result in results):
        return ExitCode.UNCHECKED
    return ExitCode.OK


def judge_answers(
    approved: ApprovedCall, runs: int, answers: Sequence[LiveAnswer], failed: Sequence[FailedRequest]
) -> CheckedCall:
    """Group equal answers, and compare them with the approved one."""
    approved_call = approved.call
    clusters: list[AnswerCluster] = []
    ordered = sorted(answers, key=lambda answer: answer.run)
    for answer in ordered:
        call = answer.as_call(approved_call.request)
        cluster = next((existing for existing in clusters if not compare(existing.call, call).answer_changes), None)
        if cluster is None:
            clusters.append(AnswerCluster(call, [answer.run], compare(approved_call, call)))
        else:
            cluster.runs.append(answer.run)
    clusters.sort(key=lambda cluster: (not cluster.is_approved, -len(cluster.runs), cluster.runs[0]))
    return CheckedCall(approved, runs, tuple(ordered), tuple(clusters), tuple(failed))


def first_divergence(comparison: Comparison) -> Divergence | None:
    """The first difference from the approved answer; None if there is none."""
    for choice in comparison.answer.choices:
        row = choice.text
        if row is not None and isinstance(row.before, str) and isinstance(row.after, str):
            return _first_word(row.path, row.before, row.after)
    changes = comparison.answer_changes
    return Divergence(changes[0].path, after=changes[0].because) if changes else None


def _first_word(path: str, before: str, after: str) -> Divergence:
    common: list[str] = []
    for old, new in zip_longest(split_tokens(before), split_tokens(after), fillvalue=""):
        if old != new:
            return Divergence(path, old, new, count_words("".join(common)) + 1)
        common.append(old)
    raise AssertionError("two texts that differ have a first difference")


def checked_json(checked: CheckedCall, *, strict: bool) -> JSONObject:
    """One approved call as `check-live --json` prints it."""
    return {
        "id": checked.approved.id,
        "provider": checked.approved.provider,
        "gate": checked.approved.gate,
        "verdict": checked.verdict.value,
        "fails": checked.is_failure(strict=strict),
        "runs": checked.runs,
        "answered": len(checked.answers),
        "different": checked.different_runs,
        "rate": _rate_json(checked.approved_count),
        "message": checked.unsendable,
        "hint": checked.hint,
        "clusters": [_cluster_json(cluster) for cluster in checked.clusters],
        "answers": [_answer_json(checked, answer) for answer in checked.answers],
        "failed": [{"run": failed.run, "message": failed.why} for failed in checked.failed],
    }


def _rate_json(count: RateCount) -> JSON:
    """How often the approved answer came, and which true rates fit; the number of runs was fixed beforehand."""
    interval = exact_interval(count)
    return {"approved": count.passed, "runs": count.runs, "low": interval.low, "high": interval.high}


def _cluster_json(cluster: AnswerCluster) -> JSON:
    first = first_divergence(cluster.comparison)
    return {
        "runs": list(cluster.runs),
        "approved": cluster.is_approved,
        "first_difference": first.to_json() if first is not None else None,
        "changes": [change.to_json() for change in cluster.comparison.answer_changes],
        "answer": cluster.comparison.answer.to_json(),
    }


def _answer_json(checked: CheckedCall, answer: LiveAnswer) -> JSON:
    return {
        "run": answer.run,
        "cluster": checked.cluster_of(answer.run),
        "at": answer.at,
        "model": answer.model,
        "system_fingerprint": answer.system_fingerprint,
        "tokens": answer.tokens,
        "latency_ms": answer.latency_ms,
        "attempts": answer.attempts,
    }

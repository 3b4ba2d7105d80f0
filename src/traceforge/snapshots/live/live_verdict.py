"""Did a model say again what was approved, and every time?

In: an approved call and its live answers. Out: the distinct answers with their runs, where each first differs, and
the verdict. Never: reads a clock or a file, or counts two answers as one that a rule of `compare` tells apart.

The answers are held against the approved one. *Varies*: the runs do not agree with each other. *Changed*: they agree,
on something else. The count of "different outputs" is of runs that differ from the approved answer; where no run gave
that, from the most frequent one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import zip_longest

from traceforge.canon import JSON, JSONObject
from traceforge.compare import Call, Comparison, compare, count_words
from traceforge.compare.text_diff import tokens
from traceforge.snapshots.live.live_answer import Answered, Failed
from traceforge.snapshots.record.proposal import call_of
from traceforge.snapshots.tree.approved_calls import REQUEST, Approved


class Verdict(StrEnum):
    """What became of an approved call."""

    SAME = "same"
    CHANGED = "changed"
    VARIES = "varies"
    UNCHECKED = "unchecked"


@dataclass(frozen=True)
class Divergence:
    """The first place at which two answers differ: a word of their texts, or another part of them."""

    path: str
    before: str = ""
    after: str = ""
    word: int | None = None  # from 1; None where it is not in a text

    def to_json(self) -> JSONObject:
        """The place for a program."""
        return {"path": self.path, "word": self.word, "before": self.before, "after": self.after}


@dataclass
class Cluster:
    """Answers that are the same."""

    call: Call
    runs: list[int]
    comparison: Comparison  # with the approved answer

    @property
    def is_approved(self) -> bool:
        """Is it what was approved?"""
        return not self.comparison.answer_changes


@dataclass(frozen=True)
class Checked:
    """One approved call after its runs."""

    approved: Approved
    runs: int  # asked for
    answers: tuple[Answered, ...] = ()
    clusters: tuple[Cluster, ...] = ()  # the approved answer first, then the most frequent
    failed: tuple[Failed, ...] = ()
    unsendable: str = ""
    hint: str = ""

    @property
    def verdict(self) -> Verdict:
        """What is certain: a difference that was seen counts, also where other runs failed."""
        if len(self.clusters) > 1:
            return Verdict.VARIES
        if self.clusters and not self.clusters[0].is_approved:
            return Verdict.CHANGED
        return Verdict.SAME if len(self.answers) == self.runs else Verdict.UNCHECKED

    @property
    def different(self) -> int:
        """Runs that gave another answer than the first cluster's, or than the approved one where all agree."""
        others = self.clusters[1:] if len(self.clusters) > 1 else [c for c in self.clusters if not c.is_approved]
        return sum(len(one.runs) for one in others)

    @property
    def request_gated(self) -> bool:
        """Did the project declare that only the request is gated?"""
        return self.approved.gate == REQUEST

    def fails(self, *, strict: bool) -> bool:
        """Is it a finding?"""
        return self.verdict in (Verdict.CHANGED, Verdict.VARIES) and (strict or not self.request_gated)

    def cluster_of(self, run: int) -> int:
        """Which of the clusters a run belongs to, from 0."""
        return next(place for place, one in enumerate(self.clusters) if run in one.runs)


def judge(approved: Approved, runs: int, answers: Sequence[Answered], failed: Sequence[Failed]) -> Checked:
    """Put answers together that are the same, and hold them against what was approved."""
    before = call_of(approved)
    clusters: list[Cluster] = []
    ordered = sorted(answers, key=lambda one: one.run)
    for one in ordered:
        call = one.compared(before.request)
        mate = next((known for known in clusters if not compare(known.call, call).answer_changes), None)
        if mate is None:
            clusters.append(Cluster(call, [one.run], compare(before, call)))
        else:
            mate.runs.append(one.run)
    clusters.sort(key=lambda one: (not one.is_approved, -len(one.runs), one.runs[0]))
    return Checked(approved, runs, tuple(ordered), tuple(clusters), tuple(failed))


def first_divergence(comparison: Comparison) -> Divergence | None:
    """Where an answer first differs from the approved one; None where it does not."""
    for choice in comparison.answer.choices:
        row = choice.text
        if row is not None and isinstance(row.before, str) and isinstance(row.after, str):
            return _first_word(row.path, row.before, row.after)
    changes = comparison.answer_changes
    return Divergence(changes[0].path, after=changes[0].because) if changes else None


def _first_word(path: str, before: str, after: str) -> Divergence:
    same: list[str] = []
    for old, new in zip_longest(tokens(before), tokens(after), fillvalue=""):
        if old != new:
            return Divergence(path, old, new, count_words("".join(same)) + 1)
        same.append(old)
    raise AssertionError("two texts that differ have a first difference")


def checked_json(one: Checked, *, strict: bool) -> JSONObject:
    """Everything about one approved call, for a program."""
    return {
        "id": one.approved.id,
        "provider": one.approved.provider,
        "gate": one.approved.gate,
        "verdict": one.verdict.value,
        "fails": one.fails(strict=strict),
        "runs": one.runs,
        "answered": len(one.answers),
        "different": one.different,
        "message": one.unsendable,
        "hint": one.hint,
        "clusters": [_cluster_json(cluster) for cluster in one.clusters],
        "answers": [_answer_json(one, answer) for answer in one.answers],
        "failed": [{"run": failed.run, "message": failed.why} for failed in one.failed],
    }


def _cluster_json(cluster: Cluster) -> JSON:
    first = first_divergence(cluster.comparison)
    return {
        "runs": list(cluster.runs),
        "approved": cluster.is_approved,
        "first_difference": first.to_json() if first is not None else None,
        "changes": [change.to_json() for change in cluster.comparison.answer_changes],
        "answer": cluster.comparison.answer.to_json(),
    }


def _answer_json(one: Checked, answer: Answered) -> JSON:
    return {
        "run": answer.run,
        "cluster": one.cluster_of(answer.run),
        "at": answer.at,
        "model": answer.model,
        "system_fingerprint": answer.system_fingerprint,
        "tokens": answer.tokens,
        "latency_ms": answer.latency_ms,
        "attempts": answer.attempts,
    }

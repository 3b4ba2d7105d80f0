"""Whether the answers of a command's calls vary from run to run.

In: the calls of several runs of one command. Out: for each request of the first run, how many runs gave another
answer. Never: runs a command, or counts two answers as equal that `compare` tells apart.

A request that a run makes several times has several answers there; they count as one output of the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from traceforge.canon import JSONObject
from traceforge.compare.comparison import compare
from traceforge.snapshots.formats.determinism_policy import BEHAVIOUR_GATE
from traceforge.snapshots.formats.record_draft import RefusalReason
from traceforge.snapshots.record.candidates import Candidate, RequestIdentity
from traceforge.statistics.rate_interval import RateCount, exact_interval

_Place = tuple[str, RequestIdentity]
_HINT = 'Make the call repeatable, or declare the model with "gate": "request" in the configuration.'


class CallVariance(NamedTuple):
    """The outputs of one request in several runs."""

    call: Candidate  # of the first run
    runs: int  # that made the request
    different: int  # of those, the runs that did not give the most frequent output
    missing: int  # runs that did not make the request
    repeated: RateCount  # of the runs after the first one, those that gave its output, which is the one that is filed

    @property
    def varies(self) -> bool:
        """Whether the runs do not agree."""
        return self.different > 0

    @property
    def is_failure(self) -> bool:
        """Whether the answer is gated, and varies."""
        return self.varies and self.call.gate == BEHAVIOUR_GATE

    @property
    def location(self) -> str:
        """Where the call was made, as text."""
        source = self.call.source
        function = f" in {source['function']}" if source.get("function") else ""
        return f"{source.get('file')}:{source.get('line')}{function}"

    def to_json(self) -> JSONObject:
        """The fields that the command's `--json` prints."""
        interval = exact_interval(self.repeated)
        return {
            "trace": self.call.trace_id,
            "source": self.call.source,
            "scope": self.call.scope,
            "gate": self.call.gate,
            "runs": self.runs,
            "different": self.different,
            "missing": self.missing,
            "repeated": {
                "runs": self.repeated.runs,
                "same": self.repeated.passed,
                "low": interval.low,
                "high": interval.high,
            },
        }


def measure_variance(runs: Sequence[Sequence[Candidate]]) -> list[CallVariance]:
    """The variance of each request of the first run, in its order."""
    outputs = [_group_by_request(candidates) for candidates in runs]
    return [_measure(place, outputs) for place in outputs[0]] if outputs else []


def refuse_varying_calls(candidates: Iterable[Candidate], variances: Iterable[CallVariance]) -> Iterator[Candidate]:
    """The calls, with a reason for refusal where the answer is gated, and varies."""
    failures = {(entry.call.scope, entry.call.identity): entry for entry in variances if entry.is_failure}
    for candidate in candidates:
        variance = failures.get((candidate.scope, candidate.identity))
        if variance is None:
            yield candidate
        else:
            message = f"{variance.different}/{variance.runs} runs produced different outputs"
            reason = RefusalReason("response", message, _HINT)
            yield replace(candidate, reasons=(*candidate.reasons, reason))


def _group_by_request(candidates: Iterable[Candidate]) -> dict[_Place, list[Candidate]]:
    groups: dict[_Place, list[Candidate]] = {}
    for candidate in candidates:
        groups.setdefault((candidate.scope, candidate.identity), []).append(candidate)
    return groups


def _measure(place: _Place, outputs: Sequence[Mapping[_Place, list[Candidate]]]) -> CallVariance:
    present = [groups[place] for groups in outputs if place in groups]
    clusters: list[list[list[Candidate]]] = []
    for output in present:
        cluster = next((cluster for cluster in clusters if _is_same_output(cluster[0], output)), None)
        if cluster is None:
            clusters.append([output])
        else:
            cluster.append(output)
    most_frequent = max(map(len, clusters))
    return CallVariance(
        present[0][0],
        len(present),
        len(present) - most_frequent,
        len(outputs) - len(present),
        RateCount(len(clusters[0]) - 1, len(present) - 1),  # The first cluster begins with the first run.
    )


def _is_same_output(first: Sequence[Candidate], second: Sequence[Candidate]) -> bool:
    return len(first) == len(second) and all(
        not compare(before.call, after.call).answer_changes for before, after in zip(first, second, strict=True)
    )

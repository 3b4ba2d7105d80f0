"""What the proxy counts, as Prometheus metrics and as the totals of its summary.

Never: a label that a client chooses, because the number of series must stay bounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceforge.http.metrics_text import Metric, Sample, render_metrics


class ProxyMetrics:
    """The counters of one worker."""

    def __init__(self) -> None:
        self.calls: dict[tuple[str, int], int] = {}  # By provider and class of status: 2 for 2xx, 0 for none.
        self.outcomes: dict[str, int] = {}
        self.in_flight = 0
        self.connections = 0
        self.request_bytes = 0
        self.response_bytes = 0
        self.response_chunks = 0
        self.upstream_connections = 0
        self.upstream_retries = 0
        self.upstream_errors: dict[str, int] = {}
        self.refused: dict[str, int] = {}
        self.unseen = 0
        self.recording_failures: dict[str, int] = {}

    def call_ended(self, provider: str, status: int, outcome: str) -> None:
        """Count a call; `status` is 0 if the client got none."""
        key = (provider, status // 100)
        self.calls[key] = self.calls.get(key, 0) + 1
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1

    def totals(self) -> dict[str, int]:
        """The counts for the summary at the end."""
        return {
            "calls": sum(self.calls.values()),
            "upstream_errors": sum(self.upstream_errors.values()),
            "refused": sum(self.refused.values()),
            "unseen": self.unseen,
            "recording_failures": sum(self.recording_failures.values()),
        }

    def render(self, recorder_counts: Mapping[str, int], header_problems: int, worker: int) -> bytes:
        return render_metrics(
            Metric(f"traceforge_proxy_{name}", "counter" if name.endswith("_total") else "gauge", help_text,
                   [Sample({**labels, "worker": worker}, count) for labels, count in samples])
            for name, help_text, samples in self._metrics(recorder_counts, header_problems)
        )  # fmt: skip

    def _metrics(
        self, recorder_counts: Mapping[str, int], header_problems: int
    ) -> Iterator[tuple[str, str, _Samples]]:
        results = {name: count for name, count in recorder_counts.items() if name not in ("waiting", "in_spool")}
        waiting = recorder_counts.get("waiting", 0)
        yield "calls_total", "Calls that ended, by provider and class of status.", self._call_samples()
        yield "outcomes_total", "Calls that ended, by outcome.", _totals_by("outcome", self.outcomes)
        yield "in_flight", "Calls in flight.", _total(self.in_flight)
        yield "connections", "Open client connections.", _total(self.connections)
        yield "request_bytes_total", "Bytes of request bodies forwarded.", _total(self.request_bytes)
        yield "response_bytes_total", "Bytes of response bodies forwarded.", _total(self.response_bytes)
        yield "response_chunks_total", "Chunks of response bodies received.", _total(self.response_chunks)
        yield "upstream_connections_total", "Connections opened to upstreams.", _total(self.upstream_connections)
        yield "upstream_retries_total", "Calls sent again over a new connection.", _total(self.upstream_retries)
        yield (
            "upstream_errors_total",
            "Calls that an upstream failed, by kind.",
            _totals_by("kind", self.upstream_errors),
        )
        yield "refused_total", "Requests that were not forwarded, by status.", _totals_by("status", self.refused)
        yield (
            "unseen_total",
            "Tunnels, and upgrades to no WebSocket, which cannot be recorded.",
            _total(self.unseen),
        )
        yield (
            "recording_failures_total",
            "Failures of recording, by kind.",
            _totals_by("kind", self.recording_failures),
        )
        yield "header_problems_total", "TraceForge headers that could not be used.", _total(header_problems)
        yield "exchanges_total", "Exchanges, by what the recorder did with them.", _totals_by("result", results)
        yield "exchanges_waiting", "Exchanges on their way to the disk.", _total(waiting)
        in_spool = recorder_counts.get("in_spool", 0)
        yield "traces_in_spool", "Traces that are on the disk and not files yet.", _total(in_spool)

    def _call_samples(self) -> _Samples:
        return [
            ({"provider": provider, "status": f"{status}xx" if status else "none"}, count)
            for (provider, status), count in self.calls.items()
        ]


_Samples = list[tuple[dict[str, str], int]]


def _total(count: int) -> _Samples:
    return [({}, count)]


def _totals_by(label: str, counts: Mapping[str, int]) -> _Samples:
    return [({label: name}, count) for name, count in counts.items()]


def increment(counts: dict[str, int], name: str) -> None:
    counts[name] = counts.get(name, 0) + 1

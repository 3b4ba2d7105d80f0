"""The metrics of the server, in the text format of Prometheus.

Never: a label that a client chooses: the table of operations bounds the number of series.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from traceforge.http.metrics_text import Metric, Sample, render_metrics
from traceforge.web.request_log import RequestRecord

# Seconds: an append on a local disk takes one or two milliseconds, a model takes a minute.
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

_P = "traceforge_serve"


class RequestMetrics:
    """Counts requests; used on the loop's thread only."""

    def __init__(self) -> None:
        self.requests: dict[tuple[str, int], int] = {}  # By operation and status.
        self.seconds: dict[str, list[int]] = {}  # By operation; the last bucket is above all bounds.
        self.total_seconds: dict[str, float] = {}
        self.bytes_in = 0
        self.bytes_out = 0

    def count_request(self, record: RequestRecord, seconds: float) -> None:
        """Count a request that ended."""
        operation = record.operation
        key = (operation, record.status)
        self.requests[key] = self.requests.get(key, 0) + 1
        buckets = self.seconds.setdefault(operation, [0] * (len(BUCKETS) + 1))
        buckets[bisect_left(BUCKETS, seconds)] += 1
        self.total_seconds[operation] = self.total_seconds.get(operation, 0.0) + seconds
        self.bytes_in += record.bytes_in
        self.bytes_out += record.bytes_out

    def metrics(self, model_calls: int) -> list[Metric]:
        """The metrics so far; `model_calls` are in flight now."""
        requests = [
            Sample({"operation": operation, "status": status}, count)
            for (operation, status), count in sorted(self.requests.items())
        ]
        seconds = [
            sample
            for operation, buckets in sorted(self.seconds.items())
            for sample in self._histogram(operation, buckets)
        ]
        return [
            Metric(f"{_P}_requests_total", "counter", "Requests that ended, by operation and status.", requests),
            Metric(f"{_P}_request_seconds", "histogram", "How long requests took, by operation.", seconds),
            Metric(f"{_P}_model_calls", "gauge", "Model calls in flight.", [Sample({}, model_calls)]),
            Metric(f"{_P}_request_bytes_total", "counter", "Request body bytes.", [Sample({}, self.bytes_in)]),
            Metric(f"{_P}_response_bytes_total", "counter", "Response body bytes.", [Sample({}, self.bytes_out)]),
        ]

    def _histogram(self, operation: str, buckets: list[int]) -> Iterator[Sample]:
        total = 0
        for bound, count in zip((*map(str, BUCKETS), "+Inf"), buckets, strict=True):
            total += count
            yield Sample({"operation": operation, "le": bound}, total, "_bucket")
        yield Sample({"operation": operation}, f"{self.total_seconds[operation]:.6f}", "_sum")
        yield Sample({"operation": operation}, total, "_count")


class ServerMetrics:
    """The figures of the server, and those of each project."""

    def __init__(self) -> None:
        self.in_flight = 0
        self._all = RequestMetrics()
        self._by_project: dict[str, RequestMetrics] = {}

    def count_request(self, record: RequestRecord, seconds: float) -> None:
        """Count a request that ended; its project is set only if its caller was authorized."""
        self._all.count_request(record, seconds)
        if record.project_id is not None:
            self._by_project.setdefault(record.project_id, RequestMetrics()).count_request(record, seconds)

    def text(self, model_calls: int) -> bytes:
        """The figures of all projects together."""
        in_flight = Metric(f"{_P}_in_flight", "gauge", "Requests in flight.", [Sample({}, self.in_flight)])
        return render_metrics([*self._all.metrics(model_calls), in_flight])

    def project_text(self, project_id: str, model_calls: int) -> bytes:
        """The figures of one project."""
        return render_metrics(self._by_project.get(project_id, RequestMetrics()).metrics(model_calls))

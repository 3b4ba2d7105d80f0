"""What the server counts, and how Prometheus reads it.

In: requests that ended. Out: the text of `/metrics`. Never: a label that a client chooses: the number of series is
bounded by the table of operations.
"""

from __future__ import annotations

from bisect import bisect_left

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# Seconds: an append on a local disk takes one or two milliseconds, a model takes a minute.
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

_P = "traceforge_serve"


class Metrics:
    """Counted on the loop's thread alone."""

    def __init__(self) -> None:
        self.in_flight = 0
        self.requests: dict[tuple[str, int], int] = {}  # By operation and status.
        self.seconds: dict[str, list[int]] = {}  # By operation: how many in each bucket, the last is beyond all.
        self.total_seconds: dict[str, float] = {}
        self.bytes_in = 0
        self.bytes_out = 0

    def ended(self, operation: str, status: int, seconds: float, bytes_in: int, bytes_out: int) -> None:
        """One request is over; `status` is 0 where the client left before an answer began."""
        key = (operation, status)
        self.requests[key] = self.requests.get(key, 0) + 1
        buckets = self.seconds.setdefault(operation, [0] * (len(BUCKETS) + 1))
        buckets[bisect_left(BUCKETS, seconds)] += 1
        self.total_seconds[operation] = self.total_seconds.get(operation, 0.0) + seconds
        self.bytes_in += bytes_in
        self.bytes_out += bytes_out

    def text(self) -> bytes:
        """The page `/metrics`."""
        lines = [*_head("requests_total", "counter", "Requests that ended, by operation and status.")]
        lines += [
            f'{_P}_requests_total{{operation="{operation}",status="{status}"}} {count}'
            for (operation, status), count in sorted(self.requests.items())
        ]
        lines += _head("request_seconds", "histogram", "How long requests took, by operation.")
        for operation, buckets in sorted(self.seconds.items()):
            lines += self._histogram(operation, buckets)
        for name, kind, told, value in (
            ("in_flight", "gauge", "Requests in flight.", self.in_flight),
            ("request_bytes_total", "counter", "Bytes of bodies that came in.", self.bytes_in),
            ("response_bytes_total", "counter", "Bytes of bodies that went out.", self.bytes_out),
        ):
            lines += [*_head(name, kind, told), f"{_P}_{name} {value}"]
        return ("\n".join(lines) + "\n").encode()

    def _histogram(self, operation: str, buckets: list[int]) -> list[str]:
        lines, total = [], 0
        for bound, count in zip((*map(str, BUCKETS), "+Inf"), buckets, strict=True):
            total += count
            lines.append(f'{_P}_request_seconds_bucket{{operation="{operation}",le="{bound}"}} {total}')
        lines.append(f'{_P}_request_seconds_sum{{operation="{operation}"}} {self.total_seconds[operation]:.6f}')
        lines.append(f'{_P}_request_seconds_count{{operation="{operation}"}} {total}')
        return lines


def _head(name: str, kind: str, told: str) -> list[str]:
    return [f"# HELP {_P}_{name} {told}", f"# TYPE {_P}_{name} {kind}"]

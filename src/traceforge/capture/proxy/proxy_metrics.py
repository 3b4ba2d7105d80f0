"""What the proxy counts, and how Prometheus reads it.

In: events of calls and connections. Out: numbers, as text for `/metrics` and as a summary at the end. Never: a label
that a client chooses: the number of series is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_HELP = {
    "calls_total": ("counter", "Calls that ended, by provider and class of status."),
    "outcomes_total": ("counter", "Calls that ended, by how."),
    "in_flight": ("gauge", "Calls in flight."),
    "connections": ("gauge", "Open connections of clients."),
    "request_bytes_total": ("counter", "Bytes of request bodies passed on."),
    "response_bytes_total": ("counter", "Bytes of response bodies passed on."),
    "response_chunks_total": ("counter", "Pieces in which response bodies came."),
    "upstream_connections_total": ("counter", "Connections opened to upstreams."),
    "upstream_retries_total": ("counter", "Calls sent again because a kept connection had gone stale."),
    "upstream_errors_total": ("counter", "Calls that an upstream failed, by kind."),
    "refused_total": ("counter", "Requests that were not passed on, by status."),
    "unseen_total": ("counter", "Calls that could not be seen: upgrades and tunnels."),
    "recording_failures_total": ("counter", "Failures of recording, by kind; the calls went through."),
    "header_problems_total": ("counter", "TraceForge headers that could not be used."),
    "exchanges_total": ("counter", "What became of the exchanges, as the recorder counts them."),
    "exchanges_waiting": ("gauge", "Exchanges that are on their way to the disk."),
}


class Metrics:
    """Everything one worker counts."""

    def __init__(self) -> None:
        self.calls: dict[tuple[str, int], int] = {}  # by provider and class of status: 2 for 200, 0 for none
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
        """A call is over; `status` is 0 where the client saw none."""
        key = (provider, status // 100)
        self.calls[key] = self.calls.get(key, 0) + 1
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1

    def totals(self) -> dict[str, int]:
        """What a summary at the end says."""
        return {
            "calls": sum(self.calls.values()),
            "upstream_errors": sum(self.upstream_errors.values()),
            "refused": sum(self.refused.values()),
            "unseen": self.unseen,
            "recording_failures": sum(self.recording_failures.values()),
        }

    def text(self, sink: Mapping[str, int], header_problems: int, worker: int) -> bytes:
        """The page `/metrics`."""
        lines: list[str] = []
        for name, samples in self._samples(sink, header_problems):
            kind, told = _HELP[name]
            lines.append(f"# HELP traceforge_proxy_{name} {told}\n# TYPE traceforge_proxy_{name} {kind}\n")
            for labels, value in samples.items():
                lines.append(f'traceforge_proxy_{name}{{{labels}worker="{worker}"}} {value}\n')
        return "".join(lines).encode()

    def _samples(self, sink: Mapping[str, int], header_problems: int) -> Iterator[tuple[str, dict[str, int]]]:
        calls = {
            f'provider="{provider}",status="{f"{status}xx" if status else "none"}",': count
            for (provider, status), count in self.calls.items()
        }
        yield "calls_total", calls
        yield "outcomes_total", _labelled("outcome", self.outcomes)
        for name in ("in_flight", "connections"):
            yield name, {"": getattr(self, name)}
        for name in (
            "request_bytes",
            "response_bytes",
            "response_chunks",
            "upstream_connections",
            "upstream_retries",
        ):
            yield f"{name}_total", {"": getattr(self, name)}
        yield "upstream_errors_total", _labelled("kind", self.upstream_errors)
        yield "refused_total", _labelled("status", self.refused)
        yield "unseen_total", {"": self.unseen}
        yield "recording_failures_total", _labelled("kind", self.recording_failures)
        yield "header_problems_total", {"": header_problems}
        yield "exchanges_total", _labelled("result", {name: sink[name] for name in sink if name != "waiting"})
        yield "exchanges_waiting", {"": sink.get("waiting", 0)}


def _labelled(label: str, counts: Mapping[str, int]) -> dict[str, int]:
    return {f'{label}="{name}",': count for name, count in counts.items()}


def add(counts: dict[str, int], name: str) -> None:
    """Count one more."""
    counts[name] = counts.get(name, 0) + 1

"""Responses that a server writes itself, and metrics in the text format of Prometheus."""

from __future__ import annotations

import pytest

from traceforge.http.metrics_text import Metric, Sample, render_metrics
from traceforge.http.plain_response import PlainResponse, frame_chunk, reason_phrase

RESPONSE = PlainResponse(404, "text/plain", b"no", ("X-A: b",))


@pytest.mark.parametrize(
    ("close", "bodiless", "end"),
    [
        (False, False, b"X-A: b\r\n\r\nno"),
        (True, False, b"X-A: b\r\nConnection: close\r\n\r\nno"),
        (False, True, b"X-A: b\r\n\r\n"),
    ],
)
def test_a_response_announces_its_length_and_is_never_cached(close: bool, bodiless: bool, end: bytes) -> None:
    """HEAD gets the same head without the body."""
    start = b"HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nContent-Length: 2\r\nCache-Control: no-store\r\n"

    assert start + end == RESPONSE.to_bytes(close=close, bodiless=bodiless)


def test_a_status_without_a_standard_phrase_has_an_empty_one() -> None:
    """Providers invent statuses."""
    assert ["OK", ""] == [reason_phrase(200), reason_phrase(599)]


def test_a_chunk_has_its_size_in_hex() -> None:
    """As a chunked body demands."""
    assert b"1a\r\n" + b"x" * 26 + b"\r\n" == frame_chunk(b"x" * 26)


def test_metrics_are_written_as_prometheus_reads_them() -> None:
    """Help and type before the samples; a histogram's samples have suffixes; labels are optional."""
    metrics = [
        Metric("a_total", "counter", "Some.", [Sample({"b": "c", "n": 1}, 2)]),
        Metric("s", "histogram", "Times.", [Sample({"le": "+Inf"}, 3, "_bucket"), Sample({}, "0.5", "_sum")]),
        Metric("g", "gauge", "Now.", []),
    ]

    assert (
        b'# HELP a_total Some.\n# TYPE a_total counter\na_total{b="c",n="1"} 2\n'
        b'# HELP s Times.\n# TYPE s histogram\ns_bucket{le="+Inf"} 3\ns_sum 0.5\n'
        b"# HELP g Now.\n# TYPE g gauge\n"
    ) == render_metrics(metrics)

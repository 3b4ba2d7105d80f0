"""One call as it was seen."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from traceforge.exchange import Caller, CallOutcome, Chunk, Exchange, find_header

texts = st.text(max_size=20)
headers = st.lists(st.tuples(texts, texts), max_size=4).map(tuple)
callers = st.builds(
    Caller,
    source=texts,
    scope=texts,
    session_id=texts,
    step_index=st.none() | st.integers(0, 9),
    parent_trace_id=texts,
    state=st.none() | st.dictionaries(texts, st.integers(0, 9) | texts | st.none(), max_size=3),
)
exchanges = st.builds(
    Exchange,
    id=texts,
    started_at=texts,
    method=texts,
    url=texts,
    request_headers=headers,
    request_body=st.binary(max_size=50),
    status=st.integers(0, 599),
    response_headers=headers,
    chunks=st.lists(st.builds(Chunk, st.floats(0, 1e6), st.binary(max_size=20)), max_size=4).map(tuple),
    duration_ms=st.floats(0, 1e6),
    outcome=st.sampled_from(CallOutcome),
    error=texts,
    caller=callers,
    provider=texts,
)


@given(exchanges)
def test_an_exchange_crosses_a_process_border_whole(exchange: Exchange) -> None:
    """What one process writes another reads, every field of it."""
    assert exchange == Exchange.from_bytes(exchange.to_bytes())


def test_headers_are_found_whatever_their_case() -> None:
    """Names match in any case, and a header that comes twice has both values."""
    sent = (("Content-Type", "text/plain"), ("X-A", "1"), ("x-a", "2"))

    assert "text/plain" == find_header(sent, "content-type")
    assert "1, 2" == find_header(sent, "X-a")
    assert "" == find_header(sent, "accept")


def test_an_exchange_of_a_call_that_failed_needs_no_response() -> None:
    """A call that got no answer is an exchange, too."""
    fields: dict[str, Any] = {"status": 0, "response_headers": (), "chunks": (), "outcome": CallOutcome.FAILED}
    exchange = Exchange("1", "2026-01-01T00:00:00.000Z", "POST", "http://x/", (), b"", duration_ms=1.0, **fields)

    assert CallOutcome.FAILED is Exchange.from_bytes(exchange.to_bytes()).outcome

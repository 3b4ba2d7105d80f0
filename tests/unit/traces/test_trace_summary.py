"""One line of a list."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.exchanges import CHAT, COMPOSER, chat_answer, chat_request, make_exchange, plain_trace
from support.format_examples import FORMATS, SPECIFIED_TRACE
from traceforge.exchange import Caller
from traceforge.traces.trace_summary import TraceSummary, summarize_trace


def test_a_summary_has_every_field_that_a_list_shows() -> None:
    caller = Caller("src/a.py:1234567:f", "", "s", 4, "p")

    summary = COMPOSER.compose(make_exchange(CHAT, chat_request("x"), chat_answer("y"), caller=caller)).summary

    assert ("/v1/chat/completions", "openai", "gpt-4o-mini", "success", 12.25, 7.0) == (
        summary.endpoint, summary.provider, summary.model, summary.status, summary.duration_ms, summary.tokens
    )  # fmt: skip
    assert ("s", 4, "p", "src/a.py:1234567", False) == (
        summary.session_id, summary.step_index, summary.parent_trace_id, summary.source, summary.streamed
    )  # fmt: skip
    assert summary.digest.startswith("sha256:")


@pytest.mark.parametrize("body", [SPECIFIED_TRACE, *(make() for make in FORMATS["trace"].examples)])
def test_every_valid_trace_has_a_summary(body: dict[str, Any]) -> None:
    """Also one with only the required fields."""
    summary = summarize_trace(body)

    assert (body["id"], body["timestamp"]) == (summary.id, summary.timestamp)
    assert summary == TraceSummary.from_bytes(summary.to_bytes())


@given(
    st.dictionaries(st.sampled_from(["file", "line"]), st.integers() | st.text() | st.none()),
    st.floats(0, 1e308) | st.integers(0, 10**300),
    st.text(st.characters(), max_size=9),
)
def test_a_trace_with_extreme_values_has_a_summary(source: Any, number: Any, text: str) -> None:
    """Huge numbers, lone surrogates, sources of another shape."""
    metadata = {**SPECIFIED_TRACE["metadata"], "tokens_used": number, "duration_ms": number, "model": text}
    body = {**SPECIFIED_TRACE, "source": source, "step_index": number, "session_id": text, "metadata": metadata}

    summary = summarize_trace(body)

    assert summary == TraceSummary.from_bytes(summary.to_bytes())
    assert abs(summary.step_index or 0) <= 2**53


@pytest.mark.parametrize("data", [b"", b"\x90", b"\xc0", b"{}", plain_trace(1).summary.to_bytes()[:-1]])
def test_data_that_are_not_a_summary_are_refused(data: bytes) -> None:
    """It came from a file, after all."""
    with pytest.raises(msgspec.DecodeError):
        TraceSummary.from_bytes(data)

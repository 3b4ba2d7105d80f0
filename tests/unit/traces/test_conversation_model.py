"""The model of a WebSocket, as a trace shows it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from support.exchanges import REDACTOR, make_exchange
from traceforge.exchange import CallOutcome
from traceforge.traces.trace_composer import TraceComposer
from traceforge.traces.trace_summary import TraceSummary

REALTIME = "https://api.openai.com/v1/realtime"
KEY = "sk-proj-q7Zr2mVtX9LbN4cWf8KdH3yPaJ6sGuE1"


def summarize(
    address: str, *events: Any, status: int = 101, outcome: CallOutcome = CallOutcome.ANSWERED
) -> TraceSummary:
    """What `trace list` shows of a conversation."""
    frames = [{"json": event} if isinstance(event, dict) else {"text": event} for event in events]
    answer = {"server_frames": []} if status == 101 else {"error": "no"}
    exchange = make_exchange(address, {"client_frames": frames}, answer, status=status, outcome=outcome)
    return TraceComposer(REDACTOR).compose(replace(exchange, method="GET")).summary


@pytest.mark.parametrize(
    ("address", "events", "model"),
    [
        (f"{REALTIME}?model=gpt-realtime", [{"session": {"model": "other"}}], "gpt-realtime"),
        (f"{REALTIME}?api-version=1&deployment=mine", [], "mine"),
        (REALTIME, ["hello", {"type": "session.update", "session": {"model": "gpt-realtime"}}], "gpt-realtime"),
        ("https://api.openai.com/v1/responses", [{"type": "response.create", "model": "gpt-5"}], "gpt-5"),
        (
            "https://generativelanguage.googleapis.com/ws/x.BidiGenerateContent",
            [{"setup": {"model": "models/gemini-live"}}], "gemini-live",
        ),
        (REALTIME, [{"session": ["model"]}, {"model": 5}, {"tool": {"model": "x"}}], ""),
        (f"{REALTIME}?model=", [], ""),
        (REALTIME, [{"type": "noise"}] * 200 + [{"model": "late"}], ""),
        (f"{REALTIME}?model={KEY}", [], "[REDACTED]"),
    ],
    ids=["address", "azure", "session", "responses", "live", "elsewhere", "empty", "late", "secret"],
)  # fmt: skip
def test_the_model_is_in_the_address_or_in_a_frame(address: str, events: list[Any], model: str) -> None:
    """In places where a provider has it, and in no other; never a secret."""
    assert model == summarize(address, *events).model


def test_a_refused_handshake_has_a_model() -> None:
    assert ("gpt-x", "error") == (
        summarize(f"{REALTIME}?model=gpt-x", status=403).model,
        summarize(f"{REALTIME}?model=gpt-x", status=403).status,
    )


def test_a_websocket_that_broke_off_is_an_error() -> None:
    """Although its frames so far are a whole body. One that the application left is none."""
    outcomes = (CallOutcome.CUT, CallOutcome.CLIENT_LEFT, CallOutcome.ANSWERED)

    assert ["error", "success", "success"] == [summarize(REALTIME, outcome=outcome).status for outcome in outcomes]

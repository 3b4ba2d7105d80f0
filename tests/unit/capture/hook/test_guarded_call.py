"""A guarded call: how it ends without a response, who learns of its faults, and how errors are described."""

from __future__ import annotations

import asyncio

import pytest

from traceforge.capture.hook.guarded_call import (
    ERROR_LENGTH_MAX,
    GuardedCall,
    HookFaults,
    describe_error,
    faults,
    is_traceforge_header,
)
from traceforge.capture.hook.in_flight_call import ANSWERED, CHUNKS_MAX, CLIENT_LEFT, FAILED, InFlightCall


class _Speechless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def _fail(call: InFlightCall) -> None:
    raise OSError("no space left on device")


def _refuse_chunk(data: bytes) -> None:
    raise ValueError("chunk")


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (OSError(), FAILED),
        (TimeoutError(), FAILED),
        (asyncio.CancelledError(), CLIENT_LEFT),
        (KeyboardInterrupt(), CLIENT_LEFT),
        (GeneratorExit(), CLIENT_LEFT),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else value,
)
def test_a_call_without_a_response_failed_or_was_cancelled(error: BaseException, outcome: str) -> None:
    ended: list[InFlightCall] = []
    GuardedCall(InFlightCall(ended.append, "POST", "http://a/", ())).end_unanswered(error)

    assert [(outcome, type(error).__name__)] == [(call.outcome, call.error) for call in ended]


def test_every_fault_of_a_call_is_reported_to_its_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one while the call is abandoned: the proxy counts its own faults."""
    reported: list[tuple[str, str]] = []
    call = InFlightCall(_fail, "POST", "http://a/", (), on_abandon=_fail)
    guarded = GuardedCall(call, on_fault=lambda exc, stage: reported.append((type(exc).__name__, stage)))
    monkeypatch.setattr(InFlightCall, "add_response_chunk", lambda _, data: _refuse_chunk(data))
    before = faults.count

    guarded.add_response_chunk(b"{}")

    assert [("OSError", "abandon"), ("ValueError", "chunk")] == reported
    assert before == faults.count


@pytest.mark.parametrize("side", ["request", "response"])
def test_a_body_of_too_many_chunks_is_not_kept(side: str) -> None:
    """A chunk of one byte, or of none, takes as much memory as one of a hundred."""
    ended: list[InFlightCall] = []
    call = GuardedCall(InFlightCall(ended.append, "POST", "http://a/", ()))
    add = call.add_request_chunk if side == "request" else call.add_response_chunk
    for _ in range(CHUNKS_MAX):
        add(b"")
    assert not call.is_too_large
    add(b"")
    assert call.is_too_large
    add(b"x")
    call.end(ANSWERED)

    assert [([], [])] == [(call.request_chunks, call.response_chunks) for call in ended]
    assert [f"a body of more than {CHUNKS_MAX} chunks is not kept"] == [call.error for call in ended]


def test_the_first_fault_is_described_with_its_stage() -> None:
    counted = HookFaults()
    counted.add(KeyError("a"), "response")
    counted.add(ValueError("b"))

    assert (2, "KeyError: 'a' (stage: response)") == (counted.count, counted.first)


@pytest.mark.parametrize(
    ("error", "description"),
    [
        (ValueError("first line\r\n\tsecond  line\n"), "ValueError: first line second line"),
        (ValueError(), "ValueError"),
        (ValueError(" \n "), "ValueError"),
        (_Speechless(), "_Speechless"),
    ],
)
def test_an_error_is_described_in_one_line(error: Exception, description: str) -> None:
    assert description == describe_error(error)


def test_a_long_description_is_cut() -> None:
    assert ERROR_LENGTH_MAX == len(describe_error(ValueError("x" * 1000)))


@pytest.mark.parametrize(
    ("name", "is_ours"), [("X-TraceForge-State", True), ("x-traceforge-", True), ("X-TraceForge", False), ("", False)]
)
def test_a_header_of_traceforge_is_known_by_its_prefix(name: str, is_ours: bool) -> None:
    assert is_ours is is_traceforge_header(name)

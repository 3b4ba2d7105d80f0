"""One request to a provider, tried again where that can help.

In: a call and the headers that say who asks. Out: the exchange as it was seen on the wire, and how many attempts it
took. Never: follows a redirect (the key would go with it), tries for ever, or waits longer than anybody would.
"""

from __future__ import annotations

import http.client
import random
import threading
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import NamedTuple

from traceforge.capture.http_client import CHUNK_BYTES, HttpClient, explain_failure
from traceforge.clock import now, now_text
from traceforge.exchange import CallOutcome, Chunk, Exchange, Headers, find_header
from traceforge.ids import new_uuid
from traceforge.snapshots.live.live_plan import LiveCall

ATTEMPTS_MAX = 5
RETRIED_STATUSES = frozenset({408, 409, 429, 500, 502, 503, 504, 529})  # As the SDKs of OpenAI and Anthropic do.
BACKOFF_S, BACKOFF_S_MAX = 0.5, 8.0  # Doubled with each attempt, where the provider names no time.
RETRY_AFTER_S_MAX = 120.0  # Who asks for more does not want us today: said, and the call counts as not checked.


class SendResult(NamedTuple):
    """How it went."""

    exchange: Exchange
    attempts: int
    problem: str = ""  # why there is no answer


class HostPacing:
    """When the next request may go to a host; one that was told to wait lets the others wait too."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop
        self._lock = threading.Lock()
        self._not_before: dict[str, float] = {}

    def delay_host(self, host: str, seconds: float) -> None:
        """Nobody asks this host for that long."""
        with self._lock:
            self._not_before[host] = max(self._not_before.get(host, 0.0), time.monotonic() + seconds)

    def wait_for_host(self, host: str) -> None:
        """Until it may be asked, or everything stops."""
        while (remaining := self._not_before.get(host, 0.0) - time.monotonic()) > 0 and not self._stop.wait(
            remaining
        ):
            pass

    def sleep(self, seconds: float) -> None:
        """Wait alone."""
        self._stop.wait(seconds)

    @property
    def is_stopped(self) -> bool:
        """Is there nobody to answer to any more?"""
        return self._stop.is_set()


class LiveSender:
    """Sends calls; safe to use from several threads. `HTTPS_PROXY` and `NO_PROXY` are heeded."""

    def __init__(self, pace: HostPacing) -> None:
        self._pace = pace
        self._client = HttpClient("traceforge-check-live")

    def send(self, call: LiveCall, key_headers: Mapping[str, str]) -> SendResult:
        """Send one request until it is answered, cannot be, or was tried often enough."""
        host = call.url.split("/", 3)[2]
        headers = (*call.headers, *key_headers.items())
        attempt = 0
        while True:
            self._pace.wait_for_host(host)
            attempt += 1
            exchange, is_final = self._try(call, headers)
            if exchange.outcome is CallOutcome.ANSWERED and exchange.status not in RETRIED_STATUSES:
                return SendResult(exchange, attempt)
            should_retry = find_header(exchange.response_headers, "x-should-retry").lower()
            if is_final or should_retry == "false" or attempt == ATTEMPTS_MAX or self._pace.is_stopped:
                return SendResult(exchange, attempt, exchange.error)
            wait_seconds = retry_after(exchange.response_headers)
            if wait_seconds is not None and wait_seconds > RETRY_AFTER_S_MAX:
                return SendResult(
                    exchange, attempt, f"the provider asks to wait {wait_seconds:.0f} s, which is too long"
                )
            if wait_seconds is not None:
                self._pace.delay_host(host, wait_seconds)
            else:
                self._pace.sleep(backoff(attempt))

    def _try(self, call: LiveCall, headers: Headers) -> tuple[Exchange, bool]:
        """One attempt; and whether another could not go better."""
        start, started = time.monotonic(), now_text()
        header_values = {name.lower(): find_header(headers, name) for name, _ in headers}  # several of a name are one
        status = 0
        response_headers: Headers = ()
        chunks: list[Chunk] = []
        outcome, error, is_final = CallOutcome.ANSWERED, "", False
        try:
            with self._client.post(call.url, call.body, header_values) as response:
                status, response_headers = response.status, tuple(response.getheaders())
                while data := response.read1(CHUNK_BYTES):
                    chunks.append(Chunk((time.monotonic() - start) * 1000, data))
                if response.length:
                    outcome, error = CallOutcome.CUT, "the provider broke off"
        except (OSError, http.client.HTTPException) as exc:
            outcome = CallOutcome.CUT if status else CallOutcome.FAILED
            error, is_final = explain_failure(exc)
        duration_ms = (time.monotonic() - start) * 1000
        exchange = Exchange(
            new_uuid(), started, "POST", call.url, headers, call.body, status, response_headers, tuple(chunks),
            duration_ms, outcome, error, provider=call.approved.provider,
        )  # fmt: skip
        return exchange, is_final


def retry_after(headers: Headers) -> float | None:
    """How many seconds the provider asks us to wait: a number, or until a date; None where it does not say."""
    milliseconds = _parse_seconds(find_header(headers, "retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    text = find_header(headers, "retry-after").strip()
    seconds = _parse_seconds(text)
    if seconds is not None or not text:
        return seconds
    try:
        retry_at = parsedate_to_datetime(text)
    except ValueError:
        return None
    return max(0.0, (retry_at.astimezone(now().tzinfo) - now()).total_seconds())


def _parse_seconds(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value < float("inf") else None


def backoff(attempt: int) -> float:
    """How long to wait after this many attempts; never the same for everybody who waits."""
    longest: float = min(BACKOFF_S * 2 ** (attempt - 1), BACKOFF_S_MAX)
    return longest * (0.75 + random.random() / 4)  # noqa: S311 (no secret depends on it)

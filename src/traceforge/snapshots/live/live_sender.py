"""Send one request to a provider, with retries.

In: a call and the headers with the API key. Out: the exchange as it was on the wire, and the number of attempts.
Never: follows a redirect (it would send the key elsewhere), or retries without a limit.
"""

from __future__ import annotations

import http.client
import random
import threading
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import NamedTuple

from traceforge.capture.http_client import CHUNK_BYTES, CallControl, HttpClient, explain_failure
from traceforge.clock import now, now_text
from traceforge.exchange import Caller, CallOutcome, Chunk, Exchange, Headers, find_header
from traceforge.ids import new_uuid
from traceforge.snapshots.live.live_plan import LiveCall

ATTEMPTS_MAX = 5
RETRIED_STATUSES = frozenset({408, 409, 429, 500, 502, 503, 504, 529})  # As in the SDKs of OpenAI and Anthropic.
RESPONSE_BYTES_MAX = 64 << 20  # Of one answer, which is in memory; no model gives as much.
NO_CALLER = Caller()
BACKOFF_S, BACKOFF_S_MAX = 0.5, 8.0  # Doubled with each attempt, unless the provider names a time.
RETRY_AFTER_S_MAX = 120.0  # Beyond this the call counts as not checked.


class OutgoingRequest(NamedTuple):
    """One request as it is sent, with the API key."""

    provider: str
    url: str
    headers: Headers
    body: bytes


class SendResult(NamedTuple):
    """The exchange of the last attempt."""

    exchange: Exchange
    attempts: int
    problem: str = ""  # why the request has no answer


class HostPacing:
    """When the next request may go to a host. A `Retry-After` to one request delays the others too."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop
        self._lock = threading.Lock()
        self._not_before: dict[str, float] = {}

    def delay_host(self, host: str, seconds: float) -> None:
        """Send nothing to this host for that long."""
        with self._lock:
            self._not_before[host] = max(self._not_before.get(host, 0.0), time.monotonic() + seconds)

    def wait_for_host(self, host: str) -> None:
        """Wait until a request may go to this host, or the check is stopped."""
        while (remaining := self._not_before.get(host, 0.0) - time.monotonic()) > 0 and not self._stop.wait(
            remaining
        ):
            pass

    def sleep(self, seconds: float) -> None:
        """Wait, or return at once if the check is stopped."""
        self._stop.wait(seconds)

    @property
    def is_stopped(self) -> bool:
        """Whether the check was stopped."""
        return self._stop.is_set()


class LiveSender:
    """Sends requests. Thread-safe. Honours `HTTPS_PROXY` and `NO_PROXY`."""

    def __init__(self, pace: HostPacing) -> None:
        self._pace = pace
        self._client = HttpClient("traceforge-check-live")

    def send(self, call: LiveCall, key_headers: Mapping[str, str]) -> SendResult:
        """Send one request until it is answered, a retry cannot help, or the attempts are used up."""
        host = call.url.split("/", 3)[2]
        headers = (*call.headers, *key_headers.items())
        request = OutgoingRequest(call.approved.provider, call.url, headers, call.body)
        attempt = 0
        while True:
            self._pace.wait_for_host(host)
            attempt += 1
            exchange, is_final = send_once(self._client, request)
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


def send_once(
    client: HttpClient, request: OutgoingRequest, caller: Caller = NO_CALLER, control: CallControl | None = None
) -> tuple[Exchange, bool]:
    """One attempt; and whether it is final, so that a retry cannot help."""
    start, started = time.monotonic(), now_text()
    headers = {name.lower(): find_header(request.headers, name) for name, _ in request.headers}  # joins repeated ones
    status = 0
    response_headers: Headers = ()
    chunks: list[Chunk] = []
    outcome, error, is_final = CallOutcome.ANSWERED, "", False
    try:
        with client.post(request.url, request.body, headers, control) as response:
            status, response_headers = response.status, tuple(response.getheaders())
            byte_count = 0
            while byte_count <= RESPONSE_BYTES_MAX and (data := response.read1(CHUNK_BYTES)):
                chunks.append(Chunk((time.monotonic() - start) * 1000, data))
                byte_count += len(data)
            if byte_count > RESPONSE_BYTES_MAX:
                outcome, error, is_final = CallOutcome.CUT, f"more than {RESPONSE_BYTES_MAX:,} bytes came", True
            elif response.length:
                outcome, error = CallOutcome.CUT, "the provider broke off"
    except (OSError, http.client.HTTPException) as exc:
        outcome = CallOutcome.CUT if status else CallOutcome.FAILED
        error, is_final = explain_failure(exc)
    except ValueError as exc:  # A recorded URL or header has a character that cannot be sent.
        outcome, error, is_final = CallOutcome.FAILED, str(exc), True
    duration_ms = (time.monotonic() - start) * 1000
    exchange = Exchange(
        new_uuid(), started, "POST", request.url, request.headers, request.body, status, response_headers,
        tuple(chunks), duration_ms, outcome, error, caller, request.provider,
    )  # fmt: skip
    return exchange, is_final


def retry_after(headers: Headers) -> float | None:
    """The seconds of `Retry-After`, which is a number or a date; None without one."""
    milliseconds = _parse_seconds(find_header(headers, "retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    text = find_header(headers, "retry-after").strip()
    seconds = _parse_seconds(text)
    if seconds is not None or not text:
        return seconds
    try:
        retry_at = parsedate_to_datetime(text).astimezone(now().tzinfo)
    except (
        ValueError,
        OverflowError,
    ):  # OverflowError: a year beyond the calendar, or one that the time zone leaves.
        return None
    return max(0.0, (retry_at - now()).total_seconds())


def _parse_seconds(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value < float("inf") else None


def backoff(attempt: int) -> float:
    """How long to wait after this many attempts, with jitter."""
    longest: float = min(BACKOFF_S * 2 ** (attempt - 1), BACKOFF_S_MAX)
    return longest * (0.75 + random.random() / 4)  # noqa: S311 (no secret depends on it)

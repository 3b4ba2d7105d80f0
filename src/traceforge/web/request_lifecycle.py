"""Around every request: its id, the Host and Origin checks, the error responses, the counts and the log line."""

from __future__ import annotations

import re
import time

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from traceforge.context.api.error_responses import ErrorResponse, to_error_response
from traceforge.http.access import AccessPolicy
from traceforge.ids import new_id
from traceforge.web.request_log import RequestLog, RequestRecord
from traceforge.web.request_reading import check_host_and_origin, read_headers
from traceforge.web.server_metrics import ServerMetrics

JSON_TYPE = "application/json"

_COMMON_HEADERS = ((b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"))
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}\Z")


class RequestErrors:
    """Turns errors into responses of one JSON shape, and logs the unexpected ones."""

    def __init__(self, log: RequestLog) -> None:
        self._log = log

    def describe(self, record: RequestRecord, exc: Exception) -> ErrorResponse:
        """The error as the client sees it; its code is logged with the request."""
        error = _routing_error(exc) if isinstance(exc, HTTPException) else to_error_response(exc)
        record.code = error.code
        if error.status == 500:
            self._log.failure(record.request_id, exc)
        return error

    async def respond(self, request: Request, exc: Exception) -> Response:
        """The response to an error: an exception handler of Starlette."""
        error = self.describe(request.state.record, exc)
        headers = dict(error.headers)
        if error.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        if error.status in (408, 413):
            headers["Connection"] = "close"  # The rest of the body is not read.
        return Response(error.body(), error.status, headers, JSON_TYPE)


def _routing_error(exc: HTTPException) -> ErrorResponse:
    if exc.status_code != 405:
        return ErrorResponse(404, "no_such_path", "there is nothing at this path")
    allowed = ", ".join(sorted((exc.headers or {})["Allow"].split(", ")))
    error = ErrorResponse(405, "method_not_allowed", f"this path allows only {allowed}")
    error.headers = {"Allow": allowed}
    return error


class RequestLifecycle:
    """ASGI middleware around the whole application."""

    def __init__(
        self, app: ASGIApp, access: AccessPolicy, metrics: ServerMetrics, log: RequestLog, errors: RequestErrors
    ) -> None:
        self._app = app
        self._access = access
        self._metrics = metrics
        self._log = log
        self._errors = errors

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; every way it can end is counted and logged."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        headers = read_headers(scope)
        record = RequestRecord(_choose_request_id(headers), scope["method"])
        scope["state"] = {"headers": headers, "record": record}

        async def count_received() -> Message:
            message = await receive()
            record.bytes_in += len(message.get("body", b""))
            return message

        async def count_sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                record.status = message["status"]
                message["headers"] = [*message["headers"], *common_headers(record.request_id)]
            else:
                record.bytes_out += len(message.get("body", b""))
            await send(message)

        self._metrics.in_flight += 1
        try:
            await self._answer(scope, count_received, count_sent)
        finally:
            self._metrics.in_flight -= 1
            seconds = time.perf_counter() - started
            self._metrics.count_request(record, seconds)
            self._log.request(record, seconds)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            check_host_and_origin(self._access, scope["state"]["headers"])
            await self._app(scope, receive, send)
        except ClientDisconnect:
            pass  # No client waits for a response.
        except Exception as exc:  # The exception handlers of the application did not expect this one.
            if scope["state"]["record"].status:
                raise  # The response has begun: all that is left is to close the connection.
            response = await self._errors.respond(Request(scope), exc)
            await response(scope, receive, send)


def _choose_request_id(headers: dict[str, str]) -> str:
    sent_id = headers.get("x-request-id", "")
    return sent_id if _REQUEST_ID.match(sent_id) else new_id("req")


def common_headers(request_id: str) -> list[tuple[bytes, bytes]]:
    """The headers that every response has."""
    return [(b"x-request-id", request_id.encode()), *_COMMON_HEADERS]

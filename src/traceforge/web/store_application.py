"""The application: from a request to its answer.

In: requests, as ASGI hands them over. Out: answers, each with a request id, counted and logged. Never: an error that
is not JSON of one shape, a wait for somebody else on the loop, or a word of content or a key in a log.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, MutableMapping
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qsl

from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route, Router

from traceforge.context.api.error_responses import ErrorResponse, to_error_response
from traceforge.context.api.idempotency import EncodedResponse
from traceforge.context.api.operations import OPERATIONS
from traceforge.context.api.response_events import created_event, delta_event, encode_event, final_event
from traceforge.context.responses.response_generation import RunningResponse
from traceforge.errors import TraceForgeError
from traceforge.http.access import AccessPolicy
from traceforge.http.metrics_text import CONTENT_TYPE
from traceforge.http.thread_pool import ThreadPool
from traceforge.ids import new_id
from traceforge.web.event_streaming import TextPump, open_stream, send_frames
from traceforge.web.openai_api import FailedResponse, OpenAIApplication
from traceforge.web.openapi_document import build_document
from traceforge.web.operation_routes import MethodNotAllowed, OperationRoutes
from traceforge.web.request_log import RequestLog
from traceforge.web.request_reading import (
    ASGI,
    Disconnected,
    Message,
    Receive,
    Scope,
    Send,
    check_host_and_origin,
    content_type_problem,
    read_body,
    read_headers,
)
from traceforge.web.server_metrics import ServerMetrics
from traceforge.web.store_service import ReceivedRequest, StoreService

LONG_THREADS = 256  # Calls of models at once.
TIDY_SECONDS = 3600.0
AT_ONCE_BYTES_MAX = 1 << 16
AT_ONCE_SECONDS_MAX = 0.02  # A disk that takes longer than this to write would hold up whoever comes meanwhile:
SLOW_SECONDS = 0.25  # for so long, nothing is written on the loop's thread.
THREADS = 32  # Requests that are at work in the database at once; the others wait their turn.

_JSON = b"application/json"
_V2 = "/v2"  # Most of what is asked is below it: no router is asked first.
_ALWAYS = ((b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"))
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}\Z")


class StoreApplication:
    """One server: what all its requests share."""

    def __init__(self, service: StoreService, host: str, log: RequestLog, more: tuple[BaseRoute, ...] = ()) -> None:
        self.service = service
        self.metrics = ServerMetrics()
        self._guard = AccessPolicy(host, same_origin=True)
        self._log = log
        self._threads = ThreadPool(THREADS, "traceforge-serve")
        self._long_threads = ThreadPool(LONG_THREADS, "traceforge-serve-long")
        self._slow_until = 0.0
        self._routes = OperationRoutes(OPERATIONS)
        self._router = Router(
            [
                Mount("/v1", app=OpenAIApplication(self)),
                Route("/healthz", self._page("healthz", self._healthz), methods=None),
                Route("/readyz", self._page("readyz", self._readyz), methods=None),
                Route("/metrics", self._page("metrics", self._metrics_page, scope="admin"), methods=None),
                *more,
            ],
            redirect_slashes=False,
            default=_not_found,
        )

    def close(self) -> None:
        """No more work."""
        self._threads.close()
        self._long_threads.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; every way it can end is counted and logged."""
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1000})
            return
        app = self._call_operation if scope["path"].startswith(_V2 + "/") else self._router
        await _RequestCycle(self, scope, receive, send).run(self._guard, app)

    async def delete_expired_periodically(self) -> None:
        """From time to time, drop what need not be remembered any more; it never ends."""
        while True:
            with suppress(TraceForgeError):  # The database may be away; there is another time.
                await self.in_thread(self.service.delete_expired_answers)
            await asyncio.sleep(TIDY_SECONDS)

    async def in_thread(self, work: Callable[[], Any]) -> Any:  # noqa: ANN401 (whatever it gives)
        """Do what waits for the database somewhere else."""
        return await self._threads.run(work)

    async def in_long_thread(self, work: Callable[[], Any]) -> Any:  # noqa: ANN401
        """Do what waits for a model where nobody who waits for the database is kept waiting."""
        return await self._long_threads.run(work)

    def count_and_log(self, call: _RequestCycle, seconds: float) -> None:
        """Count a request, and write its line: in the next turn of the loop, for the answer leaves in this one."""
        name = call.scope["state"].get("operation", "none")
        self.metrics.count_request(name, call.status, seconds, call.bytes_in, call.bytes_out)
        asyncio.get_running_loop().call_soon(self._write_line, call, name, seconds)

    def _write_line(self, call: _RequestCycle, name: str, seconds: float) -> None:
        self._log.request(
            request_id=call.request_id, method=call.scope["method"] if name != "none" else "", operation=name,
            status=call.status, duration_ms=round(seconds * 1000, 3), bytes_in=call.bytes_in,
            bytes_out=call.bytes_out, project_id=call.scope["state"].get("project_id"), code=call.code,
        )  # fmt: skip

    def build_bad_request(self) -> tuple[list[tuple[bytes, bytes]], bytes]:
        """The headers and the body for what could not be read as a request; it is counted and logged as one."""
        refusal = ErrorResponse(400, "not_http", "this cannot be read as a request of HTTP")
        body, request_id = refusal.body(), new_id("req")
        self.metrics.count_request("none", refusal.status, 0.0, 0, len(body))
        self._log.request(
            request_id=request_id, method="", operation="none", status=refusal.status, duration_ms=0.0, bytes_in=0,
            bytes_out=len(body), code=refusal.code,
        )  # fmt: skip
        own = [(b"content-type", _JSON), (b"content-length", str(len(body)).encode()), (b"connection", b"close")]
        return [*own, *_common_headers(request_id)], body

    def log_failure(self, call: _RequestCycle, exc: BaseException) -> None:
        """A mistake of ours: its type and place, never its text, which may hold what somebody said."""
        self._log.failure(call.request_id, exc)

    async def _call_operation(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers: dict[str, str] = scope["state"]["headers"]
        path = scope["path"].removeprefix(_V2)
        if path == "/openapi.json":
            await self._page("openapi", self._openapi, scope="read")(scope, receive, send)
            return
        match = self._routes.find(scope["method"], path)
        operation = match.operation
        scope["state"]["operation"] = operation.name
        token = self.service.token(headers)
        body_error = content_type_problem(headers) if operation.body is not None else None
        data = b"" if body_error else await read_body(headers, receive)
        query_string = scope["query_string"]
        query = parse_qsl(query_string.decode("latin-1"), keep_blank_values=True) if query_string else []
        request = ReceivedRequest(
            operation, match.ids, query, data, token, headers.get("idempotency-key"), body_error
        )
        answer: EncodedResponse | RunningResponse | None = self._answer_nowait(request, scope["state"])
        if answer is None:
            in_thread = self.in_long_thread if operation.is_long else self.in_thread
            answer = await in_thread(lambda: self.service.answer(request, scope["state"]))
        if isinstance(answer, RunningResponse):
            await self._stream(answer, operation.status, scope, send)
        elif answer.streamed:
            await open_stream(send, answer.status)
            await send_frames(send, [answer.body], last=True)
        else:
            await _send_json(send, answer.status, answer.body)

    def _answer_nowait(self, request: ReceivedRequest, state: MutableMapping[str, Any]) -> EncodedResponse | None:
        """On the loop's own thread where nobody else is here who could be kept waiting: to cross to another thread
        and back takes a third as long as an append. None where it is not so, or where it would wait.
        """
        started = time.monotonic()
        if request.operation.call_nowait is None or self.metrics.in_flight > 1 or started < self._slow_until:
            return None
        if len(request.data) > AT_ONCE_BYTES_MAX:
            return None
        try:
            return self.service.answer_nowait(request, state)
        finally:
            count_and_log = time.monotonic()
            if count_and_log - started > AT_ONCE_SECONDS_MAX:
                self._slow_until = count_and_log + SLOW_SECONDS

    async def _stream(self, responding: RunningResponse, status: int, scope: Scope, send: Send) -> None:
        """The texts of a response as they come, between what it is at first and what it is at last.

        A client that leaves changes nothing: the answer is paid for, and is kept.
        """
        pump = TextPump(responding, self.in_long_thread)
        scope["state"]["last_words"] = lambda refusal: [encode_event("error", refusal.body())]
        await open_stream(send, status)
        await send_frames(send, [created_event(responding.running)])
        async for text in pump:
            await send_frames(send, [delta_event(text)])
        await send_frames(send, [final_event(await pump.end())], last=True)

    def _page(self, name: str, make: Callable[[], Any], *, scope: str = "") -> Callable[..., Any]:
        """A page of its own; `scope` is what it demands where keys are required."""

        async def page(asgi: Scope, receive: Receive, send: Send) -> None:
            asgi["state"]["operation"] = name
            if asgi["method"] not in ("GET", "HEAD"):
                raise MethodNotAllowed(("GET",))
            if scope:
                token = self.service.token(asgi["state"]["headers"])
                await self.in_thread(lambda: self.service.authorize(token, scope))
            response = await make()
            await response(asgi, receive, send)

        return _Endpoint(page)

    async def _healthz(self) -> Response:
        return Response(b'{"status":"ok"}', media_type="application/json")

    async def _readyz(self) -> Response:
        await self.in_thread(self.service.ping)
        return Response(b'{"status":"ready"}', media_type="application/json")

    async def _metrics_page(self) -> Response:
        return Response(self.metrics.text(), media_type=CONTENT_TYPE)

    async def _openapi(self) -> Response:
        from traceforge.canon import json_bytes

        return Response(json_bytes(build_document(required=self.service.requires_key)), media_type="application/json")


class _Endpoint:
    """Starlette takes an object that can be called for an ASGI application."""

    def __init__(self, page: Callable[[Scope, Receive, Send], Any]) -> None:
        self._page = page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._page(scope, receive, send)


class _RequestCycle:
    """One request on its way."""

    __slots__ = (
        "_receive", "_send", "bytes_in", "bytes_out", "code", "request_id", "scope", "site", "status",
    )  # fmt: skip

    def __init__(self, site: StoreApplication, scope: Scope, receive: Receive, send: Send) -> None:
        self.site = site
        self.scope = scope
        self._receive = receive
        self._send = send
        self.status = 0
        self.code: str | None = None
        self.bytes_in = 0
        self.bytes_out = 0
        self.request_id = ""

    async def run(self, guard: AccessPolicy, app: ASGI) -> None:
        started = time.perf_counter()
        headers = read_headers(self.scope)
        sent_request_id = headers.get("x-request-id", "")
        self.request_id = sent_request_id if sent_request_id and _REQUEST_ID.match(sent_request_id) else new_id("req")
        self.scope["state"] = {"headers": headers, "request_id": self.request_id}
        metrics = self.site.metrics
        metrics.in_flight += 1
        try:
            check_host_and_origin(guard, headers)
            await app(self.scope, self.receive, self.send)
        except Disconnected:
            pass
        except Exception as exc:  # noqa: BLE001 (whatever it is, the client gets an answer and the log a line)
            await self._send_error(exc)
        finally:
            metrics.in_flight -= 1
            self.site.count_and_log(self, time.perf_counter() - started)

    async def receive(self) -> Message:
        message = await self._receive()
        self.bytes_in += len(message.get("body", b""))
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [*message.get("headers", ()), *_common_headers(self.request_id)]
        else:
            self.bytes_out += len(message.get("body", b""))
        await self._send(message)

    async def _send_error(self, exc: Exception) -> None:
        refusal = to_error_response(exc)
        self.code = refusal.code
        if refusal.status == 500:
            self.site.log_failure(self, exc)
        if self.status:
            await self._end_stream_with_error(refusal, exc)
            return
        more: list[tuple[bytes, bytes]] = []
        if refusal.status == 401:
            more.append((b"www-authenticate", b"Bearer"))
        if isinstance(refusal, FailedResponse):
            more += refusal.headers
        if isinstance(refusal, MethodNotAllowed):
            more.append((b"allow", refusal.allowed.encode()))
        if refusal.status in (408, 413):
            more.append((b"connection", b"close"))  # What is left of the body is not read.
        await _send_json(self.send, refusal.status, refusal.body(), more)

    async def _end_stream_with_error(self, refusal: ErrorResponse, exc: Exception) -> None:
        """It had begun: a stream ends with what went wrong, of anything else all that is left is to end it."""
        last_words = self.scope["state"].get("last_words")
        if last_words is None:
            raise exc
        with suppress(OSError):  # Nobody may be there any more.
            await send_frames(self.send, last_words(refusal), last=True)


def _common_headers(request_id: str) -> list[tuple[bytes, bytes]]:
    """The headers that every answer has."""
    return [(b"x-request-id", request_id.encode()), *_ALWAYS]


async def _send_json(send: Send, status: int, body: bytes, more: list[tuple[bytes, bytes]] | None = None) -> None:
    headers = [(b"content-type", _JSON), (b"content-length", str(len(body)).encode()), *(more or ())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _not_found(scope: Scope, receive: Receive, send: Send) -> None:
    raise ErrorResponse(404, "no_such_path", "there is nothing at this path")

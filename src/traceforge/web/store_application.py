"""The context store as an ASGI application: routes, middleware, and the threads that its requests share.

Never: an error that is not JSON of one shape, a wait for a database or a model on the loop's thread, or content or a
key in a log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route, Router
from starlette.types import Receive, Scope, Send

from traceforge.canon import json_bytes
from traceforge.context.api.error_responses import ErrorResponse
from traceforge.errors import TraceForgeError
from traceforge.http.access import AccessPolicy
from traceforge.http.metrics_text import CONTENT_TYPE
from traceforge.http.server_limits import STORE_LIMITS, ClientConnections, ServerLimits
from traceforge.http.thread_pool import ThreadPool
from traceforge.ids import new_id
from traceforge.web.openai_api import OpenAIApi
from traceforge.web.openapi_document import build_document
from traceforge.web.operation_api import OperationApi
from traceforge.web.project_calls import MODEL_CALLS_MAX, ProjectCalls
from traceforge.web.request_lifecycle import JSON_TYPE, RequestErrors, RequestLifecycle, common_headers
from traceforge.web.request_log import RequestLog, RequestRecord
from traceforge.web.server_metrics import ServerMetrics
from traceforge.web.store_service import AuthorizedCaller, StoreService
from traceforge.web.uvicorn_connection import SET_AUTHENTICATED, UvicornConnection

DATABASE_THREADS = 32  # Requests that use the database at once; the others wait their turn.
DATABASE_CALLS_MAX = 24  # Of a project, at once: it never has all threads.
MODEL_THREADS = 256  # Calls of models at once.
DELETE_EXPIRED_SECONDS = 3600.0

PageFunction = Callable[[AuthorizedCaller | None], Awaitable[Response]]


class StoreApplication:
    """One server: what all its requests share."""

    def __init__(
        self,
        service: StoreService,
        host: str,
        log: RequestLog,
        *,
        limits: ServerLimits = STORE_LIMITS,
        model_calls_max: int = MODEL_CALLS_MAX,
    ) -> None:
        """`model_calls_max` is for each project, where keys are required."""
        self.service = service
        self.limits = limits
        self.connections: ClientConnections[UvicornConnection] = ClientConnections(limits)
        self.calls = ProjectCalls(
            model_calls_max=model_calls_max, database_calls_max=DATABASE_CALLS_MAX, limited=service.requires_key
        )
        self.metrics = ServerMetrics()
        self.errors = RequestErrors(log)
        self._log = log
        self._database_threads = ThreadPool(DATABASE_THREADS, "traceforge-serve")
        self._model_threads = ThreadPool(MODEL_THREADS, "traceforge-serve-model")
        respond = self.errors.respond
        self.access = AccessPolicy(host, same_origin=True)
        self._app = Starlette(
            routes=self._routes(),
            middleware=[Middleware(RequestLifecycle, self.access, self.metrics, log, self.errors)],
            exception_handlers={HTTPException: respond, ErrorResponse: respond, TraceForgeError: respond},
        )
        self._app.router.redirect_slashes = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)

    def close(self) -> None:
        """Finish the work that was given to threads, and take no more."""
        self._database_threads.close()
        self._model_threads.close()

    async def delete_expired_periodically(self) -> None:
        """Delete remembered answers that have expired, every hour, until cancelled."""
        while True:
            with suppress(TraceForgeError):  # The database may be away; there is another time.
                await self.in_thread(self.service.delete_expired_answers)
            await asyncio.sleep(DELETE_EXPIRED_SECONDS)

    def end_streams(self) -> None:
        """Cut off nothing: a response that is streamed ends with its model's answer."""

    async def authorize(self, request: Request, scope: str) -> AuthorizedCaller:
        """Identify the caller before the body is read: a client without a key takes no memory.

        Raises:
            ErrorResponse: the API key is missing, unknown, or lacks the scope.
        """
        set_authenticated = request.scope[SET_AUTHENTICATED]
        try:
            token = self.service.token(request.state.headers)
            if token is None:
                caller = self.service.authorize(None, scope)
            else:
                caller = await self.in_thread(partial(self.service.authorize, token, scope))
        except ErrorResponse:
            set_authenticated(False)
            raise
        set_authenticated(token is not None)
        request.state.record.project_id = caller.store.project_id
        return caller

    async def in_thread(self, work: Callable[[], Any]) -> Any:  # noqa: ANN401 (what the work returns)
        """Run work that waits for the database."""
        return await self._database_threads.run(work)

    async def in_project_thread(self, caller: AuthorizedCaller, work: Callable[[], Any]) -> Any:  # noqa: ANN401 (what the work returns)
        """Run work that waits for the database, within the share of the caller's project."""
        async with self.calls.database_call(caller.store.project_id):
            return await self._database_threads.run(work)

    async def in_model_thread(self, work: Callable[[], Any]) -> Any:  # noqa: ANN401 (what the work returns)
        """Run work that waits for a model. Runs in the model pool, so slow models never starve database work."""
        return await self._model_threads.run(work)

    def refuse_connection(self, error: ErrorResponse) -> tuple[list[tuple[bytes, bytes]], bytes]:
        """The headers and the body of the response to a request that Starlette never sees; counted and logged."""
        body = error.body()
        record = RequestRecord(new_id("req"), "", status=error.status, bytes_out=len(body), code=error.code)
        self.metrics.count_request(record, 0.0)
        self._log.request(record, 0.0)
        headers = [
            (b"content-type", JSON_TYPE.encode()),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
        ]
        headers += [(name.encode(), value.encode()) for name, value in error.headers.items()]
        return [*headers, *common_headers(record.request_id)], body

    def _routes(self) -> list[Mount | Route]:
        openapi = self._page("/openapi.json", "openapi", self._openapi, scope="read")
        return [
            Mount("/v2", app=Router([*OperationApi(self).routes(), openapi], redirect_slashes=False)),
            Mount("/v1", app=Router(OpenAIApi(self).routes(), redirect_slashes=False)),
            self._page("/healthz", "healthz", self._healthz),
            self._page("/readyz", "readyz", self._readyz),
            self._page("/metrics", "metrics", self._metrics_text, scope="admin"),
        ]

    def _page(self, path: str, name: str, make: PageFunction, *, scope: str = "") -> Route:
        """A page outside the table; `scope` is what the caller's key must have, where keys are required."""

        async def respond(request: Request) -> Response:
            request.state.record.operation = name
            return await make(await self.authorize(request, scope) if scope else None)

        return Route(path, respond)

    async def _healthz(self, _: AuthorizedCaller | None) -> Response:
        return Response(b'{"status":"ok"}', media_type=JSON_TYPE)

    async def _readyz(self, _: AuthorizedCaller | None) -> Response:
        await self.in_thread(self.service.ping)
        return Response(b'{"status":"ready"}', media_type=JSON_TYPE)

    async def _metrics_text(self, caller: AuthorizedCaller | None) -> Response:
        """All figures for the operator, for another project its own."""
        assert caller is not None
        if caller.operator:
            page = self.metrics.text(self.calls.model_calls.total())
        else:
            project_id = caller.store.project_id
            page = self.metrics.project_text(project_id, self.calls.model_calls[project_id])
        return Response(page, media_type=CONTENT_TYPE)

    async def _openapi(self, _: AuthorizedCaller | None) -> Response:
        return Response(json_bytes(build_document(required=self.service.requires_key)), media_type=JSON_TYPE)

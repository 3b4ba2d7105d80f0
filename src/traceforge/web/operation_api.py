"""`/v2`: a route for each path of the table of operations."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from traceforge.context.api.operation_types import Operation
from traceforge.context.api.operations import OPERATIONS
from traceforge.context.api.response_events import created_event, delta_event, encode_event, final_event
from traceforge.context.responses.response_generation import RunningResponse
from traceforge.web.event_streaming import TextPump, iterate_once, stream_response
from traceforge.web.request_lifecycle import JSON_TYPE
from traceforge.web.request_log import RequestRecord
from traceforge.web.request_reading import content_type_problem, read_body
from traceforge.web.store_service import AuthorizedCaller, ReceivedRequest

if TYPE_CHECKING:
    from traceforge.web.store_application import StoreApplication


class OperationApi:
    """The endpoints of `/v2`: one for each operation of the context store."""

    def __init__(self, application: StoreApplication) -> None:
        self._application = application

    def routes(self) -> list[Route]:
        """One route for each path; its methods are those of the operations there."""
        operations_by_path: dict[str, dict[str, Operation]] = {}
        for operation in OPERATIONS:
            operations_by_path.setdefault(operation.path, {})[operation.method] = operation
        return [
            Route(path, partial(self._respond, operations), methods=list(operations))
            for path, operations in operations_by_path.items()
        ]

    async def _respond(self, operations: Mapping[str, Operation], request: Request) -> Response:
        operation = operations["GET" if request.method == "HEAD" else request.method]
        record: RequestRecord = request.state.record
        record.operation = operation.name
        caller = await self._application.authorize(request, operation.scope)
        received = await self._read(request, operation)
        if operation.is_long:
            return await self._respond_with_model(caller, received, record)
        answer = await self._application.in_project_thread(
            caller, lambda: self._application.service.answer(caller, received)
        )
        return Response(answer.body, answer.status, media_type=JSON_TYPE)

    async def _respond_with_model(
        self, caller: AuthorizedCaller, received: ReceivedRequest, record: RequestRecord
    ) -> Response:
        slot = self._application.calls.begin_model_call(caller.store.project_id)
        try:
            answer = await self._application.in_model_thread(
                lambda: self._application.service.answer(caller, received)
            )
        except BaseException:
            slot.release()
            raise
        operation = received.operation
        if isinstance(answer, RunningResponse):
            pump = TextPump(answer, self._application.in_model_thread, slot)
            return stream_response(self._events(answer, pump, record), operation.status)
        slot.release()
        if answer.streamed:
            return stream_response(iterate_once(answer.body), answer.status)
        return Response(answer.body, answer.status, media_type=JSON_TYPE)

    async def _read(self, request: Request, operation: Operation) -> ReceivedRequest:
        headers: dict[str, str] = request.state.headers
        body_error = content_type_problem(headers) if operation.body is not None else None
        body = b"" if body_error else await read_body(request, headers)
        query = parse_qsl(request.scope["query_string"].decode("latin-1"), keep_blank_values=True)
        ids = tuple(request.path_params[name] for name in operation.parameters)
        return ReceivedRequest(operation, ids, query, body, headers.get("idempotency-key"), body_error)

    async def _events(self, running: RunningResponse, pump: TextPump, record: RequestRecord) -> AsyncIterator[bytes]:
        """The events of a response. An error after the first of them, such as a purge, is the last event."""
        yield created_event(running.running)
        try:
            async for text in pump:
                yield delta_event(text)
            yield final_event(await pump.end())
        except Exception as exc:  # noqa: BLE001 (the client gets an error for any exception)
            yield encode_event("error", self._application.errors.describe(record, exc).body())

"""`/v1`: OpenAI's chat completions and Responses API, with aliases as models. Every call is pinned by a snapshot.

Never: a field of TraceForge in a body: the ids of a call are in headers. Never: sends a model what no snapshot holds.

    X-TraceForge-Session      in a request: continue this session; in a response: the session of the call
    X-TraceForge-Branch, -Snapshot, -Release, -Response, -Trace      in a response
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from starlette.requests import Request
from starlette.responses import Response as HTTPResponse
from starlette.routing import Route

from traceforge.canon import JSON, json_bytes
from traceforge.context.api.error_responses import ErrorResponse
from traceforge.context.api.idempotency import EncodedResponse, make_key
from traceforge.context.api.idempotent_operations import start_response_once
from traceforge.context.api.request_decoding import read_json
from traceforge.context.model.inputs import NewResponse
from traceforge.context.model.objects import Alias, Progress, Response
from traceforge.context.project_store import Store
from traceforge.context.responses.model_releases import check_params, get_alias, list_aliases, resolve_release
from traceforge.context.responses.openai_sessions import pin_session
from traceforge.context.responses.openai_shape import (
    AnswerHeading,
    ChatFrames,
    OpenAIAnswer,
    OpenAIRequest,
    ResponseFrames,
    chat_completion,
    read_chat,
    read_responses,
    response_object,
)
from traceforge.context.responses.response_generation import CompletedResponse, RunningResponse, start_response
from traceforge.context.responses.response_operations import get_response
from traceforge.web.client_disconnect import watch_for_disconnect
from traceforge.web.event_streaming import TextPump, iterate_once, stream_response
from traceforge.web.request_lifecycle import JSON_TYPE
from traceforge.web.request_log import RequestRecord
from traceforge.web.request_reading import content_type_problem, read_body
from traceforge.wire.stream_assembly import StreamFrame

if TYPE_CHECKING:
    from traceforge.web.store_application import StoreApplication

SESSION = "x-traceforge-session"
MODELS_MAX = 100
_STATUS = {"provider_timeout": 504}


class OpenAIEndpoint(NamedTuple):
    """An endpoint of OpenAI: how it reads requests and writes answers."""

    path: str
    name: str
    read: Callable[[JSON], OpenAIRequest]
    build_answer: Callable[[AnswerHeading, OpenAIRequest, OpenAIAnswer], JSON]
    stream: Callable[[AnswerHeading, OpenAIRequest], ChatFrames | ResponseFrames]


_CHAT = OpenAIEndpoint(
    "/chat/completions", "v1_chat", read_chat, lambda heading, _, answer: chat_completion(heading, answer), ChatFrames
)
_RESPONSES = OpenAIEndpoint("/responses", "v1_responses", read_responses, response_object, ResponseFrames)
ENDPOINTS = {kind.path: kind for kind in (_CHAT, _RESPONSES)}


class OpenAIApi:
    """The endpoints of `/v1`, which speak as OpenAI's API does."""

    def __init__(self, application: StoreApplication) -> None:
        self._application = application

    def routes(self) -> list[Route]:
        """The routes, with paths below `/v1`."""
        return [
            *(Route(kind.path, partial(self._respond, kind), methods=["POST"]) for kind in ENDPOINTS.values()),
            Route("/models", self._list_models),
            Route("/models/", self._list_models),
            Route("/models/{name:path}", self._get_model),
        ]

    async def _respond(self, kind: OpenAIEndpoint, request: Request) -> HTTPResponse:
        record: RequestRecord = request.state.record
        record.operation = kind.name
        headers: dict[str, str] = request.state.headers
        caller = await self._application.authorize(request, "write")
        store = caller.store
        problem = content_type_problem(headers)
        if problem is not None:
            raise problem
        body = await read_body(request, headers)
        key, session_id = headers.get("idempotency-key"), headers.get(SESSION)

        def begin() -> tuple[OpenAIRequest, RunningResponse | _RepeatedAnswer]:
            openai_request = kind.read(read_json(body))
            return openai_request, begin_call(store, kind, openai_request, session_id, key)

        slot = self._application.calls.begin_model_call(store.project_id)
        try:
            openai_request, running = await self._application.in_project_thread(caller, begin)
        except BaseException:
            slot.release()
            raise
        if isinstance(running, _RepeatedAnswer):
            slot.release()
            return _encoded_response(running.answer, _id_headers(running.response))
        pump = TextPump(running, self._application.in_model_thread, slot)
        # A client that leaves ends the call, unless it can come back for the answer with its key.
        on_disconnect = running.cancel if key is None else _do_nothing
        async with watch_for_disconnect(request.receive, on_disconnect):
            if not openai_request.stream:
                return _complete_response(kind, openai_request, await pump.end())
            first_text = await anext(pump, None)
            if first_text is None:  # Until the first text, a model that fails is an HTTP status.
                _check_completed(await pump.end())
        chunks = self._chunks(kind, openai_request, running, pump, first_text, record, on_disconnect)
        return stream_response(chunks, headers=_id_headers(running.running, running.trace_id))

    async def _chunks(
        self,
        kind: OpenAIEndpoint,
        request: OpenAIRequest,
        running: RunningResponse,
        pump: TextPump,
        first_text: str | None,
        record: RequestRecord,
        on_disconnect: Callable[[], object],
    ) -> AsyncIterator[bytes]:
        frames = kind.stream(_heading(running.running, request), request)
        try:
            yield b"".join(frames.start())
            if first_text is not None:
                yield b"".join(frames.text(first_text))
                async for text in pump:
                    yield b"".join(frames.text(text))
            yield b"".join(_end(frames, await pump.end()))
        except (asyncio.CancelledError, GeneratorExit):  # Starlette stops the stream when the client disconnects.
            on_disconnect()
            raise
        except Exception as exc:  # noqa: BLE001 (the client gets an error for any exception)
            error = self._application.errors.describe(record, exc)
            yield b"".join(frames.fail(error.code, error.message))

    async def _list_models(self, request: Request) -> HTTPResponse:
        return await self._read_models(
            request, lambda store: {"object": "list", "data": [_model(alias) for alias in _list_all_aliases(store)]}
        )

    async def _get_model(self, request: Request) -> HTTPResponse:
        name = request.path_params["name"]
        return await self._read_models(request, lambda store: _model(store.read(lambda tx: get_alias(tx, name))))

    async def _read_models(self, request: Request, read: Callable[[Store], JSON]) -> HTTPResponse:
        record: RequestRecord = request.state.record
        record.operation = "v1_models"
        caller = await self._application.authorize(request, "read")
        body = await self._application.in_project_thread(caller, lambda: json_bytes(read(caller.store)))
        return HTTPResponse(body, media_type=JSON_TYPE)


class _RepeatedAnswer(NamedTuple):
    """The stored answer to an idempotency key."""

    answer: EncodedResponse
    response: Response


def begin_call(
    store: Store, kind: OpenAIEndpoint, request: OpenAIRequest, session_id: str | None, key: str | None
) -> RunningResponse | _RepeatedAnswer:
    """Pin a call in one transaction: a refused call leaves no session and no message behind."""

    def make(joined: Store) -> NewResponse:
        check_params(request.parameters)
        resolve_release(joined.tx, request.model)  # First: an unknown model is reported before other problems.
        return pin_session(joined, request, session_id)

    if key is None:
        return start_response(store, make, stream=request.stream)
    idempotency_key = make_key(f"/v1{kind.path}", key, [session_id, request.body])
    running = start_response_once(
        store,
        make,
        idempotency_key,
        lambda completed: _encode_completed(kind, request, completed),
        stream=request.stream,
    )
    if isinstance(running, RunningResponse):
        return running
    assert running.response_id is not None, "a used key has a response"
    repeated = running._replace(streamed=request.stream and running.status == 200)
    return _RepeatedAnswer(repeated, get_response(store, running.response_id))


def _encode_completed(kind: OpenAIEndpoint, request: OpenAIRequest, completed: CompletedResponse) -> EncodedResponse:
    """The complete answer to a call, with the same bytes as its stream."""
    final = completed.final
    if final.status is not Progress.COMPLETED and not (request.stream and completed.texts):
        failure = _failure(final)
        return EncodedResponse(failure.status, failure.body())
    heading = _heading(completed.running, request)
    if not request.stream:
        return EncodedResponse(200, json_bytes(kind.build_answer(heading, request, _read_openai_answer(final))))
    frames = kind.stream(heading, request)
    pieces = [
        *frames.start(),
        *(frame for text in completed.texts for frame in frames.text(text)),
        *_end(frames, final),
    ]
    return EncodedResponse(200, b"".join(pieces), streamed=True)


def _end(frames: ChatFrames | ResponseFrames, response: Response) -> list[StreamFrame]:
    if response.status is Progress.COMPLETED:
        return frames.finish(_read_openai_answer(response))
    return frames.fail(*_failure_reason(response))


def _complete_response(kind: OpenAIEndpoint, request: OpenAIRequest, response: Response) -> HTTPResponse:
    _check_completed(response)
    encoded = _encode_completed(kind, request, CompletedResponse(response, [], response))
    return _encoded_response(encoded, _id_headers(response))


def _encoded_response(encoded: EncodedResponse, headers: dict[str, str]) -> HTTPResponse:
    """The response to a call whose answer is complete."""
    if encoded.streamed:
        return stream_response(iterate_once(encoded.body), encoded.status, headers)
    return HTTPResponse(encoded.body, encoded.status, headers, JSON_TYPE)


def _do_nothing() -> None:
    """For a client that may come back with its idempotency key."""


def _list_all_aliases(store: Store) -> list[Alias]:
    aliases: list[Alias] = []
    while True:
        last = aliases[-1].name if aliases else None
        page = store.read_list(partial(list_aliases, limit=MODELS_MAX, after=last))
        aliases += page.data
        if not page.has_more:
            return aliases


def _model(alias: Alias) -> JSON:
    return {"id": alias.name, "object": "model", "created": _seconds(alias.created_at), "owned_by": "traceforge"}


def _heading(response: Response, request: OpenAIRequest) -> AnswerHeading:
    return AnswerHeading(response.id.removeprefix("rsp_"), request.model, _seconds(response.created_at))


def _seconds(time: str) -> int:
    return int(datetime.fromisoformat(time).timestamp())


def _read_openai_answer(response: Response) -> OpenAIAnswer:
    usage = response.usage
    return OpenAIAnswer(
        response.output or {},
        response.finish_reason,
        usage.input_tokens if usage else None,
        usage.output_tokens if usage else None,
    )


def _id_headers(response: Response, trace_id: str | None = None) -> dict[str, str]:
    ids = {
        "Session": response.session_id,
        "Branch": response.branch_id,
        "Snapshot": response.snapshot_id,
        "Release": response.alias_release_id,
        "Response": response.id,
        "Trace": response.trace_id or trace_id,
    }
    return {f"X-TraceForge-{name}": value for name, value in ids.items() if value}


def _failure_reason(response: Response) -> tuple[str, str]:
    if response.error is not None:
        return response.error.code, response.error.message
    return response.status.value, f"response {response.id} was {response.status.value}"


def _check_completed(response: Response) -> None:
    """Refuse a response without an answer.

    Raises:
        ErrorResponse: the model failed; its headers name what the store has of the call.
    """
    if response.status is not Progress.COMPLETED:
        raise _failure(response)


def _failure(response: Response) -> ErrorResponse:
    code, message = _failure_reason(response)
    error = ErrorResponse(_STATUS.get(code, 502), code, message)
    error.headers = _id_headers(response)
    return error

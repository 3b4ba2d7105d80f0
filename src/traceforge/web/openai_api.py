"""`/v1`: OpenAI's chat completions and Responses, with aliases for models and every call pinned.

In: requests as OpenAI's clients send them. Out: answers as OpenAI gives them, field by field, streams piece by piece;
what the store knows of a call stands in headers. Never: a field of ours in a body; a model asked what no snapshot
holds.

    X-TraceForge-Session      of a request: go on with this session; of an answer: the session it stands in
    X-TraceForge-Branch, -Snapshot, -Release, -Response, -Trace      of an answer
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from traceforge.canon import JSON, json_bytes
from traceforge.context.api.context_store import Store
from traceforge.context.api.error_responses import ErrorResponse
from traceforge.context.api.idempotency import EncodedResponse, make_key
from traceforge.context.api.idempotent_operations import start_response_once
from traceforge.context.api.request_decoding import read_json
from traceforge.context.model.inputs import NewResponse
from traceforge.context.model.objects import Alias, Progress, Response
from traceforge.context.responses.model_releases import check_params, resolve_release
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
from traceforge.web.event_streaming import TextPump, open_stream, send_frames, watch_for_disconnect
from traceforge.web.operation_routes import MethodNotAllowed
from traceforge.web.request_reading import Receive, Scope, Send, content_type_problem, read_body
from traceforge.wire.stream_assembly import StreamFrame

if TYPE_CHECKING:
    from traceforge.web.store_application import StoreApplication

SESSION = "x-traceforge-session"
MODELS_MAX = 100
_MODELS = "/models"
_STATUS = {"provider_timeout": 504}


class OpenAIEndpoint(NamedTuple):
    """One of the two endpoints."""

    path: str
    name: str
    read: Callable[[JSON], OpenAIRequest]
    build_answer: Callable[[AnswerHeading, OpenAIRequest, OpenAIAnswer], JSON]
    stream: Callable[[AnswerHeading, OpenAIRequest], ChatFrames | ResponseFrames]


_CHAT = OpenAIEndpoint(
    "/chat/completions", "v1_chat", read_chat, lambda heading, _, said: chat_completion(heading, said), ChatFrames
)
_RESPONSES = OpenAIEndpoint("/responses", "v1_responses", read_responses, response_object, ResponseFrames)
ENDPOINTS = {kind.path: kind for kind in (_CHAT, _RESPONSES)}


class OpenAIApplication:
    """The ASGI application below `/v1`."""

    def __init__(self, site: StoreApplication) -> None:
        self._site = site

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        headers: dict[str, str] = scope["state"]["headers"]
        if path == _MODELS or path.startswith(f"{_MODELS}/"):
            await self._models(scope, headers, path.removeprefix(_MODELS).removeprefix("/"), send)
            return
        kind = ENDPOINTS.get(path)
        if kind is None:
            raise ErrorResponse(404, "no_such_path", "there is nothing at this path")
        scope["state"]["operation"] = kind.name
        if scope["method"] != "POST":
            raise MethodNotAllowed(("POST",))
        token = self._site.service.token(headers)
        problem = content_type_problem(headers)
        if problem is not None:
            raise problem
        data = await read_body(headers, receive)
        key, session_id = headers.get("idempotency-key"), headers.get(SESSION)

        def begin() -> tuple[OpenAIRequest, RunningResponse | _RepeatedAnswer]:
            store = self._site.service.authorize(token, "write").store
            scope["state"]["project_id"] = store.project_id
            request = kind.read(read_json(data))
            return request, begin_call(store, kind, request, session_id, key)

        request, running = await self._site.in_thread(begin)
        if isinstance(running, _RepeatedAnswer):
            await _send_response(send, running.answer, _id_headers(running.response))
            return
        pump = TextPump(running, self._site.in_long_thread)
        # Who leaves with a key may come back for the answer.
        async with watch_for_disconnect(receive, running.cancel if key is None else _do_nothing):
            if request.stream:
                await self._stream(kind, request, running, pump, scope, send)
            else:
                await self._send_answer(kind, request, await pump.end(), send)

    async def _send_answer(
        self, kind: OpenAIEndpoint, request: OpenAIRequest, response: Response, send: Send
    ) -> None:
        if response.status is not Progress.COMPLETED:
            raise _failure(response)
        await _send_response(
            send, _encode_completed(kind, request, CompletedResponse(response, [], response)), _id_headers(response)
        )

    async def _stream(
        self,
        kind: OpenAIEndpoint,
        request: OpenAIRequest,
        responding: RunningResponse,
        pump: TextPump,
        scope: Scope,
        send: Send,
    ) -> None:
        """The head goes out with the first piece: until then, a model that fails is a status."""
        first = await anext(pump, None)
        if first is None:
            response = await pump.end()
            if response.status is not Progress.COMPLETED:
                raise _failure(response)
        frames = kind.stream(_heading(responding.running, request), request)
        scope["state"]["last_words"] = lambda refusal: frames.fail(refusal.code, refusal.message)
        await open_stream(send, 200, _id_headers(responding.running, responding.trace_id))
        await send_frames(send, frames.start())
        if first is not None:
            await send_frames(send, frames.text(first))
            async for text in pump:
                await send_frames(send, frames.text(text))
        await send_frames(send, _end(frames, await pump.end()), last=True)

    async def _models(self, scope: Scope, headers: dict[str, str], name: str, send: Send) -> None:
        """Every alias, or one."""
        scope["state"]["operation"] = "v1_models"
        if scope["method"] not in ("GET", "HEAD"):
            raise MethodNotAllowed(("GET",))
        token = self._site.service.token(headers)

        def work() -> bytes:
            store = self._site.service.authorize(token, "read").store
            scope["state"]["project_id"] = store.project_id
            if name:
                return json_bytes(_model(store.get_alias(name)))
            models = [_model(alias) for alias in _list_all_aliases(store)]
            return json_bytes({"object": "list", "data": models})

        body = await self._site.in_thread(work)
        head = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": body})


class _RepeatedAnswer(NamedTuple):
    """An answer that was given before."""

    answer: EncodedResponse
    response: Response


def begin_call(
    store: Store, kind: OpenAIEndpoint, request: OpenAIRequest, session_id: str | None, key: str | None
) -> RunningResponse | _RepeatedAnswer:
    """Pin what is asked, in one transaction: where it is refused, there is neither a session nor a message of it."""

    def make(joined: Store) -> NewResponse:
        check_params(request.parameters)
        resolve_release(
            joined.tx, request.model
        )  # First: a model that is not there is the reason, whatever else is wrong.
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
    assert running.response_id is not None, "a key is bound to the response that it began"
    repeated = running._replace(streamed=request.stream and running.status == 200)
    return _RepeatedAnswer(repeated, store.get_response(running.response_id))


def _encode_completed(kind: OpenAIEndpoint, request: OpenAIRequest, completed: CompletedResponse) -> EncodedResponse:
    """What a call is answered, from its beginning to its end: the same that is sent piece by piece."""
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


async def _send_response(send: Send, answer: EncodedResponse, headers: list[tuple[bytes, bytes]]) -> None:
    """An answer that is there as a whole."""
    if answer.streamed:
        await open_stream(send, answer.status, headers)
        await send_frames(send, [answer.body], last=True)
        return
    head = [(b"content-type", b"application/json"), (b"content-length", str(len(answer.body)).encode())]
    await send({"type": "http.response.start", "status": answer.status, "headers": [*head, *headers]})
    await send({"type": "http.response.body", "body": answer.body})


def _do_nothing() -> None:
    """Nobody is told."""


def _list_all_aliases(store: Store) -> list[Alias]:
    aliases: list[Alias] = []
    while True:
        page = store.list_aliases(limit=MODELS_MAX, after=aliases[-1].name if aliases else None)
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


def _id_headers(response: Response, trace_id: str | None = None) -> list[tuple[bytes, bytes]]:
    named = {
        "session": response.session_id,
        "branch": response.branch_id,
        "snapshot": response.snapshot_id,
        "release": response.alias_release_id,
        "response": response.id,
        "trace": response.trace_id or trace_id,
    }
    return [(f"x-traceforge-{name}".encode(), value.encode()) for name, value in named.items() if value]


def _failure_reason(response: Response) -> tuple[str, str]:
    if response.error is not None:
        return response.error.code, response.error.message
    return response.status.value, f"response {response.id} was {response.status.value}"


class FailedResponse(ErrorResponse):
    """A model that gave no answer: what the store knows of the call is in the headers."""

    def __init__(self, status: int, code: str, message: str, headers: list[tuple[bytes, bytes]]) -> None:
        super().__init__(status, code, message)
        self.headers = headers


def _failure(response: Response) -> FailedResponse:
    code, message = _failure_reason(response)
    return FailedResponse(_STATUS.get(code, 502), code, message, _id_headers(response))

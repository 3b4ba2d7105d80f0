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
from traceforge.context.api.error_bodies import Refusal
from traceforge.context.api.idempotency import Answer, key_of
from traceforge.context.api.idempotent_operations import open_once
from traceforge.context.api.request_decoding import read_json
from traceforge.context.model.inputs import NewResponse
from traceforge.context.model.objects import Alias, Progress, Response
from traceforge.context.responses.model_releases import check_params, resolve
from traceforge.context.responses.openai_sessions import pin
from traceforge.context.responses.openai_shape import (
    Asked,
    ChatStream,
    Heading,
    ResponseStream,
    Said,
    chat_completion,
    read_chat,
    read_responses,
    response_object,
)
from traceforge.context.responses.response_generation import Responding, begin
from traceforge.context.responses.response_generation import Said as Told
from traceforge.web.door import Receive, Scope, Send, content_type_problem, read_body
from traceforge.web.routes import WrongMethod
from traceforge.web.streaming import Pump, noticing, open_stream, put
from traceforge.wire.stream_assembly import StreamFrame

if TYPE_CHECKING:
    from traceforge.web.app import Site

SESSION = "x-traceforge-session"
MODELS_MAX = 100
_MODELS = "/models"
_STATUS = {"provider_timeout": 504}


class Kind(NamedTuple):
    """One of the two endpoints."""

    path: str
    name: str
    read: Callable[[JSON], Asked]
    whole: Callable[[Heading, Asked, Said], JSON]
    stream: Callable[[Heading, Asked], ChatStream | ResponseStream]


_CHAT = Kind(
    "/chat/completions", "v1_chat", read_chat, lambda heading, _, said: chat_completion(heading, said), ChatStream
)
_RESPONSES = Kind("/responses", "v1_responses", read_responses, response_object, ResponseStream)
KINDS = {kind.path: kind for kind in (_CHAT, _RESPONSES)}


class OpenAI:
    """The ASGI application below `/v1`."""

    def __init__(self, site: Site) -> None:
        self._site = site

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        headers: dict[str, str] = scope["state"]["headers"]
        if path == _MODELS or path.startswith(f"{_MODELS}/"):
            await self._models(scope, headers, path.removeprefix(_MODELS).removeprefix("/"), send)
            return
        kind = KINDS.get(path)
        if kind is None:
            raise Refusal(404, "no_such_path", "there is nothing at this path")
        scope["state"]["operation"] = kind.name
        if scope["method"] != "POST":
            raise WrongMethod(("POST",))
        token = self._site.service.token(headers)
        problem = content_type_problem(headers)
        if problem is not None:
            raise problem
        data = await read_body(headers, receive)
        key, session_id = headers.get("idempotency-key"), headers.get(SESSION)

        def begin() -> tuple[Asked, Responding | _Again]:
            store = self._site.service.admit(token, "write").store
            scope["state"]["project_id"] = store.project_id
            asked = kind.read(read_json(data))
            return asked, begin_call(store, kind, asked, session_id, key)

        asked, found = await self._site.in_thread(begin)
        if isinstance(found, _Again):
            await _say(send, found.answer, _ids(found.response))
            return
        pump = Pump(found, self._site.in_long_thread)
        # Who leaves with a key may come back for the answer.
        async with noticing(receive, found.cancel if key is None else _nothing):
            if asked.stream:
                await self._stream(kind, asked, found, pump, scope, send)
            else:
                await self._whole(kind, asked, await pump.end(), send)

    async def _whole(self, kind: Kind, asked: Asked, response: Response, send: Send) -> None:
        if response.status is not Progress.COMPLETED:
            raise _failure(response)
        await _say(send, _answer(kind, asked, Told(response, [], response)), _ids(response))

    async def _stream(
        self, kind: Kind, asked: Asked, responding: Responding, pump: Pump, scope: Scope, send: Send
    ) -> None:
        """The head goes out with the first piece: until then, a model that fails is a status."""
        first = await anext(pump, None)
        if first is None:
            response = await pump.end()
            if response.status is not Progress.COMPLETED:
                raise _failure(response)
        frames = kind.stream(_heading(responding.running, asked), asked)
        scope["state"]["last_words"] = lambda refusal: frames.fail(refusal.code, refusal.message)
        await open_stream(send, 200, _ids(responding.running, responding.trace_id))
        await put(send, frames.start())
        if first is not None:
            await put(send, frames.text(first))
            async for text in pump:
                await put(send, frames.text(text))
        await put(send, _end(frames, await pump.end()), last=True)

    async def _models(self, scope: Scope, headers: dict[str, str], name: str, send: Send) -> None:
        """Every alias, or one."""
        scope["state"]["operation"] = "v1_models"
        if scope["method"] not in ("GET", "HEAD"):
            raise WrongMethod(("GET",))
        token = self._site.service.token(headers)

        def work() -> bytes:
            store = self._site.service.admit(token, "read").store
            scope["state"]["project_id"] = store.project_id
            if name:
                return json_bytes(_model(store.get_alias(name)))
            found = [_model(one) for one in _every_alias(store)]
            return json_bytes({"object": "list", "data": found})

        body = await self._site.in_thread(work)
        head = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": body})


class _Again(NamedTuple):
    """An answer that was given before."""

    answer: Answer
    response: Response


def begin_call(
    store: Store, kind: Kind, asked: Asked, session_id: str | None, key: str | None
) -> Responding | _Again:
    """Pin what is asked, in one transaction: where it is refused, there is neither a session nor a message of it."""

    def make(joined: Store) -> NewResponse:
        check_params(asked.parameters)
        resolve(joined.tx, asked.model)  # First: a model that is not there is the reason, whatever else is wrong.
        return pin(joined, asked, session_id)

    if key is None:
        return begin(store, make, stream=asked.stream)
    known = key_of(f"/v1{kind.path}", key, [session_id, asked.body])
    found = open_once(store, make, known, lambda told: _answer(kind, asked, told), stream=asked.stream)
    if isinstance(found, Responding):
        return found
    assert found.response_id is not None, "a key is bound to the response that it began"
    again = found._replace(streamed=asked.stream and found.status == 200)
    return _Again(again, store.get_response(found.response_id))


def _answer(kind: Kind, asked: Asked, told: Told) -> Answer:
    """What a call is answered, from its beginning to its end: the same that is sent piece by piece."""
    final = told.final
    completed = final.status is Progress.COMPLETED
    if not completed and not (asked.stream and told.texts):
        failure = _failure(final)
        return Answer(failure.status, failure.body())
    heading = _heading(told.running, asked)
    if not asked.stream:
        return Answer(200, json_bytes(kind.whole(heading, asked, _said(final))))
    frames = kind.stream(heading, asked)
    pieces = [*frames.start(), *(one for text in told.texts for one in frames.text(text)), *_end(frames, final)]
    return Answer(200, b"".join(pieces), streamed=True)


def _end(frames: ChatStream | ResponseStream, response: Response) -> list[StreamFrame]:
    if response.status is Progress.COMPLETED:
        return frames.finish(_said(response))
    return frames.fail(*_why(response))


async def _say(send: Send, answer: Answer, headers: list[tuple[bytes, bytes]]) -> None:
    """An answer that is there as a whole."""
    if answer.streamed:
        await open_stream(send, answer.status, headers)
        await put(send, [answer.body], last=True)
        return
    head = [(b"content-type", b"application/json"), (b"content-length", str(len(answer.body)).encode())]
    await send({"type": "http.response.start", "status": answer.status, "headers": [*head, *headers]})
    await send({"type": "http.response.body", "body": answer.body})


def _nothing() -> None:
    """Nobody is told."""


def _every_alias(store: Store) -> list[Alias]:
    found: list[Alias] = []
    while True:
        page = store.list_aliases(limit=MODELS_MAX, after=found[-1].name if found else None)
        found += page.data
        if not page.has_more:
            return found


def _model(alias: Alias) -> JSON:
    return {"id": alias.name, "object": "model", "created": _seconds(alias.created_at), "owned_by": "traceforge"}


def _heading(response: Response, asked: Asked) -> Heading:
    return Heading(response.id.removeprefix("rsp_"), asked.model, _seconds(response.created_at))


def _seconds(time: str) -> int:
    return int(datetime.fromisoformat(time).timestamp())


def _said(response: Response) -> Said:
    usage = response.usage
    return Said(
        response.output or {},
        response.finish_reason,
        usage.input_tokens if usage else None,
        usage.output_tokens if usage else None,
    )


def _ids(response: Response, trace_id: str | None = None) -> list[tuple[bytes, bytes]]:
    named = {
        "session": response.session_id,
        "branch": response.branch_id,
        "snapshot": response.snapshot_id,
        "release": response.alias_release_id,
        "response": response.id,
        "trace": response.trace_id or trace_id,
    }
    return [(f"x-traceforge-{name}".encode(), value.encode()) for name, value in named.items() if value]


def _why(response: Response) -> tuple[str, str]:
    if response.error is not None:
        return response.error.code, response.error.message
    return response.status.value, f"response {response.id} was {response.status.value}"


class Failed(Refusal):
    """A model that gave no answer: what the store knows of the call is in the headers."""

    def __init__(self, status: int, code: str, message: str, headers: list[tuple[bytes, bytes]]) -> None:
        super().__init__(status, code, message)
        self.headers = headers


def _failure(response: Response) -> Failed:
    code, told = _why(response)
    return Failed(_STATUS.get(code, 502), code, told, _ids(response))

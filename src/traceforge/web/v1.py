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
from traceforge.context.decoding import read_json
from traceforge.context.objects import Alias, Progress, Response
from traceforge.context.openai_shape import (
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
from traceforge.context.pinning import pin
from traceforge.context.refusals import Refusal
from traceforge.context.responding import Responding
from traceforge.context.store import Store
from traceforge.web.door import Receive, Scope, Send, content_type_problem, read_body
from traceforge.web.routes import WrongMethod
from traceforge.web.streaming import Pump, noticing, open_stream, put

if TYPE_CHECKING:
    from traceforge.web.app import Site

SESSION = "x-traceforge-session"
MODELS_MAX = 100
_STATUS = {"provider_timeout": 504}


class Kind(NamedTuple):
    """One of the two endpoints."""

    name: str
    read: Callable[[JSON], Asked]
    whole: Callable[[Heading, Asked, Said], JSON]
    stream: Callable[[Heading, Asked], ChatStream | ResponseStream]


KINDS = {
    "/chat/completions": Kind(
        "v1_chat", read_chat, lambda heading, _, said: chat_completion(heading, said), ChatStream
    ),
    "/responses": Kind("v1_responses", read_responses, response_object, ResponseStream),
}


class OpenAI:
    """The ASGI application below `/v1`."""

    def __init__(self, site: Site) -> None:
        self._site = site

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        headers: dict[str, str] = scope["state"]["headers"]
        if path == "/models":
            await self._models(scope, headers, send)
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

        def begin() -> tuple[Asked, Responding]:
            caller = self._site.service.admit(token, "write")
            scope["state"]["project_id"] = caller.store.project_id
            asked = kind.read(read_json(data))
            return asked, _begin(caller.store, asked, headers.get(SESSION))

        asked, responding = await self._site.in_thread(begin)
        pump = Pump(responding, self._site.in_long_thread)
        async with noticing(receive, responding.cancel):
            if asked.stream:
                await self._stream(kind, asked, responding, pump, send)
            else:
                await self._whole(kind, asked, await pump.end(), send)

    async def _whole(self, kind: Kind, asked: Asked, response: Response, send: Send) -> None:
        if response.status is not Progress.COMPLETED:
            raise _failure(response)
        body = json_bytes(kind.whole(_heading(response, asked), asked, _said(response)))
        head = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": [*head, *_ids(response)]})
        await send({"type": "http.response.body", "body": body})

    async def _stream(self, kind: Kind, asked: Asked, responding: Responding, pump: Pump, send: Send) -> None:
        """The head goes out with the first piece: until then, a model that fails is a status."""
        first = await anext(pump, None)
        if first is None:
            response = await pump.end()
            if response.status is not Progress.COMPLETED:
                raise _failure(response)
        running = await self._site.in_thread(lambda: responding.running)
        frames = kind.stream(_heading(running, asked), asked)
        await open_stream(send, 200, _ids(running, responding.trace_id))
        await put(send, frames.start())
        if first is not None:
            await put(send, frames.text(first))
            async for text in pump:
                await put(send, frames.text(text))
        response = await pump.end()
        if response.status is Progress.COMPLETED:
            await put(send, frames.finish(_said(response)), last=True)
        else:
            code, told = _why(response)
            await put(send, frames.fail(code, told), last=True)

    async def _models(self, scope: Scope, headers: dict[str, str], send: Send) -> None:
        scope["state"]["operation"] = "v1_models"
        if scope["method"] not in ("GET", "HEAD"):
            raise WrongMethod(("GET",))
        token = self._site.service.token(headers)

        def work() -> bytes:
            store = self._site.service.admit(token, "read").store
            scope["state"]["project_id"] = store.project_id
            found = [_model(one) for one in _every_alias(store)]
            return json_bytes({"object": "list", "data": found})

        body = await self._site.in_thread(work)
        head = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": body})


def _begin(store: Store, asked: Asked, session_id: str | None) -> Responding:
    from traceforge.context.releases import check_params, resolve

    check_params(asked.parameters)
    store.write(lambda tx: resolve(tx, asked.model))  # Before a session is made for a model that is not there.
    return store.begin_response(pin(store, asked, session_id))


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

"""No secret of a call is in any stored byte: not in a segment, a file, a chunk, the index or an archive."""

from __future__ import annotations

import base64
import gzip
import json
import os
import shutil
import tempfile
import zlib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from urllib.parse import quote, quote_plus

import brotli
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from support.exchanges import COMPOSER, HOST, JSON_TYPE, timestamp, trace_id
from support.fake_secrets import SECRETS, draw
from support.json_texts import fuzz
from support.wire_transcripts import CHAT, GEMINI, MESSAGES, OLLAMA_CHAT, OLLAMA_GENERATE, RESPONSES
from traceforge.exchange import Caller, CallOutcome, Chunk, Exchange
from traceforge.redact.redactor import Redactor
from traceforge.traces.spool import SpoolWriter
from traceforge.traces.trace_archive import TraceArchive, find_archives
from traceforge.traces.trace_composer import TraceComposer
from traceforge.traces.trace_index import TraceFilter
from traceforge.traces.trace_store import TraceStore

BATCH = 12
WORDS = (
    "the",
    "model",
    "said",
    "naïve",
    "请",
    "😀",
    "max_tokens",
    "=",
    ":",
    "{",
    "}",
    '"',
    "\\",
    "\n",
    "(",
    "12",
    "--",
)
SECRET_NAMES = ("password", "client_secret", "api_key", "accessToken", "X-Api-Key", "private-key")
FORM = "application/x-www-form-urlencoded"
SSE, NDJSON = "text/event-stream", "application/x-ndjson"
CODERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress, "deflate": zlib.compress, "br": lambda data: brotli.compress(data, quality=1),
    "zstd": zstandard.compress,
}  # fmt: skip


class Planted(NamedTuple):
    """A secret and its place in the call."""

    secret: str
    where: str
    complete: bool = True  # Then no part of it may be stored either; a truncated body may end inside it.


class Plan:
    """One call with secrets in it."""

    def __init__(self, source: Random) -> None:
        self.source = source
        self.planted: list[Planted] = []
        self.echo = ""

    def secret(self, where: str, *, complete: bool = True) -> str:
        """A new secret, or again that of the request."""
        if self.echo and self.source.random() < 0.4:
            secret = self.echo
        else:
            secret = SECRETS[self.source.choice(sorted(SECRETS))](self.source)
        self.planted.append(Planted(secret, where, complete))
        return secret

    def password(self, where: str) -> str:
        """A secret that only its name identifies."""
        password = draw(self.source, self.source.choice([8, 12, 30]))
        self.planted.append(Planted(password, where))
        return password

    def prose(self) -> str:
        """Words, ended by white space or punctuation: a secret glued to a word would be another word."""
        words = " ".join(self.source.choices(WORDS, k=self.source.randrange(8)))
        return words + self.source.choice([" ", "\n", '"', "("])

    def text(self, where: str, *, complete: bool = True) -> str:
        """Prose, usually with a secret in it."""
        if self.source.random() < 0.3:
            return self.prose()
        before, secret = self.prose(), self.secret(where, complete=complete)
        return f"{before}{secret}{self.source.choice([' ', '.', ')'])} {self.prose()}"

    def value(self, where: str, depth: int = 0) -> Any:
        """A JSON value with secrets at any depth, also in JSON inside of texts, and under secret names."""
        how = self.source.random()
        if depth == 3 or how < 0.3:
            return self.text(where)
        if how < 0.4:
            return json.dumps(self.value(where, depth + 1), ensure_ascii=self.source.random() < 0.5)
        if how < 0.6:
            return [self.source.randrange(99), self.value(where, depth + 1), None, self.text(where)]
        members = {"a": self.value(where, depth + 1), "n": self.source.random(), "text": self.text(where)}
        if self.source.random() < 0.4:
            members[self.source.choice(SECRET_NAMES)] = self.password(where)
        if self.source.random() < 0.1:
            members[self.secret(where)] = 1
        return members

    def arguments(self, where: str, *, complete: bool = True) -> str:
        """The arguments of a tool call."""
        arguments = {"to": self.text(where, complete=complete), "n": 3}
        if self.source.random() < 0.3 and complete:
            arguments["password"] = self.password(where)
        return json.dumps(arguments, ensure_ascii=self.source.random() < 0.5)

    def dumps(self, value: Any) -> bytes:
        """JSON in any spelling; sometimes with a repeated key."""
        text = json.dumps(
            value, ensure_ascii=self.source.random() < 0.5, indent=self.source.choice([None, None, 2]),
            separators=self.source.choice([None, (",", ":")]),
        )  # fmt: skip
        if isinstance(value, dict) and self.source.random() < 0.1:
            text = '{"zz": ' + json.dumps(self.secret("replaced member")) + ', "zz": 1,' + text.lstrip()[1:]
        return text.encode()

    def pieces(self, text: str) -> list[str]:
        cuts = sorted(self.source.randrange(len(text) + 1) for _ in range(self.source.randrange(7)))
        return [text[first:second] for first, second in pairwise([0, *cuts, len(text)])]


def _request(plan: Plan, address: str) -> tuple[bytes, str]:
    source = plan.source
    how = source.random()
    if how < 0.1:
        names = ["q", "to", source.choice(SECRET_NAMES)]
        values = [plan.text("form"), plan.secret("form"), plan.password("form")]
        joined = "&".join(f"{name}={quote_plus(value)}" for name, value in zip(names, values, strict=True))
        return joined.encode(), FORM
    if how < 0.2:
        return plan.text("text body").encode(), source.choice(["text/plain", "", JSON_TYPE])
    content = plan.text("prompt")
    if plan.planted:
        plan.echo = plan.planted[-1].secret
    if address == GEMINI:
        body: dict[str, Any] = {"contents": [{"role": "user", "parts": [{"text": content}]}]}
    elif address == OLLAMA_GENERATE:
        body = {"model": "m", "prompt": content}
    elif address == RESPONSES:
        body = {"model": "m", "input": content, "instructions": plan.text("instructions")}
    else:
        called = {"name": "f", "arguments": plan.arguments("arguments sent")}
        messages: list[Any] = [{"role": "user", "content": content}]
        if address == CHAT:
            messages.append(
                {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": called}]}
            )
        body = {"model": "m", "messages": messages, "max_tokens": 5}
    if source.random() < 0.5:
        body["metadata"] = plan.value("metadata")
    return plan.dumps(body), JSON_TYPE


def _whole_answer(plan: Plan, address: str) -> Any:
    text = plan.text("answer")
    if address == GEMINI:
        part = (
            {"functionCall": {"name": "f", "args": plan.value("args")}}
            if plan.source.random() < 0.4
            else {"text": text}
        )
        return {"candidates": [{"content": {"parts": [part, {"text": plan.text("part")}], "role": "model"}}]}
    if address == MESSAGES:
        tool = {"type": "tool_use", "id": "t", "name": "f", "input": {"a": plan.value("input")}}
        return {"id": "m", "type": "message", "role": "assistant", "model": "c", "stop_reason": "end_turn",
                "content": [{"type": "text", "text": text}, tool], "usage": {"input_tokens": 1}}  # fmt: skip
    if address == RESPONSES:
        content = [{"type": "output_text", "text": text, "annotations": []}]
        output = [
            {"type": "message", "id": "i", "role": "assistant", "content": content},
            {"type": "function_call", "name": "f", "call_id": "c", "arguments": plan.arguments("arguments")},
        ]
        return {"id": "r", "object": "response", "status": "completed", "model": "m", "output": output}
    if address == OLLAMA_CHAT:
        return {"model": "m", "message": {"role": "assistant", "content": text}, "done": True}
    if address == OLLAMA_GENERATE:
        return {"model": "m", "response": text, "done": True}
    called = {"name": "f", "arguments": plan.arguments("arguments")}
    message = {
        "role": "assistant",
        "content": text,
        "tool_calls": [{"id": "c", "type": "function", "function": called}],
    }
    return {"id": "c", "object": "chat.completion", "created": 1, "model": "m",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}  # fmt: skip


def _events(plan: Plan, address: str, complete: bool) -> list[dict[str, Any]]:
    """The same answer as events, with every text in pieces."""
    texts = plan.pieces(plan.text("streamed answer", complete=complete))
    if address == GEMINI:
        return [{"candidates": [{"content": {"parts": [{"text": text}], "role": "model"}}]} for text in texts]
    if address == OLLAMA_CHAT:
        return [{"message": {"role": "assistant", "content": text}, "done": False} for text in texts] + [
            {"done": True}
        ]
    if address == OLLAMA_GENERATE:
        return [{"response": text, "done": False} for text in texts] + [{"response": "", "done": True}]
    pieces = plan.pieces(plan.arguments("streamed arguments", complete=complete))
    if address == MESSAGES:
        name = plan.source.choice(["text", "thinking"])
        start = {"id": "m", "type": "message", "role": "assistant", "model": "c", "content": [], "usage": {}}
        tool = {"type": "tool_use", "id": "t", "name": "f", "input": {}}

        def delta(index: int, **fields: str) -> dict[str, Any]:
            return {"type": "content_block_delta", "index": index, "delta": fields}

        return [
            {"type": "message_start", "message": start},
            {"type": "content_block_start", "index": 0, "content_block": {"type": name, name: ""}},
            *(delta(0, type=f"{name}_delta", **{name: text}) for text in texts),
            {"type": "content_block_stop", "index": 0},
            {"type": "content_block_start", "index": 1, "content_block": tool},
            *(delta(1, type="input_json_delta", partial_json=piece) for piece in pieces),
            {"type": "content_block_stop", "index": 1},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
            {"type": "message_stop"},
        ]  # fmt: skip
    if address == RESPONSES:
        content = [{"type": "output_text", "text": "".join(texts)}]
        message = {"type": "message", "id": "i", "role": "assistant", "content": content}
        completed = {"id": "r", "object": "response", "status": "completed", "model": "m", "output": [message]}
        place = {"output_index": 0, "content_index": 0, "item_id": "i"}
        return [
            {"type": "response.created", "response": {"id": "r", "object": "response", "status": "in_progress"}},
            *({"type": "response.output_text.delta", **place, "delta": text} for text in texts),
            {"type": "response.output_text.done", **place, "text": "".join(texts)},
            *({"type": "response.function_call_arguments.delta", "output_index": 1, "item_id": "j", "delta": piece}
              for piece in pieces),
            {"type": "response.completed", "response": completed},
        ]  # fmt: skip

    def chunk(delta: dict[str, Any]) -> dict[str, Any]:
        return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
                "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}  # fmt: skip

    name = plan.source.choice(["content", "reasoning_content", "refusal"])
    return [
        *(chunk({name: text}) for text in texts),
        *(chunk({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}) for piece in pieces),
    ]


def _stream(plan: Plan, address: str, complete: bool) -> tuple[bytes, str]:
    source = plan.source
    ascii_only = source.random() < 0.5
    values = [json.dumps(event, ensure_ascii=ascii_only).encode() for event in _events(plan, address, complete)]
    if address in (OLLAMA_CHAT, OLLAMA_GENERATE):
        return b"".join(value + b"\n" for value in values), source.choice(
            [NDJSON, "application/ndjson", JSON_TYPE, ""]
        )
    if address == GEMINI and source.random() < 0.5:
        return b"[" + source.choice([b",", b",\r\n", b"\n,\n"]).join(values) + b"]", JSON_TYPE
    end = source.choice([b"\n", b"\n", b"\r\n"])
    start = source.choice([b"data: ", b"data: ", b"data:"])
    noise = source.choice([b"", b": keep-alive" + end + end, b"event: x" + end, b"id: 1" + end, b"retry: 5" + end])
    body = noise + b"".join(start + value + end + end for value in values)
    if address == CHAT:
        body += start + b"[DONE]" + end + end
    return body, source.choice([SSE, SSE, f"{SSE}; charset=utf-8", "", "text/plain"])


def _answer(plan: Plan, address: str) -> tuple[int, bytes, str, bool]:
    source = plan.source
    how = source.random()
    if how < 0.1:
        error = {"error": {"message": plan.text("error message"), "type": "x", "param": plan.value("error")}}
        return source.choice([400, 401, 500, 200]), plan.dumps(error), JSON_TYPE, True
    if how < 0.17:
        return source.choice([200, 502]), f"<html>{plan.text('page')}</html>".encode(), "text/html", True
    if how < 0.45:
        return 200, plan.dumps(_whole_answer(plan, address)), source.choice([JSON_TYPE, JSON_TYPE, ""]), True
    complete = source.random() < 0.75
    body, media_type = _stream(plan, address, complete)
    return 200, body if complete else body[: source.randrange(len(body) + 1)], media_type, complete


def make_call(source: Random, number: int) -> tuple[Exchange, list[Planted]]:
    """A random call, and every secret in it."""
    plan = Plan(source)
    address = source.choice([CHAT, MESSAGES, GEMINI, RESPONSES, OLLAMA_CHAT, OLLAMA_GENERATE])
    request, asked_as = _request(plan, address)
    asked_headers = [("Content-Type", asked_as), ("Authorization", f"Bearer {plan.password('authorization')}")]
    if source.random() < 0.2:
        encoding = source.choice(sorted(CODERS))
        request = CODERS[encoding](request)
        asked_headers.append(("Content-Encoding", encoding))
    url = HOST + address
    if source.random() < 0.5:
        url += f"?{source.choice(['key', 'api_key', 'token'])}={plan.password('parameter')}"
        url += f"&q={quote(plan.secret('parameter'), safe='')}"
    if source.random() < 0.3:
        asked_headers.append(("X-Note", plan.text("header").replace("\n", " ")))
        asked_headers.append((source.choice(["Cookie", "X-Api-Key"]), plan.password("header")))
    status, body, media_type, complete = _answer(plan, address)
    said_headers = [("Content-Type", media_type), ("Set-Cookie", f"s={plan.password('set-cookie')}; Path=/")]
    if source.random() < 0.3:
        said_headers.append(("X-Upstream", plan.text("response header").replace("\n", " ")))
    if body and source.random() < 0.4:
        encoding = source.choice(sorted(CODERS))
        body = CODERS[encoding](body)
        if not complete and source.random() < 0.5:
            body = body[: source.randrange(len(body)) + 1]
        said_headers.append(("Content-Encoding", encoding))
    failed = source.random() < 0.05
    caller = Caller()
    if source.random() < 0.3:
        file = f"/home/{plan.secret('source')}/a.py:7:f".replace("\n", " ")
        texts = [plan.text(where) for where in ("scope", "session", "parent")]
        caller = Caller(file, texts[0], texts[1], 1, texts[2], {"state": plan.value("state")})
    exchange = Exchange(
        trace_id(number), timestamp(number), "POST", url, tuple(asked_headers), request,
        0 if failed else status, () if failed else tuple(said_headers), () if failed else _chunks(source, body),
        source.random() * 99, CallOutcome.FAILED if failed else source.choice(list(CallOutcome)),
        plan.text("reason") if source.random() < 0.3 else "", caller,
    )  # fmt: skip
    parts = {planted_secret.secret for planted_secret in plan.planted if not planted_secret.complete}
    return exchange, [
        planted_secret._replace(complete=planted_secret.secret not in parts) for planted_secret in plan.planted
    ]


def _chunks(source: Random, body: bytes) -> tuple[Chunk, ...]:
    size = source.choice([1, 3, 17, 200, 10**6])
    count = min(len(body) // size, 40)
    cuts = sorted(source.randrange(len(body) + 1) for _ in range(count))
    return tuple(Chunk(1.0, body[first:second]) for first, second in pairwise([0, *cuts, len(body)]))


def forms(planted: Planted) -> set[bytes]:
    """The forms of a secret on a disk: plain, escaped, encoded; and its end, where no part may be stored."""
    secret = planted.secret
    texts = {secret, json.dumps(secret)[1:-1], json.dumps(json.dumps(secret)[1:-1])[1:-1]}
    texts |= {quote(secret, safe=""), quote_plus(secret), secret.replace("@", "%40")}
    if planted.complete and len(secret) >= 20 and "PRIVATE KEY" not in secret:
        texts.add(secret[-14:])
    for shift in range(3):
        encoded = base64.b64encode(b"\0" * shift + secret.encode()).decode()
        texts.add(encoded[4 if shift else 0 : -4])
    return {text.encode() for text in texts if len(text) >= 6}


def scan(folder: Path, planted: list[Planted]) -> list[tuple[str, str, str]]:
    """Every file with a secret, the secret, and its place in the call."""
    wanted = [(form, secret) for secret in planted for form in forms(secret)]
    leaks = []
    for root, _, names in os.walk(folder):
        for name in names:
            data = (Path(root) / name).read_bytes()
            leaks += [(name, secret.secret, secret.where) for form, secret in wanted if form in data]
    return leaks


def scan_archives(folder: Path, planted: list[Planted]) -> list[tuple[str, str, str]]:
    """The same for decompressed archives."""
    wanted = [(form, secret) for secret in planted for form in forms(secret)]
    leaks = []
    for path in find_archives(str(folder)):
        archive = TraceArchive(path)
        for number in range(len(archive.entries)):
            entry = archive.read_entry(number)
            data = entry.trace + entry.chunks + entry.summary.to_bytes()
            leaks += [(path, secret.secret, secret.where) for form, secret in wanted if form in data]
    return leaks


def check(seed: int, composer: TraceComposer = COMPOSER) -> None:
    """Record a batch of calls in every way, and search every byte after each step."""
    source = Random(seed)
    folder = Path(tempfile.mkdtemp(prefix="tf-secrets-"))
    store = TraceStore(str(folder))
    try:
        planted: list[Planted] = []
        writer = SpoolWriter(str(folder))
        for number in range(1, BATCH + 1):
            exchange, secrets = make_call(source, number)
            planted += secrets
            writer.append(composer.compose(exchange))
        assert [] == scan(folder, planted), "in the spool"
        writer.seal()
        store.update_index()
        store.search("model", TraceFilter(), 5)
        assert BATCH == store.count_traces(TraceFilter())
        assert [] == scan(folder, planted), "in files, chunks and the index"
        store.compress_traces(store.list_rows())
        store.update_index()
        assert BATCH == store.count_traces(TraceFilter())
        assert [] == scan(folder, planted), "beside archives"
        assert [] == scan_archives(folder, planted), "in archives"
    finally:
        store.close()
        shutil.rmtree(folder)


@fuzz(25)
@given(st.integers(0, 2**32))
def test_no_secret_of_a_call_is_stored(seed: int) -> None:
    """In any place, encoding or number of pieces."""
    check(seed)


@pytest.mark.slow(seconds=40)
@fuzz(300)
@given(st.integers(0, 2**32))
def test_no_secret_of_thousands_of_calls_is_stored(seed: int) -> None:
    """Three thousand and more, with no shared composer; `make soak` tries the property above with thirty thousand."""
    check(seed, TraceComposer(Redactor(), b"key"))

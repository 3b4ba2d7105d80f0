"""Secrets of an exchange do not reach its trace, also where an answer repeats them."""

from __future__ import annotations

import base64
import gzip
import json
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from support.exchanges import COMPOSER, REDACTOR, chat_answer, chat_request, fill_markers, make_exchange, trace_body
from support.fake_secrets import SECRETS
from support.wire_transcripts import CHAT, GEMINI, MESSAGES, NDJSON, OLLAMA_CHAT, RESPONSES, SSE, ndjson, sse
from traceforge.exchange import Caller, CallOutcome
from traceforge.redact.redactions import REDACTED
from traceforge.traces.chunk_file import read_chunks
from traceforge.traces.trace_composer import TraceComposer

MAIL = "ann.lee@corp-example.org"


# ---------------------------------------------------------------------------------------------
# Secrets


def test_redactions_are_listed_without_their_values() -> None:
    """Places and types; a fingerprint where there is a key, and the same for the same value."""
    exchange = make_exchange(CHAT, chat_request(f"I am {MAIL}", user=MAIL), chat_answer("hello"))

    plain = trace_body(COMPOSER.compose(exchange))["redacted"]["request"]
    keyed = [
        trace_body(TraceComposer(REDACTOR, key).compose(exchange))["redacted"]["request"]
        for key in (b"k", b"k", b"other")
    ]

    assert [{"path", "type"}] * len(plain) == [set(entry) for entry in plain]
    assert keyed[0] == keyed[1]
    by_path = [{entry["path"]: entry["fingerprint"] for entry in entries if MAIL} for entries in keyed]
    assert by_path[0]["$.messages[0].content"] == by_path[0]["$.user"]
    assert by_path[0]["$.user"] != by_path[2]["$.user"]


def test_session_scope_parent_and_state_are_redacted() -> None:
    """Session, scope, parent and state."""
    caller = Caller("a.py:7:f", f"t[{MAIL}]", f"s {MAIL}", 3, f"p {MAIL}", {"user": {"mail": MAIL}, "n": 1})

    body = trace_body(COMPOSER.compose(make_exchange(CHAT, chat_request("x"), chat_answer("y"), caller=caller)))

    assert MAIL not in json.dumps(body)
    assert {"file": "a.py", "line": 7, "function": "f"} == body["source"]
    assert ({"user": {"mail": REDACTED}, "n": 1}, 3) == (body["state_snapshot"], body["step_index"])


def test_a_secret_in_the_url_is_not_stored() -> None:
    """Not in the URL, not in the path, not as the name of the model."""
    key = SECRETS["GOOGLE_API_KEY"](Random(3))
    for address in (f"/v1beta/models/{MAIL}:generateContent?key={key}", f"/v1beta/models/{key}:generateContent",
                    f"/openai/deployments/{MAIL.replace('@', '%40')}/chat/completions"):  # fmt: skip
        stored = COMPOSER.compose(make_exchange(address, b"{}", b"{}"))

        for secret in (MAIL, MAIL.replace("@", "%40"), key):
            assert secret.encode() not in stored.trace + stored.summary.to_bytes()


def test_a_response_with_truncated_compression_is_redacted() -> None:
    """What could be decoded is kept, cleaned; nothing is kept as it was sent."""
    body = gzip.compress(json.dumps(chat_answer(f"to {MAIL} " + "x" * 50)).encode())

    for size in range(30, len(body), 7):
        stored = COMPOSER.compose(
            make_exchange(CHAT, body[:size], body[:size], encoding="gzip", headers=[("Content-Encoding", "gzip")])
        )

        assert MAIL.encode() not in stored.trace
        assert '"b64"' not in json.dumps(trace_body(stored))


KEY = SECRETS["OPENAI_KEY"](Random(4))
HALVES = [{"type": "text", "text": half} for half in (KEY[:12], KEY[12:])]
OUTPUT = [{"type": "message", "role": "assistant", "content": [{**half, "type": "output_text"} for half in HALVES]}]
IN_PARTS: dict[str, tuple[str, Any, Any]] = {
    "gemini": (GEMINI, {}, {"candidates": [{"content": {"parts": HALVES, "role": "model"}}]}),
    "anthropic": (
        MESSAGES,
        {"system": HALVES},
        {"id": "m", "type": "message", "role": "assistant", "content": HALVES},
    ),
    "responses": (RESPONSES, {}, {"id": "r", "object": "response", "status": "completed", "output": OUTPUT}),
}


@pytest.mark.parametrize("provider", IN_PARTS)
def test_a_view_that_joins_parts_holds_no_secret(provider: str) -> None:
    """What stands apart in the body may be a secret once it stands together."""
    address, request, answer = IN_PARTS[provider]

    stored = COMPOSER.compose(make_exchange(address, {"model": "m", **request}, answer))

    assert KEY.encode() not in stored.trace


def _over_lines(event: Any) -> str:
    return "".join(f"data: {line}\n" for line in json.dumps(event, indent=1).split("\n")) + "\n"


@pytest.mark.parametrize("name", ["content", "something_new"])
def test_a_stream_with_unusual_events_reveals_no_secret(name: str) -> None:
    """An event over several lines, and a text in an unknown field."""
    events = [{"choices": [{"index": 0, "delta": {name: text}}]} for text in ("hi ", KEY[:12], KEY[12:], " ok")]
    for body in ("".join(map(_over_lines, events)).encode(), sse(*events, with_done=True)):
        stored = COMPOSER.compose(make_exchange(CHAT, b"{}", body, media_type=SSE))

        assert KEY.encode() not in stored.trace + stored.chunks


@pytest.mark.parametrize("label", ["", "text/plain", "application/json", SSE])
@pytest.mark.parametrize("start", [b"", b": hello\n\n", b"id: 1\n", b"retry: 9\n", b"\xef\xbb\xbf", b"\n\n"])
@pytest.mark.parametrize("size", [1, 10_000])
def test_a_stream_is_redacted_whatever_its_media_type(label: str, start: bytes, size: int) -> None:
    """What is read as events is cleaned as events, also if it comes byte by byte."""
    events = [{"choices": [{"index": 0, "delta": {"content": text}}]} for text in ("hi ", KEY[:12], KEY[12:], " ok")]
    body = start + sse(*events, with_done=True)

    stored = COMPOSER.compose(make_exchange(CHAT, b"{}", body, media_type=label, cuts=range(size, len(body), size)))

    assert stored.summary.streamed
    assert f"hi {REDACTED} ok" == trace_body(stored)["response"]["choices"][0]["message"]["content"]
    assert KEY[12:].encode() not in stored.trace + stored.chunks


# ---------------------------------------------------------------------------------------------
# Echoes


def _gemini(text: str) -> dict[str, Any]:
    return {"candidates": [{"content": {"parts": [{"text": text}], "role": "model"}}]}


def _arguments(text: str) -> dict[str, Any]:
    function = {"arguments": text}
    return {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "function": function}]}}]}


SPLIT = [f"Dear {MAIL[:5]}", MAIL[5:11], f"{MAIL[11:]}, and bob@corp-example.net"]
ECHOING: dict[str, tuple[str, str, bytes]] = {
    "plain": (
        CHAT,
        "application/json",
        json.dumps(chat_answer(f"a {MAIL} b {MAIL}"), separators=(",", ":")).encode(),
    ),
    "deltas": (
        CHAT,
        SSE,
        sse(*({"choices": [{"index": 0, "delta": {"content": text}}]} for text in SPLIT), with_done=True),
    ),
    "arguments": (CHAT, SSE, sse(*map(_arguments, ['{"to": "' + MAIL[:4], MAIL[4:] + '"}']), with_done=True)),
    "array": (GEMINI, "application/json", json.dumps([_gemini(text) for text in SPLIT]).encode()),
    "lines": (
        OLLAMA_CHAT,
        NDJSON,
        ndjson(*({"message": {"role": "assistant", "content": t}, "done": False} for t in SPLIT)),
    ),
}


def _texts(value: Any) -> str:
    """Every text of a value, joined."""
    if isinstance(value, dict):
        return "".join(_texts(child) for name, child in value.items() if name != "role")
    if isinstance(value, list):
        return "".join(map(_texts, value))
    return value if isinstance(value, str) else ""


def _events(data: bytes) -> list[Any]:
    if data.startswith(b"["):
        return list(json.loads(data))
    lines = (line.removeprefix(b"data: ") for line in data.splitlines())
    return [json.loads(line) for line in lines if line.startswith(b"{")]


@pytest.mark.parametrize("how", ECHOING)
@pytest.mark.parametrize("size", [1, 13, 10_000])
def test_an_echoed_value_is_stored_as_a_reference_to_the_request(how: str, size: int) -> None:
    """The answer is stored without it, and from the request it is what it was; other secrets stay out."""
    address, media_type, data = ECHOING[how]
    request = chat_request(f"write to eve@corp-example.org and {MAIL}")

    stored = COMPOSER.compose(
        make_exchange(address, request, data, media_type=media_type, cuts=range(size, len(data), size))
    )

    assert MAIL.encode() not in stored.trace + stored.chunks
    texts = [_texts(_events(body)) for body in (data, fill_markers(stored, request))]
    assert texts[0].replace("bob@corp-example.net", REDACTED) == texts[1]


def test_a_marker_that_the_model_wrote_itself_is_counted() -> None:
    """So that references point at the redaction's own markers."""
    request = chat_request(MAIL)
    answer = chat_answer(f"{REDACTED} {MAIL} {REDACTED} zoe@corp-example.org {MAIL}")

    stored = COMPOSER.compose(make_exchange(CHAT, request, answer))

    expected = chat_answer(f"{REDACTED} {MAIL} {REDACTED} {REDACTED} {MAIL}")
    assert expected == json.loads(fill_markers(stored, request))


def test_a_body_that_cannot_be_decoded_is_not_stored() -> None:
    """Its size and its digest are; a secret inside a compression that we cannot undo must not reach the disk."""
    broken = gzip.compress(json.dumps(chat_answer(MAIL)).encode())[:10] + b"\xff" * 90
    exchange = make_exchange(
        CHAT, b"\x01\x02\xff", broken, encoding="gzip", headers=[("Content-Encoding", "nobody-knows")]
    )
    body = trace_body(COMPOSER.compose(exchange))

    assert {"omitted": "failed", "bytes": len(broken)} == {
        name: body["provider_response"][name] for name in ("omitted", "bytes")
    }
    assert ("failed", "failed") == (body["wire"]["encoding"], body["provider_request"]["omitted"])
    assert base64.b64encode(broken)[20:60] not in COMPOSER.compose(exchange).trace


def test_a_url_with_a_password_is_kept_without_it() -> None:
    """What is left of it can still be read."""
    body = trace_body(
        COMPOSER.compose(make_exchange("https://me:tulip@api.example.com/v1/chat/completions?a=1", {}, {}))
    )

    assert "https://[REDACTED]@api.example.com/v1/chat/completions?a=1" == body["wire"]["url"]
    assert CHAT == body["endpoint"]


NAMED = "q7bz4kitten"


def _named_request(**more: Any) -> dict[str, Any]:
    return chat_request(f"log in with password: {NAMED}", **more)


@pytest.mark.parametrize("how", ["whole", "stream", "error", "text", "tool"])
@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_a_value_redacted_by_its_name_is_redacted_where_an_answer_repeats_it_alone(how: str, size: int) -> None:
    """In whole answers, over the borders of chunks and events, in errors; and replay refills it."""
    deltas = [f"it is {NAMED[:3]}", NAMED[3:8], f"{NAMED[8:]}, right?"]
    chunk = {"object": "chat.completion.chunk", "model": "m"}
    stream = [{**chunk, "choices": [{"index": 0, "delta": {"content": text}}]} for text in deltas]
    call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "f", "arguments": ""}}
    arguments = ['{"q": "', NAMED[:5], f'{NAMED[5:]}"}}']
    tool = [
        {**chunk, "choices": [{"index": 0, "delta": {"tool_calls": [{**call, "function": {"arguments": text}}]}}]}
        for text in arguments
    ]
    status, media_type, data = {
        "whole": (200, "application/json", json.dumps(chat_answer(f"it is {NAMED}")).encode()),
        "stream": (200, SSE, sse(*stream, with_done=True)),
        "tool": (200, SSE, sse(*tool, with_done=True)),
        "error": (401, "application/json", json.dumps({"error": {"message": f"no {NAMED}", "type": "t"}}).encode()),
        "text": (502, "text/plain", f"upstream: {NAMED}".encode()),
    }[how]
    exchange = make_exchange(
        CHAT, _named_request(), data, status=status, media_type=media_type, cuts=range(size, len(data), size)
    )

    stored = COMPOSER.compose(exchange)

    assert NAMED.encode() not in stored.trace + stored.chunks
    if stored.chunks:
        assert NAMED not in _texts(_events(b"".join(piece.data for piece in read_chunks(stored.chunks))))
    if how in ("whole", "stream"):
        assert [{"marker": 0, "path": "$.messages[0].content", "nth": 0}] == trace_body(stored)["redacted"]["echoes"]


def test_a_value_redacted_by_its_name_is_redacted_in_every_part_of_the_trace() -> None:
    """Later messages, tool arguments, URL, headers of both sides, scope, session, source, state and error."""
    request = _named_request(tools=[{"type": "function", "function": {"name": "f", "description": NAMED}}])
    request["messages"] += [
        {"role": "assistant", "content": f"{NAMED}?"},
        {"role": "assistant", "tool_calls": [{"id": "call_1", "function": {"arguments": json.dumps({"q": NAMED})}}]},
    ]
    caller = Caller(f"a.py:1:{NAMED}", f"t.py::test[{NAMED}]", f"s-{NAMED}", 0, NAMED, {"note": NAMED})
    exchange = make_exchange(
        f"{CHAT}?note={NAMED}", request, chat_answer("ok"), caller=caller, headers=[("X-Note", NAMED)],
        outcome=CallOutcome.CUT, error=f"reset after {NAMED}",
    )  # fmt: skip
    exchange = replace(exchange, response_headers=(*exchange.response_headers, ("X-Was", f"user {NAMED}")))

    assert NAMED.encode() not in COMPOSER.compose(exchange).trace


@pytest.mark.parametrize("word", ["kitten", "2026", "a1b2c", "sha256"])
def test_a_common_value_under_a_secret_name_is_left_in_the_answer(word: str) -> None:
    """A word, a year, a short value: an answer holds it by chance."""
    request = chat_request("hi", password=word)

    stored = COMPOSER.compose(make_exchange(CHAT, request, chat_answer(f"about {word}")))

    assert REDACTED == trace_body(stored)["provider_request"]["password"]
    assert f"about {word}" == trace_body(stored)["response"]["choices"][0]["message"]["content"]

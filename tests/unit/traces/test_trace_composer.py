"""From an exchange to a trace."""

from __future__ import annotations

import base64
import gzip
import json
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from support.corpus import need_shared
from support.corpus_traffic import interactions, one_in
from support.exchanges import (
    COMPOSER,
    REDACTOR,
    chat_answer,
    chat_request,
    corpus_exchange,
    fill_markers,
    make_exchange,
    response_bytes,
    streamed_trace,
)
from support.fake_secrets import SECRETS
from support.json_texts import fuzz, json_texts, nest
from support.wire_transcripts import CHAT, GEMINI, GENERATING, MESSAGES, OLLAMA_CHAT, RESPONSES, ndjson, sse
from traceforge.exchange import Caller, CallOutcome, Exchange
from traceforge.redact.redactions import REDACTED
from traceforge.traces.chunk_file import read_chunks
from traceforge.traces.trace_composer import TraceComposer
from traceforge.traces.trace_format import read_trace
from traceforge.traces.trace_summary import StoredTrace, summarize_trace

MAIL = "ann.lee@corp-example.org"
SSE = "text/event-stream"
NDJSON = "application/x-ndjson"


def _body(stored: StoredTrace) -> dict[str, Any]:
    return read_trace(stored.trace).body


@one_in
def test_every_call_of_the_corpus_becomes_a_valid_trace(one_in: int) -> None:
    """It reads back, with the response byte for byte and the same chunks."""
    byte_equal = 0
    for number, interaction in enumerate(interactions(need_shared("corpus/llm"))):
        if number % one_in:
            continue
        exchange = corpus_exchange(interaction, number)

        stored = COMPOSER.compose(exchange)

        body = _body(stored)
        assert summarize_trace(body) == stored.summary, interaction.name
        if "redacted" in body or body["wire"].get("encoding"):
            continue
        response_body = b"".join(chunk.data for chunk in exchange.chunks)
        if stored.chunks:
            pieces = [chunk.data for chunk in exchange.chunks]
            assert pieces == [chunk.data for chunk in read_chunks(stored.chunks)], interaction.name
        elif not isinstance(body["provider_response"], dict) or "b64" not in body["provider_response"]:
            assert response_body == response_bytes(stored), interaction.name
            byte_equal += 1
    assert byte_equal > 6800 / one_in


def test_composing_is_deterministic() -> None:
    """The same call gives the same bytes, from any composer."""
    secret = {"a": MAIL, "stream": True}
    exchange = make_exchange(CHAT, chat_request(MAIL, **secret), chat_answer(f"to {MAIL} and {MAIL}"))

    assert COMPOSER.compose(exchange) == TraceComposer(REDACTOR).compose(exchange) == COMPOSER.compose(exchange)


@fuzz(200)
@given(json_texts, json_texts, st.sampled_from(GENERATING), st.sampled_from([200, 400, 500]))
def test_any_json_on_both_sides_gives_a_valid_trace(
    request_body: bytes, response_body: bytes, address: str, status: int
) -> None:
    """What a client or a provider writes is theirs; the answer can be written again where nothing was redacted."""
    stored = COMPOSER.compose(make_exchange(address, request_body, response_body, status=status))

    body = _body(stored)
    assert "redacted" in body or response_body == response_bytes(stored)


@fuzz(200)
@given(st.binary(max_size=80), st.binary(max_size=80), st.sampled_from([SSE, NDJSON, "application/json", "a/b", ""]))
def test_any_bytes_on_both_sides_give_a_valid_trace(
    request_body: bytes, response_body: bytes, media_type: str
) -> None:
    """Not even JSON."""
    for address in GENERATING:
        assert _body(
            COMPOSER.compose(
                make_exchange(
                    address, request_body, response_body, media_type=media_type, request_media_type=media_type
                )
            )
        )


@pytest.mark.parametrize("depth", [140, 150, 151, 199, 200, 201, 400, 1_000])
@pytest.mark.parametrize("address", GENERATING)
def test_a_body_of_any_depth_gives_a_valid_trace(depth: int, address: str) -> None:
    """A value that would nest too deep in a trace is kept as text, and is clean all the same."""
    deep = nest(json.dumps(MAIL), depth, "{[").encode()

    for media_type, body in (("application/json", deep), (SSE, b"data: " + deep + b"\n\n")):
        stored = COMPOSER.compose(make_exchange(address, deep, body, media_type=media_type))

        assert _body(stored)
        assert MAIL.encode() not in stored.trace + stored.chunks


def test_an_invalid_request_is_stored_without_its_unified_view() -> None:
    """The unified view goes, the body stays."""
    request = {"model": 7, "messages": [{"role": "alien", "content": 5}]}

    body = _body(COMPOSER.compose(make_exchange(CHAT, request, chat_answer("x"))))

    assert request == body["provider_request"]
    assert chat_answer("x") == body["provider_response"]


def test_an_invalid_response_is_stored_without_its_unified_view() -> None:
    """Such as one whose choices are of the wrong type."""
    answer = chat_answer("x", choices=[{"index": "first", "message": {"role": 3}}], usage={"total_tokens": -1})

    body = _body(COMPOSER.compose(make_exchange(CHAT, chat_request("x"), answer)))

    assert answer == body["provider_response"]


def test_json_with_the_media_type_of_a_form_gives_a_valid_trace() -> None:
    """Cleaned as a form it may be no JSON any more."""
    data = b'{"a":  "x&key=abcdef&b=2"}'

    body = _body(COMPOSER.compose(make_exchange(CHAT, data, data, media_type="application/x-www-form-urlencoded",
                                       request_media_type="application/x-www-form-urlencoded")))  # fmt: skip

    assert b"abcdef" not in json.dumps(body).encode()


def test_a_plain_body_is_kept_with_its_layout() -> None:
    """Compact or indented, with a line end or without, and as text where none of the four gives the bytes."""
    value = {"id": "1", "n": [1, 2.5], "text": "é"}
    texts = {
        "compact": json.dumps(value, separators=(",", ":"), ensure_ascii=False),
        "indented-lf": json.dumps(value, indent=2, ensure_ascii=False) + "\n",
        "": json.dumps(value),
    }
    for layout, text in texts.items():
        stored = COMPOSER.compose(make_exchange("/v1/other", b"", text.encode()))

        assert layout == _body(stored)["wire"].get("response_layout", "")
        assert text.encode() == response_bytes(stored)


# ---------------------------------------------------------------------------------------------
# How a call went


def _outcome(exchange: Exchange) -> tuple[str, str, str, str]:
    body = _body(COMPOSER.compose(exchange))
    return (
        body["metadata"]["status"], body["metadata"].get("error", ""),
        body["wire"]["ending"], body["wire"]["outcome"],
    )  # fmt: skip


STREAM = sse(*({"choices": [{"index": 0, "delta": {"content": text}}]} for text in ("a", "b")), with_done=True)


def test_a_call_that_succeeded_says_so() -> None:
    """Plain or as a stream."""
    assert ("success", "", "complete", "answered") == _outcome(
        make_exchange(CHAT, chat_request("x"), chat_answer("y"))
    )
    stored = streamed_trace(1)
    assert "success" == stored.summary.status
    assert stored.summary.streamed


def test_a_call_without_an_answer_has_the_reason() -> None:
    """No response and no ending; the reason is redacted."""
    failed = make_exchange(
        CHAT, chat_request("x"), b"", status=0, outcome=CallOutcome.FAILED, error=f"no route to {MAIL}"
    )

    assert ("error", f"no route to {REDACTED}", "none", "failed") == _outcome(failed)
    assert _body(COMPOSER.compose(failed))["response"] is None


def test_a_stream_that_broke_off_is_an_error() -> None:
    """What had come is kept."""
    cut = make_exchange(CHAT, b"{}", STREAM[:60], media_type=SSE, outcome=CallOutcome.CUT, error="connection reset")

    assert ("error", "connection reset", "cut", "cut") == _outcome(cut)
    assert STREAM[:60] == response_bytes(COMPOSER.compose(cut))


def test_a_successful_call_with_a_truncated_body_is_marked() -> None:
    """A body too large to store is not a failure of the call."""
    body = _body(COMPOSER.compose(make_exchange(CHAT, b"", chat_answer("x"), error=f"too large, says {MAIL}")))

    assert "success" == body["metadata"]["status"]
    assert "too large, says [REDACTED]" == body["wire"]["incomplete"]


def test_a_stream_that_ended_early_without_an_error_is_an_error() -> None:
    """The provider closed the connection as if it were done."""
    status, error, ending, outcome = _outcome(make_exchange(CHAT, b"{}", STREAM[:60], media_type=SSE))

    assert ("error", "cut", "answered") == (status, ending, outcome)
    assert "before it said that it was complete" in error


def test_a_client_that_left_after_the_last_event_got_its_answer() -> None:
    """Many clients close as soon as they have read the end."""
    exchange = make_exchange(MESSAGES, b"{}", b"", media_type=SSE, outcome=CallOutcome.CLIENT_LEFT)
    complete = make_exchange(CHAT, b"{}", chat_answer("x"), outcome=CallOutcome.CLIENT_LEFT)

    assert ("error", "the call was left") == _outcome(exchange)[:2]
    assert ("success", "", "complete", "left") == _outcome(complete)


def test_an_error_of_the_provider_keeps_its_message() -> None:
    """And without what it repeats of the request."""
    answer = {"error": {"message": f"bad key for {MAIL}", "type": "auth"}}

    assert ("error", f"bad key for {REDACTED}", "error", "answered") == _outcome(
        make_exchange(CHAT, b"{}", answer, status=401)
    )
    assert ("error", "HTTP status 502", "error", "answered") == _outcome(
        make_exchange(CHAT, b"{}", b"<html>", status=502)
    )


def test_numbers_too_large_for_the_index_do_not_fail() -> None:
    """A provider may claim any number of tokens, and a caller any step."""
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 10**30}
    answer, caller = chat_answer("x", usage=usage), Caller(session_id="s", step_index=10**40)

    stored = COMPOSER.compose(make_exchange(CHAT, chat_request("x"), answer, caller=caller))

    assert 1e30 == stored.summary.tokens
    assert stored.summary == type(stored.summary).from_bytes(stored.summary.to_bytes())


# ---------------------------------------------------------------------------------------------
# Secrets


def test_redactions_are_listed_without_their_values() -> None:
    """Places and types; a fingerprint where there is a key, and the same for the same value."""
    exchange = make_exchange(CHAT, chat_request(f"I am {MAIL}", user=MAIL), chat_answer("hello"))

    plain = _body(COMPOSER.compose(exchange))["redacted"]["request"]
    keyed = [
        _body(TraceComposer(REDACTOR, key).compose(exchange))["redacted"]["request"] for key in (b"k", b"k", b"other")
    ]

    assert [{"path", "type"}] * len(plain) == [set(entry) for entry in plain]
    assert keyed[0] == keyed[1]
    by_path = [{entry["path"]: entry["fingerprint"] for entry in entries if MAIL} for entries in keyed]
    assert by_path[0]["$.messages[0].content"] == by_path[0]["$.user"]
    assert by_path[0]["$.user"] != by_path[2]["$.user"]


def test_session_scope_parent_and_state_are_redacted() -> None:
    """Session, scope, parent and state."""
    caller = Caller("a.py:7:f", f"t[{MAIL}]", f"s {MAIL}", 3, f"p {MAIL}", {"user": {"mail": MAIL}, "n": 1})

    body = _body(COMPOSER.compose(make_exchange(CHAT, chat_request("x"), chat_answer("y"), caller=caller)))

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
        assert '"b64"' not in json.dumps(_body(stored))


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
    assert f"hi {REDACTED} ok" == _body(stored)["response"]["choices"][0]["message"]["content"]
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
    body = _body(COMPOSER.compose(exchange))

    assert {"omitted": "failed", "bytes": len(broken)} == {
        name: body["provider_response"][name] for name in ("omitted", "bytes")
    }
    assert ("failed", "failed") == (body["wire"]["encoding"], body["provider_request"]["omitted"])
    assert base64.b64encode(broken)[20:60] not in COMPOSER.compose(exchange).trace


def test_a_url_with_a_password_is_kept_without_it() -> None:
    """What is left of it can still be read."""
    trace_body = _body(
        COMPOSER.compose(make_exchange("https://me:tulip@api.example.com/v1/chat/completions?a=1", {}, {}))
    )

    assert "https://[REDACTED]@api.example.com/v1/chat/completions?a=1" == trace_body["wire"]["url"]
    assert CHAT == trace_body["endpoint"]


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
        assert [{"marker": 0, "path": "$.messages[0].content", "nth": 0}] == _body(stored)["redacted"]["echoes"]


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

    assert REDACTED == _body(stored)["provider_request"]["password"]
    assert f"about {word}" == _body(stored)["response"]["choices"][0]["message"]["content"]

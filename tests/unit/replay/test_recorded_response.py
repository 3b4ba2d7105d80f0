"""A recorded answer, ready to be sent again."""

from __future__ import annotations

import gzip
import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from support.exchanges import COMPOSER, REDACTOR, chat_answer, chat_request, make_exchange, parse_object
from support.json_texts import fuzz
from support.replay_player import redactions_of
from support.wire_transcripts import CHAT, MESSAGES, OLLAMA_CHAT, SSE, sse
from traceforge.exchange import CallOutcome, Exchange, Headers
from traceforge.redact.redactions import REDACTED
from traceforge.redact.redactor import Redactor
from traceforge.replay.echoes import refill_echoes
from traceforge.replay.recorded_response import RecordedResponse
from traceforge.replay.trace_recordings import response_from_trace
from traceforge.traces.trace_composer import TraceComposer

MAIL = "ann.lee@corp-example.org"
# Values of a field that is redacted by its name: each needs escapes of some kind, once or twice.
ODD = [
    'a"b',
    "back\\slash",
    'both \\" of them',
    "ümläut é 日本",
    "line\nfeed\ttab",
    "😀",
    '\\u0041"',
    "plain7",
    "\\\\",
]


def answer_of(exchange: Exchange, composer: TraceComposer = COMPOSER) -> RecordedResponse:
    """The stored response of a call."""
    stored = composer.compose(exchange)
    answer = response_from_trace(parse_object(stored.trace), stored.chunks)
    assert answer is not None
    return answer


def replayed(recorded: Exchange, live: Exchange, redactor: Redactor = REDACTOR) -> RecordedResponse:
    """The recorded answer, as a live request gets it."""
    return refill_echoes(answer_of(recorded, TraceComposer(redactor)), redactor_log(live, redactor))


def redactor_log(exchange: Exchange, redactor: Redactor) -> Any:
    """What is redacted in a live request."""
    from traceforge.replay.request_key import RequestKeyer
    from traceforge.replay.volatile import VolatileRules

    return redactions_of(exchange, RequestKeyer(redactor, VolatileRules()))


# -- as it was


@pytest.mark.parametrize(
    "body",
    [
        b'{"a":1}', b'{"a": 1}\n', b'{\n  "a": 1\n}', b' {"a":1.0e0}', b"null", b'"text"', b"[]", b"plain text", b"",
        b"\xff\x00\x01", '{"é": "\\u00e9"}'.encode(), b'{"b64": "AAAA"}', b'{"a":1,"a":2}', b"{} trailing",
        b'{"a":' * 300 + b"1" + b"}" * 300,
    ],
)  # fmt: skip
@pytest.mark.parametrize("status", [200, 400, 404, 429, 500, 503])
def test_a_plain_response_replays_the_same_bytes(body: bytes, status: int) -> None:
    """Errors, too; in any layout, and whether or not it is JSON."""
    answer = answer_of(make_exchange(CHAT, chat_request("x"), body, status=status))

    assert (status, body, False, ()) == (answer.status, answer.body, answer.streamed, answer.echoes)
    assert not answer.cut


def test_headers_about_the_connection_or_encoding_are_dropped() -> None:
    """And those that were redacted; the others keep their order, their case and their duplicates."""
    headers: Headers = (
        ("Content-Type", "application/json"), ("Content-Encoding", "gzip"), ("Content-Length", "7"),
        ("Transfer-Encoding", "chunked"), ("Connection", "keep-alive"), ("Set-Cookie", "a=b"), ("X-Twice", "1"),
        ("x-twice", "2"), ("Retry-After", "3"), ("Keep-Alive", "timeout=5"),
    )  # fmt: skip
    exchange = make_exchange(CHAT, chat_request("x"), gzip.compress(b'{"a":1}'))
    exchange = Exchange(*(headers if name == "response_headers" else getattr(exchange, name)
                          for name in exchange.__struct_fields__))  # fmt: skip

    answer = answer_of(exchange)

    expected_headers = (
        ("Content-Type", "application/json"),
        ("X-Twice", "1"),
        ("x-twice", "2"),
        ("Retry-After", "3"),
    )
    assert expected_headers == answer.headers
    assert b'{"a":1}' == answer.body


@pytest.mark.parametrize("line", ["X-A: b\r\nX-Evil: 1", "X A: b", "X-A: \x00", "X-A: ☃", ": x", "X-A"])
def test_a_header_that_cannot_be_sent_is_dropped(line: str) -> None:
    """A trace is a file that may have been edited."""
    body = parse_object(COMPOSER.compose(make_exchange(CHAT, chat_request("x"), {})).trace)
    body["wire"]["response_headers"] = [line, "X-Good: é"]

    answer = response_from_trace(body, b"")

    assert answer is not None
    assert (("X-Good", "é"),) == answer.headers


@pytest.mark.parametrize(
    ("location", "sent"),
    [
        ("/next?code=q7Wz01xx&state=1", "/next?code=[REDACTED]&state=1"),
        ("https://h.example/a?X-Amz-Signature=0123abcd", "https://h.example/a?X-Amz-Signature=[REDACTED]"),
        ("https://ann:mellon@h.example/a", None),
    ],
)
def test_a_redirect_is_sent_without_its_secrets(location: str, sent: str | None) -> None:
    """A client that followed it would otherwise stop there; one with a redacted user could not be read."""
    exchange = make_exchange(CHAT, chat_request("x"), {})
    exchange = replace(exchange, response_headers=(("Location", location), ("X-Good", "1")))

    assert sent == dict(answer_of(exchange).headers).get("Location")


@pytest.mark.parametrize(
    ("body", "plain"), [(gzip.compress(b"{}", mtime=0), b"{}"), (b'{"plain": 1}', b'{"plain": 1}')]
)
def test_the_content_encoding_header_is_dropped_from_decoded_bodies(body: bytes, plain: bytes) -> None:
    """Bodies are kept decoded, and sent so."""
    answer = answer_of(make_exchange(CHAT, chat_request("x"), body, encoding="gzip"))

    assert ("Content-Encoding", "gzip") not in answer.headers
    assert plain == answer.body


def test_a_response_that_could_not_be_decoded_cannot_be_replayed() -> None:
    """Its body was not stored, because it could not be redacted."""
    stored = COMPOSER.compose(make_exchange(CHAT, chat_request("x"), b"\x00\xff\x01", encoding="exotic"))

    assert response_from_trace(parse_object(stored.trace), stored.chunks) is None


@pytest.mark.parametrize(
    ("outcome", "is_complete", "is_cut"),
    [(CallOutcome.ANSWERED, True, False), (CallOutcome.ANSWERED, False, False), (CallOutcome.CUT, False, True),
     (CallOutcome.CUT, True, False), (CallOutcome.CLIENT_LEFT, True, False), (CallOutcome.CLIENT_LEFT, False, True)],
)  # fmt: skip
def test_a_cut_response_is_cut_again(outcome: CallOutcome, is_complete: bool, is_cut: bool) -> None:
    """Unless it had announced its end: openai's client disconnects at `[DONE]`."""
    choice: dict[str, Any] = {"index": 0, "delta": {"content": "x"}, "finish_reason": None}
    body = sse({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]})
    body += sse(with_done=True) if is_complete else b""

    assert is_cut is answer_of(make_exchange(CHAT, chat_request("x"), body, media_type=SSE, outcome=outcome)).cut


def test_a_call_without_a_response_has_no_recorded_response() -> None:
    """It failed, or is a trace from elsewhere."""
    stored = COMPOSER.compose(make_exchange(CHAT, chat_request("x"), b"", status=0, outcome=CallOutcome.FAILED))
    body = parse_object(stored.trace)

    assert None is response_from_trace(body, b"")
    del body["wire"]
    assert None is response_from_trace(body, b"")


# -- refilled


def arguments_answer(arguments: str) -> dict[str, Any]:
    """A tool call in OpenAI's shape."""
    tool = {"id": "t", "type": "function", "function": {"name": "write", "arguments": arguments}}
    choice = {"index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant", "tool_calls": [tool]}}
    return chat_answer("", choices=[choice])


def arguments_stream(arguments: str, size: int) -> bytes:
    """The same as a stream."""
    pieces = [arguments[place : place + size] for place in range(0, len(arguments), size)]
    head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    tools = [{"tool_calls": [{"index": 0, "function": {"arguments": piece}}]} for piece in pieces]
    return sse(*({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in tools),
               with_done=True)  # fmt: skip


def test_a_redacted_value_of_the_live_prompt_is_refilled_in_the_response() -> None:
    """With the value of the live request; the recorded value is stored nowhere."""
    recorded = make_exchange(
        CHAT, chat_request(f"Write to {MAIL}."), chat_answer(f"I wrote to {MAIL}, and {MAIL} is glad.")
    )
    live = make_exchange(CHAT, chat_request("Write to bob@corp-example.org."))

    answer = replayed(recorded, live)

    content = json.loads(answer.body)["choices"][0]["message"]["content"]
    assert "I wrote to bob@corp-example.org, and bob@corp-example.org is glad." == content
    assert 0 == answer.redacted_count
    assert MAIL.encode() not in answer_of(recorded).body


def test_each_echo_is_refilled_from_its_own_place_in_the_request() -> None:
    """The second of a text, one in a tool result, in the URL and in a header; others stay redacted."""
    mails = [f"{name}@corp-example.org" for name in ("ann", "bob", "cid", "dan", "eve")]
    request = {"messages": [{"role": "user", "content": f"{mails[0]}, {mails[1]}"},
                            {"role": "tool", "content": json.dumps({"to": mails[2]})}]}  # fmt: skip
    recorded = make_exchange(
        f"{CHAT}?user={mails[3]}", request, chat_answer(f"{mails[4]} {mails[2]} {mails[1]} {mails[3]} x@corp-y.org"),
        headers=[("X-User", mails[4])],
    )  # fmt: skip
    other = json.loads(json.dumps(request).replace("corp-example", "other-example"))
    live = make_exchange(f"{CHAT}?user=dan@other-example.org", other, headers=[("X-User", "eve@other-example.org")])

    answer = replayed(recorded, live)

    content = json.loads(answer.body)["choices"][0]["message"]["content"]
    names = [f"{name}@other-example.org" for name in ("eve", "cid", "bob", "dan")]
    assert " ".join([*names, REDACTED]) == content
    assert 1 == answer.redacted_count


@pytest.mark.parametrize("value", ODD)
@pytest.mark.parametrize("asked_deep", [False, True], ids=["member", "text"])
@pytest.mark.parametrize("ascii_only", [False, True], ids=["utf-8", "ascii"])
def test_a_refilled_value_is_escaped_once_per_json_string(value: str, asked_deep: bool, ascii_only: bool) -> None:
    """Quotes, backslashes and non-ASCII, from either depth to either depth, plain and as a stream."""
    fields = {"password": value}
    request = chat_request(json.dumps(fields)) if asked_deep else chat_request("x", **fields)
    text = json.dumps({"n": 1, **fields}, ensure_ascii=ascii_only)
    live = make_exchange(CHAT, request)

    plain = replayed(make_exchange(CHAT, request, arguments_answer(text)), live)
    member = replayed(make_exchange(CHAT, request, json.dumps(fields, ensure_ascii=ascii_only).encode()), live)

    tool = json.loads(plain.body)["choices"][0]["message"]["tool_calls"][0]
    assert {"n": 1, **fields} == json.loads(tool["function"]["arguments"])
    assert fields == json.loads(member.body)
    for size in (1, 2, 5, 100):
        recorded = make_exchange(CHAT, request, arguments_stream(text, size), media_type=SSE, cuts=range(0, 4000, 61))
        stream = replayed(recorded, live)
        assert {"n": 1, **fields} == json.loads(_gathered(stream.body))
        assert len(recorded.chunks) == len(stream.chunks)
        assert REDACTED.encode() in answer_of(recorded).body


def _gathered(body: bytes) -> str:
    events = [json.loads(line[6:]) for line in body.split(b"\n\n") if line.startswith(b"data: {")]
    return "".join(event["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"] for event in events)


def test_a_live_value_with_quotes_is_escaped_by_the_depth_of_its_place() -> None:
    """The depth is that of the place, not of the value."""
    recorded = make_exchange(CHAT, chat_request("x", password="plain7"), arguments_answer('{"password": "plain7"}'))

    answer = replayed(recorded, make_exchange(CHAT, chat_request("x", password='a"\\b')))

    tool = json.loads(answer.body)["choices"][0]["message"]["tool_calls"][0]
    assert {"password": 'a"\\b'} == json.loads(tool["function"]["arguments"])


def test_a_value_in_plain_text_is_not_escaped() -> None:
    """There is no JSON around it."""
    redactor = Redactor(patterns=("Kunde [^.]+[.]",))
    recorded = make_exchange(CHAT, chat_request('Kunde A "B".'), b'Kunde A "B".', media_type="text/plain")

    answer = replayed(recorded, make_exchange(CHAT, chat_request('Kunde C "D" \\.')), redactor)

    assert b'Kunde C "D" \\.' == answer.body


@pytest.mark.parametrize(
    ("address", "event"),
    [
        (MESSAGES, {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "<>"}}),
        (OLLAMA_CHAT, {"model": "m", "message": {"role": "assistant", "content": "<>"}, "done": False}),
    ],
)
@fuzz(30)
@given(st.data())
def test_a_refilled_stream_reads_as_the_original(address: str, event: dict[str, Any], data: st.DataObject) -> None:
    """However it was cut into events and chunks."""
    words = data.draw(st.lists(st.sampled_from([MAIL, "x", '"quoted"', "é", "bob@corp-example.org"]), max_size=6))
    text = " ".join([*words, "end"])
    cuts = sorted(data.draw(st.sets(st.integers(1, len(text)), max_size=8)))
    pieces = [text[first:second] for first, second in pairwise([0, *cuts, len(text)])]
    lines = [json.dumps(event).replace("<>", json.dumps(piece)[1:-1]) for piece in pieces]
    body = "".join(f"data: {line}\n\n" if address == MESSAGES else f"{line}\n" for line in lines).encode()
    request = {"messages": [{"role": "user", "content": f"{MAIL} and bob@corp-example.org"}]}
    media = SSE if address == MESSAGES else "application/x-ndjson"
    recorded = make_exchange(
        address, request, body, media_type=media, cuts=data.draw(st.sets(st.integers(1, len(body))))
    )

    answer = replayed(recorded, recorded)

    events = [json.loads(line.removeprefix(b"data: ")) for line in answer.body.split(b"\n") if line.strip()]
    assert text == "".join(
        event["delta"]["text"] if address == MESSAGES else event["message"]["content"] for event in events
    )
    assert len(recorded.chunks) == len(answer.chunks)
    assert [chunk.t_ms for chunk in recorded.chunks] == [chunk.t_ms for chunk in answer.chunks]


def test_a_response_without_echoes_is_returned_as_it_is() -> None:
    """Refilling costs nothing where there is nothing to refill."""
    answer = answer_of(make_exchange(CHAT, chat_request("x"), chat_answer("y")))

    assert answer is refill_echoes(answer, [])


def test_an_echo_without_a_live_value_stays_redacted() -> None:
    """For example if the live request lacks that part."""
    recorded = make_exchange(CHAT, chat_request(f"Write to {MAIL}."), chat_answer(f"I wrote to {MAIL}."))

    assert REDACTED.encode() in replayed(recorded, make_exchange(CHAT, chat_request("Write to [REDACTED]."))).body


def test_an_expression_that_takes_the_closing_quote_does_not_break_the_arguments_of_a_stream() -> None:
    """They are JSON on replay as well, and refilled."""
    redactor = Redactor(patterns=("Kunde.*",))
    recorded = make_exchange(CHAT, chat_request("Kunde X"), arguments_stream('{"to": "Kunde X"}', 4), media_type=SSE)

    assert {"to": REDACTED} == json.loads(_gathered(answer_of(recorded, TraceComposer(redactor)).body))
    assert {"to": 'Kunde "Y"'} == json.loads(
        _gathered(replayed(recorded, make_exchange(CHAT, chat_request('Kunde "Y"')), redactor).body)
    )

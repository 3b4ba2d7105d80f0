"""Redaction of texts that go on from event to event, wherever a provider begins and continues them."""

from __future__ import annotations

import json
from random import Random

import pytest

from support.fake_secrets import SECRETS
from support.split_streams import ANTHROPIC, CHAT, GEMINI, OLLAMA, RESPONSES, lines, sse
from traceforge.redact.redactions import REDACTED
from traceforge.redact.redactor import Redactor

REDACTOR = Redactor()
KEY = SECRETS["OPENAI_KEY"](Random(12))
STREAMS = {
    f"{dialect}: {place}": (build, lines if dialect == "ollama" else sse)
    for dialect, table in (
        ("anthropic", ANTHROPIC), ("responses", RESPONSES), ("chat", CHAT), ("gemini", GEMINI), ("ollama", OLLAMA)
    )
    for place, build in table.items()
}  # fmt: skip


def redact(stream: bytes) -> bytes:
    return b"".join(REDACTOR.redact_chunks([stream], "text/event-stream").value)


@pytest.mark.parametrize("place", STREAMS)
def test_a_text_is_joined_wherever_it_begins(place: str) -> None:
    """Also where an event opens a block with the first characters, and where an event repeats the whole."""
    build, encode = STREAMS[place]
    for cut in (6, 14, len(KEY) // 2, len(KEY) - 12):
        cleaned = redact(encode(build("it is " + KEY[:cut], KEY[cut:] + " ok")))

        assert REDACTED.encode() in cleaned
        assert KEY[:cut].encode() not in cleaned
        assert KEY[cut:].encode() not in cleaned
        assert b" ok" in cleaned


@pytest.mark.parametrize("place", STREAMS)
def test_a_stream_without_a_secret_keeps_its_bytes(place: str) -> None:
    build, encode = STREAMS[place]
    stream = encode(build("a word", " and more"))

    assert stream == redact(stream)


@pytest.mark.parametrize(
    "place", ["chat: content", "chat: tool arguments", "anthropic: text block", "responses: item"]
)
def test_an_event_that_the_stream_did_not_finish_is_joined_too(place: str) -> None:
    """Wherever the connection broke, inside a name, a text, an escape or a number, and it stays unfinished."""
    build, encode = STREAMS[place]
    stream = encode(build("it is " + KEY[:14], KEY[14:] + " caf\u00e9 ok"))
    first = stream.index(KEY[14:].encode())
    for size in range(first - 60, len(stream)):
        cleaned = redact(stream[:size])

        assert KEY[14:30].encode() not in cleaned
        assert size > first or cleaned == stream[:size]


def test_the_last_array_element_is_joined_even_if_unfinished() -> None:
    elements = [{"candidates": [{"content": {"parts": [{"text": text}]}}]} for text in (KEY[:14], KEY[14:])]
    stream = json.dumps(elements).encode()[:-12]

    (cleaned,) = REDACTOR.redact_chunks([stream], "application/json").value

    assert KEY[14:].encode()[:20] not in cleaned


def test_data_on_several_lines_is_one_event() -> None:
    """The standard joins the data lines of an event."""
    events = [json.dumps(event, indent=1) for event in CHAT["content"](KEY[:14], KEY[14:])]
    stream = "".join("".join(f"data: {line}\n" for line in event.splitlines()) + "\n" for event in events).encode()

    cleaned = redact(stream)

    assert KEY[14:].encode() not in cleaned
    assert 2 == cleaned.count(b"data: {")


@pytest.mark.parametrize("media_type", ["application/json", "application/ndjson", "application/json-seq", ""])
def test_documents_in_lines_are_events_under_any_label(media_type: str) -> None:
    stream = lines(OLLAMA["message"](KEY[:14], KEY[14:]))
    data = b"\x1e" + stream.replace(b"\n{", b"\n\x1e{") if media_type.endswith("seq") else stream

    (cleaned,) = REDACTOR.redact_chunks([data], media_type).value

    assert KEY[14:].encode() not in cleaned


def test_ordinary_members_of_events_are_not_taken_for_a_secret() -> None:
    """Times and counts that change from event to event look like numbers of phones and cards when joined."""
    events = [
        {"created": f"2026-11-17T03:2{n}:45.41555{n}", "left": f"4155550{n}32", "ref": f"{n}" * 4, "text": "a"}
        for n in range(10)
    ]

    assert sse(events) == redact(sse(events))

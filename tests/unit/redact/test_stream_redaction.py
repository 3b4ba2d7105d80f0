"""Redaction of fragments, chunks and event streams."""

from __future__ import annotations

import json
from random import Random

import pytest

from support.fake_secrets import SECRETS, pem
from traceforge.redact.redactions import REDACTED
from traceforge.redact.redactor import Redactor

REDACTOR = Redactor()
SOURCE = Random(11)
KEY = SECRETS["OPENAI_KEY"](SOURCE)


def sse(*values: object) -> bytes:
    """Events as a provider sends them."""
    return b"".join(b"data: " + json.dumps(value).encode() + b"\n\n" for value in values) + b"data: [DONE]\n\n"


def chat(*texts: str, index: int = 0) -> list[object]:
    """Chunks of an OpenAI chat."""
    first = {"choices": [{"index": index, "delta": {"role": "assistant", "content": texts[0]}}]}
    return [first, *({"choices": [{"index": index, "delta": {"content": text}}]} for text in texts[1:])]


@pytest.mark.parametrize("kind", sorted(SECRETS))
def test_a_secret_across_fragments_is_redacted_where_it_begins(kind: str) -> None:
    """As many fragments come back, and they join to the redacted text."""
    secret = SECRETS[kind](SOURCE)
    text = f"it is {secret} ok"
    for cut in range(7, 5 + len(secret)):
        fragments = [text[:cut], text[cut : cut + 1], text[cut + 1 :]]

        cleaned = REDACTOR.redact_fragments(fragments)

        assert [f"it is {REDACTED}", "", " ok"] == cleaned


def test_a_secret_across_events_is_found() -> None:
    """The texts of the deltas are scanned as one text."""
    stream = sse(*chat("my ", KEY[:5], KEY[5:9], KEY[9:] + " ok"))

    (cleaned,) = REDACTOR.redact_chunks([stream], "text/event-stream").value

    assert sse(*chat("my ", REDACTED, "", " ok")).replace(b" ", b"") == cleaned.replace(b" ", b"")


def test_two_answers_in_one_stream_are_scanned_separately() -> None:
    """Choices, tool calls and content blocks are separated by their index."""
    left, right = chat("left ", KEY[:20], " l", index=0), chat("right ", KEY[20:], " r", index=1)
    mixed = [event for pair in zip(left, right, strict=True) for event in pair]

    (cleaned,) = REDACTOR.redact_chunks([sse(*mixed)], "text/event-stream").value

    assert KEY[20:].encode() in cleaned


@pytest.mark.parametrize(
    "events",
    [
        lambda a, b: [
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}
            for text in (a, b)
        ],
        lambda a, b: [
            {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": text}}
            for text in (a, b)
        ],
        lambda a, b: [
            {"type": "response.output_text.delta", "item_id": "m", "output_index": 0, "delta": text}
            for text in (a, b)
        ],
        lambda a, b: [{"candidates": [{"content": {"parts": [{"text": text}], "role": "model"}}]} for text in (a, b)],
        lambda a, b: [
            {
                "choices": [
                    {"delta": {"tool_calls": [{"index": 0, "type": "function", "function": {"arguments": a}}]}}
                ]
            },
            {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": b}}]}}]},
        ],
    ],
)
def test_the_deltas_of_every_provider_are_joined(events: object) -> None:
    """Anthropic, Responses, Gemini and tool arguments split a text in their own ways."""
    assert callable(events)
    for cut in (1, len(KEY) // 2, len(KEY) - 1):
        (cleaned,) = REDACTOR.redact_chunks([sse(*events(KEY[:cut], KEY[cut:]))], "text/event-stream").value

        assert REDACTED.encode() in cleaned
        assert KEY[:cut].encode() not in cleaned or cut == 1
        assert KEY[cut:].encode() not in cleaned or cut == len(KEY) - 1


def test_ndjson_is_a_stream_of_events() -> None:
    """Ollama sends a document a line."""
    lines = b"".join(
        json.dumps({"message": {"content": text}, "done": False}).encode() + b"\n"
        for text in ("a ", KEY[:9], KEY[9:])
    )

    (cleaned,) = REDACTOR.redact_chunks([lines], "application/x-ndjson").value

    assert ["a ", REDACTED, ""] == [json.loads(line)["message"]["content"] for line in cleaned.splitlines()]


def test_a_stream_without_secrets_keeps_every_chunk() -> None:
    stream = sse(*chat("hello", " world"))
    chunks = [stream[:7], stream[7:40], b"", stream[40:]]

    assert chunks == REDACTOR.redact_chunks(chunks, "text/event-stream").value


def test_chunks_without_a_secret_keep_their_bytes() -> None:
    """And as many chunks come back."""
    first, secret, last = sse(*chat("a", "b"))[:-14], sse(*chat(KEY))[:-14], sse(*chat("c"))
    chunks = [first[:10], first[10:], secret[:9], secret[9:30], secret[30:], last[:5], last[5:]]

    cleaned = REDACTOR.redact_chunks(chunks, "text/event-stream").value

    assert len(chunks) == len(cleaned)
    assert chunks[:2] == cleaned[:2]
    assert chunks[-2:] == cleaned[-2:]
    assert KEY.encode() not in b"".join(cleaned)


def test_a_secret_across_chunks_of_a_body_is_redacted() -> None:
    for body, kind in ((f"see {KEY} ok", "text/plain"), (json.dumps({"a": [1, KEY]}), "application/json")):
        data = body.encode()
        for cut in range(1, len(data)):
            cleaned = REDACTOR.redact_chunks([data[:cut], data[cut:]], kind).value

            assert 2 == len(cleaned)
            assert REDACTOR.redact_body(data, kind).value == b"".join(cleaned)


def test_lines_without_json_are_redacted_as_text() -> None:
    """Comments, and errors that a proxy wrote into the stream."""
    (cleaned,) = REDACTOR.redact_chunks([f": {KEY}\n\ndata: oops {KEY}\n\n".encode()], "text/event-stream").value

    assert f": {REDACTED}\n\ndata: oops {REDACTED}\n\n".encode() == cleaned


@pytest.mark.parametrize("size", [1, 7, 64, 5_000, 40_000])
def test_a_text_in_pieces_is_redacted_as_the_whole_text(size: int) -> None:
    """Also where the beginning of a key block or the words before a password were returned long ago."""
    filler = "nothing to see here. " * 700
    text = f"{filler}{KEY} {filler}{pem(SOURCE)}\n{filler} password = '{KEY[3:30]}' {filler}ann@example.org"
    data = text.encode()
    stream = REDACTOR.new_text_stream()

    redacted = (
        b"".join(stream.feed(data[place : place + size]) for place in range(0, len(data), size)) + stream.close()
    )

    assert REDACTOR.redact_text(text).encode() == redacted


def test_a_text_stream_returns_text_before_its_end() -> None:
    stream = REDACTOR.new_text_stream()

    returned = b"".join(stream.feed(b"word " * 1_000) for _ in range(20))

    assert len(returned) > 80_000


# ---------------------------------------------------------------------------------------------
# Streams that are one JSON array


def array(*texts: str, indent: int | None = None) -> bytes:
    """Gemini's stream: an array with an answer as each element."""
    parts = [{"candidates": [{"content": {"parts": [{"text": text}], "role": "model"}}]} for text in texts]
    return json.dumps(parts, indent=indent).encode()


def element_texts(data: bytes) -> list[str]:
    return [element["candidates"][0]["content"]["parts"][0]["text"] for element in json.loads(data)]


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("kind", sorted(SECRETS))
def test_a_secret_across_elements_of_an_array_is_found(kind: str, indent: int | None) -> None:
    """At any cut, in any chunks."""
    secret = SECRETS[kind](SOURCE)
    for cut in range(1, len(secret), 5):
        stream = array("it is " + secret[:cut], secret[cut:] + " ok", "bye", indent=indent)
        chunks = [stream[:9], stream[9 : 60 + cut], stream[60 + cut :]]

        cleaned = REDACTOR.redact_chunks(chunks, "application/json").value

        assert len(chunks) == len(cleaned)
        assert [f"it is {REDACTED}", " ok", "bye"] == element_texts(b"".join(cleaned))


def test_a_truncated_array_is_redacted() -> None:
    """Its complete elements as events, the beginning of the last one as text."""
    stream = array("it is " + KEY[:20], KEY[20:] + " ok", "mail ann@corp-example.org now")
    for size in range(len(stream) - 24, len(stream)):
        (cleaned,) = REDACTOR.redact_chunks([stream[:size]], "application/json").value

        assert KEY[20:].encode() not in cleaned
        assert b"ann@corp" not in cleaned
        assert 2 == cleaned.count(REDACTED.encode())


def test_an_array_without_secrets_keeps_every_byte() -> None:
    stream = array("hello", " world", indent=2)
    chunks = [stream[:7], stream[7:40], b"", stream[40:]]

    assert chunks == REDACTOR.redact_chunks(chunks, "application/json").value


def test_elements_without_a_secret_keep_their_bytes() -> None:
    stream = array("hello", KEY, "bye", indent=2)

    (cleaned,) = REDACTOR.redact_chunks([stream], "application/json").value

    assert stream[:100] == cleaned[:100]
    assert stream[-100:] == cleaned[-100:]
    assert ["hello", REDACTED, "bye"] == element_texts(cleaned)


@pytest.mark.parametrize("array_text", ['["%s"]', '[1, {"a": "%s"}]', '[["%s"]]', '[{"a": "%s"}, "x"]', '["%s'])
def test_any_other_array_is_redacted_as_a_body(array_text: str) -> None:
    """As JSON, or as text where it is not JSON."""
    (cleaned,) = REDACTOR.redact_chunks([(array_text % KEY).encode()], "application/json").value

    assert KEY.encode() not in cleaned
    assert REDACTED.encode() in cleaned


@pytest.mark.parametrize("prefix", [b"data:", b"data: ", b"data:  ", b"\xef\xbb\xbfdata: ", b"  ", b""])
def test_events_are_joined_with_any_line_prefix(prefix: bytes) -> None:
    """White space, a byte order mark, or none."""
    lines = b"".join(prefix + json.dumps(event).encode() + b"\n\n" for event in chat("a ", KEY[:9], KEY[9:]))

    (cleaned,) = REDACTOR.redact_chunks([lines], "text/event-stream").value

    assert KEY[9:].encode() not in cleaned


@pytest.mark.parametrize("depth", [150, 300, 1_000, 3_000])
def test_a_deeply_nested_event_is_redacted_as_text(depth: int) -> None:
    deep = b"[" * depth + json.dumps(KEY).encode() + b"]" * depth
    arguments = json.dumps({"arguments": deep.decode()}).encode()
    for stream, kind in ((b"data: " + deep + b"\n\n", "text/event-stream"), (b"[{\"a\":" + deep + b"}]", ""),
                         (b"data: " + arguments + b"\n\n", "text/event-stream")):  # fmt: skip
        (cleaned,) = REDACTOR.redact_chunks([stream], kind).value

        assert KEY.encode() not in cleaned

"""Real traffic: every recorded interaction decodes, and the unified view holds all of its content."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import pytest

from support.corpus import need_shared
from support.corpus_traffic import Interaction, Reason, Verdict, coverage, interactions, judge
from support.example_counts import RunLength
from support.extractor import SHAPES, read_facts, split
from support.missing_facts import find_missing
from traceforge.canon import parse_json
from traceforge.http.event_stream import EventStreamParser
from traceforge.wire.content_encoding import EncodingState, decode_body
from traceforge.wire.dialects import decode_request
from traceforge.wire.endpoints import Dialect, EndpointKind
from traceforge.wire.openai.responses import ResponseAssembler
from traceforge.wire.response_reader import ParsedResponse, ResponseEnding, ResponseReader

FULLY_MIN = 0.98
STEP = 6 if RunLength.is_short else 1  # A short run reads every sixth interaction.
SHORT_BYTES = 700  # A stream up to this size is split at every position, a longer one at random ones.
STREAM_STEP = 2 if RunLength.is_short else 1  # Splits are tried on every second stream in a short run.
POSITIONS = 3  # `make test-all` takes 40.


@pytest.fixture(scope="module")
def traffic() -> tuple[Interaction, ...]:
    """Every interaction of the corpus; one in six of them in a short run."""
    return interactions(need_shared("corpus/llm"))[::STEP]


@pytest.fixture(scope="module")
def verdicts(traffic: tuple[Interaction, ...]) -> list[Verdict]:
    """The extractor's verdict on every generation call."""
    return [judge(call) for call in traffic if call.generates]


@pytest.fixture(scope="module")
def streams(traffic: tuple[Interaction, ...]) -> list[Interaction]:
    """Every generation call with a streamed body."""
    return _list_streams(traffic)


def _list_streams(traffic: Iterable[Interaction]) -> list[Interaction]:
    return [
        interaction
        for interaction in traffic
        if interaction.generates and interaction.body.strip() and _is_stream(interaction)
    ]


def _is_stream(interaction: Interaction) -> bool:
    return interaction.streaming and not (interaction.status >= 400 or interaction.body.lstrip().startswith(b"{\n"))


def test_almost_every_generation_call_is_fully_understood(verdicts: list[Verdict]) -> None:
    """At least 98 of 100 calls that a model answered; the printed table lists the others."""
    answered = [verdict for verdict in verdicts if verdict.reason is not Reason.ERROR]
    full = [verdict for verdict in answered if verdict.full]

    print(f"\n{coverage(verdicts)}")  # noqa: T201 (`pytest -s` shows the table)
    assert len(full) >= FULLY_MIN * len(answered), coverage(verdicts)


def test_every_call_that_is_not_fully_understood_has_a_known_reason(verdicts: list[Verdict]) -> None:
    unexplained = [v for v in verdicts if not v.full and v.reason is None]

    assert [] == [(v.interaction.name, v.missing) for v in unexplained]


def test_an_error_response_keeps_its_body_and_ends_as_an_error(verdicts: list[Verdict]) -> None:
    errors = [v.interaction for v in verdicts if v.reason is Reason.ERROR]

    for interaction in errors:
        answer = interaction.read()
        assert ResponseEnding.ERROR is answer.ending, interaction.name
        assert json.loads(interaction.body) == answer.body, interaction.name
    assert errors


def test_the_message_of_an_error_is_read(verdicts: list[Verdict]) -> None:
    """The message is a text under `message`, `error` or `detail`, never the error's type or code."""
    errors = [v.interaction for v in verdicts if v.reason is Reason.ERROR]

    without_message = [interaction.name for interaction in errors if interaction.read().error is None]
    wrong = [
        interaction.name
        for interaction in errors
        if (error := interaction.read().error) is not None
        and error["message"] not in _error_texts(json.loads(interaction.body))
    ]

    assert [] == wrong
    assert [] == without_message


def _error_texts(value: object) -> list[object]:
    """The values under the keys that servers use for the message of an error."""
    if isinstance(value, list):
        return [text for item in value for text in _error_texts(item)]
    if not isinstance(value, dict):
        return []
    texts = [value[name] for name in ("message", "error", "detail") if name in value]
    return texts + [text for child in value.values() for text in _error_texts(child)]


def test_the_extractor_notices_a_missing_part(traffic: tuple[Interaction, ...]) -> None:
    """Checks the checker: a view without one of its parts is never called complete."""
    tried: dict[str, int] = {}
    for interaction in traffic:
        if not interaction.generates or sum(tried.values()) > 3000:
            continue
        view = interaction.read().unified
        if view is None or interaction.status >= 400 or judge(interaction).reason is not None:
            continue
        facts = read_facts(SHAPES[interaction.label], interaction.body)
        for part, damaged in _damaged_views(view):
            tried[part] = tried.get(part, 0) + 1
            assert find_missing(facts, damaged), (interaction.name, part)

    assert {"id", "model", "usage", "choices", "finish", "content", "tool_calls", "reasoning"} <= tried.keys()


def _damaged_views(view: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name in ("id", "model", "choices", "usage"):
        if view.get(name) and (name != "usage" or any(_is_count(value) for value in view["usage"].values())):
            yield name, {**view, name: None}
    for choice in view["choices"][:1]:
        other_choices = view["choices"][1:]
        if choice["finish_reason"]:
            lost = {**choice, "finish_reason": None, "provider_finish_reason": None}
            yield "finish", {**view, "choices": [lost, *other_choices], "status": None}
        message = choice.get("message") or {}
        for name in ("content", "tool_calls", "reasoning", "refusal"):
            if message.get(name) and str(message[name]).strip():
                lost = {**choice, "message": {**message, name: None, "function_call": None}}
                yield name, {**view, "choices": [lost, *other_choices]}


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def test_a_response_of_an_unknown_endpoint_keeps_its_body_and_has_no_choices(
    traffic: tuple[Interaction, ...],
) -> None:
    """And no interaction of any endpoint raises."""
    others = 0
    for interaction in traffic:
        answer = interaction.read()
        if interaction.endpoint.kind is EndpointKind.OTHER:
            others += 1
            assert answer.ending in (ResponseEnding.RAW, ResponseEnding.ERROR) or answer.body == json.loads(
                interaction.body
            ), interaction.name
    assert others


def test_a_body_that_is_not_streamed_is_kept_unchanged(traffic: tuple[Interaction, ...]) -> None:
    plain = 0
    for interaction in traffic:
        answer = interaction.read()
        if (
            answer.body is not None
            and interaction.body.lstrip()[:1] == b"{"
            and answer.ending is not ResponseEnding.CUT
        ):
            streamed, values = split(interaction.body)
            if not streamed:
                assert values[0] == answer.body, interaction.name
                plain += 1
    assert plain > 1000


def test_embeddings_decode_to_their_vectors(traffic: tuple[Interaction, ...]) -> None:
    """In order, under `data`."""
    compared = 0
    for interaction in traffic:
        answer = interaction.read()
        if (
            interaction.endpoint.kind is not EndpointKind.EMBEDDINGS
            or answer.ending is not ResponseEnding.COMPLETE
            or interaction.status >= 400
        ):
            continue
        body = json.loads(interaction.body)
        if "predictions" in body:
            vectors = [item["embeddings"]["values"] for item in body["predictions"]]
        elif interaction.endpoint.dialect is Dialect.GEMINI:
            vectors = [item["values"] for item in body.get("embeddings") or [body["embedding"]]]
        elif interaction.endpoint.dialect is Dialect.OLLAMA:
            vectors = body.get("embeddings") or [body["embedding"]]
        elif interaction.endpoint.dialect == "cohere":
            listed = body["embeddings"]
            vectors = next(iter(listed.values())) if isinstance(listed, dict) else listed
        else:
            vectors = [item["embedding"] for item in body.get("data") or []]
        assert answer.unified is not None
        assert vectors == [item["embedding"] for item in answer.unified.get("data", [])], interaction.name
        compared += 1
    assert compared


def test_every_request_decodes_to_messages_or_a_prompt(traffic: tuple[Interaction, ...]) -> None:
    decoded = 0
    for interaction in traffic:
        if (
            not interaction.generates
            or not interaction.request.lstrip().startswith(b"{")
            or interaction.status >= 400
        ):
            continue
        body = parse_json(interaction.request)
        assert isinstance(body, dict)
        if any(body.get(name) for name in ("messages", "contents", "input", "prompt")):
            unified = decode_request(interaction.endpoint, body)
            decoded += 1
            assert unified.get("messages") or unified.get("prompt"), interaction.name
    assert decoded


def test_a_plain_body_under_an_encoding_header_is_the_body(traffic: tuple[Interaction, ...]) -> None:
    stale = [interaction for interaction in traffic if interaction.stale_encoding]

    for interaction in stale:
        assert (interaction.body, EncodingState.STALE) == decode_body(interaction.body, interaction.stale_encoding), (
            interaction.name
        )
    assert stale


# The result does not depend on where a stream is split.


def _read_pieces(interaction: Interaction, pieces: list[bytes]) -> ParsedResponse:
    reader = ResponseReader(interaction.endpoint, interaction.status, interaction.media_type)
    for piece in pieces:
        reader.feed(piece)
    return reader.finish()


def test_a_short_stream_may_be_split_at_every_position(streams: list[Interaction]) -> None:
    """In two pieces at every position, and in single bytes."""
    short = [interaction for interaction in streams if len(interaction.body) <= SHORT_BYTES][::STREAM_STEP]
    for interaction in short:
        expected = interaction.read()
        for at in range(len(interaction.body) + 1):
            assert expected == _read_pieces(interaction, [interaction.body[:at], interaction.body[at:]]), (
                interaction.name,
                at,
            )
        assert expected == _read_pieces(interaction, [bytes([byte]) for byte in interaction.body]), interaction.name
    assert short


def test_a_long_stream_may_be_split_at_random_positions(streams: list[Interaction]) -> None:
    """In two pieces at a few positions each, and once in many pieces; `make test-all` takes 40 positions."""
    _check_random_splits(streams, POSITIONS)


@pytest.mark.slow
def test_a_long_stream_may_be_split_at_40_random_positions(streams: list[Interaction]) -> None:
    _check_random_splits(streams, 40)


def _check_random_splits(streams: list[Interaction], count: int) -> None:
    long = [interaction for interaction in streams if len(interaction.body) > SHORT_BYTES][::STREAM_STEP]
    for interaction in long:
        source = random.Random(interaction.name)
        expected = interaction.read()
        places = [source.randrange(len(interaction.body)) for _ in range(count)]
        for at in places:
            assert expected == _read_pieces(interaction, [interaction.body[:at], interaction.body[at:]]), (
                interaction.name,
                at,
            )
        edges = [0, *sorted(places), len(interaction.body)]
        assert expected == _read_pieces(interaction, [interaction.body[a:b] for a, b in pairwise(edges)]), (
            interaction.name
        )
    assert long


def test_recorded_chunks_give_the_same_result(streams: list[Interaction]) -> None:
    """Where the corpus holds chunk sizes; the chunks also join to the body."""
    chunked = [interaction for interaction in streams if interaction.chunk_sizes]
    for interaction in chunked:
        pieces = list(_cut(interaction.body, interaction.chunk_sizes))
        assert interaction.body == b"".join(pieces), interaction.name
        assert list(interaction.chunk_sizes) == [len(piece) for piece in pieces], interaction.name
        assert interaction.read() == _read_pieces(interaction, pieces), interaction.name
    assert chunked


def _cut(body: bytes, sizes: tuple[int, ...]) -> Iterator[bytes]:
    at = 0
    for size in sizes:
        yield body[at : at + size]
        at += size


def test_line_ends_and_pings_do_not_change_the_result(streams: list[Interaction]) -> None:
    """LF or CRLF, and the comments that a proxy sends to keep a connection open."""
    tried = 0
    for interaction in streams:
        if not re.match(rb"data:|event:", interaction.body) or b"\r" in interaction.body:
            continue
        tried += 1
        expected = interaction.read()
        assert expected == _read_pieces(interaction, [interaction.body.replace(b"\n", b"\r\n")]), interaction.name
        assert expected == _read_pieces(interaction, [interaction.body.replace(b"\n\n", b"\n\n: ping\n\n")]), (
            interaction.name
        )
    assert tried > 1000 / STEP


def test_a_truncated_stream_keeps_the_text_received(verdicts: list[Verdict]) -> None:
    """Its text is a prefix of the whole text, and it is complete only after its end marker."""
    tried = cut = 0
    for interaction in (
        verdict.interaction for verdict in verdicts if verdict.full and _is_stream(verdict.interaction)
    ):
        complete = interaction.read()
        if complete.ending is not ResponseEnding.COMPLETE or complete.unified is None:
            continue
        tried += 1
        at = random.Random(interaction.name).randrange(len(interaction.body))
        truncated = _read_pieces(interaction, [interaction.body[:at]])
        assert truncated.ending in (ResponseEnding.CUT, ResponseEnding.COMPLETE, ResponseEnding.RAW), interaction.name
        assert _text(complete.unified).startswith(_text(truncated.unified)), (interaction.name, at)
        cut += truncated.ending is ResponseEnding.CUT
    assert cut > tried / 2


def _text(view: dict[str, Any] | None) -> str:
    choices = (view or {}).get("choices") or [{}]
    return choices[0].get("text") or choices[0].get("message", {}).get("content") or ""


# The Responses API sends everything twice: in events, and again in the terminal event.


def test_the_events_of_a_response_equal_its_terminal_event(streams: list[Interaction]) -> None:
    """In every recording."""
    compared, different = _compare_with_terminal(streams, "_text.done")

    assert compared
    assert [] == different


def test_the_deltas_of_a_response_equal_its_terminal_event() -> None:
    """With few exceptions, so all streams are read in a short run too: LM Studio sends no deltas of arguments, and a
    few recordings were shortened by hand.
    """
    compared, different = _compare_with_terminal(_list_streams(interactions(need_shared("corpus/llm"))), ".done")

    assert len(different) <= 0.01 * compared, different


def _compare_with_terminal(streams: list[Interaction], skipped_suffix: str) -> tuple[int, list[str]]:
    """The number of compared streams, and the names of those that differ."""
    compared, different = 0, []
    for interaction in streams:
        if (
            interaction.endpoint.kind is not EndpointKind.RESPONSES
            or interaction.body.count(b'"response.created"') > 2
        ):
            continue  # Some recordings hold several answers; a name is in an event's head, and in its data.
        built, repeated = _assemble_without_terminal(interaction, skipped_suffix)
        compared += bool(repeated)
        if repeated and [_substance(item) for item in repeated] != [_substance(item) for item in built]:
            different.append(interaction.name)
    return compared, different


def _assemble_without_terminal(interaction: Interaction, skipped_suffix: str) -> tuple[list[Any], list[Any]]:
    """The items built from their events, and the items that the terminal event repeats."""
    parser, assembler, repeated = EventStreamParser(), ResponseAssembler(), []
    for event in [*parser.feed(interaction.body), *parser.finish()]:
        try:
            value = json.loads(event.data)
        except ValueError:
            continue  # `[DONE]`, and one recording whose JSON is broken
        kind = value.get("type", event.name)
        if kind in ("response.completed", "response.incomplete"):
            repeated = value["response"].get("output") or []
        elif not kind.endswith(skipped_suffix):
            assembler.add_event(value, event.name)
    return list(assembler.finish().get("output") or []), repeated


def _substance(item: dict[str, Any]) -> Any:
    """The model's part of an item. Ids may rotate, and servers add their tools' results only at the end."""
    texts = [part.get("text") or part.get("refusal") for part in item.get("content") or [] if part]
    summaries = [part["text"] for part in item.get("summary") or []]
    call = item if item["type"] in ("function_call", "custom_tool_call") else {}
    return item["type"], texts, summaries, [call.get(name) for name in ("call_id", "name", "arguments", "input")]

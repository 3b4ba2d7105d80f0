"""Real traffic: every recorded interaction decodes, and what it says stands in the unified view."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from support.corpus import need_shared
from support.corpus_traffic import Interaction, Reason, Verdict, coverage, interactions, judge
from support.extractor import SHAPES, find_missing, read_facts, split
from traceforge.canon import parse_json
from traceforge.http.event_stream import EventStreamParser
from traceforge.wire.content_encoding import EncodingState, decode_body
from traceforge.wire.dialects import decode_request
from traceforge.wire.endpoints import Dialect, EndpointKind
from traceforge.wire.openai.responses import ResponseAssembler
from traceforge.wire.response_reader import ParsedResponse, ResponseEnding, ResponseReader

FULLY_MIN = 0.98
SHORT_BYTES = 700  # A stream up to this size is split at every position, a longer one at random ones.
POSITIONS = 3  # `make test-all` takes 200.


@pytest.fixture(scope="module")
def traffic() -> tuple[Interaction, ...]:
    """Every interaction of the corpus."""
    return interactions(need_shared("corpus/llm"))


@pytest.fixture(scope="module")
def verdicts(traffic: tuple[Interaction, ...]) -> list[Verdict]:
    """What the extractor says about every generation call."""
    return [judge(one) for one in traffic if one.generates]


@pytest.fixture(scope="module")
def streams(traffic: tuple[Interaction, ...]) -> list[Interaction]:
    """Every generation call whose body came in pieces."""
    return [one for one in traffic if one.generates and one.body.strip() and _is_stream(one)]


def _is_stream(one: Interaction) -> bool:
    return one.streaming and not (one.status >= 400 or one.body.lstrip().startswith(b"{\n"))


def test_almost_every_generation_call_is_fully_understood(verdicts: list[Verdict]) -> None:
    """At least 98 of 100 calls that a model answered; the table says where the others are."""
    answered = [verdict for verdict in verdicts if verdict.reason is not Reason.ERROR]
    full = [verdict for verdict in answered if verdict.full]

    print(f"\n{coverage(verdicts)}")  # noqa: T201 (`pytest -s` shows the table)
    assert len(full) >= FULLY_MIN * len(answered), coverage(verdicts)


def test_every_other_call_has_a_stated_reason(verdicts: list[Verdict]) -> None:
    """Less than fully understood is allowed for the reasons in `Reason`, and for no others."""
    unexplained = [v for v in verdicts if not v.full and v.reason is None]

    assert [] == [(v.interaction.name, v.missing) for v in unexplained]


def test_an_error_answer_is_kept_whole_and_called_an_error(verdicts: list[Verdict]) -> None:
    """The provider's own error stands beside the unified view, which there is none of."""
    errors = [v.interaction for v in verdicts if v.reason is Reason.ERROR]

    for one in errors:
        answer = one.read()
        assert ResponseEnding.ERROR is answer.ending, one.name
        assert json.loads(one.body) == answer.body, one.name
    assert errors


def test_the_words_of_an_error_are_understood(verdicts: list[Verdict]) -> None:
    """The message is a text that the provider called message, error or detail, never its type or its code."""
    errors = [v.interaction for v in verdicts if v.reason is Reason.ERROR]

    silent = [one.name for one in errors if one.read().error is None]
    wrong = [
        one.name
        for one in errors
        if (error := one.read().error) is not None and error["message"] not in _words(json.loads(one.body))
    ]

    assert [] == wrong
    assert [] == silent


def _words(value: object) -> list[object]:
    """Whatever stands under a name that servers use for the words of an error."""
    if isinstance(value, list):
        return [words for item in value for words in _words(item)]
    if not isinstance(value, dict):
        return []
    own = [value[name] for name in ("message", "error", "detail") if name in value]
    return own + [words for child in value.values() for words in _words(child)]


def test_the_judge_is_awake(traffic: tuple[Interaction, ...]) -> None:
    """A view from which one thing is taken is never called complete: the extractor would notice."""
    tried: dict[str, int] = {}
    for one in traffic:
        if not one.generates or sum(tried.values()) > 3000:
            continue
        view = one.read().unified
        if view is None or one.status >= 400 or judge(one).reason is not None:
            continue
        facts = read_facts(SHAPES[one.label], one.body)
        for what, damaged in _damaged(view):
            tried[what] = tried.get(what, 0) + 1
            assert find_missing(facts, damaged), (one.name, what)

    assert {"id", "model", "usage", "choices", "finish", "content", "tool_calls", "reasoning"} <= tried.keys()


def _damaged(view: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name in ("id", "model", "choices", "usage"):
        if view.get(name) and (name != "usage" or any(_is_count(value) for value in view["usage"].values())):
            yield name, {**view, name: None}
    for choice in view["choices"][:1]:
        rest = view["choices"][1:]
        if choice["finish_reason"]:
            lost = {**choice, "finish_reason": None, "provider_finish_reason": None}
            yield "finish", {**view, "choices": [lost, *rest], "status": None}
        message = choice.get("message") or {}
        for name in ("content", "tool_calls", "reasoning", "refusal"):
            if message.get(name) and str(message[name]).strip():
                lost = {**choice, "message": {**message, name: None, "function_call": None}}
                yield name, {**view, "choices": [lost, *rest]}


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def test_every_interaction_is_read_without_a_crash(traffic: tuple[Interaction, ...]) -> None:
    """An address that is not known is kept raw: its body is there, and no choices were made up."""
    others = 0
    for one in traffic:
        answer = one.read()
        if one.endpoint.kind is EndpointKind.OTHER:
            others += 1
            assert answer.ending in (ResponseEnding.RAW, ResponseEnding.ERROR) or answer.body == json.loads(
                one.body
            ), one.name
    assert others


def test_a_plain_body_is_kept_whole_beside_the_view(traffic: tuple[Interaction, ...]) -> None:
    """What is not a stream is handed on as the provider wrote it, to the last number."""
    plain = 0
    for one in traffic:
        answer = one.read()
        if answer.body is not None and one.body.lstrip()[:1] == b"{" and answer.ending is not ResponseEnding.CUT:
            streamed, values = split(one.body)
            if not streamed:
                assert values[0] == answer.body, one.name
                plain += 1
    assert plain > 1000


def test_embeddings_decode_to_their_vectors(traffic: tuple[Interaction, ...]) -> None:
    """Every vector of an embeddings answer stands in `data`, in order."""
    seen = 0
    for one in traffic:
        answer = one.read()
        if (
            one.endpoint.kind is not EndpointKind.EMBEDDINGS
            or answer.ending is not ResponseEnding.COMPLETE
            or one.status >= 400
        ):
            continue
        body = json.loads(one.body)
        if one.endpoint.dialect is Dialect.GEMINI:
            vectors = [item["values"] for item in body.get("embeddings") or [body["embedding"]]]
        elif one.endpoint.dialect is Dialect.OLLAMA:
            vectors = body.get("embeddings") or [body["embedding"]]
        else:
            vectors = [item["embedding"] for item in body.get("data") or []]
        assert answer.unified is not None
        assert vectors == [item["embedding"] for item in answer.unified.get("data", [])], one.name
        seen += 1
    assert seen


def test_every_request_decodes_and_names_what_was_asked(traffic: tuple[Interaction, ...]) -> None:
    """A JSON request of a generation call has its messages, or its prompt, in the unified view."""
    seen = 0
    for one in traffic:
        if not one.generates or not one.request.lstrip().startswith(b"{") or one.status >= 400:
            continue
        body = parse_json(one.request)
        assert isinstance(body, dict)
        if any(body.get(name) for name in ("messages", "contents", "input", "prompt")):
            unified = decode_request(one.endpoint, body)
            seen += 1
            assert unified.get("messages") or unified.get("prompt"), one.name
    assert seen


def test_a_stale_encoding_header_is_noticed(traffic: tuple[Interaction, ...]) -> None:
    """A plain body under a header that names an encoding is the body."""
    stale = [one for one in traffic if one.stale_encoding]

    for one in stale:
        assert (one.body, EncodingState.STALE) == decode_body(one.body, one.stale_encoding), one.name
    assert stale


# How a stream is divided does not matter.


def _read_in(one: Interaction, pieces: list[bytes]) -> ParsedResponse:
    reader = ResponseReader(one.endpoint, one.status, one.media_type)
    for piece in pieces:
        reader.feed(piece)
    return reader.finish()


def test_a_short_stream_may_be_split_at_every_position(streams: list[Interaction]) -> None:
    """Two pieces say what one says, wherever the cut is; so do single bytes."""
    short = [one for one in streams if len(one.body) <= SHORT_BYTES]
    for one in short:
        whole = one.read()
        for at in range(len(one.body) + 1):
            assert whole == _read_in(one, [one.body[:at], one.body[at:]]), (one.name, at)
        assert whole == _read_in(one, [bytes([byte]) for byte in one.body]), one.name
    assert short


def test_a_long_stream_may_be_split_at_random_positions(streams: list[Interaction]) -> None:
    """A handful of positions each, and once into many pieces; the slow run takes 200."""
    _check_random_splits(streams, POSITIONS)


@pytest.mark.slow
def test_a_long_stream_may_be_split_at_200_random_positions(streams: list[Interaction]) -> None:
    """As the plan of acceptance has it."""
    _check_random_splits(streams, 200)


def _check_random_splits(streams: list[Interaction], count: int) -> None:
    long = [one for one in streams if len(one.body) > SHORT_BYTES]
    for one in long:
        source = random.Random(one.name)
        whole = one.read()
        places = [source.randrange(len(one.body)) for _ in range(count)]
        for at in places:
            assert whole == _read_in(one, [one.body[:at], one.body[at:]]), (one.name, at)
        edges = [0, *sorted(places), len(one.body)]
        assert whole == _read_in(one, [one.body[a:b] for a, b in pairwise(edges)]), one.name
    assert long


def test_recorded_chunks_give_the_same_result(streams: list[Interaction]) -> None:
    """Where the corpus holds chunk sizes, the chunks join to the body, and each is read as soon as it is there."""
    chunked = [one for one in streams if one.chunk_sizes]
    for one in chunked:
        pieces = list(_cut(one.body, one.chunk_sizes))
        assert one.body == b"".join(pieces), one.name
        assert list(one.chunk_sizes) == [len(piece) for piece in pieces], one.name
        assert one.read() == _read_in(one, pieces), one.name
    assert chunked


def _cut(body: bytes, sizes: tuple[int, ...]) -> Iterator[bytes]:
    at = 0
    for size in sizes:
        yield body[at : at + size]
        at += size


def test_line_ends_comments_and_pings_change_nothing(streams: list[Interaction]) -> None:
    """LF and CRLF are the same, and what a proxy puts between events to keep a line open says nothing."""
    tried = 0
    for one in streams:
        if not re.match(rb"data:|event:", one.body) or b"\r" in one.body:
            continue
        tried += 1
        whole = one.read()
        assert whole == _read_in(one, [one.body.replace(b"\n", b"\r\n")]), one.name
        assert whole == _read_in(one, [one.body.replace(b"\n\n", b"\n\n: ping\n\n")]), one.name
    assert tried > 1000


def test_a_stream_that_is_cut_keeps_what_came(verdicts: list[Verdict]) -> None:
    """A cut stream is never complete before its end was said, and its text is the beginning of the whole text."""
    tried = cut = 0
    for one in (verdict.interaction for verdict in verdicts if verdict.full and _is_stream(verdict.interaction)):
        whole = one.read()
        if whole.ending is not ResponseEnding.COMPLETE or whole.unified is None:
            continue
        tried += 1
        at = random.Random(one.name).randrange(len(one.body))
        part = _read_in(one, [one.body[:at]])
        assert part.ending in (ResponseEnding.CUT, ResponseEnding.COMPLETE, ResponseEnding.RAW), one.name
        assert _text(whole.unified).startswith(_text(part.unified)), (one.name, at)
        cut += part.ending is ResponseEnding.CUT
    assert cut > tried / 2


def _text(view: dict[str, Any] | None) -> str:
    choices = (view or {}).get("choices") or [{}]
    return choices[0].get("text") or choices[0].get("message", {}).get("content") or ""


# The Responses API says everything twice.


def test_the_events_of_a_response_equal_its_terminal_event(streams: list[Interaction]) -> None:
    """Items built from their own events are those that the last event repeats, in every recording."""
    compared, different = _compare_with_terminal(streams, "_text.done")

    assert compared
    assert [] == different


def test_the_deltas_of_a_response_are_enough(streams: list[Interaction]) -> None:
    """Deltas alone say the same; LM Studio sends none for arguments, and a few recordings were shortened by hand."""
    compared, different = _compare_with_terminal(streams, ".done")

    assert len(different) <= 0.01 * compared, different


def _compare_with_terminal(streams: list[Interaction], left_out: str) -> tuple[int, list[str]]:
    """How many were compared, and the names of those that differ."""
    compared, different = 0, []
    for one in streams:
        if one.endpoint.kind is not EndpointKind.RESPONSES or one.body.count(b'"response.created"') > 2:
            continue  # Some recordings hold several answers; a name is in an event's head, and in its data.
        built, said = _assemble_without_terminal(one, left_out)
        compared += bool(said)
        if said and [_substance(item) for item in said] != [_substance(item) for item in built]:
            different.append(one.name)
    return compared, different


def _assemble_without_terminal(one: Interaction, left_out: str) -> tuple[list[Any], list[Any]]:
    """The items from their own events, without those whose names end like this, and those of the terminal event."""
    parser, assembler, said = EventStreamParser(), ResponseAssembler(), []
    for event in [*parser.feed(one.body), *parser.finish()]:
        try:
            value = json.loads(event.data)
        except ValueError:
            continue  # `[DONE]`, and one recording whose JSON is broken
        kind = value.get("type", event.name)
        if kind in ("response.completed", "response.incomplete"):
            said = value["response"].get("output") or []
        elif not kind.endswith(left_out):
            assembler.add_event(value, event.name)
    return list(assembler.finish().get("output") or []), said


def _substance(item: dict[str, Any]) -> Any:
    """What the model wrote in an item. Ids may rotate, and servers add their tools' results at the end only."""
    said = [part.get("text") or part.get("refusal") for part in item.get("content") or [] if part]
    thought = [part["text"] for part in item.get("summary") or []]
    call = item if item["type"] in ("function_call", "custom_tool_call") else {}
    return item["type"], said, thought, [call.get(name) for name in ("call_id", "name", "arguments", "input")]

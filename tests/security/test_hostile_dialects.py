"""Bodies and streams of every dialect, damaged at any place: always read or kept raw, and never for long."""

from __future__ import annotations

import copy
import json
from functools import partial
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec import structs

from support.dialect_files import DialectCall, dialect_calls, frame_event
from support.example_counts import RunLength
from support.exchanges import COMPOSER, parse_object
from support.json_mutations import JUNK, Mutation, mutate, mutations
from support.stored_traces import call
from support.view_facts import read_facts
from support.work_counts import count_lines
from traceforge.canon import exact_ecmascript_bytes
from traceforge.wire.dialects import decode_request, encode_response, encode_stream, list_dialects
from traceforge.wire.endpoints import find_endpoint
from traceforge.wire.response_reader import ParsedResponse, ResponseEnding, ResponseReader
from traceforge.wire.unified import as_object, list_objects

calls = st.sampled_from(dialect_calls())
streams = st.sampled_from([call for call in dialect_calls() if call.stream])
NUMBERS = ("1e400", "-0", "123456789012345678901234567890", "1" * 400, "5e-324", "NaN", "Infinity")


def test_every_dialect_is_tried() -> None:
    assert set(list_dialects()) == {call.dialect for call in dialect_calls()}


@pytest.mark.parametrize("side", ["request", "response"])
def test_secrets_below_long_names_take_little_memory(side: str) -> None:
    """A trace names the place of each secret: who chooses the names must not make it hundreds of times as large."""
    names = [f"name{number}" * 400 for number in range(50)]
    addresses = [f"user{number}@gmail.com" for number in range(500)]
    body = "".join(f'{{"{name}":' for name in names) + json.dumps(addresses) + "}" * len(names)
    exchange = call(1, arguments=json.loads(body)) if side == "request" else call(1)
    if side == "response":
        exchange = structs.replace(exchange, chunks=(exchange.chunks[0]._replace(data=body.encode()),))

    composed = COMPOSER.compose(exchange)

    redacted = list_objects(as_object(parse_object(composed.trace)["redacted"])[side])
    assert 500 == len([entry for entry in redacted if entry["type"] == "EMAIL"])
    assert 4 * len(body) > len(composed.trace)


@pytest.mark.parametrize(
    "body", [{"contents": [{"role": [], "parts": [{"text": "hi"}]}]}, {"contents": [{"role": {}}]}]
)
def test_a_role_that_is_no_text_is_read(body: dict[str, Any]) -> None:
    request = decode_request(find_endpoint("POST", "/v1beta/models/gemini-3:generateContent"), body)

    assert {"gemini-3"} == {request["model"]}


@pytest.mark.fuzzer(30)
@given(calls, mutations)
def test_any_request_is_decoded(call: DialectCall, changes: list[Mutation]) -> None:
    """And every field that came whole is still there, in the request or under its unified name."""
    body = mutate(call.request, changes)
    assume(isinstance(body, dict))

    assert isinstance(decode_request(call.endpoint, body), dict)


@pytest.mark.fuzzer(30)
@given(calls, mutations, st.sampled_from([200, 400, 503]))
def test_any_answer_is_read(call: DialectCall, changes: list[Mutation], status: int) -> None:
    """A body, or the events of a stream, in which several places are of another type, missing, or twice there."""
    if call.stream is None:
        data = as_bytes(mutate(call.answer, changes))
    else:
        events = mutate(call.stream, changes)
        assume(isinstance(events, list))
        data = b"".join(frame_event(call.framing, event) for event in events)

    answer = read(call, data, status)

    assert answer.ending in ResponseEnding
    assert_can_be_written(call, answer)


@pytest.mark.fuzzer(20)
@given(calls, st.data())
def test_one_strange_field_takes_nothing_else_away(call: DialectCall, data: st.DataObject) -> None:
    """One value anywhere in the first object of an answer is replaced; the facts of other fields stay."""
    assume(isinstance(call.answer, dict))
    name = data.draw(st.sampled_from(sorted(call.answer)))
    junk = data.draw(st.sampled_from(JUNK))

    answer = read(call, as_bytes({**call.answer, name: junk}))

    if answer.ending is ResponseEnding.COMPLETE:
        assert answer.unified is not None
        assert len(kept_facts(call, answer)) >= len(kept_facts(call, call.read())) - facts_of(call, name)


@pytest.mark.fuzzer(20)
@given(calls, st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 3), st.binary(max_size=6)), max_size=4))
def test_any_bytes_are_read_alike_however_they_are_cut(
    call: DialectCall, edits: list[tuple[int, int, bytes]]
) -> None:
    """Bytes are cut out, replaced and put in, also in the middle of a frame or a character."""
    data = b"".join(call.pieces)
    for place, length, new in edits:
        at = place % (len(data) + 1)
        data = data[:at] + new + data[at + length * length :]

    whole = read(call, data)

    reader = ResponseReader(call.endpoint, 200, call.media_type)
    step = 1 + len(data) // 40
    for at in range(0, len(data), step):
        reader.feed(data[at : at + step])
    assert whole == reader.finish()


@pytest.mark.fuzzer(10)
@given(calls, st.sampled_from(NUMBERS), st.integers(0, 60))
def test_any_number_is_read(call: DialectCall, number: str, place: int) -> None:
    """In the place of any number of an answer; one that is no JSON makes the body raw, and no more."""
    numbers: list[str] = []

    def replace(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: replace(child) for key, child in value.items()}
        if isinstance(value, list):
            return [replace(child) for child in value]
        if isinstance(value, int | float) and not isinstance(value, bool):
            numbers.append("")
            return "@HERE@" if len(numbers) - 1 == place else value
        return value

    assume(call.stream is None)
    data = json.dumps(replace(call.answer)).replace('"@HERE@"', number).encode()

    assert_can_be_written(call, read(call, data))


@pytest.mark.fuzzer(10)
@given(calls, st.integers(0, 200), st.sampled_from(["[", '{"a":']))
def test_any_depth_is_read(call: DialectCall, place: int, opening: str) -> None:
    """A value that nests as deep as a body may, and deeper, at any place."""
    depth = 150 if place % 2 else 5000
    closing = {"[": "]", '{"a":': "}"}[opening]
    text = json.dumps(call.answer if call.stream is None else call.stream)
    quotes = [at for at, sign in enumerate(text) if text[at : at + 3] == ': "']
    assume(quotes)
    at = quotes[place % len(quotes)] + 2
    end = text.index('"', at + 1) + 1
    assume("\\" not in text[at:end])
    data = f"{text[:at]}{opening * depth}1{closing * depth}{text[end:]}".encode()

    assert read(call, data).ending in ResponseEnding


@pytest.mark.fuzzer(10)
@given(calls, st.integers(0, 50))
def test_a_name_that_comes_twice_is_read(call: DialectCall, place: int) -> None:
    """The body is read, or kept raw; nothing raises."""
    text = json.dumps(call.answer if call.stream is None else call.stream[0])
    opens = [at for at, sign in enumerate(text) if sign == "{" and text[at + 1] == '"']
    assume(opens)
    at = opens[place % len(opens)] + 1
    name = text[at : text.index('"', at + 1) + 1]

    answer = read(call, f"{text[:at]}{name}: 7, {text[at:]}".encode())

    assert answer.ending in ResponseEnding


# Events that no documented stream has, each of which adds an item to a list.
ITEMS: dict[str, dict[str, Any]] = {
    "anthropic: stream": {
        "type": "content_block_delta", "index": 1, "delta": {"type": "citations_delta", "citation": {"title": "a"}}
    },
    "bedrock: converse stream": {
        "contentBlockDelta": {"contentBlockIndex": 0, "delta": {"citation": {"title": "a"}}}
    },
    "cohere: stream": {
        "type": "citation-start", "index": 0,
        "delta": {"message": {"citations": {"start": 0, "sources": [{"id": "a"}]}}},
    },
    "cohere: old chat stream": {"event_type": "citation-generation", "citations": [{"text": "a"}]},
    "gemini: tools stream": {
        "candidates": [{"content": {"parts": [{"functionCall": {"willContinue": True, "partialArgs": [{"a": 1}]}}]}}]
    },
    "llama-cpp: stream": {"content": "a", "tokens": [1, 2], "completion_probabilities": [{"id": 1}], "stop": False},
    "ollama: stream": {"message": {"tool_calls": [{"function": {"name": "look", "arguments": {}}}]}, "done": False},
    "openai: openai stream": {
        "choices": [{"index": 0, "delta": {"content": [{"type": "text", "text": "a"}, {"type": "other"}]}}]
    },
    "openai: openrouter stream": {
        "choices": [{"index": 0, "delta": {"reasoning_details": [{"type": "a"}, {"type": "b"}]}}]
    },
    "openai: responses stream": {
        "type": "response.output_text.annotation.added", "output_index": 0, "content_index": 0, "annotation": {"a": 1}
    },
}  # fmt: skip
HOW_OFTEN = 25


@pytest.mark.parametrize("call", [call for call in dialect_calls() if call.stream], ids=str)
def test_an_event_takes_no_work_for_those_before_it(call: DialectCall) -> None:
    """Each event of a stream, eight times as often: at most nine times the work."""
    assert call.stream is not None
    events = [(place, event) for place, event in enumerate(call.stream) if isinstance(event, dict)]
    if str(call) in ITEMS:
        events.append((len(call.stream) - 2, ITEMS[str(call)]))
    for place, event in events[-1:] if RunLength.is_short else events:
        start, piece = b"".join(call.pieces[:place]), frame_event(call.framing, event)

        few, many = (count_lines(partial(read, call, start + piece * n)) for n in (HOW_OFTEN, 8 * HOW_OFTEN))

        assert many < 9 * few, event


def as_bytes(value: Any) -> bytes:
    """JSON, also with half characters and numbers beyond those of JavaScript."""
    return json.dumps(value).encode()


def read(call: DialectCall, data: bytes, status: int = 200) -> ParsedResponse:
    reader = ResponseReader(call.endpoint, status, call.media_type)
    reader.feed(data)
    return reader.finish()


def assert_can_be_written(call: DialectCall, answer: ParsedResponse) -> None:
    """What was understood is stored, and a generated answer can be written out again."""
    exact_ecmascript_bytes(answer.body)
    exact_ecmascript_bytes(copy.deepcopy(answer.unified))
    if answer.unified is not None and answer.unified.get("choices") and call.endpoint.is_generative:
        assert isinstance(encode_response(call.endpoint, answer.unified), dict)
        assert isinstance(encode_stream(call.endpoint, answer.unified), list)


def kept_facts(call: DialectCall, answer: ParsedResponse) -> set[str]:
    """The facts of the file that are still in the view."""
    facts = read_facts(answer.unified)
    return {name for name, value in call.view.items() if name != "asked" and facts[name] == value}


def facts_of(call: DialectCall, name: str) -> int:
    """How many facts are lost if a field is not there, or an empty text: those that are its own."""
    rest = {key: value for key, value in call.answer.items() if key != name}
    kept = min(len(kept_facts(call, read(call, as_bytes(answer)))) for answer in (rest, {**rest, name: ""}))
    return len(kept_facts(call, call.read())) - kept

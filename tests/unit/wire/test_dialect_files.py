"""What every dialect must do, tried on the documented calls of its file in `dialects/`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.corpus_traffic import reread
from support.dialect_files import DialectCall, dialect_calls, dialect_files
from support.view_facts import read_facts
from traceforge.wire import dialect_index
from traceforge.wire.dialects import decode_request, encode_stream, find_declaration
from traceforge.wire.response_reader import ResponseEnding, ResponseReader

NEW = {"a_field_of_next_year": {"n": [1, None, "ü"]}}

each_call = pytest.mark.parametrize("call", dialect_calls(), ids=str)
each_answer = pytest.mark.parametrize(
    "call", [call for call in dialect_calls() if call.endpoint.is_generative], ids=str
)
each_stream = pytest.mark.parametrize("call", [call for call in dialect_calls() if call.stream], ids=str)
each_object = pytest.mark.parametrize(
    "call", [call for call in dialect_calls() if isinstance(call.answer, dict)], ids=str
)


def test_every_dialect_has_a_file() -> None:
    """A new one is in these tests as soon as it has one."""
    assert sorted(dialect_index.MODULES) == dialect_files()


@pytest.mark.parametrize("name", dialect_index.MODULES)
def test_every_kind_of_endpoint_has_a_call(name: str) -> None:
    declared = {path.kind for path in find_declaration(name).endpoints}

    assert declared == {call.endpoint.kind for call in dialect_calls() if call.dialect == name}


@each_call
def test_the_address_names_the_dialect(call: DialectCall) -> None:
    assert call.dialect == call.endpoint.dialect


@each_call
def test_a_request_shows_what_was_asked(call: DialectCall) -> None:
    """And a field that the module does not know stays."""
    unified = decode_request(call.endpoint, {**call.request, **NEW})

    shown = next(unified[name] for name in ("messages", "prompt", "input", "query") if unified.get(name))
    assert call.view["asked"] in json.dumps(shown)
    assert NEW == {name: unified[name] for name in NEW}
    if "tools" in call.name:
        assert "look" in json.dumps(unified["tools"])


@each_call
def test_a_response_shows_what_was_answered(call: DialectCall) -> None:
    """Text, thoughts, tool calls, reason and tokens; nothing that came was strange."""
    answer = call.read()

    assert ResponseEnding.COMPLETE is answer.ending
    assert ({}, 0) == (answer.unknown_events, answer.broken_events)
    assert_shows(call, answer.unified)


@each_answer
def test_an_answer_survives_encoding(call: DialectCall) -> None:
    """Its view reads back as itself, written plain, and as a stream where the dialect writes one."""
    view = call.read().unified or {}
    streams = {other.endpoint.kind for other in dialect_calls() if other.stream and other.dialect == call.dialect}
    has_stream = call.endpoint.kind in streams and "choices" in view and encode_stream(call.endpoint, view)

    for way in ("plain", "stream") if has_stream else ("plain",):
        assert view == reread(call.endpoint, view, way).unified, way


@each_object
def test_a_new_field_of_a_response_stays(call: DialectCall) -> None:
    answer = call.read(json.dumps({**call.answer, **NEW}).encode())

    assert answer.unified is not None
    assert NEW == {name: answer.unified.get(name) for name in NEW}
    assert_shows(call, answer.unified)


@each_stream
def test_a_stream_reads_alike_however_it_is_cut(call: DialectCall) -> None:
    reader = ResponseReader(call.endpoint, 200, call.media_type)
    data = b"".join(call.pieces)
    for place in range(len(data)):
        reader.feed(data[place : place + 1])

    assert call.read() == reader.finish()


@each_stream
def test_a_stream_that_stops_early_is_cut(call: DialectCall) -> None:
    """After each event but the last two, which may be counts and an end that says nothing."""
    for count in range(1, len(call.pieces) - 2):
        answer = call.read(b"".join(call.pieces[:count]))

        assert answer.ending is ResponseEnding.CUT, count
        text = text_of(answer.unified)
        assert call.view.get("text", "").startswith(text), count


def assert_shows(call: DialectCall, unified: dict[str, Any] | None) -> None:
    """Each fact of the file is in the view."""
    facts = read_facts(unified)

    expected = {name: value for name, value in call.view.items() if name != "asked"}
    assert expected == {name: facts[name] for name in expected}


def text_of(unified: dict[str, Any] | None) -> str:
    """The text as far as it came."""
    return str(read_facts(unified)["text"] or "")

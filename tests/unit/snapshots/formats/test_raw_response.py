"""The raw response: it is replayed byte for byte, and agrees with its record."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.corpus import need_shared
from support.corpus_traffic import _ADDRESSES, interactions
from traceforge.canon import JSON, parse_json
from traceforge.errors import InvalidFile, NotJSON
from traceforge.exchange import Chunk
from traceforge.replay.recorded_response import CancelCause, Cancellation
from traceforge.snapshots.formats.determinism_policy import ModelPolicy
from traceforge.snapshots.formats.raw_response import (
    RawResponse,
    check_raw_response,
    decode_comparable_answer,
    draft_raw_response,
    find_disagreements,
    read_raw_response,
    write_raw_response,
)
from traceforge.snapshots.formats.record_draft import DraftKind

REQUEST: dict[str, Any] = {
    "model": "gpt-4o", "messages": [{"role": "user", "content": "Hi"}], "temperature": 0, "max_tokens": 9, "seed": 1,
}  # fmt: skip
ANSWER: dict[str, Any] = {
    "id": "c1", "object": "chat.completion", "created": 1, "model": "gpt-4o-2024",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
}  # fmt: skip

texts = st.text(max_size=20)
pairs = st.lists(st.tuples(texts, texts), max_size=3).map(tuple)
bodies = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
names = st.text(min_size=1, max_size=10)
entries = st.lists(st.fixed_dictionaries({"path": names, "type": names}, optional={"fingerprint": texts}), max_size=2)
echoes = st.lists(st.fixed_dictionaries({"marker": st.integers(0, 9), "path": names, "nth": st.integers(0, 9)}))
answers = st.builds(
    RawResponse,
    method=st.sampled_from(["POST", "GET"]),
    path=texts.map(lambda text: f"/{text}"),
    query=texts,
    request_headers=pairs,
    request_body=bodies,
    status=st.integers(100, 599),
    response_headers=pairs,
    chunks=st.lists(
        st.builds(Chunk, st.integers(0, 10**6).map(lambda t: t / 1000), st.binary(max_size=30)), max_size=4
    ).map(tuple),
    redacted=st.none() | st.fixed_dictionaries({"request": entries, "response": entries, "echoes": echoes}),
    source=st.none() | st.just({"file": "app.py", "line": 3, "function": "f", "scopes": [{"scope": "", "turn": 1}]}),
)


def wire(request: Any = None, *chunks: bytes, status: int = 200, media_type: str = "application/json") -> RawResponse:
    """A raw response of a chat."""
    pieces = chunks or (json.dumps(ANSWER).encode(),)
    return RawResponse(
        "POST", "/v1/chat/completions", "", (), REQUEST if request is None else request, status,
        (("content-type", media_type),), tuple(Chunk(float(n), piece) for n, piece in enumerate(pieces)),
    )  # fmt: skip


def record(answer: RawResponse) -> dict[str, Any]:
    """The record that an approval would write for it."""
    draft = draft_raw_response(answer, ModelPolicy())
    assert DraftKind.SNAPSHOT is draft.kind
    return {"request": draft.request, "response": {**draft.response, "latency_ms": 5}}


@given(answers)
def test_a_written_raw_response_is_read_back_byte_for_byte(answer: RawResponse) -> None:
    """Every chunk with its boundaries, whatever its bytes are."""
    data = write_raw_response(answer)

    assert answer == read_raw_response(data)
    assert data == write_raw_response(read_raw_response(data))
    assert [] == check_raw_response(parse_json(data))


def test_each_chunk_is_a_line_and_all_times_are_one_line() -> None:
    """A new recording changes only the lines of changed chunks."""
    lines = write_raw_response(wire(None, b"data: 1\n\n", b"\xff")).decode().splitlines()

    assert '      "data: 1\\n\\n",' in lines
    assert '      {"b64":"/w=="}' in lines
    assert '    "t_ms": [0.0,1.0],' in lines


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (lambda value: value.update(version="1.0.1"), "$.version"),
        (lambda value: value.update(other=1), "$.other"),
        (lambda value: value["response"]["t_ms"].append(1), "$.response.t_ms"),
        (lambda value: value["response"].update(status=99), "$.response.status"),
        (lambda value: value["response"]["chunks"].__setitem__(0, {"b64": "?"}), "$.response.chunks[0].b64"),
        (lambda value: value["request"].pop("query"), "$.request.query"),
    ],
)
def test_a_broken_raw_response_is_refused_with_the_place(change: Any, path: str) -> None:
    """One finding, with the rule and the place."""
    value: Any = parse_json(write_raw_response(wire()))
    change(value)

    assert [("SN9", path)] == [(finding.rule, finding.path) for finding in check_raw_response(value)]
    with pytest.raises(InvalidFile):
        read_raw_response(json.dumps(value).encode())


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"status": 200}, "$.response.status"),
        ({"headers": [["a", "b"]]}, "$.response.headers"),
        ({"t_ms": [1], "chunks": ["{}"]}, "$.response.chunks"),
        ({"left_early": True}, "$.response.left_early"),
        ({"cancelled": {"cause": "boredom", "after_ms": 1}}, "$.response.cancelled.cause"),
        ({"cancelled": {"cause": "timeout", "after_ms": -1}}, "$.response.cancelled.after_ms"),
        ({"cancelled": {"cause": "application", "after_ms": 1e308}}, "$.response.cancelled.after_ms"),
    ],
)
def test_a_cancelled_call_has_nothing_of_a_response(change: dict[str, Any], path: str) -> None:
    """Or a reviewer would read one thing, and a test would get another."""
    cancelled = wire()._replace(
        status=0, response_headers=(), chunks=(), cancellation=Cancellation(CancelCause.APPLICATION, 300.0)
    )
    value: Any = parse_json(write_raw_response(cancelled))

    assert [] == check_raw_response(value)
    value["response"].update(change)
    assert [("SN9", path)] == [(finding.rule, finding.path) for finding in check_raw_response(value)]


def test_data_that_is_not_json_is_refused() -> None:
    """With its place."""
    with pytest.raises(NotJSON):
        read_raw_response(b"{")


def test_a_record_agrees_with_its_own_raw_response() -> None:
    """Latency and the file reference are not compared."""
    assert [] == find_disagreements(record(wire()), wire(), ModelPolicy())


@pytest.mark.parametrize(
    ("side", "field", "value"),
    [
        ("request", "model", "gpt-4o-mini"),
        ("request", "temperature", 1),
        ("request", "seed", 2),
        ("request", "messages", [{"role": "user", "content": "Hi!"}]),
        ("request", "top_p", 0.5),
        ("response", "content", "Hello!"),
        ("response", "finish_reason", "length"),
        ("response", "tokens_used", 3),
        ("response", "tool_calls", [{"id": "1"}]),
    ],
)
def test_a_changed_record_disagrees_with_its_raw_response(side: str, field: str, value: Any) -> None:
    """The reviewed answer is the replayed one."""
    stated = copy.deepcopy(record(wire()))
    stated[side][field] = value

    assert [f"{side}.{field}"] == [problem.path for problem in find_disagreements(stated, wire(), ModelPolicy())]


def test_only_what_was_not_sent_may_be_declared() -> None:
    """A record cannot exempt a changed prompt from the comparison, or hide that a value was not sent."""
    plain = wire({name: value for name, value in REQUEST.items() if name != "temperature"})
    stated = copy.deepcopy(record(plain))
    edited, hidden = copy.deepcopy(stated), copy.deepcopy(stated)
    edited["request"]["messages"] = [{"role": "user", "content": "Hi!"}]
    edited["request"]["declared"].append("messages")
    del hidden["request"]["declared"]

    assert ["temperature"] == stated["request"]["declared"]
    assert [] == find_disagreements(stated, plain, ModelPolicy())
    assert ["request.messages"] == [problem.path for problem in find_disagreements(edited, plain, ModelPolicy())]
    assert ["request.declared"] == [problem.path for problem in find_disagreements(hidden, plain, ModelPolicy())]


def test_a_changed_raw_response_disagrees_with_its_record() -> None:
    """Also in one chunk of a stream, and in the request."""
    stated = record(wire())
    other = json.dumps(ANSWER).replace("Hello", "Hullo").encode()

    assert ["response.content"] == [p.path for p in find_disagreements(stated, wire(None, other), ModelPolicy())]
    assert ["request.seed"] == [
        p.path for p in find_disagreements(stated, wire({**REQUEST, "seed": 2}), ModelPolicy())
    ]


def test_a_record_that_refers_to_an_error_response_disagrees_with_it() -> None:
    error = wire(None, b'{"error": {"message": "no"}}', status=500)

    assert ["the raw response is not the answer of a model: the provider answered with an error"] == [
        problem.message for problem in find_disagreements(record(wire()), error, ModelPolicy())
    ]


def test_every_call_of_the_corpus_agrees_with_its_own_record() -> None:
    """In every dialect, plain and streamed; calls that the format cannot represent are reported as such."""
    kinds: dict[DraftKind, int] = dict.fromkeys(DraftKind, 0)
    for interaction in interactions(need_shared("corpus/llm"))[::5]:
        if not interaction.generates or not interaction.request.startswith(b"{"):
            continue
        answer = RawResponse(
            interaction.method, _ADDRESSES[interaction.label], "", (), parse_json(interaction.request),
            interaction.status or 200, (("content-type", interaction.media_type),), (Chunk(1.0, interaction.body),),
        )  # fmt: skip
        draft = draft_raw_response(answer, ModelPolicy())
        kinds[draft.kind] += 1
        if draft.kind is DraftKind.SNAPSHOT:
            stated = {"request": draft.request, "response": {**draft.response, "latency_ms": 1}}
            assert [] == find_disagreements(stated, answer, ModelPolicy()), interaction.name

    assert kinds[DraftKind.SNAPSHOT] > 0.9 * sum(kinds.values())


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"method":"m"}\n{"result":{}}\n', {"messages": [{"method": "m"}, {"result": {}}]}),
        (b'{"method":"m"}\nnoise\n', '{"method":"m"}\nnoise\n'),
    ],
)
def test_the_messages_of_a_tool_server_are_compared_one_by_one(body: bytes, expected: JSON) -> None:
    """A change in the last of them is not one of a long text."""
    raw = RawResponse(
        "POST", "/tools/call", "", (), {"method": "tools/call"}, 200, (("content-type", "application/x-ndjson"),),
        (Chunk(1.0, body),), upstream="mcp/notes",
    )  # fmt: skip

    assert {"status": 200, "body": expected} == decode_comparable_answer(raw)

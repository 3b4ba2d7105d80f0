"""Cassettes: what is read, what is refused, and whose they are."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
import yaml

from traceforge.errors import InvalidFile
from traceforge.snapshots.record.cassette_format import read_cassette, unpack_cassette
from traceforge.snapshots.record.cassette_import import is_model_call

REQUEST = {"method": "POST", "uri": "https://h/v1/chat/completions", "headers": {}, "body": '{"model": "m"}'}
RESPONSE = {"status": {"code": 200}, "headers": {"A": ["1", "2"], "b": "3"}, "body": {"string": "é"}}


def cassette(request: dict[str, Any] | None = None, response: dict[str, Any] | None = None) -> dict[str, Any]:
    """One interaction, changed."""
    return {
        "interactions": [{"request": {**REQUEST, **(request or {})}, "response": {**RESPONSE, **(response or {})}}]
    }


def json_and_yaml(value: dict[str, Any]) -> list[tuple[bytes, str]]:
    """The same in JSON and in YAML."""
    return [(json.dumps(value).encode(), "a.json"), (yaml.safe_dump(value).encode(), "a.yaml")]


@pytest.mark.parametrize(("data", "name"), json_and_yaml(cassette()))
def test_json_and_yaml_give_the_same_result(data: bytes, name: str) -> None:
    """Headers keep their order and their repetitions; texts are UTF-8."""
    (interaction,) = read_cassette(data, name)

    assert ("POST", "https://h/v1/chat/completions", b'{"model": "m"}') == (
        interaction.method,
        interaction.url,
        interaction.request_body,
    )
    assert (200, "é".encode()) == (interaction.status, interaction.response_body)
    assert {("A", "1"), ("A", "2"), ("b", "3")} == set(interaction.response_headers)


@pytest.mark.parametrize(("data", "name"), json_and_yaml({"requests": [REQUEST], "responses": [RESPONSE]}))
def test_two_lists_are_read_as_interactions(data: bytes, name: str) -> None:
    """As LangChain writes them, compressed or not."""
    packed = unpack_cassette(gzip.compress(data), f"{name}.gz")

    assert read_cassette(*json_and_yaml(cassette())[0]) == read_cassette(*packed) == read_cassette(data, name)


@pytest.mark.parametrize("body", [{"model": "m"}, {"string": {"model": "m"}}])
def test_a_mapping_as_body_is_json(body: dict[str, Any]) -> None:
    """A serializer has parsed it, so headers about its encoding are stale."""
    headers = {"Content-Encoding": ["gzip"], "Content-Length": ["9"], "A": ["1"]}

    (interaction,) = read_cassette(*json_and_yaml(cassette({"body": body, "headers": headers}))[1])

    assert b'{"model":"m"}' == interaction.request_body
    assert (("A", "1"), ("content-type", "application/json")) == interaction.request_headers


@pytest.mark.parametrize(
    "data",
    [b"", b"plain", gzip.compress(b"x" * 99, mtime=0)[:-9], gzip.compress(b"x" * 2_000, mtime=0)],
    ids=["empty", "plain", "cut", "large"],
)
def test_a_compressed_cassette_is_limited(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not gzip, is cut, or holds more than a cassette may is refused."""
    monkeypatch.setattr("traceforge.snapshots.record.cassette_format.CASSETTE_BYTES_MAX", 1_000)

    with pytest.raises(InvalidFile):
        unpack_cassette(data, "a.yaml.gz")


def test_bytes_come_as_binary_and_as_a_stream() -> None:
    """`!!binary`, and the object that vcrpy once wrote for a body that was a stream."""
    stream = "!!python/object/new:_io.BytesIO {state: !!python/tuple [!!binary eA==, 0, null]}"
    text = (
        f"interactions:\n- request: {{method: POST, uri: 'http://h/', body: {stream}}}\n"
        "  response: {status: {code: 200}, body: {string: !!binary AP8=}}\n"
    )

    (interaction,) = read_cassette(text.encode(), "a.yaml")

    assert (b"x", b"\x00\xff") == (interaction.request_body, interaction.response_body)


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ({}, "$"),
        ({"requests": [REQUEST]}, "$.responses"),
        ({"requests": [REQUEST], "responses": [RESPONSE, RESPONSE]}, "$.responses"),
        ({"requests": [1], "responses": [1]}, "$.requests[0]"),
        ({"interactions": [1]}, "$.interactions[0]"),
        ({"interactions": [{"request": {}}]}, "$.interactions[0]"),
        (cassette({"uri": "no address"}), "$.interactions[0].request"),
        (cassette({"headers": [1]}), "$.interactions[0].request.headers"),
        (cassette({"body": 7}), "$.interactions[0].request.body"),
        (cassette(response={"status": {"code": 7}}), "$.interactions[0].response.status"),
        (cassette(response={"status": True}), "$.interactions[0].response.status"),
        (cassette(response={"body": {"base64_string": "?"}}), "$.interactions[0].response.body"),
    ],
)
def test_a_file_that_is_not_a_cassette_is_refused_with_the_place(value: dict[str, Any], place: str) -> None:
    """In JSON and in YAML."""
    for data, name in json_and_yaml(value):
        with pytest.raises(InvalidFile) as error:
            read_cassette(data, name)

        assert place == error.value.findings[0].path


@pytest.mark.parametrize(
    "text",
    [
        "a: [", "!!python/name:os.system", "\tx", "interactions: [&a [*a]]", "[" * 2_000,
        pytest.param("[" * 20_000, marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_broken_yaml_is_refused(text: str) -> None:
    """Never a traceback, and never an object that a tag names."""
    with pytest.raises(InvalidFile):
        read_cassette(text.encode(), "a.yaml")


@pytest.mark.parametrize(
    ("request_side", "is_one"),
    [
        ({}, True),
        ({"body": "{}"}, False),
        ({"body": "hello"}, False),
        ({"method": "GET"}, False),
        ({"uri": "https://h/v1/orders"}, False),
        ({"uri": "https://h/v1/messages"}, True),
        ({"uri": "https://h/v1/messages", "body": '{"to": "+44"}'}, False),
        ({"uri": "https://h/v1beta/models/g:generateContent", "body": "{}"}, True),
    ],
)
def test_a_model_call_has_a_known_endpoint_and_a_model(request_side: dict[str, Any], is_one: bool) -> None:
    """A messaging service's call is not one."""
    (interaction,) = read_cassette(*json_and_yaml(cassette(request_side))[0])

    assert is_one is is_model_call(interaction)

"""No secret is stored that a WebSocket, a tool server, a function or a frame of Bedrock carries, in one piece or in
many, and no id of their protocols is taken for one."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any
from zlib import crc32

import pytest
from msgspec.structs import replace

from support import bedrock_frames
from support.exchanges import make_exchange, trace_id
from support.fake_secrets import ALNUM, URL_SAFE, draw
from support.planted_secrets import PROMPT, is_stored, read_disk, record
from support.secret_shapes import SHAPES, hexadecimal, make_shape
from traceforge.canon import JSON
from traceforge.exchange import Exchange
from traceforge.redact.redactor import Redactor

REDACTOR = Redactor()
SETUP = {"json": {"type": "session.update", "session": {}}}
BEDROCK = "application/vnd.amazon.eventstream"


def _cut(text: str) -> list[str]:
    return [text[place : place + 5] for place in range(0, len(text), 5)]


def _conversation(sent: list[Any], received: list[Any]) -> Exchange:
    return make_exchange(
        "wss://127.0.0.1:8000/v1/realtime", request={"client_frames": sent}, answer={"server_frames": received}
    )


def _received(*values: Any) -> list[Any]:
    return [{"after": 1, "json": value} for value in values]


def _deltas(kind: str, text: str) -> Exchange:
    """As the Realtime API sends a text, each delta with an id of its own."""
    numbers = {"response_id": "resp_1", "item_id": "item_1", "output_index": 0, "content_index": 0}
    events = [
        {"type": kind, "event_id": f"event_{number}", **numbers, "delta": delta}
        for number, delta in enumerate(_cut(text))
    ]
    return _conversation([SETUP], _received(*events))


def _item(text: str) -> Exchange:
    content = [{"type": "input_text", "text": text}]
    item = {"type": "message", "role": "user", "content": content}
    return _conversation([{"json": {"type": "conversation.item.create", "item": item}}], [])


def _live(text: str) -> Exchange:
    """As Gemini Live sends a text: JSON in binary frames."""
    values = [{"serverContent": {"modelTurn": {"parts": [{"text": piece}]}}} for piece in _cut(text)]
    return _conversation(
        [{"json": {"setup": {"model": "m"}}}], [{**frame, "binary": True} for frame in _received(*values)]
    )


def _live_result(text: str) -> Exchange:
    results = [{"id": "f", "name": "n", "response": {"result": text}}]
    return _conversation([{"json": {"toolResponse": {"functionResponses": results}}}], [])


def _tool(arguments: JSON, result: JSON) -> Exchange:
    request = {"method": "tools/call", "params": {"name": "read", "arguments": arguments}}
    return make_exchange("mcp://files/tools/call", request=request, answer=result)


def _resource(content: dict[str, JSON]) -> Exchange:
    request = {"method": "resources/read", "params": {"uri": "file:///x"}}
    answer = {"result": {"contents": [{"uri": "file:///x", "mimeType": "text/plain", **content}]}}
    return make_exchange("mcp://files/resources/read", request=request, answer=answer)


def _function(arguments: JSON, answer: JSON) -> Exchange:
    return make_exchange("tool://f/call", request={"tool": "f", "arguments": arguments}, answer=answer)


def _frames(*frames: bytes) -> Exchange:
    return make_exchange("/model/m/converse-stream", request=PROMPT, answer=b"".join(frames), media_type=BEDROCK)


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


PLACES: dict[str, Callable[[str], Exchange]] = {
    "an item of a client": _item,
    "a text frame": lambda text: _conversation([{"text": text}], []),
    "a binary frame": lambda text: _conversation([{"base64": _encoded(text)}], []),
    "deltas of text": lambda text: _deltas("response.output_text.delta", text),
    "deltas of a transcript": lambda text: _deltas("response.output_audio_transcript.delta", text),
    "deltas of arguments": lambda text: _deltas("response.function_call_arguments.delta", json.dumps({"a": text})),
    "text of Gemini Live": _live,
    "a function's result for Gemini Live": _live_result,
    "the reason of a close": lambda text: _conversation([SETUP], [{"after": 1, "close": 1008, "reason": text}]),
    "arguments for a tool server": lambda text: _tool({"q": text}, {"result": {"content": []}}),
    "a result of a tool server": lambda text: _tool({}, {"result": {"content": [{"type": "text", "text": text}]}}),
    "its structured result": lambda text: _tool({}, {"result": {"structuredContent": {"r": {"x": [text]}}}}),
    "its error": lambda text: _tool({}, {"error": {"code": -1, "message": text, "data": {"d": text}}}),
    "its resource": lambda text: _resource({"text": text}),
    "its resource in base64": lambda text: _resource({"blob": _encoded(text)}),
    "arguments of a function": lambda text: _function({"q": text}, {"result": 1}),
    "the result of a function": lambda text: _function({"q": 1}, {"result": text}),
    "an exception": lambda text: _function({"q": 1}, {"raised": {"type": "ValueError", "args": [text]}}),
    "frames of Converse": lambda text: _frames(*bedrock_frames.converse_events(*_cut(text))),
    "frames of InvokeModel": lambda text: _frames(
        *(bedrock_frames.chunk({"index": 0, "delta": {"text": piece}}) for piece in _cut(text))
    ),
    "a failure in frames": lambda text: _frames(bedrock_frames.exception("throttlingException", text)),
}
_PIECE = re.compile(rb'"(?:delta|text)": ?"((?:[^"\\]|\\.)*)"')
_BASE64 = re.compile(rb"[A-Za-z0-9+/]{24,}={0,2}")


def _read(folder: Path) -> bytes:
    """What is on the disk, the pieces of texts joined, and base64 decoded."""
    disk = read_disk(folder)
    decoded = [base64.b64decode(match[0]) for match in _BASE64.finditer(disk) if len(match[0]) % 4 == 0]
    return b"\n".join([disk, b"".join(match[1] for match in _PIECE.finditer(disk)), *decoded])


def _find_stored(folder: Path, cases: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Record a call for each shape and place; those whose secret reached the disk."""
    planted = [(name, place, make_shape(name, Random(crc32(f"{name} {place}".encode())))) for name, place in cases]
    record(
        folder, [replace(PLACES[place](shape.text), id=trace_id(n)) for n, (_, place, shape) in enumerate(planted)]
    )
    disk = _read(folder)
    return [(name, place) for name, place, shape in planted if is_stored(shape.secret, disk)]


def test_no_shape_of_a_secret_is_stored(tmp_path: Path) -> None:
    """Each place with shapes of its own, every third shape."""
    places = list(PLACES)
    cases = [(name, places[number % len(places)]) for number, name in enumerate(SHAPES) if number % 3 == 0]

    assert (True, []) == (len(cases) >= 50, _find_stored(tmp_path, cases))


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_no_shape_of_a_secret_is_stored_in_any_place(place: str, tmp_path: Path) -> None:
    """50 shapes and more in every place."""
    assert [] == _find_stored(tmp_path, [(name, place) for name in list(SHAPES)[::3]])


@pytest.mark.parametrize("lost", [1, 2, 30, 150])
def test_a_conversation_that_was_cut_off_keeps_no_key(lost: int) -> None:
    """Its body is no JSON then."""
    key = "ghp_" + draw(Random(1), 36)
    frames = _received(
        *({"item_id": "i", "output_index": 0, "delta": piece} for piece in [*_cut(key), " and so on" * 20])
    )
    body = json.dumps({"server_frames": frames}, separators=(",", ":")).encode()[:-lost]

    chunks = REDACTOR.redact_chunks([body[:40], body[40:]], "application/json").value

    assert body[-20:] == b"".join(chunks)[-20:]
    assert key.encode()[-8:] not in b"".join(re.findall(rb'"delta":"([^"]*)', b"".join(chunks)))


def test_ids_of_the_protocols_are_unchanged() -> None:
    """Those of Bedrock, Vertex, Realtime, Gemini Live, MCP and of servers that people run themselves."""
    source = Random(7)
    ids = {
        "toolUseId": "tooluse_" + draw(source, 22), "id": "toolu_bdrk_01" + draw(source, 22),
        "event_id": "event_" + draw(source, 21), "item_id": "item_" + draw(source, 21),
        "previous_item_id": "item_" + draw(source, 21), "response_id": "resp_" + draw(source, 21),
        "call_id": "call_" + draw(source, 16), "session": {"id": "sess_" + draw(source, 21)},
        "encrypted_content": "gAAAAAB" + draw(source, 600, URL_SAFE) + "==",
        "thoughtSignature": base64.b64encode(source.randbytes(500)).decode(),
        "sessionResumptionUpdate": {"newHandle": "Cig" + draw(source, 80, URL_SAFE), "resumable": True},
        "responseId": draw(source, 22, URL_SAFE), "mistral": hexadecimal(source, 32),
        "vllm": "chatcmpl-tool-" + hexadecimal(source, 32), "container": "cntr_" + draw(source, 40),
        "_meta": {"progressToken": draw(source, 20)}, "nextCursor": draw(source, 40, ALNUM),
        "resumptionToken": draw(source, 24), "traceId": f"1-{hexadecimal(source, 8)}-{hexadecimal(source, 24)}",
        "uri": "https://vertexaisearch.cloud.google.com/grounding-api-redirect/AUZIYQ" + draw(source, 120, URL_SAFE),
    }  # fmt: skip
    audio = [{"base64": base64.b64encode(source.randbytes(4_000)).decode()} for _ in range(20)]

    for value in (ids, {"server_frames": [*_received(ids, ids), *audio]}, {"client_frames": audio}):
        body = json.dumps(value, separators=(",", ":")).encode()

        assert body == REDACTOR.redact_body(body, "application/json").value


def test_a_conversation_is_not_changed_by_its_redaction() -> None:
    """The value that is given belongs to the caller."""
    value = {"server_frames": _received(*({"item_id": "i", "delta": piece} for piece in _cut("ghp_" + "a2B4" * 9)))}
    before = json.dumps(value)

    assert value != REDACTOR.redact_json(value).value
    assert before == json.dumps(value)

"""Redact the value of a body, and the messages of a WebSocket in it.

In: the value of a body. Out: the same value without secrets. Never: changes the value it was given.

A WebSocket is stored as one body (`capture.hook.conversation_body`), whose frames carry a few characters of a text
each, as the events of a stream do. What the server sends is joined as those are. The client's frames are cleaned one
by one, because replay compares them one by one.
"""

from __future__ import annotations

from typing import Any

from traceforge.canon import JSON, json_bytes
from traceforge.redact.encoded_texts import redact_base64
from traceforge.redact.joined_texts import redact_joined_texts
from traceforge.redact.json_redaction import redact_json
from traceforge.redact.redactions import Redacted, Redaction
from traceforge.redact.secret_finder import SecretFinder
from traceforge.redact.stream_events import find_events

CLIENT_FRAMES, SERVER_FRAMES = "client_frames", "server_frames"
_STARTS = (b'{"client_frames":[', b'{"server_frames":[')


def redact_document(finder: SecretFinder, value: JSON, path: str = "$") -> Redacted[JSON]:
    """Clean a value that is a whole body; `path` is what its root is called in the log."""
    name = next(iter(value)) if isinstance(value, dict) and len(value) == 1 else ""
    if name not in (CLIENT_FRAMES, SERVER_FRAMES):
        return redact_json(finder, value, path)
    copied = _copy(value)
    log = _redact_frames(finder, name, copied[name])
    cleaned = redact_json(finder, copied, path)
    return Redacted(cleaned.value, [*log, *cleaned.log]) if log or cleaned.log else Redacted(value, [])


def redact_cut_conversation(finder: SecretFinder, data: bytes) -> Redacted[bytes]:
    """Clean a conversation that was cut off, because the program that had it ended; other bodies stay."""
    event = next(find_events(data), None) if data.startswith(_STARTS) else None
    if event is None:
        return Redacted(data, [])
    cleaned = redact_document(finder, event.value)
    if not cleaned.log:
        return Redacted(data, [])
    return Redacted(json_bytes(cleaned.value).removesuffix(event.closing) + data[event.end :], cleaned.log)


def _copy(value: Any) -> Any:  # noqa: ANN401 (any JSON)
    if type(value) is dict:
        return {key: _copy(child) for key, child in value.items()}
    return [_copy(child) for child in value] if type(value) is list else value


def _redact_frames(finder: SecretFinder, name: str, frames: Any) -> list[Redaction]:  # noqa: ANN401 (any JSON)
    """Clean frames in place, as far as `redact_json` cannot: texts that go on, and binary frames."""
    log: list[Redaction] = []
    messages = [frame for frame in frames if isinstance(frame, dict)] if isinstance(frames, list) else []
    for frame in messages:
        if isinstance(encoded := frame.get("base64"), str):
            frame["base64"], secrets = redact_base64(finder, encoded)
            log += [Redaction("$[*].base64", *secret) for secret in secrets]
    if name == SERVER_FRAMES:
        log += redact_joined_texts(finder, [frame.get("json") for frame in messages])[1]
    return log

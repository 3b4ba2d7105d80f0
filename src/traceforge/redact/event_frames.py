"""Redact a stream of binary frames: `application/vnd.amazon.eventstream`, in which Bedrock sends its answers.

In: the bytes of frames. Out: the same frames without secrets, with new lengths and checksums where something changed.
Never: keeps bytes that it cannot read, such as a frame that was cut off.

`binary_frames` has the format. A payload is mostly a JSON object, whose member `bytes` may hold another JSON text in
base64; in signed requests it is a frame.
"""

from __future__ import annotations

import base64
import binascii
import struct
from typing import Any, NamedTuple

from traceforge.canon import JSON, digest_bytes, has_repeated_names, json_bytes
from traceforge.redact.body_encodings import begins_with_part
from traceforge.redact.compressed_bodies import list_compressions
from traceforge.redact.joined_texts import redact_joined_texts
from traceforge.redact.json_redaction import redact_json
from traceforge.redact.redactions import REDACTED, Redacted, Redaction
from traceforge.redact.scanner import CHANCE_TYPES
from traceforge.redact.secret_finder import SecretFinder
from traceforge.redact.stream_events import parse_event
from traceforge.redact.text_edits import replace_and_split
from traceforge.wire.binary_frames import (
    PRELUDE_BYTES,
    TEXT_TYPES,
    Frame,
    begins_with_frame,
    read_frames,
    read_headers,
)

FRAME_DEPTH_MAX = 3  # Requests have a frame inside of a signed one; deeper ones are withheld.
_VALUE_BYTES_MAX = 0xFFFF


def redact_frames(finder: SecretFinder, data: bytes, path: str = "$", depth: int = 0) -> Redacted[bytes]:
    """Clean frames; a text that goes on from frame to frame is cleaned as one."""
    frames, incomplete = read_frames(data)
    log: list[Redaction] = []
    headers = [_redact_headers(finder, frame.headers, path, log) for frame in frames]
    payloads = _redact_payloads(finder, [frame.payload for frame in frames], path, depth, log)
    if len(incomplete) > PRELUDE_BYTES:
        incomplete = _withhold(incomplete, path, log)
    if not log:
        return Redacted(data, [])
    encoded = [Frame(*parts).encode() for parts in zip(headers, payloads, strict=True)]
    return Redacted(b"".join([*encoded, incomplete]), log)


def _withhold(data: bytes, path: str, log: list[Redaction]) -> bytes:
    log.append(Redaction(path, 0, "FIELD", digest_bytes(data)))
    return REDACTED.encode()


def _redact_headers(finder: SecretFinder, data: bytes, path: str, log: list[Redaction]) -> bytes:
    """The headers of a frame; none, where they cannot be read."""
    headers = read_headers(data)
    if headers is None:
        _withhold(data, path, log)
        return b""
    parts: list[bytes] = []
    for sent_name, kind, sent_value in headers:
        name = _redact_line(finder, sent_name, path, log)[:255]
        value = _redact_line(finder, sent_value, path, log) if kind in TEXT_TYPES else sent_value
        if len(value) > _VALUE_BYTES_MAX:  # Markers may be longer than what they replace.
            value = REDACTED.encode()
        size = struct.pack(">H", len(value)) if kind in TEXT_TYPES else b""
        parts.append(bytes([len(name)]) + name + bytes([kind]) + size + value)
    return b"".join(parts)


def _redact_line(finder: SecretFinder, data: bytes, path: str, log: list[Redaction]) -> bytes:
    spans = [item for item in finder.find_secrets_in_line(data) if item.type not in CHANCE_TYPES]
    log += [Redaction(path, 0, item.type, data[item.start : item.end].decode(errors="replace")) for item in spans]
    return finder.replace_secrets(data, spans) if spans else data


class _Payload(NamedTuple):
    """The JSON object of a payload, and whether its `bytes` are JSON that was decoded."""

    value: dict[str, Any]
    is_decoded: bool = False
    is_changed: bool = False  # It lost a member that another of its name replaced, or its `bytes`.

    def encode(self) -> bytes:
        inner = self.value.get("bytes")
        if self.is_decoded and not isinstance(inner, str):
            return json_bytes({**self.value, "bytes": base64.b64encode(json_bytes(inner)).decode()})
        return json_bytes(self.value)


def _redact_payloads(
    finder: SecretFinder, payloads: list[bytes], path: str, depth: int, log: list[Redaction]
) -> list[bytes]:
    cleaned = list(payloads)
    objects: dict[int, _Payload] = {}
    texts: list[int] = []
    for number, data in enumerate(payloads):
        if begins_with_frame(data):
            cleaned[number] = _redact_inner_frames(finder, data, path, depth, log)
        elif (payload := _read_payload(data)) is not None:
            if payload.is_changed:
                _withhold(data, path, log)
            objects[number] = _hide_inner_text(finder, payload, path, log)
        elif _is_container(data):
            cleaned[number] = _withhold(data, path, log)
        else:
            texts.append(number)
    for number, payload in _redact_objects(finder, objects, path, log).items():
        cleaned[number] = payload.encode()
    for number, text in zip(texts, _redact_texts(finder, [payloads[text] for text in texts], path, log), strict=True):
        cleaned[number] = text
    return cleaned


def _redact_inner_frames(finder: SecretFinder, data: bytes, path: str, depth: int, log: list[Redaction]) -> bytes:
    if depth >= FRAME_DEPTH_MAX:
        return _withhold(data, path, log)
    inner = redact_frames(finder, data, path, depth + 1)
    log += inner.log
    return inner.value


def _redact_objects(
    finder: SecretFinder, payloads: dict[int, _Payload], path: str, log: list[Redaction]
) -> dict[int, _Payload]:
    """Redact JSON payloads together, and return those that changed."""
    events: list[JSON] = [payload.value for payload in payloads.values()]
    edited, divided = redact_joined_texts(finder, events)
    cleaned = redact_json(finder, events, path)
    log += [*divided, *cleaned.log]
    assert isinstance(cleaned.value, list)
    return {
        number: payload._replace(value=value)
        for place, ((number, payload), value) in enumerate(zip(payloads.items(), cleaned.value, strict=True))
        if isinstance(value, dict) and (payload.is_changed or place in edited or value != events[place])
    }


def _redact_texts(finder: SecretFinder, pieces: list[bytes], path: str, log: list[Redaction]) -> list[bytes]:
    """Payloads other than JSON: the pieces of one text, or of audio."""
    data = b"".join(pieces)
    spans = finder.find_secrets_in_bytes(data)
    log += [Redaction(path, 0, item.type, data[item.start : item.end].decode(errors="replace")) for item in spans]
    return replace_and_split(finder, pieces, spans) if spans else pieces


def _read_payload(data: bytes) -> _Payload | None:
    """The object in a payload, with the JSON in its `bytes` in the place of that; None where it holds none."""
    value = parse_event(data)
    if not isinstance(value, dict):
        return None
    is_changed = has_repeated_names(data, json_bytes(value))
    encoded = _decode_inner(value)
    inner = parse_event(encoded)
    if not isinstance(inner, dict | list):
        return _Payload(value, is_changed=is_changed)
    is_changed = is_changed or has_repeated_names(encoded, json_bytes(inner))
    return _Payload({**value, "bytes": inner}, is_decoded=True, is_changed=is_changed)


def _decode_inner(value: dict[str, Any]) -> bytes:
    """The bytes in the member `bytes`; none, where it is not base64."""
    encoded = value.get("bytes")
    try:
        return base64.b64decode(encoded) if isinstance(encoded, str) else b""
    except (binascii.Error, ValueError):
        return b""


def _hide_inner_text(finder: SecretFinder, payload: _Payload, path: str, log: list[Redaction]) -> _Payload:
    """The payload; without its `bytes`, if these hold a secret and are not JSON."""
    inner = _decode_inner(payload.value)
    if not inner or payload.is_decoded:
        return payload
    if not begins_with_frame(inner) and not _is_container(inner) and not finder.find_secrets_in_bytes(inner):
        return payload
    return _Payload({**payload.value, "bytes": _withhold(inner, path, log).decode()}, is_changed=True)


def _is_container(data: bytes) -> bool:
    """Whether these bytes hold others, compressed or in parts. No provider sends that in frames: it is withheld."""
    return begins_with_part(data) or bool(list_compressions(data))

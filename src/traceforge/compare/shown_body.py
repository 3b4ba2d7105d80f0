"""Bodies that are neither JSON nor a text, in a form that people can read and that two of them can be compared in.

In: a body as a trace or a raw response has it. Out: a JSON value: the parts of a form, each with its name, file name
and type; for other bytes, how many they are, and their digest. Never: part of a key: two bodies that differ, differ
there.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import cast

from traceforge.canon import JSON, JSONObject, digest_bytes

PARTS_MAX = 200  # More are shown as bytes.
_BOUNDARY = re.compile(r'(?i)multipart/.*?boundary="?([^";,]+)"?')
_PART_HEADERS = frozenset({"content-disposition", "content-type", "content-length", "content-transfer-encoding"})
_PARAMETER = re.compile(r'(?i)(?:^|;)\s*(name|filename)="((?:[^"\\]|\\.)*)"')


def describe_request(address: str, body: JSON, content_type: str) -> JSONObject:
    """A request that no dialect understands: its method and address, and what it sends. No field of a body takes the
    place of the address.
    """
    named: JSONObject = {"address": address} if address else {}
    fields = read_form(body, content_type)
    if fields is None and not isinstance(body, dict):
        return named if body is None and named else {**named, "body": body}
    if fields is None:
        data = _read_bytes(body)
        fields = cast("JSONObject", body) if data is None else {"body": describe_bytes(data)}
    return {**named, "body": fields} if named.keys() & fields.keys() else {**named, **fields}


def describe_bytes(data: bytes) -> JSON:
    """A text as it is; of other bytes, how many and which."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" not in text:
        return text
    return {"bytes": len(data), "digest": digest_bytes(data)}


def read_form(body: JSON, content_type: str) -> JSONObject | None:
    """The parts of a form by their names; None if a body is none, is not one as its boundary says, or has a part that
    servers could read otherwise.
    """
    match = _BOUNDARY.match(content_type)
    data = _read_bytes(body)
    if match is None or data is None:
        return None
    pieces = (b"\r\n" + data).split(b"\r\n--" + match[1].encode("utf-8", "replace"))
    if pieces[0].strip() or len(pieces) < 3 or len(pieces) > PARTS_MAX or pieces[-1].strip() != b"--":
        return None
    form: JSONObject = {}
    for place, piece in enumerate(pieces[1:-1]):
        head, divider, content = piece.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        if not divider:
            return None
        part = _read_part(head.decode("utf-8", "replace"), content)
        if part is None:
            return None
        name = part[0] or f"part {place + 1}"
        while name in form:
            name = f"{name} ({place + 1})"
        form[name] = part[1]
    return form


def _read_part(head: str, content: bytes) -> tuple[str, JSON] | None:
    lines = [line.partition(":") for line in head.split("\r\n")]
    headers = {name.strip().lower(): value.strip() for name, _, value in lines}
    pairs = [(name.lower(), value) for name, value in _PARAMETER.findall(headers.get("content-disposition", ""))]
    parameters = dict(pairs)
    if len(headers) < len(lines) or not headers.keys() <= _PART_HEADERS or len(parameters) < len(pairs):
        return None
    description = describe_bytes(content)
    if "filename" not in parameters:
        return parameters.get("name", ""), description
    file: JSONObject = {"filename": parameters["filename"], "type": headers.get("content-type", "")}
    return parameters.get("name", ""), {**file, "content": description}


def _read_bytes(body: JSON) -> bytes | None:
    if isinstance(body, str):
        return body.encode("utf-8", "surrogatepass")
    if not isinstance(body, dict) or body.keys() != {"b64"} or not isinstance(body["b64"], str):
        return None
    try:
        return base64.b64decode(body["b64"])
    except (binascii.Error, ValueError):
        return None

"""Cassettes: the recordings of vcrpy and pytest-recording.

    {"version": 1, "interactions": [{"request": {method, uri, headers, body}, "response": {status, headers, body}}]}

In YAML or JSON, plain or compressed with gzip. LangChain writes two lists, `requests` and `responses`, in place of
`interactions`. A body is a text, bytes (`!!binary`), `{"string": …}`, `{"base64_string": …}`, or parsed JSON: any
other mapping or list, or the value of `parsed_body`. `status` is `{"code", "message"}`, or a `status_code` as vcrpy
once wrote it for httpx, with the body in `content`. Headers hold a value or a list of values.

In: the bytes of a cassette. Out: its interactions, in their order. Never: creates an object that a YAML tag names, or
guesses: anything else is refused, with its place.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

from traceforge.canon import JSON, find_repeated_name, json_bytes, parse_json
from traceforge.errors import InvalidFile, NotJSON
from traceforge.exchange import Headers, find_header
from traceforge.findings import Finding
from traceforge.snapshots.record.cassette_yaml import EXPANDED_BYTES_MAX, InvalidYaml, load_yaml
from traceforge.wire.content_encoding import DecodeBudget, EncodingState, decode_body, decode_body_within

YAML_ENDS, JSON_END, GZIP_END = (".yaml", ".yml"), ".json", ".gz"
CASSETTE_ENDS = tuple(f"{end}{packed}" for end in (*YAML_ENDS, JSON_END) for packed in ("", GZIP_END))
CASSETTE_BYTES_MAX = 64 << 20
BODIES_BYTES_MAX = EXPANDED_BYTES_MAX  # of all bodies, decoded: an alias repeats a compressed one in a few bytes
RULE = "PARSE"
_JSON_BODY = (dict, list)
_METHOD = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # a token of HTTP


class CassetteInteraction(NamedTuple):
    """One call of a cassette."""

    method: str
    url: str
    request_headers: Headers
    request_body: bytes
    status: int
    response_headers: Headers
    response_body: bytes


def read_cassette(data: bytes, name: str) -> list[CassetteInteraction]:
    """Read a cassette, as JSON or YAML by the ending of its name.

    Raises:
        MissingExtra: it is YAML, and PyYAML is not installed.
        InvalidFile: the file is not a cassette; the finding names the place.
    """
    value = _load_json(data) if name.endswith(JSON_END) else _load_yaml(data)
    if isinstance(value, dict) and isinstance(value.get("interactions"), list):
        interactions = [
            _read_interaction(interaction, f"$.interactions[{index}]")
            for index, interaction in enumerate(value["interactions"])
        ]
    elif isinstance(value, dict) and isinstance(value.get("requests"), list):
        interactions = _read_pairs(value["requests"], value.get("responses"))
    else:
        raise _invalid_cassette("$", "no cassette: it has no list of interactions")
    _check_decoded_size(interactions)
    return interactions


def unpack_cassette(data: bytes, name: str) -> tuple[bytes, str]:
    """The text of a cassette and its name, both without compression.

    Raises:
        InvalidFile: it is not compressed as its name says, or holds more than a cassette may.
    """
    if not name.lower().endswith(GZIP_END):
        return data, name
    decoded = decode_body(data, "gzip", bytes_max=CASSETTE_BYTES_MAX)
    if decoded.state is not EncodingState.DECODED:
        raise _invalid_cassette("$", f"not gzip of at most {CASSETTE_BYTES_MAX} bytes")
    return decoded.body, name[: -len(GZIP_END)]


def _read_pairs(requests: list[Any], responses: object) -> list[CassetteInteraction]:
    """LangChain's form: the n-th response belongs to the n-th request."""
    if not isinstance(responses, list) or len(responses) != len(requests):
        raise _invalid_cassette("$.responses", "must be as many as there are requests")
    return [
        _read_interaction({"request": request, "response": response}, f"$.requests[{index}]")
        for index, (request, response) in enumerate(zip(requests, responses, strict=True))
    ]


def looks_like_cassette(data: bytes) -> bool:
    """Whether a JSON file is meant to be a cassette; the folder may hold other files."""
    return b'"interactions"' in data or (b'"requests"' in data and b'"responses"' in data)


def _check_decoded_size(interactions: list[CassetteInteraction]) -> None:
    """Refuse bodies that would take hours to decode, or fill the disk once they are decoded."""
    budget = DecodeBudget(BODIES_BYTES_MAX)
    for interaction in interactions:
        for headers, body in (
            (interaction.request_headers, interaction.request_body),
            (interaction.response_headers, interaction.response_body),
        ):
            decoded = decode_body_within(body, find_header(headers, "content-encoding"), budget)
            if decoded.state is not EncodingState.DECODED:
                budget.bytes_left -= len(body)
            if decoded.state is EncodingState.TOO_LARGE or budget.bytes_left < 0:
                raise _invalid_cassette("$", f"its bodies expand to more than {BODIES_BYTES_MAX} bytes")


def _load_json(data: bytes) -> object:
    """A cassette in JSON, without two members of one name: what a reviewer reads is what is imported."""
    try:
        value = parse_json(data)
    except NotJSON as exc:
        raise _invalid_cassette("$", f"not JSON: {exc.message}") from None
    repeated = find_repeated_name(data, nested=True)
    if repeated is not None:
        raise _invalid_cassette("$", "an object has two members of one name")
    return value


def _load_yaml(data: bytes) -> object:
    try:
        return load_yaml(data)
    except InvalidYaml as exc:
        raise _invalid_cassette("$", f"not YAML that a cassette holds: {exc}") from None


def _read_interaction(value: object, path: str) -> CassetteInteraction:
    if not isinstance(value, dict):
        raise _invalid_cassette(path, "must be an object")
    request, response = value.get("request"), value.get("response")
    if not isinstance(request, dict) or not isinstance(response, dict):
        raise _invalid_cassette(path, "must have a request and a response")
    method, url = request.get("method"), request.get("uri", request.get("url"))
    if not isinstance(method, str) or not isinstance(url, str) or not _is_address(url):
        raise _invalid_cassette(f"{path}.request", "must have a method and a uri")
    if not _METHOD.fullmatch(method):
        raise _invalid_cassette(f"{path}.request.method", "must be a method of HTTP")
    return CassetteInteraction(
        method,
        url,
        _read_headers(request, f"{path}.request"),
        _read_body(request, f"{path}.request"),
        _read_status(response, f"{path}.response"),
        _read_headers(response, f"{path}.response"),
        _read_body(response, f"{path}.response"),
    )


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return bool(parts.scheme and parts.hostname and parts.port != 0)
    except ValueError:  # brackets that do not match, or a port that is none
        return False


def _read_status(response: dict[str, Any], path: str) -> int:
    status = response.get("status", response.get("status_code"))
    code = status.get("code") if isinstance(status, dict) else status
    if not isinstance(code, int | float) or isinstance(code, bool) or not 100 <= code <= 599:
        raise _invalid_cassette(f"{path}.status", "must be an HTTP status code")
    return int(code)


def _read_headers(side: dict[str, Any], path: str) -> Headers:
    headers = side.get("headers") or {}
    if not isinstance(headers, dict):
        raise _invalid_cassette(f"{path}.headers", "must be an object")
    pairs: list[tuple[str, str]] = []
    for name, values in headers.items():
        for value in values if isinstance(values, list | tuple) else [values]:
            pairs.append((str(name), value.decode("latin-1") if isinstance(value, bytes) else str(value)))
    if "parsed_body" in side or _is_json_body(_find_body(side)):  # It was decoded before it was parsed.
        pairs = [pair for pair in pairs if pair[0].lower() not in ("content-encoding", "content-length")]
        if not any(name.lower() == "content-type" for name, _ in pairs):
            pairs.append(("content-type", "application/json"))
    return tuple(pairs)


def _read_body(side: dict[str, Any], path: str) -> bytes:
    if "parsed_body" in side:
        return _write_json(side["parsed_body"], f"{path}.parsed_body")
    body = _find_body(side)
    if _is_json_body(body):
        return _write_json(body, f"{path}.body")
    if isinstance(body, dict) and isinstance(body.get("base64_string"), str):
        try:
            return base64.b64decode(body["base64_string"], validate=True)
        except (binascii.Error, ValueError):
            raise _invalid_cassette(f"{path}.body", "is not base64") from None
    if body is None:
        return b""
    if isinstance(body, str):
        return body.encode("utf-8", "surrogatepass")
    if not isinstance(body, bytes):
        raise _invalid_cassette(f"{path}.body", "must be a text or bytes")
    return body


def _find_body(side: dict[str, Any]) -> object:
    body = side.get("body", side.get("content"))
    return body["string"] if isinstance(body, dict) and "string" in body else body


def _is_json_body(body: object) -> bool:
    """Whether a serializer has parsed the body."""
    is_encoded = isinstance(body, dict) and isinstance(body.get("base64_string"), str)
    return isinstance(body, _JSON_BODY) and not is_encoded


def _write_json(value: object, path: str) -> bytes:
    try:
        return json_bytes(cast("JSON", value))
    except (TypeError, ValueError):
        raise _invalid_cassette(path, "holds values that JSON cannot express") from None


def _invalid_cassette(path: str, message: str) -> InvalidFile:
    return InvalidFile((Finding("", path, RULE, message, "Record the cassette again, or leave it out."),))

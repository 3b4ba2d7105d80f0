"""The key of a request: two requests with the same key ask the same.

In: a request as it was sent, or as it was kept. Out: a digest over what decides the answer: the endpoint, the model,
the headers that change behaviour, and the body, cleaned of secrets and of what is declared volatile. Never: depends
on the order of keys, white space, the host, the way a body is compressed, a random boundary, or who asks.

    digest_fields("request-key/1", [method, address, query, headers, body])

`address` is the dialect, the kind, the model in the path and the last part of the path, which says whether Gemini
streams; of an endpoint that is not known, it is the whole path. `query` is every parameter that is no credential, and
`headers` are those of BEHAVIOUR_HEADERS, both as sorted pairs.
"""

from __future__ import annotations

import base64
import re
from collections import Counter
from collections.abc import Container, Iterable, Sequence
from functools import cached_property, lru_cache
from itertools import count
from typing import TYPE_CHECKING, NamedTuple, TypeAlias
from urllib.parse import parse_qsl

from traceforge.canon import JSON, Digest, FieldsDigest, canonical_bytes, json_bytes, parse_canonical
from traceforge.errors import NotJSON
from traceforge.exchange import Headers, find_header
from traceforge.redact import REDACTED, Redaction
from traceforge.replay.volatile import VolatileRules
from traceforge.wire.endpoints import Endpoint, find_endpoint, split_url

if TYPE_CHECKING:
    from traceforge.redact import Redactor

KEY_TAG = "request-key/1"
BEHAVIOUR_HEADERS = frozenset(
    {"anthropic-version", "anthropic-beta", "openai-beta", "api-version", "x-goog-request-params"}
)
LIST_HEADERS = frozenset({"anthropic-beta", "openai-beta"})  # `a, b` in one header says the same as two headers.
REQUESTS_CACHED = 512  # Whole ones: clients that try again, and loads that repeat a few requests, ask the same.
CACHED_REQUEST_BYTES_MAX = 32 << 10  # A longer one is not remembered.
HEADER_NAMES_CACHED = 1000  # of headers
HEADS_CACHED = 512  # A client sends the same address and headers again and again; cleaning them once is enough.

# What may stand redacted in a URL and be a part of the question. Everything else there says who asks.
PERSONAL_TYPES = frozenset({"EMAIL", "PHONE", "US_SSN", "CREDIT_CARD", "CUSTOM"})
URL_PATH, HEADERS_PATH = "$.url", "$.headers"  # As traces name the places of a request's head.

_BOUNDARY = r'(?i)multipart/.*?boundary="?([^";,]+)"?'

Pairs: TypeAlias = tuple[tuple[str, str], ...]


class _IsKeyHeader(dict[str, bool]):
    """Is a header of this name read, however it is spelled? A client spells its headers always the same."""

    def __missing__(self, name: str) -> bool:
        found = name.lower() in KEY_HEADERS
        if len(self) < HEADER_NAMES_CACHED:
            self[name] = found
        return found


KEY_HEADERS = BEHAVIOUR_HEADERS | {"content-type", "content-encoding"}
is_key_header = _IsKeyHeader()
_NO_COUNTS: Counter[str] = Counter()  # nobody adds to it
_make = tuple.__new__  # a named tuple, without a call of its constructor


class KeyFields(NamedTuple):
    """What a request asks: exactly what its key is made of."""

    method: str
    address: str
    query: Pairs
    headers: Pairs
    body: JSON  # redacted, volatile parts replaced


class KeyPrefix(NamedTuple):
    """What a question has beside its body."""

    endpoint: Endpoint
    method: str
    address: str
    query: Pairs
    headers: Pairs
    boundary: str  # of a form
    digest: FieldsDigest  # of all that and a body


class KeyedRequest(NamedTuple):
    """A request that was understood: its key, and what the key was made from."""

    key: Digest
    prefix: KeyPrefix
    body: JSON  # of the question
    volatile_counts: Counter[str]  # which declarations of volatile parts were used
    redactions: Sequence[Redaction] = ()  # everything that was redacted in the URL and the body, in memory only
    compared_redactions: Sequence[Redaction] = ()  # those of them that belong to the question

    @property
    def endpoint(self) -> Endpoint:
        """Where it was asked."""
        return self.prefix.endpoint

    @property
    def key_fields(self) -> KeyFields:
        """What it asks; put together for a miss, which few requests are."""
        prefix = self.prefix
        return KeyFields(prefix.method, prefix.address, prefix.query, prefix.headers, self.body)


class _RedactedHead(NamedTuple):
    """The address and those headers of a live request that count, clean; no two have the same number."""

    number: int
    prefix: KeyPrefix
    media_type: str
    encodings: str
    redactions: list[Redaction]
    compared_redactions: list[Redaction]
    may_skip_redaction: bool  # Is nothing but redaction between a body of JSON and its key?


class RequestKeyer:
    """Makes keys. Safe to use from several threads.

    Without a `redactor` it is the one that a project has which configures none: made for the first live request.
    """

    def __init__(self, redactor: Redactor | None, volatile: VolatileRules) -> None:
        self._configured_redactor = redactor
        self._volatile = volatile
        self._head = lru_cache(HEADS_CACHED)(self._redact_head)
        self._prefix = lru_cache(HEADS_CACHED)(self._make_prefix)
        self._numbers = count()
        self._requests: dict[tuple[int, bytes], KeyedRequest] = {}

    @cached_property
    def _redactor(self) -> Redactor:
        from traceforge.redact import Redactor

        return (
            self._configured_redactor or Redactor()
        ).with_memory()  # An agent sends its whole conversation with every call.

    def key_request(
        self, method: str, url: str, headers: Headers, body: bytes, unredacted_keys: Container[Digest] = ()
    ) -> KeyedRequest:
        """The key of a request as it was sent.

        `plain` are keys of requests that were kept as they were: there was nothing to redact in them. Redacting what
        is clean changes nothing, so a request that has such a key without being redacted is one of those. Most are,
        and need not be searched for secrets.
        """
        return self.key_filtered_request(
            method, url, tuple([header for header in headers if is_key_header[header[0]]]), body, unredacted_keys
        )

    def key_filtered_request(
        self, method: str, url: str, headers: Headers, body: bytes, unredacted_keys: Container[Digest] = ()
    ) -> KeyedRequest:
        """The same, where `headers` are those alone that are read."""
        head = self._head(method, url, headers)
        request = self._requests.get((head.number, body))
        if request is None:
            request = (
                self._key_without_redacting(head, body, unredacted_keys)
                if unredacted_keys and head.may_skip_redaction
                else None
            )
            if request is None:
                request = self._redact_and_key(head, body)
            if len(body) <= CACHED_REQUEST_BYTES_MAX:
                if len(self._requests) >= REQUESTS_CACHED:
                    self._requests.clear()
                self._requests[head.number, body] = request
        return request

    def _key_without_redacting(
        self, head: _RedactedHead, body: bytes, unredacted_keys: Container[Digest]
    ) -> KeyedRequest | None:
        try:
            value, text = parse_canonical(body)
        except NotJSON:
            return None
        prefix = head.prefix
        key = prefix.digest.digest(text)
        return (
            _make(KeyedRequest, (key, prefix, value, _NO_COUNTS, head.redactions, head.compared_redactions))
            if key in unredacted_keys
            else None
        )

    def _redact_and_key(self, head: _RedactedHead, body: bytes) -> KeyedRequest:
        from traceforge.traces.body_reader import redact_value  # Most requests are plain, and need none of it.
        from traceforge.wire.content_encoding import decode_chunks

        (data,) = decode_chunks([body], head.encodings).chunks if head.encodings else (body,)
        value, redactions = redact_value(self._redactor, data, head.media_type)
        if not redactions:
            return self._key_body(head.prefix, value, head.redactions, head.compared_redactions)
        compared = [
            *head.compared_redactions,
            *(item for item in redactions if not self._volatile.is_volatile(item.path)),
        ]
        return self._key_body(head.prefix, value, [*head.redactions, *redactions], compared)

    def key_stored_request(self, method: str, url: str, headers: Headers, body: JSON) -> KeyedRequest:
        """The key of a request that was kept: redacted, its body a value."""
        return self._key_body(self._prefix(method, url, headers), body)

    def _key_body(
        self, prefix: KeyPrefix, body: JSON, redactions: Sequence[Redaction] = (), compared: Sequence[Redaction] = ()
    ) -> KeyedRequest:
        if prefix.boundary:
            body = _without_boundary(body, prefix.boundary)
        value, volatile_counts = self._volatile.replace_parts(body) if self._volatile else (body, _NO_COUNTS)
        return KeyedRequest(
            prefix.digest.digest(canonical_bytes(value)), prefix, value, volatile_counts, redactions, compared
        )

    def is_volatile(self, path: str) -> bool:
        """Is this place of a body declared to be volatile?"""
        return self._volatile.is_volatile(path)

    def find_header_redactions(self, headers: Headers) -> Sequence[Redaction]:
        """What is redacted in the headers of a request. They say who asks, so that no key needs them."""
        return self._redactor.redact_headers(headers, HEADERS_PATH).log

    def _redact_head(self, method: str, url: str, headers: Headers) -> _RedactedHead:
        from traceforge.redact.redactor import is_redacted_by_type

        redacted_url = self._redactor.redact_url(url, URL_PATH)
        prefix = self._prefix(
            method, redacted_url.value, tuple(self._redactor.redact_headers(headers, HEADERS_PATH).value)
        )
        media_type, encodings = find_header(headers, "content-type"), find_header(headers, "content-encoding")
        compared = [item for item in redacted_url.log if item.type in PERSONAL_TYPES]
        may_skip_redaction = not (self._volatile or prefix.boundary or encodings or is_redacted_by_type(media_type))
        return _RedactedHead(
            next(self._numbers), prefix, media_type, encodings, redacted_url.log, compared, may_skip_redaction
        )

    def _make_prefix(self, method: str, url: str, headers: Headers) -> KeyPrefix:
        endpoint = find_endpoint(method, url)
        path, query = split_url(url)
        boundary = _find_boundary(find_header(headers, "content-type"))
        fields = KeyFields(
            method.upper(), _address(endpoint, path), self._compared_query(query), _compared_headers(headers), None
        )
        return KeyPrefix(endpoint, *fields[:4], boundary, _begin_digest(fields))

    def _compared_query(self, query: str) -> Pairs:
        """Every parameter that is no credential, sorted."""
        pairs = parse_qsl(query, keep_blank_values=True)
        return tuple(
            (name, value)
            for name, value in sorted(pairs)
            if value != REDACTED or not self._redactor.is_secret_parameter(name)
        )


def _find_boundary(media_type: str) -> str:
    if media_type[:10].lower() != "multipart/":
        return ""
    match = re.match(_BOUNDARY, media_type)
    return match[1] if match else ""


def _begin_digest(key_fields: KeyFields) -> FieldsDigest:
    fields = [
        ("method", key_fields.method),
        ("address", key_fields.address),
        ("query", _pairs_text(key_fields.query)),
        ("headers", _pairs_text(key_fields.headers)),
    ]
    return FieldsDigest(KEY_TAG, fields, "body")


def _pairs_text(pairs: Pairs) -> str:
    return json_bytes([[name, value] for name, value in pairs]).decode()


def _address(endpoint: Endpoint, path: str) -> str:
    if endpoint.dialect is None:
        return path
    action = path.rstrip("/").rpartition("/")[2].rpartition(":")[2]
    return f"{endpoint.dialect}:{endpoint.kind}:{endpoint.model}:{action}"


def _compared_headers(headers: Headers) -> Pairs:
    return tuple(sorted(_header_values(headers)))


def _header_values(headers: Headers) -> Iterable[tuple[str, str]]:
    for header, value in headers:
        name = header.lower()
        if name in LIST_HEADERS:
            yield from ((name, item) for part in value.split(",") if (item := part.strip()))
        elif name in BEHAVIOUR_HEADERS:
            yield name, value.strip()


def _without_boundary(body: JSON, boundary: str) -> JSON:
    """The random text between the parts of a form is the same in every key."""
    if isinstance(body, str):
        return body.replace(boundary, "boundary")
    if isinstance(body, dict) and isinstance(body.get("b64"), str):
        data = base64.b64decode(str(body["b64"]))
        return {"b64": base64.b64encode(data.replace(boundary.encode("latin-1", "replace"), b"boundary")).decode()}
    return body

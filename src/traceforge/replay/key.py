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
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import parse_qsl

from traceforge.canon import JSON, Digest, FieldsDigest, canonical_bytes, json_bytes, parse_canonical
from traceforge.errors import NotJSON
from traceforge.exchange import Headers, find_header
from traceforge.redact import REDACTED, Redaction
from traceforge.replay.volatile import Volatile
from traceforge.tuples import NamedTuple
from traceforge.wire.registry import Endpoint, find_endpoint, split_url

if TYPE_CHECKING:
    from traceforge.redact import Redactor

KEY_TAG = "request-key/1"
BEHAVIOUR_HEADERS = frozenset(
    {"anthropic-version", "anthropic-beta", "openai-beta", "api-version", "x-goog-request-params"}
)
LISTS = frozenset({"anthropic-beta", "openai-beta"})  # `a, b` in one header says the same as two headers.
REQUESTS_REMEMBERED = 512  # Whole ones: clients that try again, and loads that repeat a few requests, ask the same.
REQUEST_BYTES_MAX = 32 << 10  # A longer one is not remembered.
NAMES_REMEMBERED = 1000  # of headers
HEADS_REMEMBERED = 512  # A client sends the same address and headers again and again; cleaning them once is enough.

# What may stand redacted in a URL and be a part of the question. Everything else there says who asks.
PERSONAL = frozenset({"EMAIL", "PHONE", "US_SSN", "CREDIT_CARD", "CUSTOM"})
URL_PATH, HEADERS_PATH = "$.url", "$.headers"  # As traces name the places of a request's head.

_BOUNDARY = r'(?i)multipart/.*?boundary="?([^";,]+)"?'

Pairs: TypeAlias = tuple[tuple[str, str], ...]


class _IsRead(dict[str, bool]):
    """Is a header of this name read, however it is spelled? A client spells its headers always the same."""

    def __missing__(self, name: str) -> bool:
        found = name.lower() in _READ_HEADERS
        if len(self) < NAMES_REMEMBERED:
            self[name] = found
        return found


_READ_HEADERS = BEHAVIOUR_HEADERS | {"content-type", "content-encoding"}
is_read = _IsRead()
_NOTHING_USED: Counter[str] = Counter()  # nobody adds to it
_make = tuple.__new__  # a named tuple, without a call of its constructor


class Question(NamedTuple):
    """What a request asks: exactly what its key is made of."""

    method: str
    address: str
    query: Pairs
    headers: Pairs
    body: JSON  # redacted, volatile parts replaced


class Frame(NamedTuple):
    """What a question has beside its body."""

    endpoint: Endpoint
    method: str
    address: str
    query: Pairs
    headers: Pairs
    boundary: str  # of a form
    digest: FieldsDigest  # of all that and a body


class Asked(NamedTuple):
    """A request that was understood: its key, and what the key was made from."""

    key: Digest
    frame: Frame
    body: JSON  # of the question
    used: Counter[str]  # which declarations of volatile parts were used
    log: Sequence[Redaction] = ()  # everything that was redacted in the URL and the body, in memory only
    parts: Sequence[Redaction] = ()  # those of them that belong to the question

    @property
    def endpoint(self) -> Endpoint:
        """Where it was asked."""
        return self.frame.endpoint

    @property
    def question(self) -> Question:
        """What it asks; put together for a miss, which few requests are."""
        frame = self.frame
        return Question(frame.method, frame.address, frame.query, frame.headers, self.body)


class _Head(NamedTuple):
    """The address and those headers of a live request that count, clean; no two have the same number."""

    number: int
    frame: Frame
    media_type: str
    encodings: str
    log: list[Redaction]
    parts: list[Redaction]
    may_be_plain: bool  # Is nothing but redaction between a body of JSON and its key?


class KeyMaker:
    """Makes keys. Safe to use from several threads.

    Without a `redactor` it is the one that a project has which configures none: made for the first live request.
    """

    def __init__(self, redactor: Redactor | None, volatile: Volatile) -> None:
        self._given = redactor
        self._volatile = volatile
        self._head = lru_cache(HEADS_REMEMBERED)(self._clean_head)
        self._frame = lru_cache(HEADS_REMEMBERED)(self._read_frame)
        self._numbers = count()
        self._remembered: dict[tuple[int, bytes], Asked] = {}

    @cached_property
    def _redactor(self) -> Redactor:
        from traceforge.redact import Redactor

        return (self._given or Redactor()).remembering()  # An agent sends its whole conversation with every call.

    def of_request(
        self, method: str, url: str, headers: Headers, body: bytes, plain: Container[Digest] = ()
    ) -> Asked:
        """The key of a request as it was sent.

        `plain` are keys of requests that were kept as they were: there was nothing to redact in them. Redacting what
        is clean changes nothing, so a request that has such a key without being redacted is one of those. Most are,
        and need not be searched for secrets.
        """
        return self.of_read(method, url, tuple([one for one in headers if is_read[one[0]]]), body, plain)

    def of_read(self, method: str, url: str, headers: Headers, body: bytes, plain: Container[Digest] = ()) -> Asked:
        """The same, where `headers` are those alone that are read."""
        head = self._head(method, url, headers)
        asked = self._remembered.get((head.number, body))
        if asked is None:
            asked = self._read_plain(head, body, plain) if plain and head.may_be_plain else None
            if asked is None:
                asked = self._read_request(head, body)
            if len(body) <= REQUEST_BYTES_MAX:
                if len(self._remembered) >= REQUESTS_REMEMBERED:
                    self._remembered.clear()
                self._remembered[head.number, body] = asked
        return asked

    def _read_plain(self, head: _Head, body: bytes, plain: Container[Digest]) -> Asked | None:
        try:
            value, text = parse_canonical(body)
        except NotJSON:
            return None
        frame = head.frame
        key = frame.digest.digest(text)
        return _make(Asked, (key, frame, value, _NOTHING_USED, head.log, head.parts)) if key in plain else None

    def _read_request(self, head: _Head, body: bytes) -> Asked:
        from traceforge.traces.bodies import clean_value  # Most requests are plain, and need none of it.
        from traceforge.wire.encoding import decode_chunks

        (data,) = decode_chunks([body], head.encodings).chunks if head.encodings else (body,)
        value, log = clean_value(self._redactor, data, head.media_type)
        if not log:
            return self._ask(head.frame, value, head.log, head.parts)
        parts = [*head.parts, *(item for item in log if not self._volatile.ignores(item.path))]
        return self._ask(head.frame, value, [*head.log, *log], parts)

    def of_kept(self, method: str, url: str, headers: Headers, body: JSON) -> Asked:
        """The key of a request that was kept: redacted, its body a value."""
        return self._ask(self._frame(method, url, headers), body)

    def _ask(self, frame: Frame, body: JSON, log: Sequence[Redaction] = (), parts: Sequence[Redaction] = ()) -> Asked:
        if frame.boundary:
            body = _without_boundary(body, frame.boundary)
        value, used = self._volatile.clean(body) if self._volatile else (body, _NOTHING_USED)
        return Asked(frame.digest.digest(canonical_bytes(value)), frame, value, used, log, parts)

    def ignores(self, path: str) -> bool:
        """Is this place of a body declared to be volatile?"""
        return self._volatile.ignores(path)

    def log_of_headers(self, headers: Headers) -> Sequence[Redaction]:
        """What is redacted in the headers of a request. They say who asks, so that no key needs them."""
        return self._redactor.headers(headers, HEADERS_PATH).log

    def _clean_head(self, method: str, url: str, headers: Headers) -> _Head:
        from traceforge.redact.redactor import has_kind_of_its_own

        cleaned = self._redactor.url(url, URL_PATH)
        frame = self._frame(method, cleaned.value, tuple(self._redactor.headers(headers, HEADERS_PATH).value))
        media_type, encodings = find_header(headers, "content-type"), find_header(headers, "content-encoding")
        parts = [item for item in cleaned.log if item.type in PERSONAL]
        plain = not (self._volatile or frame.boundary or encodings or has_kind_of_its_own(media_type))
        return _Head(next(self._numbers), frame, media_type, encodings, cleaned.log, parts, plain)

    def _read_frame(self, method: str, url: str, headers: Headers) -> Frame:
        endpoint = find_endpoint(method, url)
        path, query = split_url(url)
        form = _find_boundary(find_header(headers, "content-type"))
        question = Question(method.upper(), _address(endpoint, path), self._query(query), _behaviour(headers), None)
        return Frame(endpoint, *question[:4], form, _begin_digest(question))

    def _query(self, query: str) -> Pairs:
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
    found = re.match(_BOUNDARY, media_type)
    return found[1] if found else ""


def _begin_digest(question: Question) -> FieldsDigest:
    fields = [
        ("method", question.method),
        ("address", question.address),
        ("query", _text(question.query)),
        ("headers", _text(question.headers)),
    ]
    return FieldsDigest(KEY_TAG, fields, "body")


def _text(pairs: Pairs) -> str:
    return json_bytes([[name, value] for name, value in pairs]).decode()


def _address(endpoint: Endpoint, path: str) -> str:
    if endpoint.dialect is None:
        return path
    action = path.rstrip("/").rpartition("/")[2].rpartition(":")[2]
    return f"{endpoint.dialect}:{endpoint.kind}:{endpoint.model}:{action}"


def _behaviour(headers: Headers) -> Pairs:
    return tuple(sorted(_values(headers)))


def _values(headers: Headers) -> Iterable[tuple[str, str]]:
    for header, value in headers:
        name = header.lower()
        if name in LISTS:
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

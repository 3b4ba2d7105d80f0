"""The key of a request: two requests with the same key ask the same.

The key is a digest of what decides the response: the endpoint, the model, the headers that change behaviour, and the
body without secrets, volatile parts, fields that decide no answer, and invented ids. It does not depend on the order
of members, white space, the host, compression, the random boundary of a form, or the caller's identity.

    digest_fields("request-key/1", [method, address, query, headers, body])

`address` is the dialect, the kind, the model in the path and the last part of the path (whether Gemini streams);
for an unknown endpoint it is the whole path. `query` is every parameter except credentials, `headers` are those of
BEHAVIOUR_HEADERS, both as sorted pairs.
"""

from __future__ import annotations

import base64
import re
from collections import Counter
from collections.abc import Container, Iterable, Sequence
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias
from urllib.parse import parse_qsl

from traceforge.canon import JSON, Digest, FieldsDigest, exact_canonical_bytes, json_bytes, parse_canonical
from traceforge.errors import NotJSON
from traceforge.exchange import Headers, find_header
from traceforge.redact.redactions import REDACTED, Redaction
from traceforge.replay.compared_body import (
    drop_fields,
    find_uncompared_fields,
    is_at_field,
    may_define_ids,
    renumber_ids,
)
from traceforge.replay.fingerprints import Fingerprints, read_fingerprints
from traceforge.replay.volatile import VolatileRules
from traceforge.wire.endpoints import Endpoint, find_endpoint, split_url

if TYPE_CHECKING:
    from traceforge.config import LoadedConfig
    from traceforge.redact.redactor import Redactor
    from traceforge.replay.request_redactor import RedactedHead, RequestRedactor

KEY_TAG = "request-key/1"
BEHAVIOUR_HEADERS = frozenset(
    {"anthropic-version", "anthropic-beta", "openai-beta", "api-version", "x-goog-request-params"}
)
LIST_HEADERS = frozenset({"anthropic-beta", "openai-beta"})  # `a, b` in one header says the same as two headers.
KEY_HEADERS = BEHAVIOUR_HEADERS | {"content-type", "content-encoding"}  # no other header is looked at
HEADS_CACHED = 512  # A client sends the same URL and headers with every call.

# Whole requests are cached because clients retry and load tests repeat them, and redacting a request takes long: it
# shows in the benchmark row "player.play, with an e-mail to put back".
REQUESTS_CACHED = 512
CACHED_REQUEST_BYTES_MAX = 32 << 10

_BOUNDARY = r'(?i)multipart/.*?boundary="?([^";,]+)"?'

Pairs: TypeAlias = tuple[tuple[str, str], ...]


_NO_COUNTS: Counter[str] = Counter()  # shared by requests without volatile parts; never changed


class KeyFields(NamedTuple):
    """The values that a key is computed from."""

    method: str
    address: str
    query: Pairs
    headers: Pairs
    body: JSON  # redacted, volatile parts replaced


class KeyPrefix(NamedTuple):
    """The key fields except the body, and the digest that only needs the body."""

    endpoint: Endpoint
    method: str
    address: str
    query: Pairs
    headers: Pairs
    boundary: str  # of a form
    digest: FieldsDigest
    uncompared_fields: tuple[tuple[str, ...], ...] = ()  # of the body


class KeyedRequest(NamedTuple):
    """A request with its key, and what the key was computed from."""

    key: Digest
    prefix: KeyPrefix
    body: JSON  # as it is compared: redacted, volatile parts replaced, ids of tool calls renumbered
    sent_body: JSON  # redacted, and otherwise as it was sent
    volatile_counts: Counter[str]  # uses of each declaration of volatile parts
    redactions: Sequence[Redaction] = ()  # in the URL and the body; never stored
    compared_redactions: Sequence[Redaction] = ()  # those of them that are part of the prompt
    uncompared_paths: tuple[str, ...] = ()  # fields of the body that are never compared, and that it had

    @property
    def endpoint(self) -> Endpoint:
        return self.prefix.endpoint

    @property
    def key_fields(self) -> KeyFields:
        prefix = self.prefix
        return KeyFields(prefix.method, prefix.address, prefix.query, prefix.headers, self.body)


class RequestKeyer:
    """Computes request keys. Safe to use from several threads.

    Without a `redactor`, live requests are redacted as in a project that configures nothing.
    """

    def __init__(self, redactor: Redactor | None, volatile: VolatileRules) -> None:
        self._configured_redactor = redactor
        self._volatile = volatile
        self._redacted_head = lru_cache(HEADS_CACHED)(self._redact_head)
        self._prefix = lru_cache(HEADS_CACHED)(self._make_prefix)
        self._requests: dict[tuple[str, str, Headers, bytes], KeyedRequest] = {}

    @cached_property
    def _redactor(self) -> RequestRedactor:
        from traceforge.replay.request_redactor import RequestRedactor  # 12 ms of CPU, only with a call.

        return RequestRedactor(self._configured_redactor)

    def key_request(
        self, method: str, url: str, headers: Headers, body: bytes, unredacted_keys: Container[Digest] = ()
    ) -> KeyedRequest:
        """The key of a request as it was sent.

        `unredacted_keys` are the keys of stored requests in which nothing was redacted. A request that has such a key
        before redaction is one of them, so it need not be searched for secrets.
        """
        headers = tuple([header for header in headers if header[0].lower() in KEY_HEADERS])
        request = self._requests.get((method, url, headers, body))
        if request is None:
            head, prefix = self._redacted_head(method, url, headers)
            request = self._key_unredacted(head, prefix, body, unredacted_keys) if unredacted_keys else None
            request = request or self._redact_and_key(head, prefix, body)
            self._cache_request((method, url, headers, body), request)
        return request

    def _cache_request(self, cache_key: tuple[str, str, Headers, bytes], request: KeyedRequest) -> None:
        if len(cache_key[-1]) > CACHED_REQUEST_BYTES_MAX:
            return
        if len(self._requests) >= REQUESTS_CACHED:
            self._requests.clear()
        self._requests[cache_key] = request

    def _key_unredacted(
        self, head: RedactedHead, prefix: KeyPrefix, body: bytes, unredacted_keys: Container[Digest]
    ) -> KeyedRequest | None:
        """The key before redaction; None where redaction or a volatile part may change it."""
        if self._volatile or prefix.boundary or not head.is_redacted_as_json:
            return None
        try:
            value, text = parse_canonical(body)
        except NotJSON:
            return None
        if drop_fields(value, prefix.uncompared_fields)[1]:
            return None  # A field that is not compared may hold a secret, which a response may repeat.
        compared, text = _renumber_tool_calls(value, text)
        key = prefix.digest.digest(text)
        if key not in unredacted_keys:
            return None
        return KeyedRequest(key, prefix, compared, value, _NO_COUNTS, head.redactions, head.compared_redactions)

    def _redact_and_key(self, head: RedactedHead, prefix: KeyPrefix, body: bytes) -> KeyedRequest:
        value, redactions = self._redactor.redact_body(head, body)
        compared = [redaction for redaction in redactions if not self._is_ignored(prefix, redaction.path)]
        return self._key_body(prefix, value, [*head.redactions, *redactions], [*head.compared_redactions, *compared])

    def key_stored_request(self, method: str, url: str, headers: Headers, body: JSON) -> KeyedRequest:
        """The key of a stored request, which is redacted already."""
        return self._key_body(self._prefix(method, url, headers), body)

    def _key_body(
        self, prefix: KeyPrefix, body: JSON, redactions: Sequence[Redaction] = (), compared: Sequence[Redaction] = ()
    ) -> KeyedRequest:
        if prefix.boundary:
            body = _without_boundary(body, prefix.boundary)
        value, volatile_counts = self._volatile.replace_parts(body) if self._volatile else (body, _NO_COUNTS)
        value, uncompared_paths = drop_fields(value, prefix.uncompared_fields)
        value, text = _renumber_tool_calls(value, exact_canonical_bytes(value))
        key = prefix.digest.digest(text)
        return KeyedRequest(key, prefix, value, body, volatile_counts, redactions, compared, uncompared_paths)

    def read_fingerprints(self, request: KeyedRequest, redacted: JSON) -> Fingerprints:
        """The fingerprints of a stored request; `redacted` as in its trace."""
        return read_fingerprints(redacted, request.sent_body, partial(self._is_ignored, request.prefix))

    def _is_ignored(self, prefix: KeyPrefix, path: str) -> bool:
        """Whether a path of the body is volatile, or never compared."""
        return is_at_field(path, prefix.uncompared_fields) or self._volatile.is_volatile(path)

    def find_header_redactions(self, headers: Headers) -> Sequence[Redaction]:
        """What is redacted in the headers of a live request."""
        return self._redactor.find_header_redactions(headers)

    def _redact_head(self, method: str, url: str, headers: Headers) -> tuple[RedactedHead, KeyPrefix]:
        head = self._redactor.redact_head(url, headers)
        return head, self._prefix(method, head.url, head.headers)

    def _make_prefix(self, method: str, url: str, headers: Headers) -> KeyPrefix:
        endpoint = find_endpoint(method, url)
        path, query = split_url(url)
        boundary = _find_boundary(find_header(headers, "content-type"))
        fields = KeyFields(
            method.upper(), _address(endpoint, path), self._compared_query(query), _compared_headers(headers), None
        )
        uncompared_fields = find_uncompared_fields(endpoint.dialect, path)
        return KeyPrefix(endpoint, *fields[:4], boundary, _begin_digest(fields), uncompared_fields)

    def _compared_query(self, query: str) -> Pairs:
        """Every parameter except credentials, sorted."""
        pairs = parse_qsl(query, keep_blank_values=True)
        return tuple(
            (name, value)
            for name, value in sorted(pairs)
            if value != REDACTED or not self._redactor.is_secret_parameter(name)
        )


def make_request_keyer(loaded: LoadedConfig) -> RequestKeyer:
    """The keyer of a project.

    Raises:
        InvalidConfig: a declaration of volatile parts, or a pattern to redact, is invalid.
    """
    config = loaded.config
    volatile = VolatileRules(config.match.ignore_paths, config.match.ignore_patterns, where=loaded.origins["match"])
    if not (config.redact_fields or config.redact_patterns or config.allow):
        return RequestKeyer(None, volatile)
    from traceforge.redact.redactor import Redactor

    return RequestKeyer(Redactor.from_config(config), volatile)


def _renumber_tool_calls(body: JSON, text: bytes) -> tuple[JSON, bytes]:
    """The body with the ids of its tool calls renumbered, and its canonical text; `text` is that of `body`."""
    renumbered = renumber_ids(body) if isinstance(body, dict) and may_define_ids(text) else body
    return renumbered, text if renumbered is body else exact_canonical_bytes(renumbered)


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
    """Replace the random text between the parts of a form."""
    if isinstance(body, str):
        return body.replace(boundary, "boundary")
    if isinstance(body, dict) and isinstance(body.get("b64"), str):
        data = base64.b64decode(str(body["b64"]))
        return {"b64": base64.b64encode(data.replace(boundary.encode("latin-1", "replace"), b"boundary")).decode()}
    return body

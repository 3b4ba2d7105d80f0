"""The key of a request: two requests with the same key ask the same.

The key is a digest of what decides the response: where the request goes, the endpoint, the model, the headers, and
the body without secrets, volatile parts, fields that decide no answer, and invented ids. It does not depend on the
order of members, white space, the port of a server on this machine, compression, the random boundary of a form, or
the caller's identity.

    digest_fields("request-key/2", [method, upstream, address, query, headers, body])

`upstream` is the logical upstream (`logical_upstream`). `address` is the dialect, the kind, the model in the path and
the last part of the path (whether Gemini streams); for an unknown endpoint it is the whole path, without a provider's
account. `query` is every parameter except credentials, `headers` are those of `compared_headers`, both as sorted
pairs; `?a` is a parameter with null as its value, and not `?a=`.

Where a stored request does not say where it went, or not all of its headers, these parts are *unknown*: its key
covers what is known, and names what is not. A live request has one key more for each combination of unknown parts
among the stored requests, so that unknown equals anything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Sequence
from functools import cached_property, lru_cache, partial
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple, TypeAlias
from urllib.parse import unquote_plus

from msgspec import Struct

from traceforge.canon import JSON, Digest, FieldsDigest, exact_canonical_bytes, json_bytes, parse_all_members
from traceforge.errors import NotJSON
from traceforge.exchange import Headers, find_header
from traceforge.redact.redactions import REDACTED, Redaction
from traceforge.replay.compared_body import (
    UncomparedField,
    drop_fields,
    find_uncompared_fields,
    hide_project,
    is_at_field,
    renumber_ids,
)
from traceforge.replay.compared_headers import ALWAYS_STORED, HeaderRules, Pairs, is_signing_parameter
from traceforge.replay.fingerprints import Fingerprints, read_fingerprints
from traceforge.replay.form_boundary import drop_boundary, find_boundary
from traceforge.replay.logical_upstream import (
    HOST_MARK,
    UNKNOWN_UPSTREAM,
    DeclaredUpstream,
    UpstreamNames,
    find_base_url,
    find_deployment,
    hide_account,
    is_same_host,
    replace_authority,
)
from traceforge.replay.next_frames import NextFrames
from traceforge.replay.scoped_volatile import find_model, make_volatile_rules
from traceforge.replay.volatile import MATCH_SETTING, VolatileRules
from traceforge.wire.endpoints import Dialect, Endpoint, find_path_endpoint, find_prefix, split_url

if TYPE_CHECKING:
    from traceforge.config import LoadedConfig
    from traceforge.redact.redactor import Redactor
    from traceforge.replay.request_redactor import RedactedHead, RequestRedactor

KEY_TAG = "request-key/2"
UNKNOWN_HEADERS = "?"  # In place of a header's name: of headers that are not listed with it nothing is known.
NAMES_CACHED = 1024  # names of headers
HEADS_CACHED = 512  # A client sends the same URL and headers with every call.

# Whole requests are cached because clients retry and load tests repeat them, and redacting a request takes long: it
# shows in the benchmark row "player.play, with an e-mail to put back".
REQUESTS_CACHED = 512
CACHED_REQUEST_BYTES_MAX = 32 << 10

Parameters: TypeAlias = tuple[tuple[str, str | None], ...]

_CacheKey = tuple[str, str, Headers, tuple[str, ...], bytes]
_NO_COUNTS: Counter[str] = Counter()  # shared by requests without volatile parts; never changed


class UnknownParts(Struct, frozen=True):
    """What a stored request does not say about itself."""

    upstream: bool = False  # where it went
    known_headers: frozenset[str] | None = None  # the names of which it says whether it had them; None: of all

    def __bool__(self) -> bool:
        return self.upstream or self.known_headers is not None


ALL_KNOWN = UnknownParts()
OLD_REQUEST = UnknownParts(upstream=True, known_headers=ALWAYS_STORED)  # stored by a version before request-key/2


class KeyFields(NamedTuple):
    """The values that a key is computed from."""

    method: str
    upstream: str
    address: str
    query: Parameters
    headers: Pairs
    body: JSON  # redacted, volatile parts replaced
    unknown: UnknownParts = ALL_KNOWN


class KeyPrefix(NamedTuple):
    """The key fields except the body, and the digest that only needs the body."""

    endpoint: Endpoint
    path: str
    key_fields: KeyFields  # without a body
    base_url: str  # where a live request goes, up to its endpoint; "" for a stored one
    boundary: str  # of a form
    digest: FieldsDigest
    uncompared_fields: Sequence[UncomparedField]  # of the body
    partial_digests: dict[UnknownParts, FieldsDigest]  # filled when they are needed

    def digest_without(self, unknown: UnknownParts) -> FieldsDigest:
        """The digest of a request of which these parts are unknown."""
        digest = self.partial_digests.get(unknown)
        if digest is None:
            fields = _without_unknown(self.key_fields, unknown, self.endpoint, self.path)
            digest = self.partial_digests[unknown] = _begin_digest(fields)
        return digest


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
    partial_keys: Sequence[tuple[UnknownParts, Digest]] = ()  # its keys without what stored requests do not know
    tests: tuple[str, ...] = ()  # the names under which declarations for single tests applied to it

    @property
    def endpoint(self) -> Endpoint:
        return self.prefix.endpoint

    @property
    def key_fields(self) -> KeyFields:
        return self.prefix.key_fields._replace(body=self.body)

    def has_key(self, key: Digest | None) -> bool:
        """Whether a stored request of this key asks the same, as far as it is known."""
        return key == self.key or any(key == partial for _, partial in self.partial_keys)


class RequestKeyer:
    """Computes request keys. Safe to use from several threads.

    Without a `redactor`, live requests are redacted as in a project that configures nothing.
    """

    def __init__(
        self,
        redactor: Redactor | None,
        volatile: VolatileRules,
        upstreams: UpstreamNames | None = None,
        header_rules: HeaderRules | None = None,
    ) -> None:
        self._configured_redactor = redactor
        self._volatile = volatile
        self._upstreams = upstreams or UpstreamNames()
        self._header_rules = header_rules or HeaderRules()
        self._is_used = lru_cache(NAMES_CACHED)(self._is_used_header)
        self._unknown_parts: dict[UnknownParts, None] = {}  # of the stored requests so far
        self._redacted_head = lru_cache(HEADS_CACHED)(self._redact_head)
        self._prefix = lru_cache(HEADS_CACHED)(self._make_prefix)
        self._requests: dict[_CacheKey, KeyedRequest] = {}

    @cached_property
    def _redactor(self) -> RequestRedactor:
        from traceforge.replay.request_redactor import RequestRedactor  # 12 ms of CPU, only with a call.

        return RequestRedactor(self._configured_redactor)

    def key_request(
        self,
        method: str,
        url: str,
        headers: Headers,
        body: bytes,
        unredacted_keys: Container[Digest] = (),
        *,
        scope: str = "",
    ) -> KeyedRequest:
        """The key of a request as it was sent in a scope, of which declarations for single tests may apply.

        `unredacted_keys` are the keys of stored requests in which nothing was redacted. A request that has such a key
        before redaction is one of them, so it need not be searched for secrets.
        """
        is_used = self._is_used
        headers = tuple([header for header in headers if is_used(header[0])])
        tests = self._volatile.list_tests(scope)
        request = self._requests.get((method, url, headers, tests, body))
        if request is None:
            head, prefix = self._redacted_head(method, url, headers)
            request = self._key_unredacted(head, prefix, body, unredacted_keys) if unredacted_keys else None
            request = request or self._redact_and_key(method, url, headers, body, tests)
            self._cache_request((method, url, headers, tests, body), request)
        return request

    def is_same_answer(self, recorded: bytes, now: bytes) -> bool:
        """Whether two answers are the same once both are redacted: the recorded one may repeat what was sent."""
        before, after = self._redactor.redact_answer(recorded), self._redactor.redact_answer(now)
        return exact_canonical_bytes(before) == exact_canonical_bytes(after)

    def _cache_request(self, cache_key: _CacheKey, request: KeyedRequest) -> None:
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
            value = parse_all_members(body)
        except NotJSON:
            return None
        if self._redactor.is_stored_as_text(value) or drop_fields(value, prefix.uncompared_fields)[1]:
            return None  # A field that is not compared may hold a secret, which a response may repeat.
        compared = renumber_ids(hide_project(prefix.key_fields.upstream, value))
        text = exact_canonical_bytes(compared)
        key, partial_keys = prefix.digest.digest(text), self._partial_keys(prefix, text)
        if key not in unredacted_keys and not any(partial_key in unredacted_keys for _, partial_key in partial_keys):
            return None
        head_redactions = head.redactions, head.compared_redactions
        return KeyedRequest(key, prefix, compared, value, _NO_COUNTS, *head_redactions, partial_keys=partial_keys)

    def _redact_and_key(
        self, method: str, url: str, headers: Headers, body: bytes, tests: tuple[str, ...]
    ) -> KeyedRequest:
        head, prefix = self._redacted_head(method, url, headers)
        value, redactions = self._redactor.redact_body(head, body)
        repeating = self._redactor.with_values(redactions)
        if repeating is not self._redactor:  # A value of the body may also stand in the URL or a header.
            head = repeating.redact_head(url, headers)
            prefix = self._prefix(method, head.url, head.headers)
        volatile = self._find_volatile(prefix, value, tests)
        uncompared_paths = drop_fields(value, prefix.uncompared_fields)[1]
        compared = [item for item in redactions if not _is_ignored(uncompared_paths, volatile, item.path)]
        return self._key_body(
            prefix, value, tests, [*head.redactions, *redactions], [*head.compared_redactions, *compared]
        )

    def _find_volatile(self, prefix: KeyPrefix, body: JSON, tests: tuple[str, ...]) -> VolatileRules:
        """The declarations of volatile parts that apply to a request."""
        return self._volatile.find_rules(tests, find_model(prefix.endpoint, body))

    def key_stored_request(
        self,
        method: str,
        url: str,
        headers: Headers,
        body: JSON,
        *,
        upstream: str | None = None,
        unknown: UnknownParts = ALL_KNOWN,
        scope: str = "",
    ) -> KeyedRequest:
        """The key of a stored request, which is redacted already, for a scope.

        `upstream` is its logical upstream; without it, the URL says where it went.
        """
        prefix = self._prefix(method, url, headers, upstream)
        tests = self._volatile.list_tests(scope)
        if not unknown:
            return self._key_body(prefix, body, tests)
        self._unknown_parts.setdefault(unknown)
        fields = _without_unknown(prefix.key_fields, unknown, prefix.endpoint, prefix.path)
        known_prefix = prefix._replace(key_fields=fields, digest=prefix.digest_without(unknown))
        return self._key_body(known_prefix, body, tests)._replace(partial_keys=())

    def _key_body(
        self,
        prefix: KeyPrefix,
        body: JSON,
        tests: tuple[str, ...],
        redactions: Sequence[Redaction] = (),
        compared: Sequence[Redaction] = (),
    ) -> KeyedRequest:
        if prefix.boundary:
            body = drop_boundary(body, prefix.boundary)
        volatile = self._find_volatile(prefix, body, tests)
        value, volatile_counts = volatile.replace_parts(body) if volatile else (body, _NO_COUNTS)
        value, uncompared_paths = drop_fields(value, prefix.uncompared_fields)
        value = renumber_ids(hide_project(prefix.key_fields.upstream, value))
        text = exact_canonical_bytes(value)
        key, partial_keys = prefix.digest.digest(text), self._partial_keys(prefix, text)
        return KeyedRequest(
            key, prefix, value, body, volatile_counts, redactions, compared, uncompared_paths, partial_keys, tests
        )

    def follow_frames(self, method: str, url: str, headers: Headers, request: KeyedRequest) -> NextFrames:
        """What compares the frames of a WebSocket that come after those of this live request, as it does."""
        head, _ = self._redacted_head(method, url, tuple([header for header in headers if self._is_used(header[0])]))
        return NextFrames(
            head,
            self._redactor.with_values(request.redactions),
            self._find_volatile(request.prefix, request.sent_body, request.tests),
            request.prefix.uncompared_fields,
            request.sent_body,
        )

    def read_fingerprints(self, request: KeyedRequest, redacted: JSON) -> Fingerprints:
        """The fingerprints of a stored request; `redacted` as in its trace."""
        names = {name for name, _ in request.prefix.key_fields.headers}
        volatile = self._find_volatile(request.prefix, request.sent_body, request.tests)
        is_ignored = partial(_is_ignored, request.uncompared_paths, volatile)
        return read_fingerprints(redacted, request.sent_body, is_ignored, names)

    def _partial_keys(self, prefix: KeyPrefix, text: bytes) -> Sequence[tuple[UnknownParts, Digest]]:
        if not self._unknown_parts:
            return ()
        return [(unknown, prefix.digest_without(unknown).digest(text)) for unknown in [*self._unknown_parts]]

    def _is_used_header(self, name: str) -> bool:
        return name.lower() in ("content-encoding", "host") or self._header_rules.is_compared(name)

    def list_tests(self, scope: str) -> tuple[str, ...]:
        """The names under which declarations for single tests apply to a scope. Keys are the same where these are."""
        return self._volatile.list_tests(scope)

    def is_compared_header(self, name: str) -> bool:
        """Whether a header of this name is part of a key."""
        return self._header_rules.is_compared(name)

    def compare_headers(self, headers: Headers) -> Pairs:
        """The headers as a key has them."""
        return self._header_rules.list_compared(headers)

    def resolve_upstream(self, upstream: str) -> str:
        """The present name of a stored logical upstream."""
        return self._upstreams.resolve_stored(upstream)

    def name_upstream(self, url: str, headers: Headers = ()) -> str:
        """The logical upstream of a request, as it is stored: that of its URL and, if its `Host` header names another
        one, that, too.
        """
        path = split_url(url)[0]
        prefix = find_prefix(path)
        name = self._upstreams.name_upstream(url, path, prefix)
        host = find_header(headers, "host").strip()
        host_url = replace_authority(url, host)
        if not host or is_same_host(url, host_url):
            return name
        host_name = self._upstreams.name_upstream(host_url, path, prefix, is_header=True)
        return name if host_name in (name, UNKNOWN_UPSTREAM) else name + HOST_MARK + host_name

    def find_header_redactions(self, headers: Headers, redactions: Sequence[Redaction] = ()) -> Sequence[Redaction]:
        """What is redacted in the headers of a live request, of which `redactions` are those of its body."""
        return self._redactor.with_values(redactions).find_header_redactions(headers)

    def redact_label(self, text: str, redactions: Sequence[Redaction] = ()) -> str:
        """A line about a live request, without secrets and without the values of `redactions`."""
        return self._redactor.with_values(redactions).redact_label(text) if text else text

    def _redact_head(self, method: str, url: str, headers: Headers) -> tuple[RedactedHead, KeyPrefix]:
        head = self._redactor.redact_head(url, headers)
        return head, self._prefix(method, head.url, head.headers)

    def _make_prefix(self, method: str, url: str, headers: Headers, upstream: str | None = None) -> KeyPrefix:
        path, query = split_url(url)
        endpoint = find_path_endpoint(method, path)  # Stored requests, with which it is compared, have no host.
        boundary = find_boundary(find_header(headers, "content-type"))
        name = self.name_upstream(url, headers) if upstream is None else self._upstreams.resolve_stored(upstream)
        fields = KeyFields(
            method.upper(),
            name,
            _address(endpoint, hide_account(name, path), find_deployment(name, path)),
            self._compared_query(query),
            self._header_rules.list_compared(headers),
            None,
        )
        uncompared_fields = find_uncompared_fields(endpoint, path)
        return KeyPrefix(
            endpoint, path, fields, find_base_url(url), boundary, _begin_digest(fields), uncompared_fields, {}
        )

    def _compared_query(self, query: str) -> Parameters:
        """Every parameter except credentials and what signs a URL, sorted by name: of two with one name, a server may
        take the first.
        """
        return tuple(
            (name, value)
            for name, value in sorted(_split_query(query), key=itemgetter(0))
            if not is_signing_parameter(name) and (value != REDACTED or not self._redactor.is_secret_parameter(name))
        )


def make_request_keyer(loaded: LoadedConfig) -> RequestKeyer:
    """The keyer of a project.

    Raises:
        InvalidConfig: a declaration of volatile parts, a header to compare, or a pattern to redact is invalid.
    """
    config = loaded.config
    volatile = make_volatile_rules(loaded)
    upstreams = UpstreamNames(
        [DeclaredUpstream(name, rule.url, rule.same_as) for name, rule in config.upstream_rules.items()]
    )
    header_rules = HeaderRules(config.match.headers, config.match.ignore_headers, where=loaded.origins[MATCH_SETTING])
    if not (config.redact_fields or config.redact_patterns or config.allow):
        return RequestKeyer(None, volatile, upstreams, header_rules)
    from traceforge.redact.redactor import Redactor

    return RequestKeyer(Redactor.from_config(config), volatile, upstreams, header_rules)


def _is_ignored(uncompared_paths: Sequence[str], volatile: VolatileRules, path: str) -> bool:
    """Whether a path of the body is volatile, or never compared."""
    return is_at_field(path, uncompared_paths) or volatile.is_volatile(path)


def _begin_digest(key_fields: KeyFields) -> FieldsDigest:
    headers = key_fields.headers
    if key_fields.unknown.known_headers is not None:
        headers = ((UNKNOWN_HEADERS, ",".join(sorted(key_fields.unknown.known_headers))), *headers)
    fields = [
        ("method", key_fields.method),
        ("upstream", key_fields.upstream),
        ("address", key_fields.address),
        ("query", _pairs_text(key_fields.query)),
        ("headers", _pairs_text(headers)),
    ]
    return FieldsDigest(KEY_TAG, fields, "body")


def _without_unknown(fields: KeyFields, unknown: UnknownParts, endpoint: Endpoint, path: str) -> KeyFields:
    """The key fields of a request of which some parts are unknown."""
    if unknown.upstream:  # Nor is it known whether an account is in the path.
        fields = fields._replace(upstream=UNKNOWN_UPSTREAM, address=_address(endpoint, path))
    if unknown.known_headers is not None:
        known_names = unknown.known_headers
        fields = fields._replace(headers=tuple(pair for pair in fields.headers if pair[0] in known_names))
    return fields._replace(unknown=unknown)


def _split_query(query: str) -> Iterator[tuple[str, str | None]]:
    """The decoded parameters. One without `=` has None as its value: a server can tell `?a` from `?a=`."""
    for parameter in filter(None, query.split("&")):
        name, equals_sign, value = parameter.partition("=")
        decoded = unquote_plus(value, errors="surrogateescape") if equals_sign else None
        yield unquote_plus(name, errors="surrogateescape"), decoded


def _pairs_text(pairs: Parameters) -> str:
    return json_bytes([[name, value] for name, value in pairs]).decode()


def _address(endpoint: Endpoint, path: str, deployment: str = "") -> str:
    if not isinstance(endpoint.dialect, Dialect):  # The key of a call does not depend on what else is installed.
        return path
    without_slash = path.rstrip("/")
    action = without_slash.rpartition("/")[2].rpartition(":")[2] + path[len(without_slash) :]
    model = "/".join(filter(None, (deployment, endpoint.model)))
    return f"{endpoint.dialect}:{endpoint.kind}:{model}:{action}"

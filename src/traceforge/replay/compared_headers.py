"""Which headers of a request are compared, and what of their values.

In: headers as they were sent or stored, and what a project declares. Out: sorted pairs of name and value, equal for
requests that ask the same. Never: a credential, or anything that another version of an SDK, another machine or
another day changes.

Every header counts, except those of the lists below. A list of betas is a set, the type of a body has no parameters
but a `charset` other than UTF-8, and `accept: */*` says the same as `application/json`, and as no `accept` at all.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import TypeAlias

from traceforge.canon import json_path
from traceforge.config import CONFIG_RULE
from traceforge.errors import InvalidConfig
from traceforge.exchange import Headers
from traceforge.findings import Finding
from traceforge.redact.secret_names import ACCOUNT_HEADERS, is_secret_header_name

Pairs: TypeAlias = tuple[tuple[str, str], ...]

NAMES_CACHED = 1024  # A client sends a dozen; each name is looked up with every call.

_CONNECTION = (
    "host", "connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "http2-settings", "expect",
    "via", "forwarded", "content-length", "content-encoding", "accept-encoding", "date", "cookie",
)  # fmt: skip
_SIGNING = ("x-amz-date", "x-amz-content-sha256", "x-amz-security-token")
_CLIENT_VERSIONS = (
    "user-agent", "x-goog-api-client", "x-server-timeout", "http-referer", "x-title", "x-ms-useragent",
    "x-amz-user-agent",
)  # fmt: skip
_TRACING = (
    "traceparent", "tracestate", "baggage", "sentry-trace", "b3", "x-amzn-trace-id", "x-cloud-trace-context",
    "newrelic", "elastic-apm-traceparent", "uber-trace-id",
)  # fmt: skip
_REQUEST_IDS = (
    "x-request-id", "x-client-request-id", "x-ms-client-request-id", "x-correlation-id", "idempotency-key",
    "mcp-session-id", "last-event-id",
)  # fmt: skip
_ACCOUNTS = tuple(name.lower() for name in ACCOUNT_HEADERS)
IGNORED_NAMES = frozenset({*_CONNECTION, *_SIGNING, *_CLIENT_VERSIONS, *_TRACING, *_REQUEST_IDS, *_ACCOUNTS})
IGNORED_PREFIXES = (
    ":", "proxy-", "x-forwarded-", "amz-sdk-", "x-stainless-", "x-fern-", "x-client-", "x-b3-", "x-datadog-",
    "x-traceforge-",
)  # fmt: skip

# Headers that every version of TraceForge has stored, if the request had them.
ALWAYS_STORED = frozenset(
    {"anthropic-version", "anthropic-beta", "openai-beta", "api-version", "x-goog-request-params"}
)

_SIGNING_PARAMETERS = frozenset(
    {
        "x-amz-algorithm", "x-amz-credential", "x-amz-date", "x-amz-expires", "x-amz-security-token",
        "x-amz-signature", "x-amz-signedheaders",
    }
)  # fmt: skip
_SIGNATURE = re.compile(r"(?:^|[-_])signature$")
_PROJECT = re.compile(r"(?i)(projects(?:/|%2f))[^/&%]+")  # an account, which does not count
_CHARSET = re.compile(r"""(?i);\s*charset\s*=\s*["']?([^;"',]*)""")
_UTF8 = frozenset({"utf-8", "utf8"})
_UTF8_PARAMETERS = frozenset(f"charset={name}" for name in _UTF8)
_ANY_RESPONSE = frozenset({"*/*", "application/json"})
_ITEM = re.compile(r"""(?:[^,"]|"(?:[^"\\]|\\.)*"?)+""")
_WEIGHT = re.compile(r"q=([0-9]{1,9}(?:\.[0-9]{0,9})?|\.[0-9]{1,9})")
_LESS_PREFERRED = re.compile(r";q=(?!0\Z)[0-9.e-]+\Z")  # but accepted: a weight of 0 refuses a type
_SPACE_AROUND = re.compile(r"\s*(=)\s*")

_REFUSED = "has the name of a credential, and credentials are never compared"
_HINT = "Remove it. To compare its value, send it under a name that does not end like a credential."


def is_of_connection(name: str) -> bool:
    """Whether a header says how a request goes over a connection, through a proxy or in whose name, and not what it
    asks.
    """
    name = name.lower()
    return name in _CONNECTION or name.startswith((":", "proxy-", "x-forwarded-")) or is_credential(name)


class HeaderRules:
    """Which headers count: every one but those of the lists, and what a project adds to or takes from them.

    Raises:
        InvalidConfig: an added header is a credential, which is never compared; the error names each.
    """

    def __init__(self, added: Sequence[str] = (), ignored: Collection[str] = (), *, where: str = "match") -> None:
        credentials = [place for place, name in enumerate(added) if is_credential(name.lower())]
        findings = [
            Finding(where, path, CONFIG_RULE, f"{path.removeprefix('$.')} {_REFUSED}", _HINT)
            for path in (json_path("$.match.headers", place) for place in credentials)
        ]
        if findings:
            raise InvalidConfig(tuple(findings))
        self._added = frozenset(name.lower() for name in added)
        self._ignored = frozenset(name.lower() for name in ignored)
        self.is_compared = lru_cache(NAMES_CACHED)(self._is_compared)

    def _is_compared(self, name: str) -> bool:
        """Whether a header of this name, in any case, is compared."""
        name = name.lower()
        if is_credential(name) or name in self._ignored:
            return False
        return name in self._added or (name not in IGNORED_NAMES and not name.startswith(IGNORED_PREFIXES))

    def list_compared(self, headers: Headers) -> Pairs:
        """The compared headers, sorted, in lower case, each with the part of its value that counts."""
        values: dict[str, list[str]] = {}
        for name, value in headers:
            if self.is_compared(name):
                values.setdefault(name.lower(), []).append(value.strip())
        return tuple(sorted(pair for name, texts in values.items() for pair in _normalize(name, texts)))


def is_signing_parameter(name: str) -> bool:
    """Whether a parameter of a URL is a part of its signature, as a header would be: a presigned URL of AWS."""
    return name.lower() in _SIGNING_PARAMETERS


def is_credential(name: str) -> bool:
    """Whether a header of this name, in lower case, identifies the caller and is not part of the request."""
    return is_secret_header_name(name) or _SIGNATURE.search(name) is not None


def _normalize(name: str, texts: list[str]) -> Iterable[tuple[str, str]]:
    if name.endswith("-beta"):
        return {(name, item) for text in texts for part in text.split(",") if (item := part.strip())}
    text = ", ".join(texts)
    if name == "accept":
        accepted = _list_accepted(text)
        return [(name, accepted)] if accepted else []
    if name == "content-type":
        media_types = [_media_type(part) + _foreign_charset(part) for part in _split_list(text)]
        return [(name, ", ".join(media_types))] if any(media_types) else []
    if name == "x-goog-request-params":
        text = _PROJECT.sub(r"\1*", text)
    return [(name, text)]


def _list_accepted(text: str) -> str:
    """The accepted types, sorted, without those that every client accepts; "" if these are all."""
    accepted = {_normalize_accepted(part) for part in _split_list(text)} - {""}
    other = accepted - _ANY_RESPONSE
    if all(_LESS_PREFERRED.sub("", item) in _ANY_RESPONSE for item in other):
        return ""  # JSON, or anything: which of the two is preferred says nothing.
    return ", ".join(sorted(other))


def _normalize_accepted(text: str) -> str:
    """One type of an `accept` header with its parameters, except a weight of 1 and a charset of UTF-8."""
    media_type, *parameters = (_SPACE_AROUND.sub(r"\1", part.strip().lower()) for part in text.split(";"))
    counted: list[str] = []
    for parameter in parameters:
        if weight := _WEIGHT.fullmatch(parameter):
            counted += [] if float(weight[1]) == 1 else [f"q={float(weight[1]):g}"]
        elif parameter and parameter.replace('"', "") not in _UTF8_PARAMETERS:
            counted.append(parameter)
    return ";".join((media_type, *sorted(counted)))


def _split_list(text: str) -> list[str]:
    """The items of a list, without a comma in quotation marks."""
    return [match[0] for match in _ITEM.finditer(text)]


def _foreign_charset(text: str) -> str:
    """The parameter that says that a body is not in UTF-8; "" where it is, as JSON always is."""
    charsets = [match[1].strip().lower() for match in _CHARSET.finditer(text)]
    return "" if _UTF8.issuperset(charsets) else "".join(f"; charset={charset}" for charset in charsets)


def _media_type(text: str) -> str:
    return text.partition(";")[0].strip().lower()

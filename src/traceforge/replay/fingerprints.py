"""Fingerprints of the redacted parts of requests, to compare these parts without storing their values.

A fingerprint is an HMAC under the project's match key. Credentials have none: they identify the caller and are not
part of the prompt. Requests with equal keys have redacted parts at the same paths, so the fingerprints of each
path are compared in order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypeAlias, cast

from traceforge.canon import JSON, JSONObject, json_path
from traceforge.exchange import Headers
from traceforge.redact.redactions import Redaction

# Redacted values of these types in a URL or a header are part of the request. All others there identify the caller.
PERSONAL_TYPES = frozenset({"EMAIL", "PHONE", "US_SSN", "CREDIT_CARD", "CUSTOM"})
URL_PATH, HEADERS_PATH = "$.url", "$.headers"  # where traces locate redactions of a request's head

# Sorted by path. Empty: nothing was redacted. None: something was redacted and cannot be compared.
Fingerprints: TypeAlias = tuple[tuple[str, tuple[str, ...]], ...] | None

NOTHING_REDACTED: Fingerprints = ()


def fingerprint_redactions(redactions: Sequence[Redaction], key: bytes | None) -> Fingerprints:
    """The fingerprints of a live request."""
    if not redactions:
        return NOTHING_REDACTED
    if key is None:
        return None
    return _group_by_path((_fold_header_path(item.path), item.fingerprint(key)) for item in redactions)


def read_fingerprints(
    redacted: JSON, body: JSON, is_ignored: Callable[[str], bool], header_names: Iterable[str] = ()
) -> Fingerprints:
    """The fingerprints of a stored request: `redacted` as in its trace, `body` its body. `is_ignored` says of a path
    in the body whether it is compared at all; `header_names` are the headers that are, in lower case.
    """
    entries = cast("list[JSONObject]", redacted.get("request", [])) if isinstance(redacted, dict) else []
    if not entries:
        return NOTHING_REDACTED
    members = body if isinstance(body, dict) else {}
    header_paths = {header_path(name) for name in header_names}
    fingerprints: list[tuple[str, str]] = []
    for entry in entries:
        path, fingerprint = str(entry.get("path")), entry.get("fingerprint")
        if _is_below(path, URL_PATH) or _is_below(path, HEADERS_PATH):
            if path[2:].partition(".")[0].partition("[")[0] in members:
                return None  # The body has a member of that name, so the path is ambiguous.
            path = _fold_header_path(path)
            is_compared = _is_below(path, URL_PATH) or path in header_paths
            if not is_compared or entry.get("type") not in PERSONAL_TYPES:
                continue
        elif is_ignored(path):
            continue
        if not isinstance(fingerprint, str):
            return None
        fingerprints.append((path, fingerprint))
    return _group_by_path(fingerprints)


def find_differing_path(recorded: Fingerprints, live: Fingerprints) -> str:
    """The first path with different fingerprints; "" where none differs or they cannot be compared."""
    if recorded is None or live is None:
        return ""
    before, after = dict(recorded), dict(live)
    return next((path for path in sorted({*before, *after}) if before.get(path) != after.get(path)), "")


def header_path(name: str) -> str:
    """Where a header is, however its name is written."""
    return json_path(HEADERS_PATH, name).lower()


def keep_known_headers(fingerprints: Fingerprints, names: Collection[str]) -> Fingerprints:
    """The fingerprints without those of headers that are not named here."""
    if not fingerprints:
        return fingerprints
    known_paths = {header_path(name) for name in names}
    return tuple(item for item in fingerprints if not _is_below(item[0], HEADERS_PATH) or item[0] in known_paths)


def drop_credentials(headers: Iterable[tuple[str, str]], redactions: Iterable[tuple[str, str]]) -> Headers:
    """The headers except those in which a credential was redacted: such a header identifies the caller.

    `redactions` are the paths and types of what was redacted.
    """
    credential_paths = {path for path, kind in redactions if kind not in PERSONAL_TYPES}
    if not credential_paths:
        return tuple(headers)
    return tuple(header for header in headers if json_path(HEADERS_PATH, header[0]) not in credential_paths)


def list_request_redactions(redacted: JSON) -> list[tuple[str, str]]:
    """The paths and types of what was redacted in a stored request, from the `redacted` field of its file."""
    entries = cast("list[JSONObject]", redacted.get("request", [])) if isinstance(redacted, dict) else []
    return [(str(entry.get("path")), str(entry.get("type"))) for entry in entries]


def _fold_header_path(path: str) -> str:
    """The names of headers have no case."""
    return path.lower() if _is_below(path, HEADERS_PATH) else path


def _is_below(path: str, root: str) -> bool:
    return path == root or path.startswith((f"{root}.", f"{root}["))


def _group_by_path(fingerprints: Iterable[tuple[str, str]]) -> Fingerprints:
    by_path: dict[str, list[str]] = {}
    for path, fingerprint in fingerprints:
        by_path.setdefault(path, []).append(fingerprint)
    return tuple((path, tuple(fingerprint)) for path, fingerprint in sorted(by_path.items()))

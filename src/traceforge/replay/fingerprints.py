"""Fingerprints of the redacted parts of requests, to compare these parts without storing their values.

A fingerprint is an HMAC under the project's match key. Credentials have none: they identify the caller and are not
part of the prompt. Requests with equal keys have redacted parts at the same paths, so the fingerprints of each
path are compared in order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypeAlias, cast

from traceforge.canon import JSON, JSONObject, json_path
from traceforge.exchange import Headers
from traceforge.redact.redactions import REDACTED, Redaction
from traceforge.redact.secret_names import ACCOUNT_HEADERS

# Redacted values of these types in a URL or a header are part of the request. All others there identify the caller.
PERSONAL_TYPES = frozenset({"EMAIL", "PHONE", "US_SSN", "CREDIT_CARD", "CUSTOM"})
URL_PATH, HEADERS_PATH = "$.url", "$.headers"  # where traces locate redactions of a request's head
_ACCOUNT_PATHS = frozenset(json_path(HEADERS_PATH, name).lower() for name in ACCOUNT_HEADERS)

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
    head, in_body = _split_entries(redacted, body)
    header_paths = {header_path(name) for name in header_names}
    entries = [entry for entry in head if _is_compared_in_head(entry, header_paths)]
    entries += [entry for entry in in_body if not is_ignored(str(entry.get("path")))]
    fingerprints: list[tuple[str, str]] = []
    for entry in entries:
        fingerprint = entry.get("fingerprint")
        if not isinstance(fingerprint, str):
            return None
        fingerprints.append((_fold_header_path(str(entry.get("path"))), fingerprint))
    return _group_by_path(fingerprints)


def _is_compared_in_head(entry: JSONObject, header_paths: Collection[str]) -> bool:
    path = _fold_header_path(str(entry.get("path")))
    return is_compared_redaction(path, str(entry.get("type"))) and (_is_below(path, URL_PATH) or path in header_paths)


def _split_entries(redacted: JSON, body: JSON) -> tuple[list[JSONObject], list[JSONObject]]:
    """What was redacted in the head of a stored request, and in its body.

    Both are in one list, the head first. A body may have members `url` and `headers`, and then the same paths: as
    many of the last entries of a path are the body's as it has [REDACTED] there.
    """
    entries = cast("list[JSONObject]", redacted.get("request", [])) if isinstance(redacted, dict) else []
    if not entries:
        return [], []
    markers = _count_markers(body)
    head: list[JSONObject] = []
    in_body: list[JSONObject] = []
    for entry in reversed(entries):
        path = str(entry.get("path"))
        if not _is_below(path, URL_PATH) and not _is_below(path, HEADERS_PATH):
            in_body.append(entry)
        elif markers[path]:
            markers[path] -= 1
            in_body.append(entry)
        else:
            head.append(entry)
    return head[::-1], in_body[::-1]


def _count_markers(body: JSON) -> Counter[str]:
    """How many [REDACTED] the body has at each path that could be one of the head."""
    markers: Counter[str] = Counter()
    members = body if isinstance(body, dict) else {}
    todo = [(path, members.get(path.removeprefix("$."))) for path in (URL_PATH, HEADERS_PATH)]
    while todo:
        path, value = todo.pop()
        if isinstance(value, str):
            markers[path] += value.count(REDACTED)
        elif isinstance(value, dict):
            todo += [(json_path(path, name), child) for name, child in value.items()]
            markers.update(json_path(path, name) for name in value if REDACTED in name)
        elif isinstance(value, list):
            todo += [(f"{path}[{number}]", child) for number, child in enumerate(value)]
    return markers


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


def is_compared_redaction(path: str, kind: str) -> bool:
    """Whether what was redacted in a head is a part of the request: personal data, or the account of a header.

    A project can declare that account headers are compared (`match.headers`).
    """
    return kind in PERSONAL_TYPES or _fold_header_path(path) in _ACCOUNT_PATHS


def drop_credentials(headers: Iterable[tuple[str, str]], redactions: Iterable[tuple[str, str]]) -> Headers:
    """The headers except those in which a credential was redacted: such a header identifies the caller.

    `redactions` are the paths and types of what was redacted.
    """
    credential_paths = {path for path, kind in redactions if not is_compared_redaction(path, kind)}
    if not credential_paths:
        return tuple(headers)
    return tuple(header for header in headers if json_path(HEADERS_PATH, header[0]) not in credential_paths)


def list_head_redactions(redacted: JSON, body: JSON) -> list[tuple[str, str]]:
    """The paths and types of what was redacted in the head of a stored request; `redacted` as in its file."""
    return [(str(entry.get("path")), str(entry.get("type"))) for entry in _split_entries(redacted, body)[0]]


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

"""Were the redacted parts of two requests the same?

In: what was redacted in a live request, or what a trace says was. Out: fingerprints by place, to be compared by those
who hold the project's key. Never: a value; or a credential, which says who asks and not what is asked.

Two requests whose keys are the same have their redacted parts at the same places, so the fingerprints at each place
are compared in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias, cast

from traceforge.canon import JSON, JSONObject
from traceforge.redact import Redaction
from traceforge.replay.key import HEADERS_PATH, PERSONAL, URL_PATH

# By place, sorted. Empty: nothing was redacted. None: something was, and it cannot be compared.
Prints: TypeAlias = tuple[tuple[str, tuple[str, ...]], ...] | None

NOTHING: Prints = ()


def prints_of_parts(parts: Sequence[Redaction], key: bytes | None) -> Prints:
    """The fingerprints of what was redacted in a live request."""
    if not parts:
        return NOTHING
    return _gather((item.path, item.fingerprint(key)) for item in parts) if key is not None else None


def prints_of_request(redacted: JSON, asked: JSON, ignores: Callable[[str], bool]) -> Prints:
    """The fingerprints that are kept with a request: `redacted` as a trace has it, `asked` its body."""
    entries = cast("list[JSONObject]", redacted.get("request", [])) if isinstance(redacted, dict) else []
    if not entries:
        return NOTHING
    members = asked if isinstance(asked, dict) else {}
    found: list[tuple[str, str]] = []
    for entry in entries:
        path, told = str(entry.get("path")), entry.get("fingerprint")
        if _is_below(path, URL_PATH) or _is_below(path, HEADERS_PATH):
            if path[2:].partition(".")[0].partition("[")[0] in members:
                return None  # A body with a member of that name: nobody can say which of the two is meant.
            if not _is_below(path, URL_PATH) or entry.get("type") not in PERSONAL:
                continue
        elif ignores(path):
            continue
        if not isinstance(told, str):
            return None
        found.append((path, told))
    return _gather(found)


def find_difference(recorded: Prints, asked: Prints) -> str:
    """The first place at which two differ; empty where they do not, or nobody can say."""
    if recorded is None or asked is None:
        return ""
    before, after = dict(recorded), dict(asked)
    return next((path for path in sorted({*before, *after}) if before.get(path) != after.get(path)), "")


def _is_below(path: str, root: str) -> bool:
    return path == root or path.startswith((f"{root}.", f"{root}["))


def _gather(found: Iterable[tuple[str, str]]) -> Prints:
    places: dict[str, list[str]] = {}
    for path, told in found:
        places.setdefault(path, []).append(told)
    return tuple((path, tuple(told)) for path, told in sorted(places.items()))

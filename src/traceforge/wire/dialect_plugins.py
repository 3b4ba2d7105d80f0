"""Dialects that installed packages bring.

    [project.entry-points."traceforge.dialects"]
    acme = "acme_dialect"

The module that the entry point names has a `DIALECT`. It is imported once, and only by a process that meets an
address which no dialect of TraceForge knows, or that begins to watch calls. SECURITY.md says what that trusts.

In: what is installed. Out: the plugins, and why others cannot be used. Never: an exception, or a name or a path of a
dialect that comes with TraceForge: those count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache

from msgspec import Struct

from traceforge.installed_packages import find_entry_points
from traceforge.wire import dialect_index
from traceforge.wire.dialect_declaration import ENTRY_POINT_GROUP, DialectDeclaration

_NAME = re.compile(r"[a-z][a-z0-9-]{0,31}\Z")
_RESERVED = frozenset({"other", "wire", "approvals", *dialect_index.MODULES})
_REGULAR = re.compile(r"[^\0]{1,500}\Z")


class DialectPlugin(Struct, frozen=True):
    """A dialect of another package."""

    declaration: DialectDeclaration
    module: str


class LoadedPlugins(Struct, frozen=True):
    """The dialects of other packages that can be used, and what is wrong with the others."""

    by_name: Mapping[str, DialectPlugin]
    problems: tuple[str, ...]


@cache
def load_plugins() -> LoadedPlugins:
    """Import the dialects that installed packages name as entry points."""
    by_name: dict[str, DialectPlugin] = {}
    problems: list[str] = []
    for entry_point in find_entry_points(ENTRY_POINT_GROUP):
        try:
            declaration = getattr(entry_point.load(), "DIALECT", None)
            problem = _find_problem(declaration, by_name)
        except (Exception, SystemExit) as exc:  # noqa: BLE001 (any code may run at the import; its exit is not ours)
            declaration, problem = None, f"cannot be imported: {type(exc).__name__}"
        if problem:
            problems.append(f"the dialect {entry_point.name} ({entry_point.value}) {problem}")
        elif isinstance(declaration, DialectDeclaration):
            by_name[declaration.name] = DialectPlugin(declaration, entry_point.module)
    return LoadedPlugins(by_name, tuple(problems))


def _find_problem(declaration: object, others: Mapping[str, DialectPlugin]) -> str:
    """Why a declaration cannot be used; "" where it can."""
    if not isinstance(declaration, DialectDeclaration):
        return "has no DIALECT that is a DialectDeclaration"
    if not _NAME.match(declaration.name) or declaration.name in _RESERVED or declaration.name in others:
        return "has a name that is not free, or is more than small letters, digits and -"
    return _find_pattern_problem(f"{path.after}{path.path}" for path in declaration.endpoints)


def _find_pattern_problem(patterns: Iterable[str]) -> str:
    for pattern in patterns:
        try:
            re.compile(pattern)
        except re.error:
            return "has a path that is no regular expression"
        if "(?P<endpoint>" in pattern or not _REGULAR.match(pattern):
            return "has a path that is too long, or a group `endpoint`"
    return ""

"""Write the tables of the dialects that come with TraceForge, from what their modules declare.

A module of `traceforge.wire` with a `DIALECT` is a dialect. The tables are what must be known before any of them is
imported: one for the package, and one for the hook, which uses the standard library alone.
"""

from __future__ import annotations

import json
import pkgutil
import re
from collections.abc import Iterable, Sequence
from importlib import import_module

from msgspec.structs import astuple

import traceforge.wire
from traceforge.wire.dialect_declaration import DialectDeclaration, EndpointPath
from traceforge.wire.endpoints import make_rules

HEAD = """Written by `make docs` from the modules of the dialects. Do not edit."""


def find_dialects() -> dict[str, DialectDeclaration]:
    """The declarations by their module, in the order in which their paths are tried."""
    prefix = f"{traceforge.wire.__name__}."
    modules = [import_module(info.name) for info in pkgutil.walk_packages(traceforge.wire.__path__, prefix)]
    declared = {module.__name__: module.DIALECT for module in modules if hasattr(module, "DIALECT")}
    return dict(sorted(declared.items(), key=lambda item: _order(item[1])))


def _order(declared: DialectDeclaration) -> tuple[int, str]:
    return min((path.rank for path in declared.endpoints), default=9), declared.name


def index_text() -> bytes:
    """`wire/dialect_index.py`."""
    dialects = find_dialects()
    ranked = [
        (path.rank, astuple(rule))
        for declared in dialects.values()
        for path, rule in zip(declared.endpoints, make_rules(declared.name, declared.endpoints), strict=True)
    ]
    rows = [rule for _, rule in sorted(ranked, key=lambda item: item[0])]
    hosts = {declared.name: declared.hosts for declared in dialects.values()}
    return _module(
        "What is known about each dialect before its module is imported.",
        [
            "# The module of each dialect.",
            *_mapping("MODULES: dict[str, str]", {declared.name: name for name, declared in dialects.items()}),
            "",
            "HOSTS: dict[str, tuple[str, ...]] = {",
            *(line for name, listed in hosts.items() for line in _tuple(f"    {_text(name)}: ", listed, ",")),
            "}",
            "",
            "# See `PathRule` of `endpoints`.",
            "RULES: tuple[tuple[str, str, str, bool, bool], ...] = (",
            *(line for row in rows for line in _rule(row)),
            ")",
            "",
            *_tuple("NOT_PATHS: tuple[str, ...] = ", _join(d.not_paths for d in dialects.values())),
        ],
    )


def hook_text() -> bytes:
    """`capture/hook/dialect_paths.py`."""
    dialects = find_dialects().values()
    paths = [path for declared in dialects for path in declared.endpoints if path.is_watched]
    return _module(
        "Which hosts and paths are those of models.",
        [
            "HOSTS = frozenset(",
            "    {",
            *(f"        {_text(host)}," for host in sorted(set(_join(d.hosts for d in dialects)))),
            "    }",
            ")",
            *_tuple("HOST_ENDINGS = ", sorted(set(_join(d.host_endings for d in dialects)))),
            *_tuple("HOST_PATTERNS = ", sorted(set(_join(d.host_patterns for d in dialects)))),
            "MODEL_PATHS = (",
            *(f"    {_pattern(pattern)}" for pattern in _merge(paths)),
            ")",
            *_tuple("NOT_MODEL_PATHS = ", _join(d.not_paths for d in dialects)),
        ],
    )


def _merge(paths: Iterable[EndpointPath]) -> list[str]:
    """The alternatives of one pattern; what several paths follow is written once."""
    by_start: dict[str, list[str]] = {}
    for path in paths:
        by_start.setdefault(path.after, []).append(re.sub(r"\(\?P<\w+>", "(?:", path.path))
    texts = [rf"{after}(?:{'|'.join(ends)})\Z" for after, ends in by_start.items()]
    return [*(f"{text}|" for text in texts[:-1]), texts[-1]]


def _join(lists: Iterable[Sequence[str]]) -> list[str]:
    return [text for listed in lists for text in listed]


def _rule(row: tuple[str, str, str, bool, bool]) -> list[str]:
    pattern, dialect, kind, only_at_hosts, only_where_watched = row
    return ["    (", f"        {_pattern(pattern)},", f"        {_text(dialect)},", f"        {_text(kind)},",
            f"        {only_at_hosts},", f"        {only_where_watched},", "    ),"]  # fmt: skip


def _mapping(name: str, entries: dict[str, str]) -> list[str]:
    return [f"{name} = {{", *(f"    {_text(key)}: {_text(value)}," for key, value in entries.items()), "}"]


def _tuple(start: str, texts: Sequence[str], end: str = "") -> list[str]:
    indent = " " * (len(start) - len(start.lstrip()))
    return [f"{start}(", *(f"{indent}    {_pattern(text)}," for text in texts), f"{indent}){end}"]


def _pattern(text: str) -> str:
    return f'r"{text}"' if "\\" in text else _text(text)


def _text(text: str) -> str:
    return json.dumps(text)


def _module(sentence: str, lines: Iterable[str]) -> bytes:
    """A module that the formatter leaves alone; a pattern may be longer than a line."""
    return "\n".join([
        f'"""{sentence}',
            "",
            HEAD,
            '"""',
        "# fmt: off",
        "",
        "from __future__ import annotations",
        "",
        *lines,
        "",
    ]).encode()  # fmt: skip

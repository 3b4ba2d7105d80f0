"""Find uses of msgspec that describe a type without `traceforge.conversion`.

In: the text of a Python module. Out: each use of msgspec that is not on the list of allowed names, with its line. A
new function of msgspec is therefore refused until it is allowed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

# None of these reads or makes the description of a type: docs/decisions/0012 says how that was found out.
ALLOWED = {
    "msgspec.DecodeError",
    "msgspec.Meta",
    "msgspec.MsgspecError",
    "msgspec.Raw",
    "msgspec.Struct",
    "msgspec.UNSET",
    "msgspec.UnsetType",
    "msgspec.ValidationError",
    "msgspec.field",
    "msgspec.json.encode",
    "msgspec.msgpack.Encoder",
    "msgspec.msgpack.encode",
    "msgspec.structs.asdict",
    "msgspec.structs.astuple",
    "msgspec.structs.replace",
    "msgspec.to_builtins",
}
DESCRIPTION_CLASS = re.compile(r"msgspec\.inspect\.([A-Z]\w*)")  # `inspect.StructType`, to look at a description.
MODULES = {"msgspec"} | {f"msgspec.{name}" for name in ("json", "msgpack", "structs", "inspect", "yaml", "toml")}
MODULE_NAME = re.compile(r"msgspec(\.\w+)*")


class MsgspecUse(NamedTuple):
    """A use that is not allowed."""

    line: int
    name: str


def find_uses(source: str) -> list[MsgspecUse]:
    """Every use of msgspec that may be the first use of a type, and every use that cannot be followed."""
    tree = ast.parse(source)
    uses = list(_import_uses(tree))
    aliases = _module_aliases(tree)
    bases: set[ast.expr] = set()  # Names that an attribute was followed from.
    for node in ast.walk(tree):  # Goes from the outside in: the longest chain of attributes comes first.
        if isinstance(node, ast.Attribute) and node not in bases:
            name, inner = _dotted(node, aliases)
            bases |= inner
            if name and not _is_allowed(name):
                uses.append(MsgspecUse(node.lineno, name))
        elif isinstance(node, ast.Name) and node.id in aliases and node not in bases:
            uses.append(MsgspecUse(node.lineno, aliases[node.id]))  # Passed on, or given another name.
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and MODULE_NAME.fullmatch(node.value):
            uses.append(MsgspecUse(node.lineno, repr(node.value)))  # `import_module("msgspec")`, for example.
    return sorted(uses)


def _import_uses(tree: ast.Module) -> Iterator[MsgspecUse]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and MODULE_NAME.fullmatch(node.module or "") and not node.level:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                if name not in MODULES and not _is_allowed(name):
                    yield MsgspecUse(node.lineno, name)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if MODULE_NAME.fullmatch(alias.name) and alias.name not in MODULES:
                    yield MsgspecUse(node.lineno, alias.name)


def _module_aliases(tree: ast.Module) -> dict[str, str]:
    """The local names of msgspec and its modules."""
    aliases = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name in MODULES:
                    aliases[alias.asname or "msgspec"] = alias.name if alias.asname else "msgspec"
        elif isinstance(node, ast.ImportFrom) and node.module == "msgspec":
            for alias in node.names:
                if f"msgspec.{alias.name}" in MODULES:
                    aliases[alias.asname or alias.name] = f"msgspec.{alias.name}"
    return aliases


def _dotted(node: ast.Attribute, aliases: dict[str, str]) -> tuple[str, set[ast.expr]]:
    """The full name of a chain of attributes that starts at msgspec, or "", and the expressions inside the chain."""
    attributes: list[str] = []
    inner: set[ast.expr] = set()
    current: ast.expr = node
    while isinstance(current, ast.Attribute):
        attributes.append(current.attr)
        current = current.value
        inner.add(current)
    if not isinstance(current, ast.Name) or current.id not in aliases:
        return "", set()
    return ".".join([aliases[current.id], *reversed(attributes)]), inner


def _is_allowed(name: str) -> bool:
    return name in ALLOWED or bool(DESCRIPTION_CLASS.fullmatch(name))

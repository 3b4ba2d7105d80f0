"""Commands in messages and hints: each has the words without which it would be refused."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import traceforge

REQUIRED = {  # by command: one of these follows it
    "record": (" -- ",),
    "approve": (' --reason "…"',),
    "snapshot rm": (' --reason "…"',),
}


def _docstrings(tree: ast.AST) -> set[int]:
    return {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}


def _literals(tree: ast.AST) -> Iterator[str]:
    """Every text of a module that can be printed; the values of an f-string are written as ID."""
    skipped = _docstrings(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in node.values}
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "ID" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node.value


def test_every_printed_command_has_its_required_words() -> None:
    """A command that is pasted from a hint works."""
    incomplete, seen = [], set()
    for path in Path(traceforge.__file__).parent.rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        for text in _literals(ast.parse(source)) if "traceforge " in source else ():
            for command in re.finditer(r"traceforge (record|approve|snapshot rm)\b([^;,`]*)", text):
                seen.add(command[1])
                if not any(words in command[2] for words in REQUIRED[command[1]]):
                    incomplete.append(f"{path.name}: {command[0]}")

    assert [] == incomplete
    assert set(REQUIRED) == seen

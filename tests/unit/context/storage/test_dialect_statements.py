"""`context/storage/dialect_statements.py`: no other room knows which database it is."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import traceforge.context

ROOM = Path(traceforge.context.__file__).parent
DRIVERS = ("sqlite3", "psycopg", "sqlalchemy.dialects")
NAMES = frozenset({"is_sqlite", "is_postgresql"})
WORDS = ("PRAGMA ", "SET LOCAL ", "SET TRANSACTION ", "pg_advisory", "postgresql", "sqlite")


def test_only_storage_knows_which_database_it_is() -> None:
    """The other rooms import no driver, ask no connection for its dialect, and write no SQL of one database."""
    modules = [path for path in ROOM.rglob("*.py") if ROOM / "storage" not in path.parents]

    found_signs = {str(path.relative_to(ROOM)): list(signs(path.read_text(encoding="utf-8"))) for path in modules}

    assert 30 < len(modules)
    assert {} == {name: lines for name, lines in found_signs.items() if lines}


def test_each_sign_of_a_database_is_recognized() -> None:
    """The test above would notice each of them."""
    lines = (
        "import sqlite3",
        "from sqlalchemy.dialects import sqlite",
        "tx.connection.dialect.name",
        "statement = 'PRAGMA x'",
        "database.is_sqlite",
    )

    assert [1, 2, 3, 4, 5] == sorted(signs("\n".join(lines)))


def signs(text: str) -> Iterator[int]:
    """The lines of a module that name a database."""
    tree = ast.parse(text)
    expressions = [node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)]
    docstrings = {id(value) for value in expressions if isinstance(value, ast.Constant)}
    for node in ast.walk(tree):
        if id(node) not in docstrings and names_a_database(node):
            yield node.lineno  # type: ignore[attr-defined]  # each of these kinds has one


def names_a_database(node: ast.AST) -> bool:
    """Whether a node imports a driver, asks for a dialect, or holds SQL that one database alone understands."""
    if isinstance(node, ast.Import):
        return any(is_driver(name.name) for name in node.names)
    if isinstance(node, ast.ImportFrom):
        return is_driver(node.module or "")
    if isinstance(node, ast.Attribute):
        asks = node.attr == "dialect" and "connection" in ast.unparse(node.value)
        return asks or node.attr in NAMES
    return isinstance(node, ast.Constant) and any(word in str(node.value) for word in WORDS)


def is_driver(module: str) -> bool:
    """Whether this module, or a package above it, belongs to one database."""
    return any(module == driver or module.startswith(f"{driver}.") for driver in DRIVERS)

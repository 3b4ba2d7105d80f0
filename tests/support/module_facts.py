"""What the modules of the package say of themselves: what they import, call and print, from their syntax trees.

A tree is not kept: those of all modules take hundreds of megabytes, through which every later collection of garbage
in this process would walk.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import traceforge

SOURCE = Path(traceforge.__file__).parent

PRINTING_CALLS = {
    "print", "pprint.pprint", "warnings.warn", "sys.excepthook", "sys.displayhook", "traceback.print_exc",
    "traceback.print_exception", "traceback.print_tb", "traceback.print_stack", "faulthandler.dump_traceback",
    "click.echo", "click.secho", "click.echo_via_pager", "click.prompt", "click.confirm", "click.progressbar",
    "click.get_text_stream", "click.get_binary_stream", "logging.getLogger", "logging.basicConfig",
}  # fmt: skip
STREAMS = {"sys.stdout", "sys.stderr", "sys.__stdout__", "sys.__stderr__"}
PRINTING_METHODS = {"write_line", "write_sep", "ensure_newline", "addsection"}  # of pytest's terminal and reports
HARMLESS_STREAM_METHODS = {"isatty", "flush"}


@cache
def list_modules() -> tuple[str, ...]:
    """Every module, named without the package: `canon.digests`, `canon` for a package's own file."""
    paths = (path.relative_to(SOURCE).with_suffix("") for path in SOURCE.rglob("*.py"))
    return tuple(sorted(".".join(path.parts).removesuffix("__init__").removesuffix(".") for path in paths))


class ModuleFacts(NamedTuple):
    """What the rules of the house ask about a module."""

    imports: frozenset[str]
    dotted_names: frozenset[str]
    called_names: frozenset[str]
    texts: frozenset[str]
    prints: bool
    deferred_statements: tuple[tuple[str, tuple[str, ...]], ...]


@cache
def read_facts(module: str) -> ModuleFacts:
    path = SOURCE.joinpath(*module.split(".")) if module else SOURCE
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    nodes = parse_nodes(file.read_text(encoding="utf-8"))
    return ModuleFacts(
        frozenset(_imported_names(nodes)),
        frozenset(_dotted(node) for node in nodes if isinstance(node, ast.Attribute)),
        frozenset(_dotted(node.func) for node in nodes if isinstance(node, ast.Call)),
        frozenset(node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)),
        prints(nodes),
        tuple(_deferred_statements(nodes)),
    )


def _imported_names(nodes: Sequence[ast.AST]) -> Iterator[str]:
    """Every absolute import, also inside functions: `a`, `a.b`, and for `from a import b` both `a` and `a.b`."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))


def _deferred_statements(nodes: Sequence[ast.AST]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each import inside a function: where `from` takes its names, or "", and the names."""
    functions = (node for node in nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))
    for node in dict.fromkeys(node for function in functions for node in ast.walk(function)):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            origin = "." * node.level + (node.module or "") if isinstance(node, ast.ImportFrom) else ""
            yield origin, tuple(alias.name for alias in node.names)


def _dotted(node: ast.expr) -> str:
    """`a.b.c` as text; a part that is not a name is empty."""
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def parse_nodes(text: str) -> list[ast.AST]:
    return list(ast.walk(ast.parse(text)))


def prints(nodes: Sequence[ast.AST]) -> bool:
    """Whether code writes to standard output or standard error, or passes one of the streams on."""
    harmless = {id(node) for parent in nodes for node in _harmless_streams(parent)}
    return any(id(node) not in harmless and _is_printing(node) for node in nodes)


def _harmless_streams(node: ast.AST) -> list[ast.expr]:
    """The streams in `sys.stdout.isatty()` and `sys.stdout is None`."""
    if isinstance(node, ast.Attribute) and node.attr in HARMLESS_STREAM_METHODS:
        return [node.value]
    return [node.left] if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.Is, ast.IsNot)) else []


def _is_printing(node: ast.AST) -> bool:
    if isinstance(node, ast.ImportFrom):
        names = {f"{node.module}.{alias.name}" for alias in node.names}
        return bool(names & (PRINTING_CALLS | STREAMS))
    if isinstance(node, ast.Call) and _dotted(node.func) in ("os.write", "os.writev"):
        return isinstance(node.args[0], ast.Constant)
    if isinstance(node, (ast.Name, ast.Attribute)):
        name = _dotted(node).removeprefix("builtins.")
        return name in PRINTING_CALLS | STREAMS or ("." in name and name.rpartition(".")[2] in PRINTING_METHODS)
    return False

"""Write the methods of the clients from the table of operations: one for each, with every field typed.

In: the table and the types it names. Out: the text of two modules. A method takes the ids of its path by position and
the fields of its body by name.
"""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import traceforge.context.model.context_snapshot as pinned
import traceforge.context.model.inputs as bodies
import traceforge.context.model.objects as answers
from traceforge.context.api.operations import OPERATIONS, Operation

MADE = "Made by `make docs` from the table in `operations`; edit that."
HEADS = {
    False: f'''"""Every operation as a method, for a caller that waits.

{MADE}

In: ids and fields. Out: the object that the operation answers with. Never: an operation that the table does not have.
"""
''',
    True: f'''"""Every operation as a coroutine.

{MADE}

In: ids and fields. Out: the object that the operation answers with. Never: work on the loop's thread.
"""
''',
}


def text(*, is_async: bool) -> bytes:
    """The module of one kind of client."""
    methods = "\n".join(
        _method(one, is_async)
        + (_iterator(one, is_async) if one.is_list else "")
        + (_stream(one, is_async) if one.can_stream else "")
        for one in OPERATIONS
    )
    name = "AsyncCalls" if is_async else "Calls"
    told = "The methods of the client that is awaited." if is_async else "The methods of the client that waits."
    waits, kind = ("async ", "AsyncIterator") if is_async else ("", "Iterator")
    body = f'''

class {name}:
    """{told}"""

    {waits}def _ask(
        self, name: str, ids: tuple[str, ...], fields: dict[str, Any], *, key: str | None = None,
        limit: int = LIMIT_DEFAULT, after: str | None = None,
    ) -> Any:  # noqa: ANN401 (the operation's answer)
        raise NotImplementedError  # Whoever has a way to a store says how.

    def _stream(
        self, name: str, ids: tuple[str, ...], fields: dict[str, Any], *, key: str | None = None
    ) -> {kind}[ResponseEvent]:
        raise NotImplementedError  # Whoever has a way to a store says how.

{methods}'''
    return _format(HEADS[is_async] + _imports(body, is_async) + body)


def _imports(body: str, is_async: bool) -> str:
    words = {node.id for node in ast.walk(ast.parse(body)) if isinstance(node, ast.Name)}
    lines = ["", "from __future__ import annotations", ""]
    lines.append(f"from collections.abc import {'AsyncIterator' if is_async else 'Iterator'}")
    lines.append("from typing import Any, Literal\n" if "Literal" in words else "from typing import Any\n")
    lines.append("from msgspec import UNSET, UnsetType\n")
    taken: set[str] = set()
    found = []
    for module in (pinned, answers, bodies):  # Each name from where it is defined.
        names = sorted(name for name in words - taken if name in _defined(module))
        taken.update(names)
        if names:
            found.append(f"from {module.__name__} import {', '.join(names)}")
    found.append("from traceforge.context.api.operations import LIMIT_DEFAULT, LIMIT_MAX")
    return "\n".join([*lines, *sorted(found)]) + "\n"


def _defined(module: Any) -> set[str]:  # noqa: ANN401
    tree = ast.parse(inspect.getsource(module))
    names = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    for node in tree.body:
        if isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return names


def _stream(one: Operation, is_async: bool) -> str:
    """The same operation, its answer as it comes."""
    fields = _fields(one)
    named = [f"{name}: {kind}" + (f" = {default}" if default else "") for name, kind, default in fields]
    values = ", ".join(f'"{name}": {name}' for name, _, _ in fields)
    kind = "AsyncIterator" if is_async else "Iterator"
    return f'''
    def {one.name.replace("create_", "stream_")}(
        self, *, {", ".join(named)}, idempotency_key: str | None = None
    ) -> {kind}[ResponseEvent]:
        """The same as `{one.name}`, as it comes: that it began, each text, and how it ended.

        Nothing is asked before the first event is. Whoever stops early changes nothing: the answer comes to its end,
        and is kept. With a key that was used before, the end is all there is.
        """
        return self._stream("{one.name}", (), {{{values}}}, key=idempotency_key)
'''


def _method(one: Operation, is_async: bool) -> str:
    ids = "".join(f", {name}: {_alias(name)}" for name in one.parameters)
    fields = _fields(one)
    named = [f"{name}: {kind}" + (f" = {default}" if default else "") for name, kind, default in fields]
    if one.is_list:
        named = ["limit: int = LIMIT_DEFAULT", "after: str | None = None"]
    if one.takes_key:
        named.append("idempotency_key: str | None = None")
    star = f", *, {', '.join(named)}" if named else ""
    values = ", ".join(f'"{name}": {name}' for name, _, _ in fields)
    more = ", limit=limit, after=after" if one.is_list else ", key=idempotency_key" if one.takes_key else ""
    call = f'self._ask("{one.name}", ({"".join(f"{name}, " for name in one.parameters)}), {{{values}}}{more})'
    answer = _name(one)
    waits, gets = ("async ", "await ") if is_async else ("", "")
    return f'''
    {waits}def {one.name}(self{ids}{star}) -> {answer}:
        """{one.summary.partition("; with `stream`")[0].rstrip(".")}."""
        answer: {answer} = {gets}{call}
        return answer
'''


def _iterator(one: Operation, is_async: bool) -> str:
    item = _name(one)[len("Page[") : -1]
    ids = "".join(f", {name}: {_alias(name)}" for name in one.parameters)
    given = "".join(f"{name}, " for name in one.parameters)
    name = one.name.replace("list_", "iterate_")
    waits, gets, kind = ("async ", "await ", "AsyncIterator") if is_async else ("", "", "Iterator")
    each = "for one in page.data:\n                yield one" if is_async else "yield from page.data"
    cursor = "name" if item == "Alias" else "id"
    return f'''
    {waits}def {name}(self{ids}) -> {kind}[{item}]:
        """The same as `{one.name}`, to its end: pages are fetched as they are needed."""
        after: str | None = None
        while True:
            page = {gets}self.{one.name}({given}limit=LIMIT_MAX, after=after)
            {each}
            if not page.has_more:
                return
            after = page.data[-1].{cursor}
'''


def _name(one: Operation) -> str:
    if one.is_list:
        return f"Page[{one.answer.__args__[0].__name__}]"
    return str(one.answer.__name__)


def _alias(parameter: str) -> str:
    if parameter == "alias":
        return "AliasName"
    return "".join(part.title() for part in parameter.split("_"))


def _fields(one: Operation) -> list[tuple[str, str, str]]:
    """The fields of a body: name, type, default; those without a default first.

    Not `stream`: that is a method of its own.
    """
    if one.body is None:
        return []
    node = ast.parse(inspect.getsource(one.body)).body[0]
    assert isinstance(node, ast.ClassDef)
    found = []
    for line in node.body:
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name) and line.target.id != "stream":
            kind = _kind(line.annotation)
            default = "" if line.value is None else ast.unparse(line.value)
            if default not in ("", "None", "UNSET"):  # The store's default is the store's to know.
                kind, default = f"{kind} | UnsetType", "UNSET"
            found.append((line.target.id, kind, default))
    return sorted(found, key=lambda field: bool(field[2]))


def _kind(node: ast.expr) -> str:
    if isinstance(node, ast.BinOp):
        return f"{_kind(node.left)} | {_kind(node.right)}"
    if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "Annotated":
        assert isinstance(node.slice, ast.Tuple)
        return _kind(node.slice.elts[0])
    told = ast.unparse(node)
    is_enum = told in ("ArtifactType", "EventType", "RetentionClass", "MergeStrategy")
    return f"{told} | str" if is_enum else told.replace("'", '"')


def _format(code: str) -> bytes:
    ruff = Path(sys.executable).with_name("ruff")
    for words in (["check", "--quiet", "--select", "I", "--fix"], ["format", "--quiet"]):
        done = subprocess.run(  # noqa: S603 (ours)
            [ruff, *words, "--stdin-filename", "src/traceforge/context/api/calls.py", "-"],
            input=code.encode(), stdout=subprocess.PIPE, check=True, cwd=Path(__file__).resolve().parent.parent,
        )  # fmt: skip
        code = done.stdout.decode()
    return code.encode()

"""Pages of the reference that are written from the code: the command line by group, the Python API, the HTTP API.

In: the commands, the docstrings and the OpenAPI document. Out: Markdown for docs/reference, which reads well on a Git
host and on the site. `tools/generate.py` writes it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any, NamedTuple

import click

import traceforge.context
import traceforge.errors
import traceforge.modelio
import traceforge.snapshots.tree.replay_context
from traceforge.capture import inprocess
from traceforge.checks.assertions import expectation
from traceforge.checks.runs import python_check
from traceforge.cli.command_table import TOP
from traceforge.cli.main import cli
from traceforge.pytest_plugin import ReplayedCalls
from traceforge.tools import tool_decorator, watched_function

GENERATED = "<!-- Made by `make docs`; edit the code it is made from. -->\n"
_CLI_GROUPS = {
    "Gate": "Record, approve and test: what fails a build.",
    "Traces": "What was recorded on this machine.",
    "Live": "Calls to a provider.",
    "Context": "The context store, and its server.",
    "Evidence": "Recordings and packs that others can verify.",
    "Chat": "A chat that explains its answers.",
    "Project": "Set up, check and look up.",
}


def cli_pages() -> dict[str, str]:
    """The name of each page about the command line, with its text: an overview, and one page for each group."""
    root = click.Context(cli, info_name="traceforge", **cli.context_settings)
    assert set(_CLI_GROUPS) == set(TOP), "a group of commands has no sentence of its own"
    pages = {f"cli-{name.lower()}.md": _group_page(name, root) for name in TOP}
    overview = ["# Command line\n", GENERATED, f"## traceforge\n\n```text\n{root.get_help()}\n```\n"]
    for name, sentence in _CLI_GROUPS.items():
        page = f"cli-{name.lower()}.md"
        rows = [
            f"| [`{command}`]({page}#traceforge-{command}) | {TOP[name][command].summary} |" for command in TOP[name]
        ]
        overview += [f"## {name}\n\n{sentence}\n", "\n".join(["| command | does |", "|---|---|", *rows, ""])]
    return {"cli.md": "\n".join(overview), **pages}


def _group_page(group: str, root: click.Context) -> str:
    parts = [f"# Command line: {group}\n", GENERATED, f"{_CLI_GROUPS[group]} [All commands](cli.md)\n"]
    for name in TOP[group]:
        command = cli.get_command(root, name)
        assert command is not None
        for context in _contexts(command, click.Context(command, info_name=name, parent=root)):
            parts.append(f"## {context.command_path}\n\n```text\n{context.get_help()}\n```\n")
    return "\n".join(parts)


def _contexts(command: click.Command, context: click.Context) -> Iterator[click.Context]:
    yield context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            yield from _contexts(child, click.Context(child, info_name=name, parent=context))


class _Section(NamedTuple):
    """A part of the Python API: a sentence about it, and the objects by the names under which people import them."""

    title: str
    sentence: str
    objects: dict[str, Any]


def _exported(module: ModuleType) -> dict[str, Any]:
    return {f"{module.__name__}.{name}": getattr(module, name) for name in module.__all__}


def _sections() -> list[_Section]:
    errors = [value for value in vars(traceforge.errors).values() if inspect.isclass(value)]
    return [
        _Section(
            "Record and replay",
            "Record the calls of this process, or answer them from what was recorded. See [record in a Python\n"
            "process](../how-to/record-in-process.md) and [replay in a Python\n"
            "process](../how-to/replay-in-process.md).",
            {
                "traceforge.capture": inprocess.capture,
                "traceforge.install": inprocess.install,
                "traceforge.uninstall": inprocess.uninstall,
                "traceforge.session": inprocess.session,
                "traceforge.replay": traceforge.snapshots.tree.replay_context.replay,
            },
        ),
        _Section(
            "Tools",
            "Functions that a model calls. See [gate functions that a model\n"
            "calls](../how-to/gate-tool-functions.md).",
            {"traceforge.tool": tool_decorator.tool, "traceforge.real_tools": watched_function.real_tools},
        ),
        _Section(
            "Expect",
            "Say what must hold for a response, in a test. See [check behaviour that may\n"
            "vary](../how-to/check-behaviour.md).",
            {
                "traceforge.expect": expectation.expect,
                "Expectation": expectation.Expectation,
                "traceforge.run_check": python_check.run_check,
            },
        ),
        _Section(
            "pytest",
            "The fixture `traceforge` gives a test this object. The marker and the options are in [test with "
            "pytest](../how-to/test-with-pytest.md).",
            {"ReplayedCalls": ReplayedCalls},
        ),
        _Section(
            "Model IO recordings",
            "Adapters that call models, recordings of them, and their verification. See [record a "
            "session](../how-to/record-a-session.md).",
            _exported(traceforge.modelio),
        ),
        _Section(
            "Context store",
            "See [keep the context of a conversation](../how-to/keep-context.md). The methods are the operations of "
            "the [HTTP API](http-api.md), and `AsyncClient` has them as coroutines.",
            _exported(traceforge.context),
        ),
        _Section(
            "Errors",
            "Every error that TraceForge raises on purpose has a code, which [errors](errors.md) explains.",
            {
                f"traceforge.errors.{error.__name__}": error
                for error in errors
                if issubclass(error, traceforge.errors.TraceForgeError)
            },
        ),
    ]


def python_page() -> str:
    """The public Python API, from signatures and docstrings."""
    parts = ["# Python API\n", GENERATED]
    for section in _sections():
        parts.append(f"## {section.title}\n\n{section.sentence}\n")
        parts += [_object_text(name, value) for name, value in section.objects.items()]
    return "\n".join(parts)


def _object_text(name: str, value: Any) -> str:  # noqa: ANN401  # any public object
    lines = [f"### {name}\n"]
    if inspect.isclass(value) and issubclass(value, traceforge.errors.TraceForgeError):
        code, exit_code = value.code, int(value.exit_code)
        return "\n".join(
            [*lines, f"{_markdown(value)} Code [{code}](errors.md#{code.lower()}), exit code {exit_code}.\n"]
        )
    lines += [f"```text\n{_signature(name, value)}\n```\n", _markdown(value), ""]
    if inspect.isclass(value):
        rows = [f"| `{member}` | {_first_sentence(each)} |" for member, each in _documented_members(value)]
        lines += ["| member | is |", "|---|---|", *rows, ""] if rows else []
    return "\n".join(lines)


def _documented_members(value: type) -> Iterator[tuple[str, Any]]:
    """The methods and properties of a class that say what they are, those of private base classes too."""
    for name in sorted({name for base in value.__mro__[:-1] for name in vars(base) if not name.startswith("_")}):
        member = inspect.getattr_static(value, name)
        member = getattr(member, "__func__", member)
        if (callable(member) or isinstance(member, property)) and member.__doc__:
            yield name, member


def _signature(name: str, value: Any) -> str:  # noqa: ANN401  # any public object
    try:
        text = str(inspect.signature(value))
    except (TypeError, ValueError):  # a type alias
        return name
    text = re.sub(r"ForwardRef\('([^']*)'\)", r"\1", text)
    text = re.sub(r"(?<=[:>] )'([^']+)'", r"\1", text).replace(" -> None", "")
    shown = f"{name.rpartition('.')[2]}{re.sub(r'traceforge[.a-z_]*[.](?=[A-Z])', '', text)}"
    return shown if len(shown) <= 100 else re.sub(r"(?<=\w)\((?=\w+:|\*)|, (?=\w+:)", _break_line, shown)


def _break_line(mark: re.Match[str]) -> str:
    return f"{mark[0].strip()}\n    "


def _markdown(value: object) -> str:
    """A docstring as Markdown: its `Raises:` become a list."""
    text = inspect.getdoc(value) or ""
    head, _, raised = text.partition("\nRaises:\n")
    items = re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", raised, re.MULTILINE)
    lines = [f"- raises `{name}`: {' '.join(words.split())}" for name, words in items]
    return "\n".join([head.strip(), *(["", *lines] if lines else [])])


def _first_sentence(value: object) -> str:
    text = " ".join((inspect.getdoc(value) or "").split("\n\n")[0].split())
    return re.split(r"(?<=\.) ", text)[0].replace("|", "\\|")


def http_page(document: dict[str, Any]) -> str:
    """The HTTP API, from its OpenAPI document."""
    parts = [
        "# HTTP API\n",
        GENERATED,
        f"{document['info']['title']}, version {document['info']['version']}: what `traceforge serve` answers. This\n"
        "page is made from the [OpenAPI document](openapi.json), which the server has at `/v2/openapi.json`. Keys,\n"
        "limits, lists and errors are in [the API of the context store](context-api.md). Bodies and answers are\n"
        "JSON unless a route says otherwise.\n",
    ]
    by_tag: dict[str, list[str]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            by_tag.setdefault(operation["tags"][0], []).append(_operation_text(path, method, operation))
    for tag, texts in sorted(by_tag.items()):
        parts += [f"## {tag.replace('-', ' ').capitalize().replace('Api', 'API')}\n", *texts]
    parts.append("## Objects\n")
    parts += [_schema_text(name, schema) for name, schema in sorted(document["components"]["schemas"].items())]
    return "\n".join(parts)


def _operation_text(path: str, method: str, operation: dict[str, Any]) -> str:
    lines = [
        f"### {method.upper()} {path}\n",
        f"{operation['summary']} Scope: `{operation['x-traceforge-scope']}`.\n",
    ]
    parameters = [
        f"| `{parameter['name']}` | {parameter['in']} | {_type_text(parameter['schema'])} |"
        for parameter in operation["parameters"]
    ]
    if parameters:
        lines += ["| parameter | in | type |", "|---|---|---|", *parameters, ""]
    if body := operation.get("requestBody"):
        lines.append(f"Body: {_content_text(body)}\n")
    for status, response in operation["responses"].items():
        if status.startswith("2"):
            lines.append(f"Answer: {status}, {_content_text(response)}\n")
    errors = [status for status in operation["responses"] if not status.startswith("2")]
    lines.append(f"Errors: {', '.join(errors)}\n")
    return "\n".join(lines)


def _content_text(message: dict[str, Any]) -> str:
    kinds = [
        _type_text(kind.get("schema", {})) + (f" (`{name}`)" if name != "application/json" else "")
        for name, kind in message.get("content", {}).items()
    ]
    return " or ".join(kinds) or "no body"


def _object_name(name: str) -> str:
    """`Page of Alias`, for what the document calls `Page_Alias_`."""
    return re.sub(r"^Page_(\w+)_$", r"Page of \1", name)


def _schema_text(name: str, schema: dict[str, Any]) -> str:
    lines = [f"### {_object_name(name)}\n"]
    if description := schema.get("description"):
        lines.append(f"{' '.join(description.split())}\n")
    required = schema.get("required", [])
    rows = [
        f"| `{field}` | {_type_text(kind)} | {'yes' if field in required else 'no'} |"
        for field, kind in schema.get("properties", {}).items()
    ]
    lines += ["| field | type | required |", "|---|---|---|", *rows, ""] if rows else [f"{_type_text(schema)}\n"]
    return "\n".join(lines)


def _type_text(schema: dict[str, Any]) -> str:
    """A type in words, for the cell of a table; the OpenAPI document has its limits."""
    if reference := schema.get("$ref"):
        name = _object_name(reference.rpartition("/")[2])
        return f"[{name}](#{name.lower().replace(' ', '-')})"
    if "const" in schema:
        return f"`{schema['const']!r}`".replace("'", '"')
    if "enum" in schema:
        return " or ".join(f"`{value}`" if value is not None else "null" for value in schema["enum"])
    for word in ("anyOf", "oneOf"):
        if word in schema:
            return " or ".join(dict.fromkeys(_type_text(choice) for choice in schema[word]))
    kind = schema.get("type", "any value")
    if kind == "array":
        return f"list of {_type_text(schema.get('items', {}))}"
    return " or ".join(kind) if isinstance(kind, list) else str(kind)

"""What docs/explanation/architecture.md says about the rooms holds, for every module of the package.

Each rule is checked on the syntax tree, and each exception is listed here with its reason. An exception that is not
needed any more fails as well, so that the lists stay true.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import traceforge

SOURCE = Path(traceforge.__file__).parent
REPOSITORY = Path(__file__).parents[2]
PYPROJECT = REPOSITORY / "pyproject.toml"

# How long a file may be: one that is longer has a second topic, which deserves a name.
LINES_MAX = 500
CODE_FOLDERS = ("src", "tests", "tools", "benchmarks", "examples")
NOT_WRITTEN_BY_HAND = {"_generated", "node_modules", ".venv"}

HOOK = "runs in processes that do not have the package installed, so it uses the standard library alone"
MODEL_SERVER = "stands in for a provider and uses the standard library alone"

# Who reads and writes JSON values. Typed objects are read and written by `conversion`.
JSON_MODULES = {"json", "orjson", "simplejson", "ujson", "msgspec.json"}
JSON_USERS = {
    "canon": "the only room that parses and prints JSON values",
    "conversion": "decodes JSON to types, and writes typed objects",
    "capture.hook": HOOK,
    "model_server": MODEL_SERVER,
    "tools": "runs in the process of the application, on the standard library alone",
}

# Who takes hashes. `canon` names content by its digest.
HASH_USERS = {
    "canon": "the digests of stored content",
    "redact.redactions": "fingerprints of redacted values, with HMAC under the match key",
    "match_key": "the public id of the match key, an HMAC of a constant under it",
    "snapshots.tree.git_objects": "the ids of Git's objects, computed as Git does",
    "modelio.recording_journal": "a running hash over the journal of a recording",
    "context.storage.projects": "API keys are stored as hashes",
    "capture.hook.websocket_frames": "the accept key of a handshake, as RFC 6455 makes it",
    "model_server": MODEL_SERVER,
}

# Who opens files. `files` is the only module that opens a file in order to check it.
FILE_OPENERS = {
    "files": "reads and writes files safely",
    "http.connection_owner": "the sockets of this machine, which the kernel lists in /proc",
    "schemas": "the schemas that ship with the package",
    "report.explanations": "the explanations that ship with the package",
    "chat.chat_server": "the page that ships with the package",
    "ui.page_renderer": "the templates, scripts and styles that ship with the package",
    "cli.main": "the null device, when standard output was closed",
    "cli.ci_report_files": "appends to the summary file that GitHub Actions names",
    "pytest_plugin.plugin_gate": "late calls of workers of pytest-xdist, for the process that started them",
    "packs.pack_archive": "streams the archive of a pack, which may be larger than memory",
    "ssh_signing": "writes key and signature for `ssh-keygen` into a temporary folder",
    "capture.run": "the report of a run's Node.js processes, and what /proc says about processes",
    "capture.hook": HOOK,
    "context.storage.keyring": "the keyring, read and written under its lock",
    "traces": "the spool, its segments, locks and index belong to this room",
    "snapshots.tree.tree_transaction": "the lock and the journal of a change to the tree",
    "snapshots.live.live_journal": "the journal of a live check",
    "modelio.recording_journal": "the journal of a recording",
}
OPENING_CALLS = {"open", "os.open", "io.open"}
OPENING_METHODS = {"read_bytes", "read_text", "write_bytes", "write_text"}

# Who reaches a terminal or a log. `terminal` escapes what is printed; everybody else calls it.
PRINTERS = {
    "terminal": "the only module that prints",
    "cli.main": "chooses how the streams encode text, and redirects those that cannot be written",
    "cli.output": "questions of click, with text that `terminal` has escaped",
    "cli.nonblocking_stderr": "writes what `terminal` has escaped, without waiting for the reader",
    "cli.pending_commands": "questions of click that quote nothing",
    "cli.trace.trace_commands": "asks whether standard output has colours",
    "cli.trace.trace_check_commands": "asks whether standard output has colours",
    "pytest_plugin.plugin_gate": "prints through pytest what `terminal` has escaped",
    "pytest_plugin.project_gates": "prints through pytest what `terminal` has escaped",
    "capture.enter.sitecustomize": HOOK,
    "capture.hook.pytest_events": "a fixed note in the report of a test, which quotes nothing",
    "capture.subinterpreter": "a warning of Python, which quotes nothing",
}
PRINTING_CALLS = {
    "print", "pprint.pprint", "warnings.warn", "sys.excepthook", "sys.displayhook", "traceback.print_exc",
    "traceback.print_exception", "traceback.print_tb", "traceback.print_stack", "faulthandler.dump_traceback",
    "click.echo", "click.secho", "click.echo_via_pager", "click.prompt", "click.confirm", "click.progressbar",
    "click.get_text_stream", "click.get_binary_stream", "logging.getLogger", "logging.basicConfig",
}  # fmt: skip
PRINTING_METHODS = {"write_line", "write_sep", "ensure_newline", "addsection"}  # of pytest's terminal and reports
STREAMS = {"sys.stdout", "sys.stderr", "sys.__stdout__", "sys.__stderr__"}
HARMLESS_STREAM_METHODS = {"isatty", "flush"}

# Who knows the database.
DATABASE_USERS = {
    "sqlalchemy": {"context": "the context store; the dialect is known in `context.storage` only"},
    "sqlite3": {"context.storage": "the driver of the embedded store", "traces": "the index of traces"},
    "psycopg": {"context.storage": "the driver of PostgreSQL"},
}

# Rooms that do no I/O: bytes and values in, values out.
PURE_ROOMS = ("canon", "statistics", "wire", "redact", "compare")
IMPURE_MODULES = {
    "asyncio", "builtins", "ctypes", "fcntl", "glob", "http", "io", "mmap", "multiprocessing", "os", "pathlib",
    "random", "secrets", "select", "selectors", "shutil", "signal", "socket", "sqlite3", "ssl", "subprocess",
    "tempfile", "threading", "time", "traceforge.clock", "traceforge.files", "traceforge.ids",
    "traceforge.ssh_signing", "urllib.request",
}  # fmt: skip
RANDOM_MARKERS = {("redact.markers", "secrets")}  # Random, so that no answer can contain a marker on purpose.

# Strings that name a module of a higher room.
UPWARD_NAMES = {
    ("replay", "traceforge.snapshots.tree.replay_context"): "`traceforge.replay()` is a function and a package",
}


# Behind a quotation mark or a semicolon: what starts a line is an import that mypy checks.
_IMPORT_IN_A_STRING = r"""["';] ?from (traceforge[\w.]* import \w+(?:, *\w+)*)"""


def test_only_canon_and_conversion_read_and_write_json() -> None:
    """No other room imports a JSON library, except those that cannot import the package."""
    users = {module for module in _modules() for name in _facts(module).imports if name in JSON_MODULES}
    users |= {module for module in _modules() if "msgspec.json" in _facts(module).dotted_names}

    assert [] == sorted(module for module in users if not _is_listed(module, JSON_USERS))
    assert [] == sorted(entry for entry in JSON_USERS if not any(_is_inside(module, entry) for module in users))


def test_only_canon_takes_the_digest_of_content() -> None:
    """No other module imports hashlib, except for keys, fingerprints and journals."""
    users = {module for module in _modules() if "hashlib" in _facts(module).imports}

    assert [] == sorted(module for module in users if not _is_listed(module, HASH_USERS))
    assert [] == sorted(entry for entry in HASH_USERS if not any(_is_inside(module, entry) for module in users))


def test_only_listed_modules_open_files() -> None:
    """Files to check are opened by `files`; the listed modules open their own."""
    users = {module for module in _modules() if _opens_files(module)}

    assert [] == sorted(module for module in users if not _is_listed(module, FILE_OPENERS))
    assert [] == sorted(entry for entry in FILE_OPENERS if not any(_is_inside(module, entry) for module in users))


def test_only_the_terminal_module_prints() -> None:
    """Names and texts of others reach a terminal or a build log through one module, which escapes them."""
    users = {module for module in _modules() if _facts(module).prints}

    assert [] == sorted(module for module in users if not _is_listed(module, PRINTERS))
    assert [] == sorted(entry for entry in PRINTERS if not any(_is_inside(module, entry) for module in users))


def test_every_way_to_print_is_seen() -> None:
    """What the rule above finds, and what it passes over."""
    programs = [
        "print(1)", "click.echo('')", "click.secho('')", "sys.stdout.write('')", "sys.stderr.buffer.write(b'')",
        "f(file=sys.stderr)", "out = sys.stdout", "from sys import stderr", "os.write(2, b'')",
        "reporter.write_line('')", "logging.getLogger().error('')", "warnings.warn('')", "from click import echo",
        "traceback.print_exc()", "builtins.print('')", "show = print", "os.writev(1, [b''])",
    ]  # fmt: skip
    passed_over = ["sys.stdout.isatty()", "sys.stderr.flush()", "sys.stdout is None", "os.write(fd, b'')"]

    assert [] == [text for text in programs if not _prints(_parse(text))]
    assert [] == [text for text in passed_over if _prints(_parse(text))]


def test_only_listed_rooms_know_the_database() -> None:
    """Drivers are imported in the storage of their owner, and SQLAlchemy in the context store."""
    for library, users in DATABASE_USERS.items():
        modules = {
            module
            for module in _modules()
            for name in _facts(module).imports
            if name == library or name.startswith(f"{library}.")
        }

        assert [] == sorted(module for module in modules if not _is_listed(module, users)), library


def test_the_dialect_of_the_database_is_known_in_storage_only() -> None:
    """No other package imports an SQLAlchemy dialect, or reads a connection's dialect."""
    modules = [
        module
        for module in _modules()
        if module.startswith("context.") and not _is_inside(module, "context.storage")
        if any(name.startswith("sqlalchemy.dialects") for name in _facts(module).imports)
        or any(name.endswith(".dialect.name") for name in _facts(module).dotted_names)
    ]

    assert [] == modules


def test_pure_rooms_do_no_input_and_output() -> None:
    """They import nothing that reads a file, a socket, a clock or a source of chance, and open nothing."""
    modules = [module for module in _modules() if _room(module) in PURE_ROOMS]
    impure = {(module, name) for module in modules for name in _facts(module).imports & IMPURE_MODULES}

    assert set(RANDOM_MARKERS) == impure
    assert [] == [module for module in modules if _opens_files(module)]


def test_a_name_in_a_string_obeys_the_order_of_the_rooms() -> None:
    """import-linter sees `import`; a module that is named in a string must be in the same room, or in a lower one."""
    rank = _room_ranks()
    upward = {
        (module, name)
        for module in _modules()
        if module  # `traceforge/__init__.py` names the public functions.
        for name in _modules_named_in_strings(module)
        if rank[_room(name.removeprefix("traceforge."))] < rank[_room(module)]
    }

    assert set(UPWARD_NAMES) == upward


def test_programs_in_strings_import_names_that_exist() -> None:
    """A rename does not see the text of a program that a test or a benchmark starts."""
    missing = []
    for folder in ("benchmarks", "examples", "tests", "tools"):
        for path in sorted((PYPROJECT.parent / folder).rglob("*.py")):
            text = path.read_text()
            for line in re.findall(_IMPORT_IN_A_STRING, text) if "traceforge" in text else ():
                module, _, names = line.partition(" import ")
                missing += [
                    (path.name, name) for name in names.split(", ") if not hasattr(import_module(module), name)
                ]

    assert [] == missing


def test_no_file_is_longer_than_500_lines() -> None:
    """Tests and tools too; generated files may be."""
    paths = [path for folder in CODE_FOLDERS for path in (REPOSITORY / folder).rglob("*.py")]
    names = {path: path.relative_to(REPOSITORY) for path in paths}
    line_counts = {
        str(name): path.read_bytes().count(b"\n")
        for path, name in names.items()
        if NOT_WRITTEN_BY_HAND.isdisjoint(name.parts)
    }

    assert line_counts["src/traceforge/config.py"] > 0
    assert [] == sorted(name for name, lines in line_counts.items() if lines > LINES_MAX)


def test_strings_that_name_modules_are_seen() -> None:
    """The check above sees the tables of commands, f-strings and `-m` arguments."""
    assert "traceforge.cli.verify_command" in _modules_named_in_strings("cli.command_table")
    assert "traceforge.wire.anthropic" in _modules_named_in_strings("wire.dialect_index")
    assert "traceforge.capture.recorder_process" in _modules_named_in_strings("capture.recorder")


@cache
def _modules() -> tuple[str, ...]:
    """Every module, named without the package: `canon.digests`, `canon` for a package's own file."""
    paths = (path.relative_to(SOURCE).with_suffix("") for path in SOURCE.rglob("*.py"))
    return tuple(sorted(".".join(path.parts).removesuffix("__init__").removesuffix(".") for path in paths))


class _ModuleFacts(NamedTuple):
    """What the rules ask about a module. Its syntax tree is not kept: those of all take hundreds of megabytes,
    through which every later collection of garbage in this process would walk.
    """

    imports: frozenset[str]
    dotted_names: frozenset[str]
    called_names: frozenset[str]
    texts: frozenset[str]
    prints: bool


@cache
def _facts(module: str) -> _ModuleFacts:
    path = SOURCE.joinpath(*module.split(".")) if module else SOURCE
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    nodes = _parse(file.read_text(encoding="utf-8"))
    return _ModuleFacts(
        frozenset(_imported_names(nodes)),
        frozenset(_dotted(node) for node in nodes if isinstance(node, ast.Attribute)),
        frozenset(_dotted(node.func) for node in nodes if isinstance(node, ast.Call)),
        frozenset(node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)),
        _prints(nodes),
    )


def _imported_names(nodes: Sequence[ast.AST]) -> Iterator[str]:
    """Every absolute import, also inside functions: `a`, `a.b`, and for `from a import b` both `a` and `a.b`."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))


def _dotted(node: ast.expr) -> str:
    """`a.b.c` as text; a part that is not a name is empty."""
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def _opens_files(module: str) -> bool:
    calls = _facts(module).called_names
    return bool(calls & OPENING_CALLS) or any(
        call.rpartition(".")[2] in OPENING_METHODS for call in calls if "." in call
    )


def _parse(text: str) -> list[ast.AST]:
    return list(ast.walk(ast.parse(text)))


def _prints(nodes: Sequence[ast.AST]) -> bool:
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


def _is_inside(module: str, entry: str) -> bool:
    return module == entry or module.startswith(f"{entry}.")


def _is_listed(module: str, entries: dict[str, str]) -> bool:
    return any(_is_inside(module, entry) for entry in entries)


def _room(module: str) -> str:
    return module.partition(".")[0]


@cache
def _room_ranks() -> dict[str, int]:
    """The place of each room in the contract of import-linter; the highest room is 0."""
    contracts = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    (layers,) = [contract["layers"] for contract in contracts if contract["containers"] == ["traceforge"]]
    ranks = {name.strip(" ()"): rank for rank, layer in enumerate(layers) for name in layer.split("|")}
    return {"__main__": -1, **ranks}


def _modules_named_in_strings(module: str) -> set[str]:
    return {name for text in _facts(module).texts if (name := _named_module(text))}


def _named_module(text: str) -> str:
    """The module that a text names: `traceforge.cli.x`, `traceforge.cli.x:attribute`, `traceforge.wire.`; else ""."""
    match = re.fullmatch(r"(traceforge(?:\.\w+)+)(?::\w+|\.)?", text)
    if match is None or match[1].removeprefix("traceforge.") not in _modules():
        return ""
    return match[1]


def test_a_text_that_names_no_module_is_passed_over() -> None:
    """Domains of digests and file names look alike."""
    assert ["", "", "", ""] == [
        _named_module(text)
        for text in ("traceforge.edit/1", "traceforge.kv.v1", "traceforge.config.json", "see traceforge.cli.main")
    ]


def _exceptions() -> Iterator[str]:
    yield from JSON_USERS.values()
    yield from HASH_USERS.values()
    yield from FILE_OPENERS.values()
    yield from PRINTERS.values()
    yield from UPWARD_NAMES.values()
    for users in DATABASE_USERS.values():
        yield from users.values()


def test_every_exception_has_a_reason() -> None:
    """A list without reasons grows."""
    assert all(reason.strip() for reason in _exceptions())

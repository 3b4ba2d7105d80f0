"""What docs/explanation/architecture.md says about the rooms holds, for every module of the package.

Each rule is checked on the syntax tree, and each exception is listed here with its reason. An exception that is not
needed any more fails as well, so that the lists stay true.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

from support.module_facts import list_modules, parse_nodes, prints, read_facts

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

# Who knows the database.
DATABASE_USERS = {
    "sqlalchemy": {"context": "the context store; the dialect is known in `context.storage` only"},
    "sqlite3": {"context.storage": "the driver of the embedded store", "traces": "the index of traces"},
    "psycopg": {"context.storage": "the driver of PostgreSQL"},
}

# Imports inside functions: what each saves a program that does not need it, in CPU time on Python 3.11 or in modules.
# Tables of names defer more: commands in `cli.command_table`, adapters in `modelio`, dialects in `wire.dialects`,
# clients in `capture.hook.clients`, and the functions of the package in its `__init__`.
DEFERRED_IMPORTS = {
    "": {"capture.subinterpreter": "asked for by applications alone; importing the package costs nothing"},
    "audit.auditor": {
        "audit.tree_auditor": "0.8 of importing click, or 40 % of the start of `verify` for one file",
        "packs.pack_verifier": "a tenth of that start",
        "traces.storage_check": "a tenth of that start",
    },
    "audit.file_check": {"audit.other_file_check": "0.2 of importing click, where `verify` checks snapshots alone"},
    "audit.parallel_map": {"pickle": "2 ms, where few files are checked"},
    "audit.tree_auditor": {"checks.runs.check_verification": "100 ms, where a project has no checks"},
    "capture": {"capture.inprocess": "132 modules, where a room below asks for a module of `capture`"},
    "capture.enter.sitecustomize": {
        "_traceforge_hook.bootstrap": "the folder of the hook is no package before this module makes it one",
        "imp": "for Pythons before 3.4, which later ones do not have",
        "importlib.util": "in each Python that a command starts, where another `sitecustomize` follows ours",
    },
    "capture.hook.bootstrap": {
        ".child_watcher": "14 ms in each Python that a command starts and that makes no call",
        ".tripwire": "in each of them outside of tests",
    },
    "capture.hook.tripwire": {".tripwire_details": "until a connection is refused"},
    "capture.inprocess": {"capture.recorder": "50 ms, which a replay does not need"},
    "capture.trace_writer": {
        "traces.index_update": "25 ms, for SQLite, where a recorder writes no index",
        "traces.retention": "with it",
    },
    "cli.ci_reports": {"cli.ci_report_files": "more than the rest of `verify`, where no report for CI is written"},
    "cli.gate_command": {
        "cli.suite_gate": "344 modules, where `test` has no command",
        "cli.tree_gate_check": "a third of the imports of `test` with a command",
    },
    "cli.shared_page": {"ui.page_sharing": "needs the packages of the extra `ui`"},
    "compare.json_diff": {"compare.text_diff": "6 ms for its expressions, in a test run where no text differs"},
    "config": {"tomllib": "a twentieth of what the plugin adds to a run, where no `pyproject.toml` configures us"},
    "context.comparison.ray_engine": {"ray": "a package of the extra `ray`"},
    "context.storage.schema_migration": {
        "context.storage.alembic_steps": "a fifth of the start of `context` commands, where the database is current"
    },
    "files": {"ctypes": "some builds of Python lack it"},
    "installed_packages": {"importlib.metadata": "20 ms, where no installed package adds to TraceForge"},
    "pytest_plugin": {
        "pytest_plugin.project_gates": "a third of importing pytest, in each project without snapshots",
        "pytest_plugin.usage_signs": "48 modules outside of builds",
    },
    "pytest_plugin.plugin_gate": {
        "pytest_plugin.recorded_changes": "0.4 of importing pytest, where a run does not record",
        "report.gate_text": "0.1 of importing pytest, where a run is green",
    },
    "replay.player": {"replay.echoes": "35 modules, before the first call that is answered"},
    "replay.request_key": {
        "redact.redactor": "54 modules, where a project configures no redaction",
        "replay.request_redactor": "12 ms, before the first call",
    },
    "replay.volatile": {"redact.custom_patterns": "6 % of the start of the plugin, for google-re2"},
    "snapshots.gate.gate_findings": {
        "compare.comparison": "20 ms, where a run is green",
        "compare.edit_digest": "with it",
    },
    "snapshots.tree.approval_check": {"snapshots.tree.signature_check": "8 ms, where a project does not sign"},
    "snapshots.tree.check_comparison": {"located_yaml": "50 ms, for PyYAML, where no check differs from the base"},
    "snapshots.tree.state_folder": {
        "snapshots.tree.tracked_state": "0.2 of importing click, where a project has no state folder",
        "snapshots.tree.tree_transaction": "with it",
    },
    "tools.watched_function": {"errors": "20 ms, which an application pays only where a call is not replayed"},
    "ui.context_store": {"ui.context_client": "497 modules of the extra `context`, which few pages need"},
}
DEFERRED_IMPORTS_MAX = 40  # statements; a further one replaces another one

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
    users = {module for module in list_modules() for name in read_facts(module).imports if name in JSON_MODULES}
    users |= {module for module in list_modules() if "msgspec.json" in read_facts(module).dotted_names}

    assert [] == sorted(module for module in users if not _is_listed(module, JSON_USERS))
    assert [] == sorted(entry for entry in JSON_USERS if not any(_is_inside(module, entry) for module in users))


def test_only_canon_takes_the_digest_of_content() -> None:
    """No other module imports hashlib, except for keys, fingerprints and journals."""
    users = {module for module in list_modules() if "hashlib" in read_facts(module).imports}

    assert [] == sorted(module for module in users if not _is_listed(module, HASH_USERS))
    assert [] == sorted(entry for entry in HASH_USERS if not any(_is_inside(module, entry) for module in users))


def test_only_listed_modules_open_files() -> None:
    """Files to check are opened by `files`; the listed modules open their own."""
    users = {module for module in list_modules() if _opens_files(module)}

    assert [] == sorted(module for module in users if not _is_listed(module, FILE_OPENERS))
    assert [] == sorted(entry for entry in FILE_OPENERS if not any(_is_inside(module, entry) for module in users))


def test_only_the_terminal_module_prints() -> None:
    """Names and texts of others reach a terminal or a build log through one module, which escapes them."""
    users = {module for module in list_modules() if read_facts(module).prints}

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

    assert [] == [text for text in programs if not prints(parse_nodes(text))]
    assert [] == [text for text in passed_over if prints(parse_nodes(text))]


def test_only_listed_rooms_know_the_database() -> None:
    """Drivers are imported in the storage of their owner, and SQLAlchemy in the context store."""
    for library, users in DATABASE_USERS.items():
        modules = {
            module
            for module in list_modules()
            for name in read_facts(module).imports
            if name == library or name.startswith(f"{library}.")
        }

        assert [] == sorted(module for module in modules if not _is_listed(module, users)), library


def test_the_dialect_of_the_database_is_known_in_storage_only() -> None:
    """No other package imports an SQLAlchemy dialect, or reads a connection's dialect."""
    modules = [
        module
        for module in list_modules()
        if module.startswith("context.") and not _is_inside(module, "context.storage")
        if any(name.startswith("sqlalchemy.dialects") for name in read_facts(module).imports)
        or any(name.endswith(".dialect.name") for name in read_facts(module).dotted_names)
    ]

    assert [] == modules


def test_pure_rooms_do_no_input_and_output() -> None:
    """They import nothing that reads a file, a socket, a clock or a source of chance, and open nothing."""
    modules = [module for module in list_modules() if _room(module) in PURE_ROOMS]
    impure = {(module, name) for module in modules for name in read_facts(module).imports & IMPURE_MODULES}

    assert set(RANDOM_MARKERS) == impure
    assert [] == [module for module in modules if _opens_files(module)]


def test_a_name_in_a_string_obeys_the_order_of_the_rooms() -> None:
    """import-linter sees `import`; a module that is named in a string must be in the same room, or in a lower one."""
    rank = _room_ranks()
    upward = {
        (module, name)
        for module in list_modules()
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


def test_imports_stand_at_the_top_but_for_listed_ones() -> None:
    """An import inside a function hides what a module needs, so each has a reason that was measured."""
    late = {module: names for module in list_modules() if (names := _deferred_imports(module))}

    assert {module: set(names) for module, names in DEFERRED_IMPORTS.items()} == late
    assert DEFERRED_IMPORTS_MAX >= sum(len(read_facts(module).deferred_statements) for module in late)


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


def _deferred_imports(module: str) -> set[str]:
    """The modules that the functions of a module import, named without the package."""
    names: set[str] = set()
    for origin, imported in read_facts(module).deferred_statements:
        for name in imported:
            full = f"{origin.rstrip('.')}.{name}" if origin else name
            is_module = not origin.strip(".") or full.removeprefix("traceforge.") in list_modules()
            names.add((full if is_module else origin).removeprefix("traceforge."))
    return names


def _opens_files(module: str) -> bool:
    calls = read_facts(module).called_names
    return bool(calls & OPENING_CALLS) or any(
        call.rpartition(".")[2] in OPENING_METHODS for call in calls if "." in call
    )


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
    return {name for text in read_facts(module).texts if (name := _named_module(text))}


def _named_module(text: str) -> str:
    """The module that a text names: `traceforge.cli.x`, `traceforge.cli.x:attribute`, `traceforge.wire.`; else ""."""
    match = re.fullmatch(r"(traceforge(?:\.\w+)+)(?::\w+|\.)?", text)
    if match is None or match[1].removeprefix("traceforge.") not in list_modules():
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
    for imports in DEFERRED_IMPORTS.values():
        yield from imports.values()
    for users in DATABASE_USERS.values():
        yield from users.values()


def test_every_exception_has_a_reason() -> None:
    """A list without reasons grows."""
    assert all(reason.strip() for reason in _exceptions())

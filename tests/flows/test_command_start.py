"""What a command loads before it works: a module more is paid for by every start of the command.

A module that a command needs now is added to its list. One that it needs only sometimes is imported where it is used:
`cli/command_table.py` says what is deferred, and what that saves.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from support.sample_files import snapshot_body
from traceforge.snapshots.formats.snapshot_format import write_document

LISTS_MODULES = """
import sys
from traceforge.cli.main import main
try:
    main(sys.argv[1:])
finally:
    print("modules", *sys.modules)
"""
# Of the standard library and of packages: each takes a millisecond or more.
LARGE_MODULES = {
    "asyncio", "cryptography", "ctypes", "difflib", "email", "http", "logging", "multiprocessing",
    "pathlib", "pickle", "random", "re2", "socket", "sqlite3", "ssl", "subprocess", "tempfile", "tomllib",
    "traceforge.capture", "yaml",
}  # fmt: skip
VERIFY_FILE = """
    audit audit.auditor audit.file_check audit.file_kinds audit.parallel_map
    build_environment
    canon canon.digests canon.fast_writer canon.json_reader canon.json_types canon.json_writer canon.numbers
    canon.slow_writer canon.strict_reader
    cli cli.ci_reports cli.command_table cli.lazy_group cli.main cli.output cli.progress cli.project
    cli.verify_command
    clock config conversion distribution
    errors errors.base errors.call_errors errors.file_errors errors.project_errors errors.store_errors
    files findings project_trust
    report report.text_format
    shape shape.closed_format shape.difference_walk shape.field_types
    snapshots snapshots.formats snapshots.formats.determinism_policy snapshots.formats.snapshot_format
    snapshots.tree snapshots.tree.state_folder
    terminal wildcards
    wire wire.unified
"""


def list_modules(folder: Path, *words: str) -> set[str]:
    """The modules that a successful command has loaded when it ends."""
    ran = subprocess.run(
        [sys.executable, "-c", LISTS_MODULES, *words], cwd=folder, capture_output=True, text=True, check=True
    )
    return set(ran.stdout.rpartition("modules ")[2].split())


def test_verify_of_a_snapshot_loads_no_more_than_it_needs(tmp_path: Path) -> None:
    """Neither snapshot trees nor Git, other formats, replay or capture."""
    (tmp_path / "snapshot.json").write_bytes(write_document([snapshot_body()]))

    modules = list_modules(tmp_path, "verify", "snapshot.json")

    ours = {name.removeprefix("traceforge.") for name in modules if name.startswith("traceforge.")}
    assert set() == ours - set(VERIFY_FILE.split())
    assert set() == modules & LARGE_MODULES


def test_the_version_loads_no_json_library(tmp_path: Path) -> None:
    modules = list_modules(tmp_path, "--version")

    assert "click" in modules
    assert not {"orjson", "msgspec", "json", "hashlib", *LARGE_MODULES} & modules

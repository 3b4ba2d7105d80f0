"""What a command, or the pytest plugin, loads before it works: a module more is paid for by every start.

A module that is always needed now is added to its list. One that is needed only sometimes is imported where it is
used: `DEFERRED_IMPORTS` in `tests/unit/test_architecture.py` says what is deferred, and what that saves.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from support.sample_files import snapshot_body, write_tree
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
    "asyncio", "cryptography", "ctypes", "email", "http", "logging", "multiprocessing",
    "pathlib", "random", "re2", "socket", "sqlite3", "ssl", "subprocess", "tempfile", "tomllib",
    "traceforge.capture", "yaml",
}  # fmt: skip
VERIFY_FILE = """
    addresses audit audit.auditor audit.file_check audit.file_kinds audit.parallel_map
    build_environment
    canon canon.digests canon.fast_writer canon.json_reader canon.json_types canon.json_writer canon.numbers
    canon.slow_writer canon.strict_reader
    cli cli.ci_reports cli.command_table cli.lazy_group cli.main cli.output cli.progress cli.project
    cli.shell_completion cli.verify_command
    clock config conversion distribution
    errors errors.base errors.call_errors errors.file_errors errors.project_errors errors.store_errors
    files findings project_links project_trust
    report report.text_format
    shape shape.closed_format shape.difference_walk shape.field_types
    snapshots snapshots.formats snapshots.formats.determinism_policy snapshots.formats.snapshot_format
    snapshots.tree snapshots.tree.state_folder
    terminal wildcards
    wire wire.unified
"""


def list_modules(folder: Path, *words: str) -> set[str]:
    """The modules that a command has loaded when it ends."""
    ran = subprocess.run(
        [sys.executable, "-c", LISTS_MODULES, *words], cwd=folder, capture_output=True, text=True, check=False
    )
    assert "modules" in ran.stdout, ran.stderr
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


def test_a_check_without_a_command_loads_nothing_that_records_or_redacts(tmp_path: Path) -> None:
    """`traceforge test` alone is what a commit hook runs."""
    write_tree(tmp_path / ".ai-snapshots", 1)

    modules = list_modules(tmp_path, "test")

    assert "traceforge.audit.tree_gate" in modules
    assert set() == modules & {
        "asyncio", "re2", "sqlite3", "traceforge.redact.redactor", "traceforge.replay.trace_recordings",
        "traceforge.snapshots.gate.command_gate", "traceforge.snapshots.record.candidates",
    }  # fmt: skip


OPENS_GATE = """
import sys
import traceforge.pytest_plugin.project_gates
from traceforge.config import load_config
from traceforge.snapshots.gate.suite_process import SuiteProcess

suite = SuiteProcess(load_config("."), "test")
suite.start()
suite.stop()
print("modules", *sys.modules)
"""
PLUGIN = """
    addresses build_environment clock config conversion distribution exchange files findings ids
    installed_packages match_key project_links project_trust terminal wildcards
    canon canon.digests canon.fast_writer canon.json_reader canon.json_types canon.json_writer canon.numbers
    canon.slow_writer canon.strict_reader
    capture capture.engine capture.hook capture.inprocess capture.network_guard capture.null_recorder
    capture.recording_counts capture.replay_responder capture.replaying_capture capture.run
    capture.run.cassette_observer capture.run.cloud_credentials capture.run.credentials
    capture.run.environment capture.run.listener
    capture.run.local_programs capture.run.network_access capture.run.node_programs
    capture.run.pausable_listener
    capture.run.process_files capture.run.process_reports capture.run.process_scan capture.run.python_files
    capture.run.started_child capture.run.suite_children capture.run.suite_events capture.subinterpreter
    capture.telemetry_hosts capture.traceforge_headers capture.watched_hosts
    compare compare.compared_call compare.json_diff compare.request_fields compare.shown_body
    errors errors.base errors.call_errors errors.file_errors errors.project_errors errors.store_errors
    http http.event_stream
    pytest_plugin pytest_plugin.plugin_gate pytest_plugin.project_gates pytest_plugin.scope_hooks
    pytest_plugin.usage_signs
    redact redact.lazy_pattern redact.redactions redact.secret_names
    replay replay.compared_body replay.compared_frames replay.compared_headers replay.conversation_lookup
    replay.fingerprints replay.form_boundary replay.library
    replay.logical_upstream replay.nearest_recording replay.next_frames replay.player replay.recorded_response
    replay.request_distance replay.request_key replay.response_synthesis replay.scoped_volatile
    replay.unmatched replay.volatile replay.volatile_kinds
    report report.observation_text report.text_format
    shape shape.difference_walk shape.field_types
    snapshots snapshots.formats snapshots.formats.approval_format snapshots.formats.approved_policy
    snapshots.formats.determinism_policy snapshots.formats.model_prices snapshots.formats.provider_defaults
    snapshots.formats.raw_response snapshots.formats.record_draft snapshots.formats.snapshot_format
    snapshots.formats.snapshot_manifest
    snapshots.formats.tree_layout snapshots.gate snapshots.gate.gate_findings snapshots.gate.gate_judgement
    snapshots.gate.nested_projects snapshots.gate.suite_process snapshots.gate.unselected_tests snapshots.tree
    snapshots.tree.approval_chain snapshots.tree.approval_check snapshots.tree.approved_calls
    snapshots.tree.base_checks snapshots.tree.base_commit snapshots.tree.build_base snapshots.tree.call_counts
    snapshots.tree.check_comparison
    snapshots.tree.declaration_effects snapshots.tree.git_commands snapshots.tree.git_objects
    snapshots.tree.project_snapshots snapshots.tree.removed_trees snapshots.tree.run_scopes
    snapshots.tree.snapshot_migration snapshots.tree.state_folder snapshots.tree.suite_folders
    snapshots.tree.synthesised_answers snapshots.tree.tree_verification
    wire wire.binary_frames wire.dialect_declaration wire.dialect_index wire.dialect_plugins wire.dialects
    wire.embeddings wire.endpoints wire.json_streams wire.openai wire.openai.chat wire.operation_names
    wire.provider_error wire.response_reader wire.stream_assembly wire.unified
"""


def test_a_run_of_pytest_without_calls_loads_no_more_than_it_needs(tmp_path: Path) -> None:
    """Nothing that records, redacts, explains or prints: a passing run needs none of it before its first call."""
    write_tree(tmp_path / ".ai-snapshots", 1)

    ran = subprocess.run([sys.executable, "-c", OPENS_GATE], cwd=tmp_path, capture_output=True, text=True, check=True)

    modules = set(ran.stdout.rpartition("modules ")[2].split())
    ours = {name.removeprefix("traceforge.") for name in modules if name.startswith("traceforge.")}
    hook = {name for name in ours if name.startswith("capture.hook.")}  # It has many small modules.
    assert set() == ours - set(PLUGIN.split()) - hook
    assert set() == {name for name in hook if name.startswith("capture.hook.client_")}  # These wait for their client.
    assert set() == modules & {"asyncio", "encodings.idna", "re2", "sqlite3", "ssl", "tomllib", "yaml"}

"""What `traceforge trace verify` recommends for a trace of another version is what repairs it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.command import traceforge
from support.format_examples import SPECIFIED_TRACE
from traceforge.errors import UnknownVersion
from traceforge.traces import migrate_trace, needs_migration
from traceforge.traces.trace_format import trace_file_name

NAME = trace_file_name(SPECIFIED_TRACE["timestamp"], SPECIFIED_TRACE["id"])


def _write(folder: Path, **changes: Any) -> Path:
    """A trace of the specification; None as a value removes a field."""
    trace = {name: value for name, value in {**SPECIFIED_TRACE, **changes}.items() if value is not None}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / NAME).write_text(json.dumps(trace))
    return folder / NAME


def _verify(project: Path, *words: str) -> list[dict[str, Any]]:
    findings: list[dict[str, Any]] = json.loads(traceforge(*words, "--json", cwd=project).out)["findings"]
    return findings


def test_an_old_trace_of_the_project_is_repaired_as_the_hint_says(tmp_path: Path) -> None:
    """A trace from before there were versions."""
    (tmp_path / ".git").mkdir()
    _write(tmp_path / ".ai-tests" / "traces", schema_version=None)
    (finding,) = _verify(tmp_path, "trace", "verify")

    assert ("TR2", "the trace has no version") == (finding["rule"], finding["message"])
    assert "traceforge trace migrate" in finding["hint"]
    assert "migrated 1 trace\n" == traceforge("trace", "migrate", cwd=tmp_path).out
    assert [] == _verify(tmp_path, "trace", "verify")


@pytest.mark.parametrize("verify", [["trace", "verify"], ["verify"]])
def test_an_old_trace_elsewhere_is_repaired_as_the_hint_says(tmp_path: Path, verify: list[str]) -> None:
    """The file is named; a second time nothing is left to do."""
    file = _write(tmp_path / "elsewhere", schema_version=None)
    (finding,) = _verify(tmp_path, *verify, "elsewhere")

    assert "traceforge trace migrate FILE" in finding["hint"]
    assert "migrated 1 trace\n" == traceforge("trace", "migrate", file, cwd=tmp_path).out
    assert [] == _verify(tmp_path, *verify, "elsewhere")
    assert (
        "nothing to migrate: the trace has version 1.0.0 or newer\n"
        == traceforge("trace", "migrate", file, cwd=tmp_path).out
    )


def test_an_old_trace_with_another_fault_is_recorded_again(tmp_path: Path) -> None:
    """A migration would not repair it, and is not recommended."""
    file = _write(tmp_path / "elsewhere", schema_version=None, endpoint=None)
    findings = _verify(tmp_path, "trace", "verify", "elsewhere")

    assert {("TR1", "$.schema_version"), ("TR1", "$.endpoint")} == {(item["rule"], item["path"]) for item in findings}
    assert {"Record the call again."} == {item["hint"] for item in findings}
    assert 1 == traceforge("trace", "migrate", file, cwd=tmp_path).code


@pytest.mark.parametrize("version", ["0.5.0", "0.9.9", "latest", "1.0"])
def test_a_version_nobody_knows_has_its_own_words_and_code(tmp_path: Path, version: str) -> None:
    """Neither a migration nor an upgrade is recommended, because neither helps."""
    file = _write(tmp_path / "elsewhere", schema_version=version)
    before = file.read_bytes()
    (finding,) = _verify(tmp_path, "trace", "verify", "elsewhere")
    refused = traceforge("trace", "migrate", file, cwd=tmp_path)

    assert ("TR2", True) == (finding["rule"], f"{version} is unknown" in finding["message"])
    assert "record the call again" in finding["hint"]
    assert (1, before) == (refused.code, file.read_bytes())
    assert f"error TF104: {file}: $.schema_version: trace version {version} is unknown" in refused.err
    with pytest.raises(UnknownVersion):
        migrate_trace(json.loads(before))


def test_a_newer_trace_is_told_to_upgrade(tmp_path: Path) -> None:
    file = _write(tmp_path / "elsewhere", schema_version="2.0.0")
    (finding,) = _verify(tmp_path, "trace", "verify", "elsewhere")
    refused = traceforge("trace", "migrate", file, cwd=tmp_path)

    assert ("trace version 2.0.0 is newer than 1.0.0", "Upgrade TraceForge.") == (finding["message"], finding["hint"])
    assert (1, True) == (refused.code, "Upgrade TraceForge." in refused.err)
    assert not needs_migration(json.loads(file.read_bytes()))

"""`test` without a command: the snapshot tree and pending changes."""

from __future__ import annotations

from pathlib import Path

from support.proposals import make_call, propose
from support.sample_files import write_tree
from traceforge.audit.tree_gate import check_tree_and_pending
from traceforge.config import load_config
from traceforge.findings import ExitCode
from traceforge.report.gate_text import tree_gate_summary
from traceforge.snapshots.record.pending_changes import save_pending


def test_a_valid_tree_is_green(tmp_path: Path) -> None:
    root = write_tree(tmp_path / ".ai-snapshots", 3)

    report = check_tree_and_pending(load_config(str(tmp_path)), str(root))

    assert (ExitCode.OK, 3) == (report.exit_code, report.snapshots)
    assert "checked 3 snapshots: 3 prompt and answer; nothing is pending" == tree_gate_summary(report)


def test_a_project_without_snapshots_is_unchecked(tmp_path: Path) -> None:
    """Nothing was checked, which must not pass."""
    report = check_tree_and_pending(load_config(str(tmp_path)), str(tmp_path / ".ai-snapshots"))

    assert (ExitCode.UNCHECKED, 0) == (report.exit_code, report.snapshots)
    assert "RED: 0 snapshots; 1 unchecked" == tree_gate_summary(report)


def test_an_edited_snapshot_is_red(tmp_path: Path) -> None:
    root = write_tree(tmp_path / ".ai-snapshots", 2)
    file = root / "openai" / "snap-0001.json"
    file.write_text(file.read_text().replace("It is.", "It was."))

    report = check_tree_and_pending(load_config(str(tmp_path)), str(root))

    assert ExitCode.FINDINGS == report.exit_code
    assert "SN3" in {gate_finding.finding.rule for gate_finding in report.findings}


def test_pending_changes_are_judged_with_the_present_settings(tmp_path: Path) -> None:
    """A call that a strict project refused waits for approval once the project is not strict."""
    (tmp_path / "traceforge.config.json").write_text('{"determinism": "strict"}')
    save_pending(str(tmp_path), propose(make_call("a", temperature=0.7), is_strict=True).changes, ())

    strict = check_tree_and_pending(load_config(str(tmp_path)), str(tmp_path / ".ai-snapshots"))
    (tmp_path / "traceforge.config.json").write_text("{}")
    plain = check_tree_and_pending(load_config(str(tmp_path)), str(tmp_path / ".ai-snapshots"))

    assert ["temperature must be 0 for a repeatable answer"] == [
        gate_finding.finding.message.partition(": ")[2] for gate_finding in strict.findings
    ]
    assert ["is new, and waits for approval"] == [
        gate_finding.finding.message.partition(" ")[2] for gate_finding in plain.findings
    ]

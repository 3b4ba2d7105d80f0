"""Everything under a path is found, by kind, and nothing passes because it was not looked at."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from support.sample_files import sample_session, snapshot_body, write_pack, write_tree
from traceforge.audit import parallel_map
from traceforge.audit.auditor import Auditor, AuditReport
from traceforge.config import ModelRule
from traceforge.snapshots.formats.determinism_policy import ModelPolicy
from traceforge.snapshots.formats.snapshot_format import write_document


def audit(*paths: Path, traces: str = "nowhere") -> AuditReport:
    """Check paths with no declared models."""
    return Auditor(ModelPolicy(), traces).verify([str(path) for path in paths])


def test_all_kinds_under_one_path_are_counted(tmp_path: Path) -> None:
    """Trees, packs and single files are found at any depth."""
    write_tree(tmp_path / "a" / ".ai-snapshots", 3)
    write_tree(tmp_path / "b" / "by-its-manifest", 2)
    write_pack(tmp_path / "c" / "pack")
    (tmp_path / "c" / "model_io.json").write_text(json.dumps(sample_session()))
    (tmp_path / "single.json").write_bytes(write_document([snapshot_body()]))
    (tmp_path / "package.json").write_text("{}")

    report = audit(tmp_path)

    assert [] == report.findings
    assert {"snapshot": 6, "pack": 1, "modelio": 1} == report.checked


def test_dependencies_and_git_are_passed_over(tmp_path: Path) -> None:
    """Folders that other tools fill are not ours to judge."""
    (tmp_path / "model_io.json").write_text(json.dumps(sample_session()))
    for name in (".git", "node_modules", ".venv", "__pycache__"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "broken.json").write_text("{")

    assert [] == audit(tmp_path).findings


def test_a_linked_folder_is_a_finding_and_is_not_entered(tmp_path: Path) -> None:
    """It leads out of the tree, so its files are not checked; the finding says so."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "model_io.json").write_text(json.dumps(sample_session()))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "broken.json").write_text("{")
    (tmp_path / "in" / "link").symlink_to(tmp_path / "out", target_is_directory=True)

    assert [(str(tmp_path / "in" / "link"), "IO")] == [(f.file, f.rule) for f in audit(tmp_path / "in").findings]


def test_a_linked_file_found_in_a_folder_is_unchecked(tmp_path: Path) -> None:
    """A link found while walking is IO; the same link named by a person is followed."""
    real = tmp_path / "real.json"
    real.write_text(json.dumps(sample_session()))
    (tmp_path / "in").mkdir()
    link = tmp_path / "in" / "model_io.json"
    link.symlink_to(real)

    assert ["IO"] == [finding.rule for finding in audit(tmp_path / "in").findings]
    assert {"modelio": 1} == audit(link).checked


def test_a_file_in_the_traces_folder_must_be_a_trace(tmp_path: Path) -> None:
    """Its place says what it is: something else there is broken, not unknown."""
    (tmp_path / "x.json").write_text("{}")

    report = audit(tmp_path, traces=str(tmp_path))

    assert {"trace": 1} == report.checked
    assert {"TR1"} == {finding.rule for finding in report.findings}


def test_a_manifest_named_by_a_person_means_its_tree(tmp_path: Path) -> None:
    """Naming the manifest checks its tree."""
    root = write_tree(tmp_path / "tree", 2)

    assert {"snapshot": 2} == audit(root / "manifest.json").checked


def test_a_hidden_tree_without_a_manifest_is_still_a_tree(tmp_path: Path) -> None:
    """Deleting the manifest does not turn a tree into a folder of unrelated files."""
    root = write_tree(tmp_path / ".ai-snapshots", 1)
    (root / "manifest.json").unlink()

    assert ["MF1"] == [finding.rule for finding in audit(tmp_path).findings]


def test_calls_that_are_gated_on_the_request_only_are_counted(tmp_path: Path) -> None:
    """A declared exception is counted in every report, so that it does not look like the full gate."""
    root = write_tree(tmp_path / ".ai-snapshots", 2)

    report = Auditor(ModelPolicy({"gpt-4*": ModelRule(gate="request")}), "nowhere").verify([str(root)])

    assert 2 == report.request_gated
    assert 2 == report.to_json()["request_gated"]


def test_several_processes_find_the_same_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Findings are the same and in the same order, however the files were spread."""
    root = write_tree(tmp_path / ".ai-snapshots", 40)
    for number in (0, 17, 39):
        victim = root / "openai" / f"snap-{number:04d}.json"
        victim.write_text(victim.read_text().replace("It is.", "It was."))
    alone = audit(root)
    monkeypatch.setattr(parallel_map, "WORTH_FORKING", 10)
    monkeypatch.setattr(parallel_map, "_count_cores", lambda: 2)

    together = audit(root)

    assert 3 == len(alone.findings)
    assert alone.findings == together.findings
    assert alone.checked == together.checked


def test_below_the_traces_folder_everything_must_be_a_trace(tmp_path: Path) -> None:
    """A trace in a subfolder that lost its fields is broken, not an unknown file."""
    (tmp_path / "2026").mkdir()
    (tmp_path / "2026" / "x.json").write_text("{}")
    (tmp_path.parent / f"{tmp_path.name}-other").mkdir()

    report = audit(tmp_path, traces=str(tmp_path))

    assert {"trace": 1} == report.checked
    assert {"TR1"} == {finding.rule for finding in report.findings}


def test_the_traces_folder_is_known_through_a_link_and_deep_below_it(tmp_path: Path) -> None:
    """However the path is written."""
    deep = tmp_path / "project" / "traces" / "a" / "b"
    deep.mkdir(parents=True)
    (deep / "model_io.json").write_text(json.dumps(sample_session()))
    (tmp_path / "link").symlink_to("project")

    for named in ("link", "project", "link/traces/../traces", "project/traces/a/b"):
        report = audit(tmp_path / named, traces=str(tmp_path / "link" / "traces"))

        assert {"TR1"} == {finding.rule for finding in report.findings}, named


def test_where_a_folder_really_is_is_looked_up_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for every folder below it, each from the root: the time would grow with the square of the depth."""
    (tmp_path / "model_io.json").write_text(json.dumps(sample_session()))
    os.makedirs(tmp_path.joinpath(*["d"] * 60))
    looked, realpath = [], os.path.realpath
    monkeypatch.setattr(os.path, "realpath", lambda path, **more: (looked.append(path), realpath(path, **more))[1])

    report = audit(tmp_path)

    assert ({"modelio": 1}, []) == (report.checked, report.findings)
    assert [str(tmp_path)] == [path for path in looked if str(tmp_path) in str(path)]


def test_a_damaged_trace_is_to_be_deleted(tmp_path: Path) -> None:
    """It is in no commit that could restore it."""
    (tmp_path / "trace.json").write_text("{broken")

    (finding,) = audit(tmp_path, traces=os.fspath(tmp_path)).findings

    assert ("Delete it", False) == (finding.hint.partition(".")[0], "version control" in finding.hint)

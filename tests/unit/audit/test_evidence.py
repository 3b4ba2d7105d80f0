"""Recordings and packs of a project: which are found, how they are checked, and which paths are refused."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import zstandard

from support.evidence_project import make_bomb, make_evidence_project, tamper_with_bundle, write_recording
from support.format_examples import example_session
from traceforge.audit import evidence
from traceforge.audit.evidence import check_evidence, check_evidence_data, find_evidence, resolve_inside
from traceforge.audit.file_kinds import FileKind
from traceforge.errors import NotFound
from traceforge.modelio.recording_verifier import verify_session
from traceforge.packs.pack_verifier import verify_pack


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = make_evidence_project(tmp_path)
    (project / "package.json").write_text('{"name": "app"}')
    return project


def test_recordings_packs_and_archives_are_found(project: Path) -> None:
    """The recording inside of a pack is a part of it; folders of tools, links and other JSON are left out."""
    for folder in (".venv", ".git", ".ai-tests", "node_modules"):
        (project / folder).mkdir()
        (project / folder / "chat.json").write_text(json.dumps(example_session("Paris.")))
    (project / "link.json").symlink_to("evidence/chat.json")

    found = find_evidence(str(project))

    assert [
        ("evidence/chat.json", FileKind.MODEL_IO),
        ("evidence/run-1", FileKind.PACK),
        ("evidence/run-1.tar.zst", FileKind.PACK),
    ] == found.files
    assert found.is_complete


def test_a_search_that_ends_early_says_so(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "ENTRIES_MAX", 2)

    assert not find_evidence(str(project)).is_complete


def test_results_are_those_of_the_commands(project: Path) -> None:
    """For valid files and for tampered ones."""
    session = example_session("Paris.", "Lyon.")
    recording = check_evidence(str(project), "evidence/chat.json")
    pack = check_evidence(str(project), "evidence/run-1")
    archive = check_evidence(str(project), "evidence/run-1.tar.zst")

    assert verify_session(session) == recording.recording
    assert verify_pack(str(project / "evidence/run-1")) == pack.pack
    assert () == pack.findings == archive.findings == recording.findings
    assert archive.is_archive

    write_recording(project / "evidence/chat.json", "Nice.")
    tamper_with_bundle(project / "evidence/run-1")
    recording, pack = (check_evidence(str(project), f"evidence/{name}") for name in ("chat.json", "run-1"))

    assert [("MI7", "$.interactions[1].response_hash")] == [(item.rule, item.path) for item in recording.findings]
    assert [("PK5", "bundle.json")] == [(item.rule, item.path) for item in pack.findings]


@pytest.mark.parametrize(
    "path",
    ["../outside.json", "evidence/../../outside.json", "/etc/passwd", "", ".", "evidence/", "evidence//chat.json",
     "link.json", "folder/chat.json", "evidence\\chat.json", "missing.json", "a\0b", "C:/x.json", "fifo"],
)  # fmt: skip
def test_a_path_that_leaves_the_project_is_refused(project: Path, path: str) -> None:
    """Links count as leaving it, wherever they lead; the error does not say what is there."""
    (project.parent / "outside.json").write_text(json.dumps(example_session("Paris.")))
    (project / "link.json").symlink_to(project.parent / "outside.json")
    (project / "folder").symlink_to(project / "evidence")
    os.mkfifo(project / "fifo")

    with pytest.raises(NotFound, match="there is no such file in this project"):
        resolve_inside(str(project), path)


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        (b"[" * 200_000, "PARSE"),
        (b'{"a":' * 200_000, "PARSE"),
        (b"\xff\xfe not JSON", "PARSE"),
        (b"", "PARSE"),
        (b"null", "IO"),
        (b'{"name": "app"}', "IO"),
        (make_bomb(), "PK13"),
        (zstandard.ZstdCompressor().compress(b"not a tar" * 500), "PK12"),
        (b"\x28\xb5\x2f\xfd damaged", "PK13"),
    ],
    ids=["deep-list", "deep-object", "no-text", "empty", "null", "other-json", "bomb", "no-tar", "damaged"],
)
def test_hostile_bytes_are_findings(data: bytes, rule: str) -> None:
    """A bomb and deep JSON too: nothing is raised, and nothing is valid."""
    result = check_evidence_data("dropped", data)

    assert [rule] == [finding.rule for finding in result.findings]


def test_a_bomb_is_noticed_before_it_fills_the_memory() -> None:
    (finding,) = check_evidence_data("run.tar.zst", make_bomb()).findings

    assert "it expands to more than 1000 times its size" == finding.message


def test_a_mistake_in_a_check_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that was not checked is never valid."""
    monkeypatch.setattr(evidence, "verify_session", lambda _: 1 / 0)
    result = check_evidence_data("chat.json", json.dumps(example_session("Paris.")).encode())

    assert ["internal error: ZeroDivisionError"] == [finding.message for finding in result.findings]

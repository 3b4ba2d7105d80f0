"""Approved changes: validated strictly, written together, and green afterwards."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from support.json_places import remove_at
from support.sample_files import raw_error_response, raw_response_of, snapshot_body, write_tree
from traceforge.canon import digest_bytes
from traceforge.config import ModelRule
from traceforge.errors import InvalidFile, NotFound
from traceforge.files import read_file
from traceforge.snapshots.approve.tree_commit import CommitResult, SnapshotChange, commit_changes
from traceforge.snapshots.formats.determinism_policy import ModelPolicy
from traceforge.snapshots.formats.snapshot_format import read_document, write_document
from traceforge.snapshots.tree.manifest_rebuild import rebuild_manifest
from traceforge.snapshots.tree.tree_verification import TreeReport, verify_tree

NOW = datetime(2026, 1, 10, 9, 0, tzinfo=UTC)


def _body(name: str, content: str = "It is.") -> dict[str, Any]:
    body = snapshot_body(id=name)
    body["response"]["content"] = content
    return body


def _record(name: str, content: str = "It is.", provider: str = "openai") -> SnapshotChange:
    body = _body(name, content)
    return SnapshotChange(provider, name, body, raw_response_of(body))


def _removal(name: str) -> SnapshotChange:
    return SnapshotChange("", name, None, None)


STRICT = ModelPolicy(is_strict=True)


class Project:
    """A project whose approvals come a minute apart."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / ".ai-snapshots"
        self._now = NOW

    def commit(self, *changes: SnapshotChange, **options: Any) -> CommitResult:
        """Approve, without a word more than needed."""
        self._now += timedelta(minutes=1)
        arguments = {"policy": ModelPolicy(), "reason": "as agreed", "now": self._now, **options}
        return commit_changes(str(self.folder), arguments.pop("policy"), changes, **arguments)

    def verify(self) -> TreeReport:
        """The whole tree."""
        return verify_tree(str(self.root), ModelPolicy())

    def tree(self) -> dict[str, bytes]:
        """Every file of the tree."""
        files = [path for path in self.root.rglob("*") if path.is_file()]
        return {path.relative_to(self.root).as_posix(): path.read_bytes() for path in files}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project without snapshots."""
    return Project(tmp_path)


def test_a_first_record_is_written_with_everything_that_belongs_to_it(project: Project) -> None:
    """Document, raw response, manifest and approval; and all of it is valid."""
    result = project.commit(_record("greeting"), tag="v1")
    (record,) = read_document((project.root / "openai/greeting.json").read_bytes())
    (change,) = result.approval.changes

    assert set(project.tree()) == set(result.files) == {
        "openai/greeting.json", "wire/greeting.json", "manifest.json", result.approval.file,
    }  # fmt: skip
    wire = project.tree()["wire/greeting.json"]
    assert {"file": "wire/greeting.json", "sha256": digest_bytes(wire)} == record.body["response"]["wire"]  # type: ignore[index,call-overload]
    assert ("greeting", "openai/greeting.json", None, record.hash) == (
        change.id, change.file, change.before, change.after,
    )  # fmt: skip
    assert ("as agreed", "v1", "2026-01-10T09:01:00.000Z") == (
        result.approval.reason, result.approval.tag, result.approval.approved_at,
    )  # fmt: skip
    assert (1, 0, (), 0, 1) == project.verify()[:5]


def test_a_record_is_changed_and_removed_with_its_history(project: Project) -> None:
    """Each approval starts where the last one ended."""
    first = project.commit(_record("greeting"), _record("other"))
    second = project.commit(_record("greeting", "It was."))
    third = project.commit(_removal("greeting"))
    states = [
        [(change.before, change.after) for change in result.approval.changes if change.id == "greeting"]
        for result in (first, second, third)
    ]

    assert states[0][0][1] == states[1][0][0]
    assert states[1][0][1] == states[2][0][0]
    assert [(None, False), (None, True)] == [
        (states[0][0][0], states[0][0][1] is None),
        (states[2][0][1], states[2][0][1] is None),
    ]
    assert "wire/greeting.json" not in project.tree()
    assert (1, 0, (), 0, 3) == project.verify()[:5]


def test_removing_the_last_snapshot_removes_the_manifest(project: Project) -> None:
    """A tree with only approvals is valid."""
    project.commit(_record("greeting"))
    project.commit(_removal("greeting"))

    assert {"approvals"} == {file.split("/")[0] for file in project.tree()}
    assert () == project.verify().findings


def test_a_raw_response_without_a_record_is_committed_and_counted(project: Project) -> None:
    """An error response has no record, so only its request is checked."""
    source = {"file": "app.py", "line": 3, "function": "ask", "scopes": [{"scope": "test_app.py::test_ask"}]}
    result = project.commit(SnapshotChange("openai", "oops", None, raw_error_response(source=source)))
    (change,) = result.approval.changes

    assert ("wire/oops.json", None, digest_bytes(raw_error_response(source=source))) == (
        change.file, change.before, change.after,
    )  # fmt: skip
    assert (0, 1, (), 1, 1) == project.verify()[:5]
    project.commit(
        SnapshotChange("openai", "oops", None, raw_error_response("Hello", source=source)), _record("greeting")
    )
    assert (1, 1, (), 1, 2) == project.verify()[:5]
    project.commit(_removal("oops"))
    assert (1, 0, (), 0, 3) == project.verify()[:5]


def test_a_record_may_become_a_raw_response_alone_and_back(project: Project) -> None:
    """The call began to fail and was fixed: one id, one history."""
    project.commit(_record("greeting"))
    project.commit(SnapshotChange("openai", "greeting", None, raw_error_response()))
    assert (0, 1, (), 1, 2) == project.verify()[:5]

    project.commit(_record("greeting", "Again."))
    assert (1, 0, (), 0, 3) == project.verify()[:5]


def test_a_record_does_not_lose_the_raw_response_it_was_approved_with(project: Project) -> None:
    """Nothing else proves what the provider said."""
    project.commit(_record("greeting"))

    with pytest.raises(InvalidFile) as refused:
        project.commit(SnapshotChange("openai", "greeting", _body("greeting", "By hand."), None))

    assert ["AP11"] == [finding.rule for finding in refused.value.findings]
    assert () == project.verify().findings


def test_a_record_may_move_to_another_provider(project: Project) -> None:
    """Its id stays, so Git and the history see a change."""
    project.commit(_record("greeting"))
    project.commit(_record("greeting", provider="corp"))

    assert {"corp/greeting.json", "manifest.json", "wire/greeting.json"} <= set(project.tree())
    assert "openai/greeting.json" not in project.tree()
    assert () == project.verify().findings


def test_a_handwritten_snapshot_counts_as_never_approved(project: Project) -> None:
    """The history starts with the first approval; other files stay unchanged."""
    write_tree(project.root)
    changed = project.commit(_record("snap-0001"))

    assert [None] == [change.before for change in changed.approval.changes]
    assert (3, 0, (), 0, 1) == project.verify()[:5]
    removed = project.commit(_removal("snap-0002"))
    assert [(None, None)] == [(change.before, change.after) for change in removed.approval.changes]
    assert (2, 0, (), 0, 2) == project.verify()[:5]


def test_a_document_with_several_records_is_split(project: Project) -> None:
    """Each record is written to its own file and keeps its hash."""
    (project.root / "openai").mkdir(parents=True)
    bodies: list[Any] = [_body(name) for name in ("aaa", "bbb", "ccc")]
    (project.root / "openai" / "aaa.json").write_bytes(write_document(bodies))
    rebuild_manifest(str(project.root))

    project.commit(_record("aaa"), _removal("bbb"))

    assert {"openai/aaa.json", "openai/ccc.json"} == {file for file in project.tree() if file.startswith("openai")}
    assert (2, 0, (), 0, 1) == project.verify()[:5]


def _with(body: dict[str, Any], name: str, **values: Any) -> dict[str, Any]:
    body[name].update(values)
    return body


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (SnapshotChange("openai", "abc", remove_at(_body("abc"), ("request", "max_tokens")), None), "SN1"),
        (SnapshotChange("openai", "abc", _body("abd"), None), "SN1"),
        (SnapshotChange("openai", "abc", {**_body("abc"), "more": 1}, None), "SN1"),
        (SnapshotChange("openai", "../abc", _body("../abc"), None), "SN1"),
        (SnapshotChange("OpenAI", "abc", _body("abc"), None), "SN6"),
        (SnapshotChange("wire", "abc", _body("abc"), None), "SN6"),
        (SnapshotChange("openai", "abc", _with(_body("abc"), "request", temperature=1), None), "SN8"),
        (SnapshotChange("openai", "abc", _body("abc", "No."), raw_response_of(_body("abc"))), "SN9"),
        (SnapshotChange("openai", "abc", _body("abc"), b"{}"), "SN9"),
        (SnapshotChange("openai", "abc", _body("abc"), b"{"), "PARSE"),
        (SnapshotChange("openai", "abc", None, b"{}"), "SN9"),
        (SnapshotChange("openai", "abc", None, raw_response_of(_body("abc"))), "SN9"),
    ],
)
def test_a_change_that_verify_would_refuse_is_never_written(
    project: Project, change: SnapshotChange, rule: str
) -> None:
    """Shape, names, policy, agreement with the raw response; no other change of the commit is written either."""
    project.commit(_record("other"))
    before = project.tree()

    with pytest.raises(InvalidFile) as error:
        project.commit(_record("good"), change, policy=STRICT)

    assert rule in {finding.rule for finding in error.value.findings}
    assert all(finding.file for finding in error.value.findings)
    assert before == project.tree()


def test_all_findings_are_raised_together(project: Project) -> None:
    """An approval of ten changes reports every change that cannot be approved."""
    loose = [
        SnapshotChange("openai", name, _with(_body(name), "request", temperature=1), None) for name in ("one", "two")
    ]

    with pytest.raises(InvalidFile) as error:
        project.commit(*loose, SnapshotChange("openai", "oops", None, b"{}"), policy=STRICT)

    assert {"openai/one.json", "openai/two.json", "wire/oops.json"} == {
        finding.file for finding in error.value.findings
    }


def test_a_declared_gate_is_respected(project: Project) -> None:
    """A model that is gated on its request may have any temperature."""
    body = _with(_body("abc"), "request", temperature=1)

    policy = ModelPolicy({"gpt-4*": ModelRule(gate="request")}, is_strict=True)
    project.commit(SnapshotChange("openai", "abc", body, raw_response_of(body)), policy=policy)

    assert (1, ()) == verify_tree(str(project.root), policy)[1:3]


def test_nothing_is_added_to_a_broken_tree(project: Project) -> None:
    """A new manifest must not hide a problem; approving the broken snapshot again repairs it."""
    project.commit(_record("one"), _record("two"))
    path = project.root / "openai/one.json"
    path.write_bytes(path.read_bytes().replace(b"It is.", b"It isn't."))
    before = project.tree()

    with pytest.raises(InvalidFile):
        project.commit(_record("two", "Changed."))
    assert before == project.tree()

    project.commit(_record("one", "Mended."))
    assert () == project.verify().findings


def test_a_broken_manifest_is_rebuilt(project: Project) -> None:
    """It is a function of the documents, so a merge conflict in it is no reason to stop."""
    project.commit(_record("one"))
    (project.root / "manifest.json").write_bytes(b"<<<<<<< ours\n")

    project.commit(_record("two"))

    assert () == project.verify().findings


def test_removing_an_unknown_snapshot_is_an_error(project: Project) -> None:
    """For example a mistyped name."""
    project.commit(_record("one"))

    with pytest.raises(NotFound, match="two"):
        project.commit(_removal("two"))


def test_an_approval_changes_each_snapshot_once(project: Project) -> None:
    """Two changes of one snapshot are refused."""
    with pytest.raises(InvalidFile, match="in this approval twice"):
        project.commit(_record("one"), _record("one", "Other."))


def test_a_commit_without_a_reason_is_refused(project: Project) -> None:
    """Nothing is written."""
    with pytest.raises(InvalidFile):
        project.commit(_record("one"), reason=" ")

    assert not project.root.exists()


def test_the_documents_are_written_as_the_format_says(project: Project) -> None:
    """Two-space indent, the fields in their order, a final newline."""
    project.commit(_record("one"))
    data = read_file(str(project.root / "openai/one.json"))

    assert ["version", "snapshots", "hash"] == list(json.loads(data))
    assert ["id", "timestamp", "source", "request", "response", "hash"] == list(json.loads(data)["snapshots"][0])
    assert data.endswith(b"\n}\n")


@pytest.mark.parametrize("change", [{"request": {}}, {"source": {"file": "../a.py", "line": 1, "function": ""}}])
def test_a_record_that_breaks_the_format_can_be_removed(project: Project, change: dict[str, Any]) -> None:
    """As the hint of SN1 says: `record` does not run on such a tree."""
    project.commit(_record("one"), _record("two"))
    file = project.root / "openai/one.json"
    document = json.loads(file.read_bytes())
    document["snapshots"][0] |= change
    file.write_text(json.dumps(document))
    broken = project.verify().findings

    project.commit(_removal("one"))

    assert "SN1" in {finding.rule for finding in broken}
    assert not file.exists()
    assert () == project.verify().findings

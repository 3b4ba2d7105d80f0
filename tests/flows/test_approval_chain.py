"""Approvals name their predecessors and their signers: what is removed, set back or signed by nobody is red."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.approval_project import Project, record_change
from support.command import CommandResult, traceforge
from support.sample_files import snapshot_body
from traceforge.snapshots.approve.tree_commit import SnapshotChange
from traceforge.snapshots.formats.approval_format import approval_hash
from traceforge.snapshots.formats.snapshot_format import write_document
from traceforge.snapshots.tree.manifest_rebuild import rebuild_manifest

needs_ssh = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="no ssh-keygen")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A record approved twice, then another one, each in a commit of its own: tags v1, v2 and v3."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    repository = Project(tmp_path / "repository")
    for number, change in enumerate((record_change("aaa"), record_change("aaa", "Second."), record_change("bbb")), 1):
        repository.approve(change)
        repository.commit(f"approval {number}")
        repository.git("tag", f"v{number}")
    return repository


def _verify(project: Project, *options: str) -> CommandResult:
    return traceforge("verify", *options, cwd=project.folder)


def _rules(project: Project) -> set[str]:
    return {finding["rule"] for finding in json.loads(_verify(project, "--json").out)["findings"]}


def _approvals(project: Project) -> list[Path]:
    return sorted((project.root / "approvals").iterdir())


def _rewrite(path: Path, **fields: Any) -> None:
    """Change an approval, and correct its hash and its name."""
    document: dict[str, Any] = {**json.loads(path.read_bytes()), **fields}
    document = {name: value for name, value in document.items() if value != "absent"}
    document["hash"] = approval_hash(document)
    path.unlink()
    name = f"{path.name.rpartition('-')[0]}-{document['hash'].partition(':')[2][:12]}.json"
    path.with_name(name).write_text(json.dumps(document, indent=2))


def _remove(place: int) -> Callable[[Project], None]:
    return lambda project: _approvals(project)[place].unlink()


def _revert_second(project: Project) -> None:
    """As `git revert` does: record and approval are gone, as if they had never been."""
    _remove(1)(project)
    _set_back(project)


def _set_back(project: Project) -> None:
    """The record and its raw response of before, with a correct manifest."""
    project.git("checkout", "-q", "v1", "--", ".ai-snapshots/openai/aaa.json", ".ai-snapshots/wire/aaa.json")
    rebuild_manifest(str(project.root))


def _repeat_name(project: Project) -> None:
    path = _approvals(project)[-1]
    path.write_text(path.read_text().replace('"reason":', '"reason": "harmless",\n  "reason":'))


def _lose_raw_response(project: Project) -> None:
    """With an approval that a forger has written for the record alone."""
    body = snapshot_body(id="bbb")
    document = write_document([body])
    (project.root / "openai" / "bbb.json").write_bytes(document)
    (project.root / "wire" / "bbb.json").unlink()
    rebuild_manifest(str(project.root))
    last = _approvals(project)[-1]
    before = json.loads(last.read_bytes())
    change = {**before["changes"][0], "before": before["changes"][0]["after"], "raw_response": None}
    change["after"] = json.loads(document)["snapshots"][0]["hash"]
    shutil.copy(last, last.with_name("2026-02-01T00-00-00-000Z-copy.json"))
    _rewrite(
        last.with_name("2026-02-01T00-00-00-000Z-copy.json"),
        approved_at="2026-02-01T00:00:00.000Z", follows=[before["hash"]], changes=[change],
    )  # fmt: skip


ATTACKS: dict[str, tuple[Callable[[Project], None], set[str]]] = {
    "the second approval is removed": (_remove(1), {"AP3", "AP8"}),
    "the first approval is removed": (_remove(0), {"AP5", "AP8"}),
    "the second commit is reverted": (_revert_second, {"AP8"}),
    "the record is set back": (_set_back, {"AP9"}),
    "the last approval follows nothing": (lambda p: _rewrite(_approvals(p)[-1], follows="absent"), {"AP8"}),
    "a name stands twice": (_repeat_name, {"AP1", "AP3"}),
    "a field is unknown": (lambda p: _rewrite(_approvals(p)[-1], by="me"), {"AP1", "AP3"}),
    "a predecessor never was": (lambda p: _rewrite(_approvals(p)[-1], follows=["sha256:" + "0" * 64]), {"AP8"}),
    "the raw response is gone": (_lose_raw_response, {"AP11"}),
}


FEW = ("the second commit is reverted", "the record is set back", "a name stands twice", "the raw response is gone")


@pytest.mark.parametrize(
    "name", [name if name in FEW else pytest.param(name, marks=pytest.mark.slow) for name in ATTACKS]
)
def test_a_tree_that_its_approvals_do_not_lead_to_is_red(project: Project, name: str) -> None:
    """Without Git: `verify` and `test` look at the tree alone."""
    attack, rules = ATTACKS[name]
    assert 0 == _verify(project).code

    attack(project)

    assert rules == _rules(project)
    assert 1 == traceforge("test", cwd=project.folder).code


def test_a_removed_snapshot_that_is_approved_again_is_green_and_may_not_be_deleted(project: Project) -> None:
    """An earlier removal does not allow a later one."""
    project.approve(SnapshotChange("", "bbb", None, None))
    project.approve(record_change("bbb"))
    assert set() == _rules(project)

    for file in ("openai/bbb.json", "wire/bbb.json"):
        (project.root / file).unlink()
    rebuild_manifest(str(project.root))

    assert {"AP6"} == _rules(project)


def test_two_branches_are_merged_and_the_next_approval_follows_both(project: Project) -> None:
    """Also where both have approved the same snapshot, and after squash and rebase: hashes are not those of Git."""
    project.git("checkout", "-qb", "theirs")
    project.approve(record_change("aaa", "Theirs."))
    project.commit("theirs")
    project.git("checkout", "-q", "main")
    project.approve(record_change("aaa", "Ours."))
    project.commit("ours")
    project.git("merge", "-q", "-X", "ours", "theirs")
    rebuild_manifest(str(project.root))
    merged = _rules(project)

    path = project.approve(record_change("ccc"))

    assert (set(), set(), 2) == (merged, _rules(project), len(json.loads(path.read_bytes())["follows"]))
    assert 0 == traceforge("verify", "--base", "v3", cwd=project.folder).code


def test_older_approvals_are_followed_by_the_next_one(tmp_path: Path) -> None:
    """They name no predecessors; a later one may remove what they approved."""
    project = Project(tmp_path / "repository")
    for change in (record_change("aaa"), record_change("bbb")):
        _rewrite(project.approve_without_policy(change), follows="absent")
    before = _rules(project)

    path = project.approve(record_change("aaa", "Second."))

    assert (set(), set()) == (before, _rules(project))
    assert 2 == len(json.loads(path.read_bytes())["follows"])
    _approvals(project)[1].unlink()
    assert {"AP3", "AP8"} == _rules(project)


def _cherry_pick_last(project: Project) -> None:
    """The third approval, on a branch that does not have the second one."""
    files = project.git("diff", "--name-only", "--diff-filter=A", "v2", "v3").split()
    project.git("checkout", "-q", "v3", "--", *files)
    rebuild_manifest(str(project.root))


def _write_by_hand(project: Project) -> None:
    (project.root / "openai" / "new.json").write_bytes(write_document([snapshot_body(id="new")]))
    rebuild_manifest(str(project.root))


def _delete(project: Project) -> None:
    for file in ("openai/bbb.json", "wire/bbb.json"):
        (project.root / file).unlink()
    rebuild_manifest(str(project.root))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "start", "rules", "line"),
    [
        (_set_back, "v3", {"AP9"}, "approved: aaa (as it is)"),
        (_revert_second, "v3", {"AP8"}, "approved: 1 approval that others follow and that the tree does not have"),
        (_cherry_pick_last, "v1", {"AP8"}, "approved: 1 approval that others follow and that the tree does not have"),
        pytest.param(_write_by_hand, "v3", {"AP3"}, "approved: new (as it is)", marks=pytest.mark.slow),
        pytest.param(_delete, "v3", {"AP6"}, "approved: bbb (removed)", marks=pytest.mark.slow),
        pytest.param(_remove(0), "v3", {"AP5", "AP8"}, "1 approval that others follow", marks=pytest.mark.slow),
    ],
)
def test_a_tree_that_git_or_a_person_changed_is_approved_as_it_is(
    project: Project, change: Callable[[Project], None], start: str, rules: set[str], line: str
) -> None:
    """With a reason, and without a call to a model."""
    project.git("checkout", "-q", start)
    change(project)
    before = _rules(project)
    approved = traceforge("approve", "--tree", "--reason", "as Git has it", cwd=project.folder)

    assert rules == before
    assert (0, True) == (approved.code, line in approved.out), approved
    assert set() == _rules(project)
    again = traceforge("approve", "--tree", "--reason", "again", cwd=project.folder)
    assert (0, "every snapshot is as approved\n") == (again.code, again.out)


def test_a_tree_with_an_invalid_file_is_not_approved_as_it_is(project: Project) -> None:
    """An edited record whose hash or raw response says something else."""
    path = project.root / "openai" / "aaa.json"
    path.write_text(path.read_text().replace("Second.", "Third."))

    refused = traceforge("approve", "--tree", "--reason", "x", cwd=project.folder)

    assert (1, True, True) == (refused.code, "SN3" in refused.out, "SN9" in refused.out), refused


def _make_key(project: Project, name: str) -> str:
    """Make a key outside of the checkout and let Git sign with it; its line for `allowed_signers`."""
    path = project.folder.parent / name
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", path], check=True)
    for setting, value in (("gpg.format", "ssh"), ("user.signingkey", str(path)), ("user.email", f"{name}@x.org")):
        project.git("config", setting, value)
    return f"{name}@x.org {path.with_suffix('.pub').read_text()}"


def _require_signatures(project: Project) -> None:
    (project.folder / "traceforge.config.json").write_text('{"approvals": {"require_signed": true}}')
    approved = traceforge("approve", "--policy", "--reason", "from now on", cwd=project.folder)
    assert 0 == approved.code, approved


@needs_ssh
def test_a_project_requires_signatures_of_those_whom_its_base_allows(project: Project) -> None:
    """Earlier approvals stay as they are. A pull request that adds its own key is red, with the base to compare."""
    (project.root / "allowed_signers").write_text(_make_key(project, "ada"))
    _require_signatures(project)
    project.approve(record_change("ccc"))
    project.commit("ada signs")
    project.git("tag", "base")
    signed = _verify(project)
    everything = _verify(project, "--require-signed")

    with (project.root / "allowed_signers").open("a") as file:
        file.write(_make_key(project, "eve"))
    project.approve(record_change("ddd"))
    alone, compared = _verify(project), _verify(project, "--base", "base")

    assert 0 == signed.code, signed
    assert (1, 3) == (everything.code, everything.out.count("AP10")), everything
    assert (0, 1, 1) == (alone.code, compared.code, compared.out.count("AP10")), compared
    assert "the signature is not one of a signer whom base allows" in compared.out
    assert "signature" in json.loads(_approvals(project)[-1].read_bytes())


@needs_ssh
def test_an_unsigned_approval_is_red_wherever_it_is_put(project: Project) -> None:
    """After the one that requires signatures, or beside it, also to require them no more."""
    (project.root / "allowed_signers").write_text(_make_key(project, "ada"))
    older = [json.loads(path.read_bytes())["hash"] for path in _approvals(project)]
    _require_signatures(project)
    enabling = json.loads(_approvals(project)[-1].read_bytes())["hash"]
    assert set() == _rules(project)
    policy = {"approvals.require_signed": {"before": True, "after": None}}
    template = _approvals(project)[0]
    kept = template.read_bytes()

    for follows in ([enabling], [older[-1]], []):
        forged = template.with_name("2026-12-01T00-00-00-000Z-copy.json")
        forged.write_bytes(kept)
        _rewrite(forged, approved_at="2026-12-01T00:00:00.000Z", follows=follows, changes=[], policy=policy)
        for settings in ('{"approvals": {"require_signed": true}}', "{}"):
            (project.folder / "traceforge.config.json").write_text(settings)
            assert "AP10" in _rules(project), (follows, settings)
        _approvals(project)[-1].unlink()


@needs_ssh
def test_a_signature_of_an_unknown_key_counts_as_none(project: Project) -> None:
    """It says so where signatures are not required, and is red where they are."""
    _make_key(project, "ada")
    (project.folder / "traceforge.config.json").write_text('{"hosts": ["x.example.org"]}')
    assert 0 == traceforge("approve", "--policy", "--sign", "--reason", "x", cwd=project.folder).code
    optional = _verify(project)
    _require_signatures(project)
    required = _verify(project)

    assert (0, True) == (optional.code, "note: no file says who signed 1 of 4 approvals" in optional.out), optional
    assert (1, True) == (required.code, "AP10 a signature is required, and no file says" in required.out), required


def test_an_approval_without_a_key_is_refused_where_signatures_are_required(project: Project) -> None:
    (project.folder / "traceforge.config.json").write_text('{"approvals": {"require_signed": true}}')

    refused = traceforge("approve", "--policy", "--reason", "from now on", cwd=project.folder)

    assert (3, True) == (refused.code, "Git names no SSH key" in refused.err), refused
    assert 3 == len(_approvals(project))

"""No change of approved files goes unnoticed: every leaf of every file of an approved tree.

Records, raw responses, manifest and approvals, one of them signed. A forger who also corrects the hashes is covered
separately: a record without its approval is found, and a signed approval cannot be rewritten.
"""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from support.approval_project import record_change
from support.sample_files import raw_error_response, raw_response_of, snapshot_body
from traceforge.canon import digest_bytes
from traceforge.config import Config, TestRule
from traceforge.snapshots.approve.tree_commit import SnapshotChange, commit_changes
from traceforge.snapshots.formats.approval_format import approval_hash
from traceforge.snapshots.formats.determinism_policy import ModelPolicy
from traceforge.snapshots.formats.snapshot_format import write_document
from traceforge.snapshots.tree.manifest_rebuild import rebuild_manifest
from traceforge.snapshots.tree.tree_verification import verify_tree

pytestmark = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="no ssh-keygen")

SOURCE: dict[str, Any] = {
    "file": "app.py", "line": 3, "function": "ask", "scopes": [{"scope": "test_app.py::test_ask", "turn": 1}],
}  # fmt: skip

POLICY = Config(hosts=["models.example.org"], test=TestRule(may_skip=["test_a.py::*"]))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Two records, one approved twice; a raw response without a record; a removed one; and the settings."""
    project = tmp_path_factory.mktemp("tamper")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
        patch.setenv("GIT_AUTHOR_NAME", "Ada")
        patch.setenv("GIT_AUTHOR_EMAIL", "ada@example.org")
        subprocess.run(["git", "init", "-q"], cwd=project, check=True)
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", project / "id"], check=True)
        for name, value in (("gpg.format", "ssh"), ("user.signingkey", str(project / "id"))):
            subprocess.run(["git", "config", name, value], cwd=project, check=True)
        body = snapshot_body(id="two", source=SOURCE)
        steps: list[tuple[list[SnapshotChange], bool]] = [
            (
                [
                    record_change("one"),
                    SnapshotChange("openai", "two", body, raw_response_of(body)),
                    record_change("gone"),
                ],
                False,
            ),
            (
                [
                    record_change("one", "It was."),
                    SnapshotChange("openai", "oops", None, raw_error_response(source=SOURCE)),
                ],
                True,
            ),
            ([SnapshotChange("", "gone", None, None)], False),
        ]
        for number, (changes, sign) in enumerate(steps):
            now = datetime(2026, 1, 10, 9, number, tzinfo=UTC)
            commit_changes(
                str(project), ModelPolicy(), changes, reason="as agreed", tag="v1", sign=sign, now=now, config=POLICY
            )
        tree = project / ".ai-snapshots"
        assert () == verify_tree(str(tree), ModelPolicy()).findings
        yield tree
        assert () == verify_tree(str(tree), ModelPolicy()).findings


def _files(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*.json"))


def _has_findings(root: Path) -> bool:
    return bool(verify_tree(str(root), ModelPolicy()).findings)


def _different_value(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    return f"{value}x" if isinstance(value, str) else "x"


def _variants(value: Any) -> Iterator[Any]:
    """The value with one leaf changed, one key or item removed, or one item doubled."""
    if isinstance(value, dict):
        for key in value:
            yield {name: inner for name, inner in value.items() if name != key}
            yield from ({**value, key: changed} for changed in _variants(value[key]))
        yield {**value, "more": 1}
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield value[:place] + value[place + 1 :]
            yield value[: place + 1] + value[place:]
            yield from ([*value[:place], changed, *value[place + 1 :]] for changed in _variants(item))
        if value:
            yield []
    else:
        yield _different_value(value)
        if value is not None:
            yield None


@pytest.mark.slow
@pytest.mark.parametrize("one_in", [12, pytest.param(1, marks=pytest.mark.slow)])
def test_a_change_of_any_leaf_of_any_file_is_found(root: Path, one_in: int) -> None:
    """Changed, removed, doubled or added."""
    tried, missed = 0, []
    for path in _files(root):
        original = path.read_bytes()
        for variant in islice(_variants(json.loads(original)), 0, None, one_in):
            path.write_text(json.dumps(variant, indent=2))
            tried += 1
            if not _has_findings(root):
                missed.append((path.name, variant))
        path.write_bytes(original)
    print(f"{tried} changes of {len(_files(root))} files")  # noqa: T201

    assert [] == missed
    assert tried > 500 / one_in


@pytest.mark.slow
def test_a_removed_copied_or_overwritten_file_is_found(root: Path) -> None:
    """Also emptied, or swapped with another."""
    files = _files(root)
    missed = []
    for path in files:
        original = path.read_bytes()
        path.unlink()
        if not _has_findings(root):
            missed.append(f"{path.name} taken away")
        path.write_bytes(b"")
        if not _has_findings(root):
            missed.append(f"{path.name} emptied")
        path.write_bytes(original)
        copied = path.with_name("another-name.json")
        copied.write_bytes(original)
        if not _has_findings(root):
            missed.append(f"{path.name} copied")
        copied.unlink()
        for other in files:
            if other == path:
                continue
            theirs = other.read_bytes()
            path.write_bytes(theirs)
            if not _has_findings(root):
                missed.append(f"{path.name} is {other.name}")
            other.write_bytes(original)
            if not _has_findings(root):
                missed.append(f"{path.name} and {other.name} swapped")
            path.write_bytes(original)
            other.write_bytes(theirs)

    assert [] == missed


@pytest.fixture
def forged(root: Path, tmp_path: Path) -> Path:
    """A copy in which a forger can correct the hashes."""
    shutil.copytree(root.parent, tmp_path / "forged")
    return tmp_path / "forged" / ".ai-snapshots"


def test_a_record_that_is_changed_with_its_hashes_is_found(forged: Path) -> None:
    """Every leaf of a record; all hashes and the manifest match the new content."""
    path = forged / "openai" / "two.json"
    (body,) = json.loads(path.read_bytes())["snapshots"]
    tried = 0
    for variant in _variants({name: body[name] for name in ("timestamp", "source", "request", "response")}):
        if "more" in variant:  # A record's writer has no such field.
            continue
        try:
            path.write_bytes(write_document([{"id": "two", **copy.deepcopy(variant)}]))
        except Exception:  # noqa: BLE001 (no record any more: the shape is for another test)
            continue
        rebuild_manifest(str(forged))
        tried += 1
        assert "AP3" in {finding.rule for finding in verify_tree(str(forged), ModelPolicy()).findings}, variant

    assert tried > 20


def test_an_answer_that_is_changed_everywhere_is_found(forged: Path) -> None:
    """Record, raw response, digests and manifest match each other, and no approval."""
    body = snapshot_body(id="two", source=SOURCE)
    body["response"]["content"] = "Forged."
    wire = raw_response_of(body)
    body["response"]["wire"] = {"file": "wire/two.json", "sha256": digest_bytes(wire)}
    document: Any = body
    (forged / "wire" / "two.json").write_bytes(wire)
    (forged / "openai" / "two.json").write_bytes(write_document([document]))
    rebuild_manifest(str(forged))

    assert {"AP3"} == {finding.rule for finding in verify_tree(str(forged), ModelPolicy()).findings}


def test_a_rewritten_signed_approval_is_found(forged: Path) -> None:
    """Every leaf; the hash and the name are corrected, the signature is not."""
    (path,) = [file for file in (forged / "approvals").iterdir() if "signature" in json.loads(file.read_bytes())]
    document = json.loads(path.read_bytes())
    for name in ("approved_at", "approved_by", "reason", "tag"):
        for changed in _variants(document[name]):
            variant = {**document, name: changed}
            variant["hash"] = approval_hash(variant)
            time = str(variant["approved_at"]).translate({ord(":"): "-", ord("."): "-"})
            written = path.with_name(f"{time}-{variant['hash'][7:19]}.json")
            path.unlink(missing_ok=True)
            written.write_text(json.dumps(variant))
            assert {"AP1", "AP4"} & {finding.rule for finding in verify_tree(str(forged), ModelPolicy()).findings}, (
                changed
            )
            written.unlink()

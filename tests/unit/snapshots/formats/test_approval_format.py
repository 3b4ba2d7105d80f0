"""The approval: its format, its name, its signature."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from traceforge.canon import parse_json
from traceforge.errors import CannotSign, InvalidFile, NotJSON
from traceforge.snapshots.formats.approval_format import (
    ApprovedChange,
    Approver,
    approval_hash,
    check_approval,
    load_approvals,
    read_approval,
    signed_bytes,
    write_approval,
)
from traceforge.snapshots.tree.approval_signing import (
    check_signature,
    find_approver,
    find_signers_file,
    load_signing_key,
)

FIRST_DIGEST, SECOND_DIGEST = ("sha256:" + digit * 64 for digit in "12")
AT = "2026-01-10T09:00:00.250Z"
ADA = Approver("Ada", "ada@example.org")
CHANGES = [
    ApprovedChange("greeting", "openai/greeting.json", FIRST_DIGEST, SECOND_DIGEST),
    ApprovedChange("oops", "wire/oops.json", None, FIRST_DIGEST),
]


def _document(**changes: Any) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(write_approval(AT, ADA, "shorter answers", CHANGES, tag="v2")[1])
    document.update(changes)
    document["hash"] = approval_hash(document)
    return document


def test_a_written_approval_is_read_back() -> None:
    """Its file name has the time and the first digits of the hash."""
    file, data = write_approval(AT, ADA, "shorter answers", CHANGES, tag="v2")
    approval = read_approval(data)

    assert f"approvals/2026-01-10T09-00-00-250Z-{approval.hash[7:19]}.json" == file == approval.file
    assert ("shorter answers", "v2", CHANGES, ADA) == (
        approval.reason,
        approval.tag,
        approval.changes,
        approval.approved_by,
    )
    assert [] == check_approval(parse_json(data), file)
    assert data.endswith(b"}\n")


def test_the_hash_does_not_depend_on_the_order_of_keys() -> None:
    """It is over the canonical text."""
    document = _document()

    assert approval_hash(document) == approval_hash(dict(reversed(document.items())))


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"version": "2.0.0"}, "$.version"),
        ({"approved_at": "2026-02-30T00:00:00Z"}, "$.approved_at"),
        ({"approved_at": "yesterday"}, "$.approved_at"),
        ({"approved_by": {"name": "", "email": ""}}, "$.approved_by.name"),
        ({"approved_by": {"name": "Ada"}}, "$.approved_by.email"),
        ({"reason": ""}, "$.reason"),
        ({"reason": " \n"}, "$.reason"),
        ({"tag": ""}, "$.tag"),
        ({"follows": ["sha256:1"]}, "$.follows[0]"),
        ({"policy": {"hosts": {"before": None}}}, "$.policy.hosts.after"),
        ({"changes": [{"id": "x", "file": "a/x.json", "before": None, "after": None}]}, "$.changes[0].id"),
        ({"changes": [{"id": "abc", "file": "../x.json", "before": None, "after": None}]}, "$.changes[0].file"),
        ({"changes": [{"id": "abc", "file": "a/x.json", "before": None}]}, "$.changes[0].after"),
        ({"changes": [{"id": "abc", "file": "a/abc.json", "before": "x", "after": None}]}, "$.changes[0].before"),
        (
            {"changes": [{"id": "abc", "file": "a/abc.json", "before": None, "after": FIRST_DIGEST}] * 2},
            "$.changes[1].id",
        ),
        ({"signature": "x"}, "$.signature"),
        ({"key": "SHA256:x"}, "$.signature"),
        ({"more": 1}, "$.more"),
    ],
)
def test_ap1_a_broken_approval_is_refused_at_its_place(change: dict[str, Any], path: str) -> None:
    """The hash is right each time; the shape is not."""
    findings = check_approval(_document(**change), "approvals/x.json")

    assert [(path, "AP1")] == [(finding.path, finding.rule) for finding in findings]
    with pytest.raises(InvalidFile):
        read_approval(json.dumps(_document(**change)).encode())


def test_ap2_a_changed_approval_does_not_have_its_hash() -> None:
    """Nor does one with another file name."""
    document = _document()
    file = read_approval(json.dumps(document).encode()).file

    assert [] == check_approval(document, file)
    assert ["AP2"] == [finding.rule for finding in check_approval({**document, "reason": "other"}, file)]
    assert ["AP2"] == [finding.rule for finding in check_approval(document, "approvals/copy.json")]


def test_a_file_that_is_not_json_is_not_an_approval() -> None:
    with pytest.raises(NotJSON):
        read_approval(b"{")


def test_an_approval_without_a_reason_is_never_written() -> None:
    with pytest.raises(InvalidFile):
        write_approval(AT, ADA, "", CHANGES)


def test_the_approvals_of_a_tree_are_loaded_in_order(tmp_path: Path) -> None:
    """Oldest first, which is the order of their names."""
    assert [] == load_approvals(str(tmp_path))
    (tmp_path / "approvals").mkdir()
    for at in ("2026-03-01T00:00:00.000Z", "2026-01-01T00:00:00.000Z"):
        file, data = write_approval(at, ADA, "why", CHANGES)
        (tmp_path / file).write_bytes(data)

    assert ["2026-01", "2026-03"] == [stored.approval.approved_at[:7] for stored in load_approvals(str(tmp_path))]


def _git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose user has settings of their own."""
    for name in ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", os.devnull)
    _git(tmp_path, "init", "-q")
    return tmp_path


def test_the_approver_is_named_as_git_names_an_author(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment first, then the settings, then the login name."""
    monkeypatch.setattr("getpass.getuser", lambda: "ada42")
    assert Approver("ada42", "") == find_approver(str(repository))

    _git(repository, "config", "user.name", "Ada")
    _git(repository, "config", "user.email", "ada@example.org")
    assert find_approver(str(repository)) == ADA

    monkeypatch.setenv("GIT_AUTHOR_NAME", "Grace")
    assert Approver("Grace", "ada@example.org") == find_approver(str(repository))


def test_without_git_there_is_still_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container may have neither Git nor a user."""
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("getpass.getuser", lambda: {}["none"])

    assert Approver("unknown", "") == find_approver(str(tmp_path))


needs_ssh = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="no ssh-keygen")


def _key(repository: Path, name: str = "id") -> str:
    """Make a key and let Git sign with it; its public half."""
    path = repository / name
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", path], check=True)
    _git(repository, "config", "gpg.format", "ssh")
    _git(repository, "config", "user.signingkey", str(path))
    return path.with_suffix(".pub").read_text()


def _problem(repository: Path, data: bytes) -> str:
    document: Any = json.loads(data)
    approval = read_approval(data)
    return check_signature(
        find_signers_file(str(repository / ".ai-snapshots")),
        signed_bytes(document),
        str(approval.signature),
        key=str(approval.key),
        principal=approval.approved_by.email,
        at=approval.approved_at,
    )


@needs_ssh
def test_a_signature_is_good_and_covers_everything(repository: Path) -> None:
    """Without a list of signers any key may sign; a changed approval has no valid signature."""
    _key(repository)
    _, data = write_approval(AT, ADA, "why", CHANGES, signer=load_signing_key(str(repository)))
    document = json.loads(data)
    other = {**document, "reason": "other"}
    other["hash"] = approval_hash(other)

    assert "" == _problem(repository, data)
    assert "is not one over this approval" == _problem(repository, json.dumps(other).encode())


@needs_ssh
def test_a_signer_must_be_allowed_and_be_the_approver(repository: Path) -> None:
    """The list that Git uses decides, and the name in the approval must be the signer's."""
    public = _key(repository)
    signer = load_signing_key(str(repository))
    _, data = write_approval(AT, ADA, "why", CHANGES, signer=signer)
    _, by_other = write_approval(AT, Approver("Eve", "eve@example.org"), "why", CHANGES, signer=signer)
    _git(repository, "config", "gpg.ssh.allowedSignersFile", str(repository / "allowed"))

    (repository / "allowed").write_text(f"ada@example.org {public}")
    assert "" == _problem(repository, data)
    assert "allowed signer" in _problem(repository, by_other)

    (repository / "allowed").write_text("")
    assert "allowed signer" in _problem(repository, data)


@needs_ssh
def test_a_signature_by_another_key_is_refused(repository: Path) -> None:
    """The approval names the key, and its hash covers the name."""
    _key(repository)
    first = load_signing_key(str(repository))
    _key(repository, "second")
    second = load_signing_key(str(repository))
    _, data = write_approval(AT, ADA, "why", CHANGES, signer=second._replace(fingerprint=first.fingerprint))

    assert "was made with another key than the approval names" == _problem(repository, data)


@needs_ssh
def test_a_key_that_cannot_sign_is_an_error(repository: Path) -> None:
    """A missing or invalid key: no approval is written without the requested signature."""
    with pytest.raises(CannotSign, match="names no SSH key"):
        load_signing_key(str(repository))
    _git(repository, "config", "gpg.format", "ssh")
    _git(repository, "config", "user.signingkey", str(repository / "gone"))
    with pytest.raises(CannotSign, match="not a readable SSH key"):
        load_signing_key(str(repository))
    _key(repository)
    key = load_signing_key(str(repository))
    (repository / "id").unlink()
    with pytest.raises(CannotSign, match="could not use the key") as caught:
        write_approval(AT, ADA, "why", CHANGES, signer=key)
    assert f"Add the key to your SSH agent and approve again: ssh-add {repository / 'id'}" == caught.value.hint

"""`packs/pack_signature.py`: a signature is valid for exactly the files that were signed."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.pack_sources import make_key, write_sources
from traceforge.canon import canonical_bytes
from traceforge.errors import CannotRead
from traceforge.packs.pack_signature import load_public_key
from traceforge.packs.pack_verifier import pack_findings, verify_pack
from traceforge.packs.pack_writer import create_pack
from traceforge.ssh_signing import is_canonical_signature


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    """A signed pack."""
    create_pack(str(tmp_path / "pack"), write_sources(tmp_path / "in"), str(make_key(tmp_path)))
    return tmp_path / "pack"


def _key(pack: Path, name: str = "key") -> str:
    return load_public_key(str(pack.parent / f"{name}.pub"))


def _signature(pack: Path) -> Path:
    return pack.parent / "pack.sig.json"


def _violations(pack: Path, key: str = "") -> list[tuple[str, str]]:
    return [(violation.rule_id, violation.path) for violation in verify_pack(str(pack), key=key).violations]


def _edit(pack: Path, change: Callable[[Any], object]) -> None:
    value = json.loads(_signature(pack).read_bytes())
    change(value)
    _signature(pack).write_bytes(canonical_bytes(value) + b"\n")


def test_a_signature_reports_its_key_and_whether_it_was_required(pack: Path) -> None:
    """Without a required key it is checked too, but proves no identity."""
    trusted, any_key = verify_pack(str(pack), key=_key(pack)).signature, verify_pack(str(pack)).signature
    process = subprocess.run(
        ["ssh-keygen", "-l", "-f", f"{pack.parent}/key"], capture_output=True, text=True, check=True
    )

    assert trusted is not None
    assert any_key is not None
    assert (True, False) == (trusted.trusted, any_key.trusted)
    assert trusted.key == any_key.key == process.stdout.split()[1]


def test_a_signature_can_be_checked_by_hand(pack: Path, tmp_path: Path) -> None:
    """With OpenSSH alone: the signed text is the canonical listing of file digests."""
    value = json.loads(_signature(pack).read_bytes())
    listing = json.dumps(
        {"files": value["files"], "version": value["version"]}, sort_keys=True, separators=(",", ":")
    )
    (tmp_path / "sig").write_text(value["signature"])
    (tmp_path / "allowed").write_text(f"ada {(tmp_path / 'key.pub').read_text()}")
    command = ["ssh-keygen", "-Y", "verify", "-f", "allowed", "-I", "ada", "-n", "traceforge-pack", "-s", "sig"]
    process = subprocess.run(command, cwd=tmp_path, input=listing.encode(), capture_output=True, check=False)

    assert 0 == process.returncode, process.stderr


def test_a_signature_of_another_key_is_refused(pack: Path, tmp_path: Path) -> None:
    """Anybody can sign a pack anew; only the named key counts."""
    make_key(tmp_path, "other")
    create_pack(str(tmp_path / "forged"), write_sources(tmp_path / "in"), str(tmp_path / "other"))
    (tmp_path / "forged.sig.json").replace(_signature(pack))

    assert [] == _violations(pack)
    assert [("PK14", "pack.sig.json")] == _violations(pack, _key(pack))
    assert [] == _violations(pack, _key(pack, "other"))


def test_an_unsigned_pack_fails_where_a_key_is_required(pack: Path) -> None:
    """So removing the signature does not help."""
    _signature(pack).unlink()

    assert [] == _violations(pack)
    assert [("PK14", "pack.sig.json")] == _violations(pack, _key(pack))


def test_an_added_removed_or_renamed_file_is_reported(pack: Path) -> None:
    """Each by its name, also where every other rule would allow it."""
    (pack / "patch.json").unlink()
    (pack / "runner.json").rename(pack / "notes.json")
    findings = _violations(pack, _key(pack))

    assert [
        ("PK14", "notes.json"),
        ("PK14", "patch.json"),
        ("PK14", "runner.json"),
        ("PK2", "notes.json"),
    ] == findings

    (pack / "notes.json").unlink()
    assert ("PK14", "patch.json") in _violations(pack)


def test_an_added_optional_file_is_reported(tmp_path: Path) -> None:
    """A pack may hold it, and this one did not."""
    sources = write_sources(tmp_path / "in")
    meta = sources.pop("meta.json")
    create_pack(str(tmp_path / "pack"), sources, str(make_key(tmp_path)))
    (tmp_path / "pack" / "meta.json").write_bytes(Path(meta).read_bytes())

    assert [("PK14", "meta.json")] == _violations(tmp_path / "pack")


@pytest.mark.parametrize(
    "change",
    [
        lambda value: value.update(version="1.0.1"),
        lambda value: value.update(more=1),
        lambda value: value.pop("key"),
        lambda value: value.update(key="SHA256:" + "a" * 43),
        lambda value: value["files"].pop(),
        lambda value: value["files"][0].update(size=1),
        lambda value: value["files"][0].update(sha256="sha256:" + "0" * 64),
        lambda value: value["files"].append({"name": "x", "sha256": "sha256:" + "0" * 64, "size": 1}),
        lambda value: value.update(signature="no signature"),
        lambda value: value.update(signature=value["signature"] + "and more\n"),
        lambda value: value.update(signature=value["signature"].replace("\n", "\n\n", 2)),
    ],
)
def test_a_changed_signature_is_refused(pack: Path, change: Callable[[Any], object]) -> None:
    _edit(pack, change)

    assert "PK14" in {rule for rule, _ in _violations(pack)}
    assert "PK14" in {rule for rule, _ in _violations(pack, _key(pack))}


def test_a_signature_for_another_purpose_is_refused(pack: Path, tmp_path: Path) -> None:
    """The same key over the same bytes, under the namespace of files."""
    value = json.loads(_signature(pack).read_bytes())
    listing = canonical_bytes({"files": value["files"], "version": value["version"]})
    command = ["ssh-keygen", "-q", "-Y", "sign", "-f", "key", "-n", "file"]
    process = subprocess.run(command, cwd=tmp_path, input=listing, capture_output=True, check=True)
    _edit(pack, lambda value: value.update(signature=process.stdout.decode()))

    assert [("PK14", "pack.sig.json")] == _violations(pack)
    assert [("PK14", "pack.sig.json")] == _violations(pack, _key(pack))


def test_unused_bits_of_base64_must_be_zero() -> None:
    """`ssh-keygen` reads over them, so one signature would have several spellings."""
    head, tail = "-----BEGIN SSH SIGNATURE-----\n", "\n-----END SSH SIGNATURE-----\n"

    assert is_canonical_signature(f"{head}{base64.b64encode(b'abcd').decode()}{tail}")
    assert not is_canonical_signature(f"{head}YWJjZB=={tail}")
    assert not is_canonical_signature(f"{head}YWJjZA={tail}")
    assert not is_canonical_signature(f"{head}YWJj\nZA=={tail}")


def test_without_ssh_keygen_a_signature_cannot_be_checked(pack: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The exit code is then 3, not 0."""
    monkeypatch.setenv("PATH", "/nowhere")

    assert [("IO", "pack.sig.json")] == _violations(pack)
    assert [str(pack) + ".sig.json"] == [finding.file for finding in pack_findings(verify_pack(str(pack)))]


def test_an_unreadable_signature_is_reported_once(pack: Path) -> None:
    """A link beside a pack is not followed."""
    _signature(pack).rename(pack.parent / "real")
    os.symlink("real", _signature(pack))

    assert [("IO", "pack.sig.json")] == _violations(pack, _key(pack))


def test_a_public_key_is_one_line_of_ed25519(tmp_path: Path) -> None:
    """Any other text could be a key by mistake."""
    make_key(tmp_path)
    make_key(tmp_path, "rsa", "rsa")
    public = (tmp_path / "key.pub").read_text()
    (tmp_path / "two.pub").write_text(public * 2)

    assert public.split()[:2] == load_public_key(str(tmp_path / "key.pub")).split()
    for name in ("rsa.pub", "two.pub", "key", "nowhere"):
        with pytest.raises(CannotRead):
            load_public_key(str(tmp_path / name))

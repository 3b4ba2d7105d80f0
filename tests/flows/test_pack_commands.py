"""`traceforge pack`: created by one person and verified by another, from the command line alone."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from support.command import traceforge
from support.pack_sources import make_key, pack_options, write_sources


@pytest.fixture
def pack_folder(tmp_path: Path) -> Path:
    """A folder with a signed pack, and the recipient's copy of the public key."""
    sources = tuple(write_sources(tmp_path / "in").items())
    key = make_key(tmp_path)
    created = traceforge("pack", "create", *pack_options(sources), "--out", "run-1", "--sign", key, cwd=tmp_path)
    assert (0, "run-1: 9 files, 2 references, signed\n") == (created.code, created.out), created.err
    return tmp_path


def test_a_recipient_verifies_a_pack(pack_folder: Path) -> None:
    """In another process and folder, with the public key: exit codes and JSON as documented."""
    stranger = pack_folder / "elsewhere"
    stranger.mkdir()
    for name in ("run-1", "run-1.sig.json", "key.pub"):
        os.rename(pack_folder / name, stranger / name)
    good = traceforge("pack", "verify", "run-1", "--key", "key.pub", "--json", cwd=stranger)
    report = json.loads(good.out)
    (stranger / "run-1" / "meta.json").write_text("[1,3]\n")
    bad = traceforge("pack", "verify", "run-1", "--key", "key.pub", "--json", cwd=stranger)
    text = traceforge("pack", "verify", "run-1", "--key", "key.pub", cwd=stranger)

    assert (0, True, True) == (good.code, report["ok"], report["signature"]["trusted"])
    assert (9, [True, True]) == (
        len(report["files_verified"]),
        [check["match"] for check in report["reference_checks"]],
    )
    assert 1 == bad.code
    assert {
        "ok": False,
        "pack_path": "run-1",
        "violations": [{"rule_id": "PK14", "path": "meta.json", "message": "not the bytes that were signed"}],
    } == json.loads(bad.out)
    assert (1, "run-1/meta.json: PK14 not the bytes that were signed\nrun-1: 1 finding\n") == (text.code, text.out)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("run-1",), 0, "not checked against a --key"),
        (("run-1", "--key", "other.pub"), 1, "run-1.sig.json: PK14 not a signature of this key"),
        (("run-1", "--key", "key"), 3, "not a public key of ssh-ed25519"),
        (("run-1", "--key", "nowhere.pub"), 3, "no such file"),
        (("nowhere", "--key", "key.pub"), 3, "IO no such file"),
        (
            ("in/run.json",),
            3,
            "IO neither the folder nor an archive of a pack\n    hint: Name the folder of",
        ),
        ((), 2, "Missing argument"),
    ],
)
def test_verify_exit_codes(pack_folder: Path, words: tuple[str, ...], code: int, message: str) -> None:
    """0 valid, 1 findings, 2 wrong usage, 3 could not be checked."""
    make_key(pack_folder, "other")
    verified = traceforge("pack", "verify", *words, cwd=pack_folder)

    assert code == verified.code
    assert message in verified.out + verified.err


def test_no_deep_does_not_check_the_recording(pack_folder: Path) -> None:
    """Neither MI1 to MI12 nor its hash; every other rule and the signature are checked."""
    file = pack_folder / "run-1" / "model_io.json"
    file.write_text(file.read_text().replace("Paris.", "Nice."))
    deep = traceforge("pack", "verify", "run-1", cwd=pack_folder)
    shallow = traceforge("pack", "verify", "run-1", "--no-deep", cwd=pack_folder)
    (pack_folder / "run-1.sig.json").unlink()
    unsigned = traceforge("pack", "verify", "run-1", "--no-deep", cwd=pack_folder)

    assert (1, True, True) == (deep.code, "MI7" in deep.out, "PK14" in deep.out)
    assert (1, False, True) == (shallow.code, "MI7" in shallow.out, "PK14" in shallow.out)
    assert (0, "run-1: valid, 9 files, 1 reference\n") == (unsigned.code, unsigned.out)


def test_a_pack_is_shown(pack_folder: Path) -> None:
    """Its subject, its files with their digests, the checks; nothing of an invalid pack."""
    printed = traceforge("pack", "show", "run-1", cwd=pack_folder)
    document = json.loads(traceforge("pack", "show", "run-1", "--json", cwd=pack_folder).out)
    (pack_folder / "run-1" / "bundle.json").write_text("{}")
    broken = traceforge("pack", "show", "run-1", cwd=pack_folder)

    assert 0 == printed.code
    assert "run id              run-1\n" in printed.out
    assert "model_io_hash of run.json is that of model_io.json\n" in printed.out
    assert ("run-1", 9) == (document["run"]["run_id"], len(document["files"]))
    assert document["signature"]["key"] in printed.out
    assert (1, True) == (broken.code, "PK4" in broken.out)


def test_an_archive_is_reproducible_and_verified_without_unpacking(pack_folder: Path) -> None:
    """With its signature; a changed one is invalid, and an invalid pack is not exported."""
    codes = [traceforge("pack", "export", "run-1", "--archive", name, cwd=pack_folder).code for name in ("a", "b")]
    good = traceforge("pack", "verify", "a", "--key", "key.pub", cwd=pack_folder)
    printed = traceforge("pack", "show", "a", cwd=pack_folder)
    data = (pack_folder / "a").read_bytes()
    (pack_folder / "c").write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    bad = traceforge("pack", "verify", "c", "--key", "key.pub", "--json", cwd=pack_folder)
    (pack_folder / "run-1" / "meta.json").write_text("0")
    refused = traceforge("pack", "export", "run-1", "--archive", "d", cwd=pack_folder)

    assert ([0, 0], data) == (codes, (pack_folder / "b").read_bytes())
    assert (0, True) == (good.code, good.out.startswith("a: valid, 9 files, 2 references, signed by SHA256:"))
    assert 0 == printed.code
    assert (1, "PK13") == (bad.code, json.loads(bad.out)["violations"][0]["rule_id"])
    assert (1, False) == (refused.code, (pack_folder / "d").exists())


def test_an_archive_is_replaced_only_with_force(pack_folder: Path) -> None:
    (pack_folder / "a").write_text("of another run")
    refused = traceforge("pack", "export", "run-1", "--archive", "a", cwd=pack_folder)
    kept = (pack_folder / "a").read_text()
    replaced = traceforge("pack", "export", "run-1", "--archive", "a", "--force", cwd=pack_folder)

    assert (3, 0, "of another run") == (refused.code, replaced.code, kept)
    assert "error TF204: a already exists" in refused.err


def test_create_refuses_invalid_sources_and_existing_targets(pack_folder: Path) -> None:
    """Exit 1 with findings for an invalid pack; 3 where the target exists, or a key cannot sign."""
    sources = tuple(write_sources(pack_folder / "in").items())
    repeated = traceforge("pack", "create", *pack_options(sources), "--out", "run-1", cwd=pack_folder)
    nokey = traceforge("pack", "create", *pack_options(sources), "--out", "two", "--sign", "nowhere", cwd=pack_folder)
    (pack_folder / "in" / "run.json").write_text('{"run_id": ""}')
    wrong = traceforge("pack", "create", *pack_options(sources), "--out", "two", cwd=pack_folder)

    assert (3, True) == (repeated.code, "run-1 already exists" in repeated.err)
    assert (3, True) == (nokey.code, "error TF206" in nokey.err)
    assert (1, True) == (wrong.code, "two/run.json: PK3" in wrong.out)
    assert not (pack_folder / "two").exists()


def test_verify_of_a_tree_checks_signatures_too(pack_folder: Path) -> None:
    """`traceforge verify` finds the signed pack, and a change that only its signature covers."""
    good = traceforge("verify", ".", cwd=pack_folder)
    (pack_folder / "run-1" / "evidence.json").write_text('{"e":2}\n')
    bad = traceforge("verify", ".", cwd=pack_folder)

    assert (0, 1) == (good.code, bad.code), good.out + good.err
    assert "run-1/evidence.json: PK14" in bad.out


def test_a_folder_without_run_json_is_no_pack(tmp_path: Path) -> None:
    """Nothing is said about a run of which nothing is known."""
    (tmp_path / "empty").mkdir()

    ran = traceforge("pack", "verify", "empty", cwd=tmp_path)

    assert 1 == ran.code
    assert [
        "empty/bundle.json: PK1 required file missing: bundle.json",
        "empty/run.json: PK1 required file missing: run.json",
        "    hint: Without it, this is not a pack. Create one: traceforge pack create --run FILE --out DIR",
    ] == ran.out.splitlines()[:3]

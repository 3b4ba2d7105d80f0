"""`traceforge pack`: made by one person, and checked by a stranger, from the command line alone."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from support.command import traceforge
from support.pack_sources import make_key, pack_options, write_sources


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A folder with a signed pack, and the stranger's copy of the public key."""
    sources = tuple(write_sources(tmp_path / "in").items())
    key = make_key(tmp_path)
    done = traceforge("pack", "create", *pack_options(sources), "--out", "run-1", "--sign", key, cwd=tmp_path)
    assert (0, "run-1: 9 files, 2 references, signed\n") == (done.code, done.out), done.err
    return tmp_path


def test_a_stranger_checks_a_pack(made: Path) -> None:
    """Another process, in another folder, with the public key: exit codes and JSON as documented."""
    stranger = made / "elsewhere"
    stranger.mkdir()
    for name in ("run-1", "run-1.sig.json", "key.pub"):
        os.rename(made / name, stranger / name)
    good = traceforge("pack", "verify", "run-1", "--key", "key.pub", "--json", cwd=stranger)
    told = json.loads(good.out)
    (stranger / "run-1" / "meta.json").write_text("[1,3]\n")
    bad = traceforge("pack", "verify", "run-1", "--key", "key.pub", "--json", cwd=stranger)
    text = traceforge("pack", "verify", "run-1", "--key", "key.pub", cwd=stranger)

    assert (0, True, True) == (good.code, told["ok"], told["signature"]["trusted"])
    assert (9, [True, True]) == (len(told["files_verified"]), [one["match"] for one in told["reference_checks"]])
    assert 1 == bad.code
    assert {
        "ok": False,
        "pack_path": "run-1",
        "violations": [{"rule_id": "PK14", "path": "meta.json", "message": "not the bytes that were signed"}],
    } == json.loads(bad.out)
    assert (1, "run-1/meta.json: PK14 not the bytes that were signed\nrun-1: 1 finding\n") == (text.code, text.out)


@pytest.mark.parametrize(
    ("words", "code", "told"),
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
def test_exit_codes(made: Path, words: tuple[str, ...], code: int, told: str) -> None:
    """0 valid, 1 found, 2 wrong usage, 3 could not be checked."""
    make_key(made, "other")
    done = traceforge("pack", "verify", *words, cwd=made)

    assert code == done.code
    assert told in done.out + done.err


def test_no_deep_leaves_the_recording_to_others(made: Path) -> None:
    """MI1 to MI12 are not judged, and neither is its hash; every other rule is, and the signature."""
    file = made / "run-1" / "model_io.json"
    file.write_text(file.read_text().replace("Paris.", "Nice."))
    deep = traceforge("pack", "verify", "run-1", cwd=made)
    shallow = traceforge("pack", "verify", "run-1", "--no-deep", cwd=made)
    (made / "run-1.sig.json").unlink()
    unsigned = traceforge("pack", "verify", "run-1", "--no-deep", cwd=made)

    assert (1, True, True) == (deep.code, "MI7" in deep.out, "PK14" in deep.out)
    assert (1, False, True) == (shallow.code, "MI7" in shallow.out, "PK14" in shallow.out)
    assert (0, "run-1: valid, 9 files, 1 reference\n") == (unsigned.code, unsigned.out)


def test_a_pack_is_shown(made: Path) -> None:
    """What it is of, its files with their digests, what was checked; nothing of one that does not verify."""
    shown = traceforge("pack", "show", "run-1", cwd=made)
    told = json.loads(traceforge("pack", "show", "run-1", "--json", cwd=made).out)
    (made / "run-1" / "bundle.json").write_text("{}")
    broken = traceforge("pack", "show", "run-1", cwd=made)

    assert 0 == shown.code
    assert "run id              run-1\n" in shown.out
    assert "model_io_hash of run.json is that of model_io.json\n" in shown.out
    assert ("run-1", 9) == (told["run"]["run_id"], len(told["files"]))
    assert told["signature"]["key"] in shown.out
    assert (1, True) == (broken.code, "PK4" in broken.out)


def test_an_archive_is_made_twice_alike_and_checked_without_unpacking(made: Path) -> None:
    """With its signature; one that was changed does not verify, and a pack that does not verify is not exported."""
    codes = [traceforge("pack", "export", "run-1", "--archive", name, cwd=made).code for name in ("a", "b")]
    good = traceforge("pack", "verify", "a", "--key", "key.pub", cwd=made)
    shown = traceforge("pack", "show", "a", cwd=made)
    data = (made / "a").read_bytes()
    (made / "c").write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    bad = traceforge("pack", "verify", "c", "--key", "key.pub", "--json", cwd=made)
    (made / "run-1" / "meta.json").write_text("0")
    refused = traceforge("pack", "export", "run-1", "--archive", "d", cwd=made)

    assert ([0, 0], data) == (codes, (made / "b").read_bytes())
    assert (0, True) == (good.code, good.out.startswith("a: valid, 9 files, 2 references, signed by SHA256:"))
    assert 0 == shown.code
    assert (1, "PK13") == (bad.code, json.loads(bad.out)["violations"][0]["rule_id"])
    assert (1, False) == (refused.code, (made / "d").exists())


def test_what_cannot_be_packed_is_said(made: Path) -> None:
    """Findings with exit 1 for a pack that would not verify; 3 where something stands there, or a key cannot sign."""
    sources = tuple(write_sources(made / "in").items())
    again = traceforge("pack", "create", *pack_options(sources), "--out", "run-1", cwd=made)
    nokey = traceforge("pack", "create", *pack_options(sources), "--out", "two", "--sign", "nowhere", cwd=made)
    (made / "in" / "run.json").write_text('{"run_id": ""}')
    wrong = traceforge("pack", "create", *pack_options(sources), "--out", "two", cwd=made)

    assert (3, True) == (again.code, "run-1 already exists" in again.err)
    assert (3, True) == (nokey.code, "error TF206" in nokey.err)
    assert (1, True) == (wrong.code, "two/run.json: PK3" in wrong.out)
    assert not (made / "two").exists()


def test_verify_of_a_tree_checks_signatures_too(made: Path) -> None:
    """`traceforge verify` finds a signed pack among everything else, and a change that only its signature sees."""
    good = traceforge("verify", ".", cwd=made)
    (made / "run-1" / "evidence.json").write_text('{"e":2}\n')
    bad = traceforge("verify", ".", cwd=made)

    assert (0, 1) == (good.code, bad.code), good.out + good.err
    assert "run-1/evidence.json: PK14" in bad.out

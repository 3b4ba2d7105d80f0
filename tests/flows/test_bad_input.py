"""Bad input in place of a file: one clear line, the right exit code, and the other files are still checked."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from support.command import CommandResult, traceforge
from support.sample_files import sample_session, write_pack, write_tree

TRUNCATED = b'{"version": "1.0.0", "snapshots": ['
BAD_BYTES = {
    "truncated JSON": (TRUNCATED, "the text ends too early at line 1 column 36"),
    "empty": (b"", "the text is empty"),
    "invalid UTF-8": (b'{"a": "\xff\xfe"}', "invalid UTF-8 at line 1 column 8"),
    "a BOM": (b"\xef\xbb\xbf{}", "byte order mark at line 1 column 1"),
    "10,000-deep nesting": (b"[" * 10_000 + b"]" * 10_000, "nesting deeper than 200 at line 1 column 201"),
    "10,000 open brackets": (b"[" * 10_000, "nesting deeper than 200"),
    "text after the document": (b"{} {}", "extra data at line 1 column 4"),
    "NaN": (b'{"a": NaN}', "NaN is not JSON at line 1 column 7"),
    "an infinite number": (b'{"a": 1e999}', "too large for a double at line 1 column 7"),
}


def has_one_line_per_finding(ran: CommandResult) -> bool:
    """Whether there is no traceback, and every finding is one line with an optional hint below it."""
    return "Traceback" not in ran.out + ran.err


@pytest.mark.parametrize("name", BAD_BYTES)
def test_bad_bytes_in_a_tree_are_one_finding_and_the_other_files_are_checked(name: str, tmp_path: Path) -> None:
    data, place = BAD_BYTES[name]
    root = write_tree(tmp_path / ".ai-snapshots", 3)
    (root / "openai" / "snap-0001.json").write_bytes(data)
    other = root / "openai" / "snap-0002.json"
    other.write_text(other.read_text().replace("It is.", "It was."))

    ran = traceforge("verify", cwd=tmp_path)

    assert ran.code == 1
    assert has_one_line_per_finding(ran)
    parse_lines = [line for line in ran.out.splitlines() if " PARSE " in line]
    assert len(parse_lines) == 1
    assert "snap-0001.json" in parse_lines[0]
    assert place in parse_lines[0]
    assert any("snap-0002.json" in line and " SN3 " in line for line in ran.out.splitlines())


@pytest.mark.parametrize("name", BAD_BYTES)
def test_bad_bytes_alone_could_not_be_checked(name: str, tmp_path: Path) -> None:
    """A recording that is not JSON gives exit 3 and the rule PARSE, in text and in JSON."""
    data, place = BAD_BYTES[name]
    file = tmp_path / "model_io.json"
    file.write_bytes(data)

    ran = traceforge("modelio", "verify", file)
    as_json = traceforge("modelio", "verify", file, "--json")

    assert (ran.code, ran.out.count(" PARSE ")) == (3, 1)
    assert place in ran.out
    assert "\n    hint: " in ran.out
    assert has_one_line_per_finding(ran)
    assert as_json.code == 3
    assert json.loads(as_json.out)["violations"][0]["rule_id"] == "PARSE"


def make_special_file(kind: str, path: Path) -> None:
    """Create something at `path` that is not a regular file."""
    if kind == "a folder":
        path.mkdir()
    elif kind == "a FIFO":
        os.mkfifo(path)
    elif kind == "a link out of the tree":
        outside = path.parent.parent.parent / "outside.json"
        outside.write_text("{}")
        path.symlink_to(outside)
    elif kind == "a dangling link":
        path.symlink_to(path.parent / "nowhere.json")
    elif kind == "a link loop":
        path.symlink_to(path)
    elif kind == "a 2 GB file":
        with path.open("wb") as file:
            file.truncate(2 << 30)
    else:
        raise AssertionError(kind)


ODD = {
    "a folder": "a folder",
    "a FIFO": "a FIFO",
    "a link out of the tree": "symbolic link",
    "a dangling link": "symbolic link",
    "a link loop": "symbolic link",
    "a 2 GB file": "2147483648 bytes",
}


@pytest.mark.parametrize("kind", ODD)
def test_a_special_file_in_a_tree_is_named_and_nothing_hangs(kind: str, tmp_path: Path) -> None:
    """One IO line and exit 3."""
    root = write_tree(tmp_path / ".ai-snapshots", 2)
    victim = root / "openai" / "snap-0001.json"
    victim.unlink()
    make_special_file(kind, victim)

    ran = traceforge("snapshot", "verify", root, "--json")

    findings = json.loads(ran.out)["findings"]
    assert [(str(victim), "IO")] == [(finding["file"], finding["rule"]) for finding in findings]
    assert ODD[kind] in findings[0]["message"]
    assert 3 == ran.code
    assert has_one_line_per_finding(ran)


@pytest.mark.parametrize("kind", ["a folder", "a FIFO", "a dangling link", "a 2 GB file"])
def test_a_special_file_as_a_recording_could_not_be_checked(kind: str, tmp_path: Path) -> None:
    """`modelio verify` and `hash`: exit 3, one line."""
    file = tmp_path / "model_io.json"
    make_special_file(kind, file)

    verified, hashed = traceforge("modelio", "verify", file), traceforge("hash", file)

    assert (verified.code, hashed.code) == (3, 3)
    assert " IO " in verified.out
    assert "TF201" in hashed.err
    assert has_one_line_per_finding(verified)
    assert has_one_line_per_finding(hashed)


def test_a_file_without_read_permission_is_not_called_missing(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    file = tmp_path / "model_io.json"
    file.write_text(json.dumps(sample_session()))
    file.chmod(0)

    ran = traceforge("modelio", "verify", file)

    assert ran.code == 3
    assert "no permission" in ran.out


def test_a_manifest_entry_outside_of_the_tree_is_a_finding(tmp_path: Path) -> None:
    """An entry with `../`; no file outside is opened."""
    root = write_tree(tmp_path / ".ai-snapshots", 2)
    manifest = root / "manifest.json"
    manifest.write_text(manifest.read_text().replace("openai/snap-0001.json", "../../etc/passwd"))

    ran = traceforge("verify", root)

    assert ran.code == 1
    assert ran.out.count(" MF9 ") == 1


def test_a_missing_path_could_not_be_checked(tmp_path: Path) -> None:
    """Exit 3 for every verify command, never exit 0."""
    nowhere = tmp_path / "nowhere"

    codes = {
        words: traceforge(*words, nowhere).code
        for words in (
            ("verify",),
            ("snapshot", "verify"),
            ("trace", "verify"),
            ("pack", "verify"),
            ("modelio", "verify"),
            ("modelio", "hash"),
            ("hash",),
        )
    }

    assert dict.fromkeys(codes, 3) == codes


def test_a_folder_without_anything_to_check_is_exit_3(tmp_path: Path) -> None:
    (tmp_path / "package.json").write_text("{}")

    ran = traceforge("verify", tmp_path)
    tree = traceforge("snapshot", "verify", tmp_path)

    assert ran.code == 3
    assert "nothing to verify" in ran.out
    assert 1 == tree.code  # A tree holds only approved files: the stray file is a finding.


def test_a_named_file_of_an_unknown_kind_could_not_be_checked(tmp_path: Path) -> None:
    """The user who names a file wants it checked."""
    file = tmp_path / "package.json"
    file.write_text('{"name": "x"}')

    ran = traceforge("verify", file)

    assert ran.code == 3
    assert "not a file of a kind that TraceForge can check" in ran.out


def test_one_bad_pack_does_not_hide_another(tmp_path: Path) -> None:
    """Every file under the path is reported, in order."""
    write_pack(tmp_path / "b")
    first = write_pack(tmp_path / "a")
    (first / "bundle.json").write_text('{"bundle_id": "other"}')
    (tmp_path / "b" / "notes.txt").write_text("x")

    ran = traceforge("verify", tmp_path, "--json")

    report = json.loads(ran.out)
    assert ran.code == 1
    assert report["checked"] == {"pack": 2}
    assert [finding["rule"] for finding in report["findings"]] == ["PK4", "PK5", "PK2"]


def test_control_characters_of_a_file_do_not_reach_the_terminal(tmp_path: Path) -> None:
    """A name or value with escape sequences or newlines is printed escaped, so it cannot forge our lines."""
    root = write_tree(tmp_path / ".ai-snapshots", 1)
    (root / "openai" / "x\x1b[31m\nfake: SN0 all valid.txt").write_text("x")

    ran = traceforge("verify", root)

    assert "\x1b" not in ran.out
    assert ran.out.count(" SN6 ") == 1
    assert "\nfake" not in ran.out

"""Attacks: trees that hide a change, files that crash the run, streams that fail."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.command import COMMAND, traceforge
from support.sample_files import sample_session, snapshot_body, write_pack, write_tree
from traceforge.config import load_config
from traceforge.errors import InvalidConfig
from traceforge.modelio import VerifyOptions, verify_session
from traceforge.snapshots.formats.snapshot_format import document_hash, read_document, write_document
from traceforge.snapshots.tree.manifest_rebuild import rebuild_manifest


def test_an_emptied_document_is_a_missing_record(tmp_path: Path) -> None:
    """A valid document without records does not satisfy the manifest's entry."""
    root = write_tree(tmp_path / ".ai-snapshots", 2)
    empty = {"version": "1.0.0", "snapshots": [], "hash": document_hash("1.0.0", [])}
    (root / "openai" / "snap-0000.json").write_text(json.dumps(empty))

    ran = traceforge("snapshot", "verify", root)

    assert 1 == ran.code
    assert "MF3" in ran.out


def test_a_tree_of_empty_documents_is_unchecked(tmp_path: Path) -> None:
    """No record was compared, so nothing passed."""
    empty = {"version": "1.0.0", "snapshots": [], "hash": document_hash("1.0.0", [])}
    (tmp_path / ".ai-snapshots" / "openai").mkdir(parents=True)
    (tmp_path / ".ai-snapshots" / "openai" / "abc.json").write_text(json.dumps(empty))

    assert 3 == traceforge("snapshot", "verify", tmp_path / ".ai-snapshots").code
    assert 3 == traceforge("verify", tmp_path).code


def test_a_repeated_id_in_one_document_is_a_finding(tmp_path: Path) -> None:
    root = tmp_path / ".ai-snapshots"
    (root / "openai").mkdir(parents=True)
    other = snapshot_body()
    other["response"]["content"] = "Something else."
    (root / "openai" / "both.json").write_bytes(write_document([snapshot_body(), other]))
    rebuild_manifest(str(root))

    ran = traceforge("snapshot", "verify", root)

    assert 1 == ran.code
    assert "SN5" in ran.out


@pytest.mark.parametrize("target", ["/nowhere", "elsewhere"])
def test_a_default_tree_that_is_a_symlink_is_refused(target: str, tmp_path: Path) -> None:
    """By `verify` without a path, dangling or not."""
    write_tree(tmp_path / "elsewhere", 1)
    (tmp_path / ".ai-snapshots").symlink_to(target)

    ran = traceforge("verify", cwd=tmp_path)

    assert 3 == ran.code
    assert ".ai-snapshots: IO" in ran.out


def test_a_lone_surrogate_in_a_key_is_read(tmp_path: Path) -> None:
    """An open request may hold one; a closed object is refused with its place."""
    body = snapshot_body()
    body["request"]["\ud800"] = 1
    (record,) = read_document(write_document([body]))
    file = tmp_path / "closed.json"
    closed = json.loads(write_document([snapshot_body()]))
    closed["\ud800"] = 1
    file.write_text(json.dumps(closed))

    ran = traceforge("verify", file)

    assert 1 == record.body["request"]["\ud800"]  # type: ignore[index, call-overload]  # an object by construction
    assert 1 == ran.code
    assert '$["\\ud800"]: SN1 unknown field' in ran.out


@pytest.mark.parametrize("bad", ["../../../outside", "a\x00b", "\ud800"])
def test_an_invalid_id_opens_no_file(bad: str, tmp_path: Path) -> None:
    """A raw response is read only for a valid id: nothing outside the tree is opened or named."""
    root = write_tree(tmp_path / ".ai-snapshots", 1)
    (tmp_path / "outside.json").write_text("secret")
    victim = root / "openai" / "snap-0000.json"
    document = json.loads(victim.read_text())
    document["snapshots"][0]["id"] = bad
    document["snapshots"][0]["response"]["wire"] = {"file": f"wire/{bad}.json", "sha256": "sha256:" + "0" * 64}
    victim.write_text(json.dumps(document))

    ran = traceforge("snapshot", "verify", root, "--json")

    findings = json.loads(ran.out)["findings"]
    assert 1 == ran.code
    assert "IO" not in {finding["rule"] for finding in findings}
    assert "SN7" not in {finding["rule"] for finding in findings}


def test_symlink_loops_and_deep_folders_do_not_crash(tmp_path: Path) -> None:
    """And everything else is still checked."""
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "model_io.json").write_text(json.dumps(sample_session()))
    deep = tmp_path
    for _ in range(700):
        deep = deep / "d"
    os.makedirs(deep)

    ran = traceforge("verify", tmp_path)

    assert (0, "checked 1 modelio: all valid\n") == (ran.code, ran.out)


@pytest.mark.parametrize("text", ['{"traces_dir": "a\\u0000b"}', '{"traces_dir": "\\ud800"}', '{"\\ud800": 1}'])
def test_a_setting_that_is_no_valid_path_is_refused(text: str, tmp_path: Path) -> None:
    """A value that `config check` accepts must not crash another command."""
    (tmp_path / "traceforge.config.json").write_text(text)

    with pytest.raises(InvalidConfig):
        load_config(str(tmp_path))


def test_comments_are_removed_in_linear_time(tmp_path: Path) -> None:
    """A configuration of open comments and open strings is refused at once."""
    (tmp_path / "traceforge.config.json").write_text("{" + '/* "' * 40_000)

    ran = traceforge("config", "check", cwd=tmp_path)

    assert 3 == ran.code
    assert "traceforge.config.json: PARSE not JSON: " in ran.out


def test_a_removed_current_folder_is_a_clear_error(tmp_path: Path) -> None:
    removed = tmp_path / "gone"
    removed.mkdir()
    program = f"cd {removed} && rmdir {removed} && {COMMAND} verify"

    ran = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=False)

    assert 3 == ran.returncode
    assert "TF201" in ran.stderr


@pytest.mark.parametrize(
    ("program", "code"),
    [
        ("help errors > /dev/full", 3),
        ("schema trace > /dev/full", 3),
        ("schema trace >&-", 3),
        ("hash nowhere 2> /dev/full", 3),
        ("--debug hash nowhere", 3),
        ("nonsense 2> /dev/full", 2),
    ],
)
def test_a_failing_output_stream_does_not_change_the_exit_code(program: str, code: int) -> None:
    """Full, closed and debugged streams."""
    ran = subprocess.run(["bash", "-c", f"{COMMAND} {program}"], capture_output=True, text=True, check=False)

    assert code == ran.returncode
    assert "TF999" not in ran.stderr


def test_a_broken_pipe_is_exit_141(tmp_path: Path) -> None:
    """As a shell reports it; 1 would mean a finding."""
    root = write_tree(tmp_path / ".ai-snapshots", 1)
    program = f"({COMMAND} verify {root}; echo $? >&2) | true"

    ran = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=False)

    assert "141" == ran.stderr.strip()


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_text_that_an_encoding_cannot_print_is_escaped(encoding: str) -> None:
    ran = traceforge("help", "errors", PYTHONIOENCODING=encoding)

    assert 0 == ran.code


def test_a_name_with_a_newline_cannot_forge_a_line(tmp_path: Path) -> None:
    """Also the name of a valid file."""
    file = tmp_path / "a\nb: valid.json"
    file.write_text(json.dumps(sample_session()))
    pack = write_pack(tmp_path / "p\nq")

    assert 1 == traceforge("modelio", "verify", file).out.count("\n")
    assert 1 == traceforge("pack", "verify", pack).out.count("\n")


def test_a_file_that_grows_is_not_read_for_ever() -> None:
    """The limit counts the bytes read, not the file's first size."""
    from traceforge.errors import CannotRead
    from traceforge.files import read_file

    if not Path("/proc/self/maps").exists():
        pytest.skip("no /proc here: nothing that claims to be empty and is not")
    with pytest.raises(CannotRead):
        read_file("/proc/self/maps", bytes_max=10)


def test_verifying_a_session_does_not_change_it() -> None:
    """Also without the hash check and with odd numbers in place of text."""
    session = sample_session(1)
    session["interactions"][0]["response_content"] = [1e-7, 2**60]
    before = json.dumps(session)

    verify_session(session, VerifyOptions(response_hashes=False))

    assert before == json.dumps(session)


@pytest.mark.parametrize("field", ["version", "id"])
def test_an_invalid_version_or_id_is_not_printed(field: str, tmp_path: Path) -> None:
    """It may be a secret, and build logs are public."""
    root = write_tree(tmp_path / ".ai-snapshots", 1)
    victim = root / "openai" / "snap-0000.json"
    document = json.loads(victim.read_text())
    (document if field == "version" else document["snapshots"][0])[field] = "my secret is hunter2"
    victim.write_text(json.dumps(document))

    ran = traceforge("verify", root)

    assert 1 == ran.code
    assert "hunter2" not in ran.out + ran.err


def test_a_reference_to_a_missing_bundle_is_a_finding(tmp_path: Path) -> None:
    """Also in a run that is called a refusal."""
    pack = write_pack(tmp_path / "pack")
    run = json.loads((pack / "run.json").read_text())
    run["kernel_result_kind"] = "REFUSE"
    (pack / "run.json").write_text(json.dumps(run))
    (pack / "bundle.json").unlink()

    ran = traceforge("pack", "verify", pack)

    assert 1 == ran.code
    assert "PK5" in ran.out


def test_a_large_text_with_a_lone_surrogate_needs_little_memory() -> None:
    program = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
from traceforge.canon import parse_json
parse_json(b'["\\\\ud800","' + b'a' * 20_000_000 + b'"]')
parse_json(b'["\\\\ud800","' + b'\\\\n' * 5_000_000 + b'"]')
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert 0 == ran.returncode, ran.stderr[-300:]

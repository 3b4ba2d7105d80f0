"""What a hostile reviewer tried: trees that hide a change, files that end the run, streams that fail."""

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
    """A valid document without records does not excuse the manifest's entry for what it held."""
    root = write_tree(tmp_path / ".ai-snapshots", 2)
    empty = {"version": "1.0.0", "snapshots": [], "hash": document_hash("1.0.0", [])}
    (root / "openai" / "snap-0000.json").write_text(json.dumps(empty))

    ran = traceforge("snapshot", "verify", root)

    assert 1 == ran.code
    assert "MF3" in ran.out


def test_a_tree_of_nothing_but_empty_documents_is_unchecked(tmp_path: Path) -> None:
    """No record was compared, so nothing passed."""
    empty = {"version": "1.0.0", "snapshots": [], "hash": document_hash("1.0.0", [])}
    (tmp_path / ".ai-snapshots" / "openai").mkdir(parents=True)
    (tmp_path / ".ai-snapshots" / "openai" / "abc.json").write_text(json.dumps(empty))

    assert 3 == traceforge("snapshot", "verify", tmp_path / ".ai-snapshots").code
    assert 3 == traceforge("verify", tmp_path).code


def test_one_id_twice_in_one_document_is_found(tmp_path: Path) -> None:
    """Two answers under one name: which one was approved?"""
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
def test_a_linked_default_tree_is_not_passed_over(target: str, tmp_path: Path) -> None:
    """`verify` without a path refuses a tree that is only a link, dangling or not."""
    write_tree(tmp_path / "elsewhere", 1)
    (tmp_path / ".ai-snapshots").symlink_to(target)

    ran = traceforge("verify", cwd=tmp_path)

    assert 3 == ran.code
    assert ".ai-snapshots: IO" in ran.out


def test_a_lone_surrogate_in_a_key_is_read(tmp_path: Path) -> None:
    """JSON allows it, so an open request may hold it, and a closed object is refused with its place."""
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
def test_an_id_that_is_no_id_opens_no_file(bad: str, tmp_path: Path) -> None:
    """A wire reference is followed only for a proper id: nothing outside the tree is read or named."""
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


def test_a_link_to_itself_and_deep_folders_do_not_end_the_run(tmp_path: Path) -> None:
    """A walk survives loops and any depth, and still finds what is there."""
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "model_io.json").write_text(json.dumps(sample_session()))
    deep = tmp_path
    for _ in range(700):
        deep = deep / "d"
    os.makedirs(deep)

    ran = traceforge("verify", tmp_path)

    assert (0, "checked 1 modelio: all valid\n") == (ran.code, ran.out)


@pytest.mark.parametrize("text", ['{"traces_dir": "a\\u0000b"}', '{"traces_dir": "\\ud800"}', '{"\\ud800": 1}'])
def test_a_setting_that_no_file_system_takes_is_refused(text: str, tmp_path: Path) -> None:
    """What `config check` calls valid must not end another command."""
    (tmp_path / "traceforge.config.json").write_text(text)

    with pytest.raises(InvalidConfig):
        load_config(str(tmp_path))


def test_comments_are_removed_in_linear_time(tmp_path: Path) -> None:
    """A configuration of open comments and open strings is refused at once."""
    (tmp_path / "traceforge.config.json").write_text("{" + '/* "' * 40_000)

    ran = traceforge("config", "check", cwd=tmp_path)

    assert 3 == ran.code
    assert "traceforge.config.json: PARSE not JSON: " in ran.out


def test_a_current_folder_that_is_gone_is_said(tmp_path: Path) -> None:
    """No internal error where somebody removed the folder under our feet."""
    gone = tmp_path / "gone"
    gone.mkdir()
    program = f"cd {gone} && rmdir {gone} && {COMMAND} verify"

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
def test_a_stream_that_fails_does_not_change_what_is_said(program: str, code: int) -> None:
    """Full, closed and debugged streams keep the exit code that the outcome has."""
    ran = subprocess.run(["bash", "-c", f"{COMMAND} {program}"], capture_output=True, text=True, check=False)

    assert code == ran.returncode
    assert "TF999" not in ran.stderr


def test_a_reader_that_leaves_is_no_finding(tmp_path: Path) -> None:
    """A broken pipe is exit 141, as a shell reports it; 1 would mean that something was found."""
    root = write_tree(tmp_path / ".ai-snapshots", 1)
    program = f"({COMMAND} verify {root}; echo $? >&2) | true"

    ran = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=False)

    assert "141" == ran.stderr.strip()


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_any_terminal_can_show_any_text(encoding: str) -> None:
    """What an encoding cannot print is escaped."""
    ran = traceforge("help", "errors", PYTHONIOENCODING=encoding)

    assert 0 == ran.code


def test_a_name_with_a_newline_cannot_forge_a_line(tmp_path: Path) -> None:
    """The names of valid files are printed on one line too."""
    file = tmp_path / "a\nb: valid.json"
    file.write_text(json.dumps(sample_session()))
    pack = write_pack(tmp_path / "p\nq")

    assert 1 == traceforge("modelio", "verify", file).out.count("\n")
    assert 1 == traceforge("pack", "verify", pack).out.count("\n")


def test_a_file_that_grows_is_not_read_for_ever() -> None:
    """The limit counts what is read, not what the file first said."""
    from traceforge.errors import CannotRead
    from traceforge.files import read_file

    if not Path("/proc/self/maps").exists():
        pytest.skip("no /proc here: nothing that claims to be empty and is not")
    with pytest.raises(CannotRead):
        read_file("/proc/self/maps", bytes_max=10)


def test_verifying_a_session_leaves_it_as_it_was() -> None:
    """Even where hashes are not checked and odd numbers stand where text should."""
    given = sample_session(1)
    given["interactions"][0]["response_content"] = [1e-7, 2**60]
    before = json.dumps(given)

    verify_session(given, VerifyOptions(response_hashes=False))

    assert before == json.dumps(given)


@pytest.mark.parametrize("field", ["version", "id"])
def test_no_value_of_a_file_is_printed_unless_it_is_a_name(field: str, tmp_path: Path) -> None:
    """A secret that stands where a version or an id should does not reach the build log."""
    root = write_tree(tmp_path / ".ai-snapshots", 1)
    victim = root / "openai" / "snap-0000.json"
    document = json.loads(victim.read_text())
    (document if field == "version" else document["snapshots"][0])[field] = "my secret is hunter2"
    victim.write_text(json.dumps(document))

    ran = traceforge("verify", root)

    assert 1 == ran.code
    assert "hunter2" not in ran.out + ran.err


def test_a_reference_to_a_bundle_that_is_gone_is_found(tmp_path: Path) -> None:
    """Calling a run a refusal does not make its bundle disappear."""
    pack = write_pack(tmp_path / "pack")
    run = json.loads((pack / "run.json").read_text())
    run["kernel_result_kind"] = "REFUSE"
    (pack / "run.json").write_text(json.dumps(run))
    (pack / "bundle.json").unlink()

    ran = traceforge("pack", "verify", pack)

    assert 1 == ran.code
    assert "PK5" in ran.out


def test_a_large_text_with_a_lone_surrogate_needs_little_memory() -> None:
    """The exact reader looks at each character once and takes nothing back."""
    program = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
from traceforge.canon import parse_json
parse_json(b'["\\\\ud800","' + b'a' * 20_000_000 + b'"]')
parse_json(b'["\\\\ud800","' + b'\\\\n' * 5_000_000 + b'"]')
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert 0 == ran.returncode, ran.stderr[-300:]

"""`tree/tree_verification.py`: every rule on a real tree, and every file that one can hold."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import Any

import pytest

from support.changed_trees import (
    FIRST,
    SECOND,
    STRICT,
    THIRD,
    ZEROS,
    change_record,
    find_tree_findings,
    list_tree_rules,
    rebuild_manifest,
)
from support.gate_variants import git
from support.sample_files import raw_response_of, snapshot_body, write_approval_file, write_tree
from traceforge.canon import digest_bytes
from traceforge.config import ModelRule
from traceforge.errors import CannotRead
from traceforge.snapshots.formats.determinism_policy import ModelPolicy
from traceforge.snapshots.formats.snapshot_format import read_document, write_document
from traceforge.snapshots.formats.snapshot_manifest import RecordEntry
from traceforge.snapshots.tree.tree_verification import check_documents, verify_tree

REQUEST_GATE = {"gpt-4*": ModelRule(gate="request")}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A valid tree of three documents."""
    return write_tree(tmp_path / ".ai-snapshots")


# ---------------------------------------------------------------------------------------------
# A good tree


def test_a_valid_tree_has_no_finding(root: Path) -> None:
    assert (3, 0, ()) == verify_tree(str(root), ModelPolicy())[:3]


def test_an_empty_tree_has_no_finding_and_no_record(tmp_path: Path) -> None:
    """Nothing was approved yet; the caller decides what that means."""
    assert (0, 0, ()) == verify_tree(str(tmp_path), ModelPolicy())[:3]


def test_a_missing_tree_is_an_error_and_not_an_empty_tree(tmp_path: Path) -> None:
    with pytest.raises(CannotRead, match="no such file or folder"):
        verify_tree(str(tmp_path / "missing"), ModelPolicy())


def test_a_tree_holds_several_providers(root: Path) -> None:
    """Each folder is a provider; the manifest covers them all."""
    (root / "my.host-1").mkdir()
    (root / "my.host-1" / "other-id.json").write_bytes(write_document([snapshot_body(id="other-id")]))
    rebuild_manifest(root)

    assert (4, 0, ()) == verify_tree(str(root), ModelPolicy())[:3]


def test_a_document_may_hold_several_records_under_any_name(root: Path) -> None:
    """Readers accept any number of records; only a single one names its file."""
    bodies = [snapshot_body(id="aaa"), snapshot_body(id="bbb"), snapshot_body(id="ccc")]
    (root / "openai" / "many.json").write_bytes(write_document(bodies))
    rebuild_manifest(root)

    assert (6, 0, ()) == verify_tree(str(root), ModelPolicy())[:3]


def test_a_document_without_records_is_valid(root: Path) -> None:
    """It lists nothing, so the manifest has nothing to say about it."""
    (root / "openai" / "none.json").write_bytes(write_document([]))

    assert () == find_tree_findings(root)


@pytest.mark.parametrize("name", ["README.md", ".gitattributes", ".gitignore"])
def test_a_readme_and_dot_files_at_the_root_are_ignored(root: Path, name: str) -> None:
    (root / name).write_text("anything")

    assert () == find_tree_findings(root)


def test_dot_files_and_dot_folders_are_ignored_everywhere(root: Path) -> None:
    """Editors and tools leave them behind."""
    (root / "openai" / ".DS_Store").write_bytes(b"\0")
    (root / "openai" / ".hidden.json").write_bytes(b"{")
    (root / ".cache").mkdir()
    (root / ".cache" / "x.json").write_bytes(b"{")

    assert () == find_tree_findings(root)


@pytest.mark.parametrize("folder", ["wire", "approvals"])
def test_a_reserved_folder_is_not_a_provider(root: Path, folder: str) -> None:
    """Its files have another format; dot files are ignored there too."""
    (root / folder).mkdir()
    (root / folder / ".x.json").write_bytes(b"{")

    assert (3, 0, ()) == verify_tree(str(root), ModelPolicy())[:3]


# ---------------------------------------------------------------------------------------------
# The rules of documents


def test_sn1_a_field_is_missing(root: Path) -> None:
    """The file and the place are named."""
    change_record(root, SECOND, lambda record: record["response"].pop("content"))

    assert [(SECOND, "$.snapshots[0].response.content", "SN1")] == list_tree_rules(root)


def test_sn2_another_version(root: Path) -> None:
    """One finding for that document; the others are still checked."""
    document = json.loads((root / SECOND).read_bytes()) | {"version": "0.9.0"}
    (root / SECOND).write_text(json.dumps(document))

    assert [(SECOND, "$.version", "SN2")] == list_tree_rules(root)


def test_sn3_a_record_was_changed(root: Path) -> None:
    """One character of an answer."""
    text = (root / SECOND).read_text()
    (root / SECOND).write_text(text.replace("It is.", "It was."))

    assert [(SECOND, "$.snapshots[0].hash", "SN3")] == list_tree_rules(root)


def test_sn4_the_documents_hash_was_changed(root: Path) -> None:
    """The records are right and the hash over them is not."""
    document = json.loads((root / SECOND).read_bytes()) | {"hash": ZEROS}
    (root / SECOND).write_text(json.dumps(document))

    assert [(SECOND, "$.hash", "SN4")] == list_tree_rules(root)


def test_a_change_with_recomputed_hashes_differs_from_the_manifest(root: Path) -> None:
    """An edited record with recomputed hashes still differs from the manifest."""
    manifest = (root / "manifest.json").read_bytes()
    change_record(root, SECOND, lambda record: record["response"].update(content="It was."))
    (root / "manifest.json").write_bytes(manifest)

    assert [("manifest.json", "$.snapshots[1].hash", "MF5")] == list_tree_rules(root)


def test_sn5_a_file_is_not_named_after_its_record(root: Path) -> None:
    """A renamed file; the manifest says another name too."""
    (root / SECOND).rename(root / "openai" / "renamed.json")

    assert [
        ("manifest.json", "$.snapshots[1].file", "MF5"),
        ("openai/renamed.json", "$.snapshots[0].id", "SN5"),
    ] == list_tree_rules(root)


def test_sn5_two_files_hold_the_same_id(root: Path) -> None:
    """Ids are unique in the tree, across providers; the finding names the other file."""
    (root / "anthropic").mkdir()
    (root / "anthropic" / "snap-0001.json").write_bytes((root / SECOND).read_bytes())
    rebuild_manifest(root)
    (finding,) = find_tree_findings(root)

    assert (SECOND, "SN5") == (finding.file, finding.rule)
    assert "anthropic/snap-0001.json" in finding.message


def test_sn5_an_id_is_in_one_document_twice(root: Path) -> None:
    """Unique in the tree means unique in a document too."""
    bodies = [snapshot_body(id="same-id"), snapshot_body(id="same-id", timestamp="2026-01-09T11:00:00Z")]
    (root / "openai" / "many.json").write_bytes(write_document(bodies))
    rebuild_manifest(root)

    assert ("openai/many.json", "SN5") in {(finding.file, finding.rule) for finding in find_tree_findings(root)}


@pytest.mark.parametrize("name", ["notes.txt", "backup.json~", "snapshot", "manifest.json.bak"])
@pytest.mark.parametrize("folder", [".", "openai"])
def test_sn6_a_stray_file(root: Path, folder: str, name: str) -> None:
    """A tree holds what was approved and nothing else."""
    (root / folder / name).write_text("x")
    (finding,) = find_tree_findings(root)

    assert (os.path.normpath(f"{folder}/{name}"), "", "SN6") == finding[:3]


def test_sn6_a_json_file_at_the_root(root: Path) -> None:
    """A document belongs into its provider's folder."""
    (root / "snap-0009.json").write_bytes((root / FIRST).read_bytes())

    assert [("snap-0009.json", "", "SN6")] == list_tree_rules(root)


@pytest.mark.parametrize("name", ["OpenAI", "-x", "a b", "é", "_x"])
def test_sn6_a_folder_that_no_provider_is_called(root: Path, name: str) -> None:
    """Its documents are checked all the same."""
    (root / "openai").rename(root / name)

    assert (name, "", "SN6") in list_tree_rules(root)
    assert 3 == verify_tree(str(root), ModelPolicy()).records


def test_sn6_a_folder_inside_a_provider(root: Path) -> None:
    """The tree is two levels deep."""
    (root / "openai" / "deeper").mkdir()

    assert [("openai/deeper", "", "SN6")] == list_tree_rules(root)


def _wire(root: Path, data: bytes | None, **changes: str) -> None:
    """Give the second record a raw response with these bytes; `changes` falsify the reference."""
    (root / "wire").mkdir(exist_ok=True)
    if data is not None:
        (root / "wire" / "snap-0001.json").write_bytes(data)
    reference = {"file": "wire/snap-0001.json", "sha256": digest_bytes(data or b""), **changes}
    change_record(root, SECOND, lambda record: record["response"].update(wire=reference))
    write_approval_file(root, ("snap-0001", SECOND, None, _second(root)["hash"]))


def _second(root: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((root / SECOND).read_bytes())["snapshots"][0]
    return record


def test_sn9_a_raw_response_differs_from_its_record(root: Path) -> None:
    """Its digest is the one in the record, but its answer is not the approved one."""
    body = _second(root)
    body["response"]["content"] = "It is not."
    _wire(root, raw_response_of(body))

    assert [(SECOND, "$.snapshots[0].response.content", "SN9")] == list_tree_rules(root)


def test_sn9_a_file_that_is_no_raw_response(root: Path) -> None:
    """The finding names the raw response's file."""
    _wire(root, b"{}")

    assert {"wire/snap-0001.json"} == {file for file, _, rule in list_tree_rules(root) if rule == "SN9"}


def test_a_raw_response_with_the_right_bytes_is_valid(root: Path) -> None:
    """Their content agrees with the record, and their digest is the one it names."""
    _wire(root, raw_response_of(_second(root)))

    assert () == find_tree_findings(root)


def test_sn7_a_raw_response_was_changed(root: Path) -> None:
    """One byte more."""
    data = raw_response_of(_second(root))
    _wire(root, data)
    (root / "wire" / "snap-0001.json").write_bytes(data + b" ")

    assert [(SECOND, "$.snapshots[0].response.wire.sha256", "SN7")] == list_tree_rules(root)


@pytest.mark.parametrize(
    "file",
    ["wire/snap-0002.json", "wire/../wire/snap-0001.json", "/etc/passwd", "../secret", "wire/snap-0001.json "],
)
def test_sn7_a_record_names_another_raw_response(root: Path, file: str) -> None:
    """It is named after its record, and no other path is opened."""
    _wire(root, b"{}", file=file)

    assert [(SECOND, "$.snapshots[0].response.wire.file", "SN7")] == list_tree_rules(root)


def test_sn7_a_raw_response_is_missing(root: Path) -> None:
    """A record that names a missing raw response is broken, not unchecked."""
    _wire(root, None)

    assert [(SECOND, "$.snapshots[0].response.wire.file", "SN7")] == list_tree_rules(root)


def test_a_raw_response_that_is_a_link_is_not_followed(root: Path, tmp_path: Path) -> None:
    """Even where the bytes behind it would be right."""
    _wire(root, b"{}")
    (root / "wire" / "snap-0001.json").unlink()
    (tmp_path / "outside").write_bytes(b"{}")
    (root / "wire" / "snap-0001.json").symlink_to(tmp_path / "outside")

    assert [("wire/snap-0001.json", "", "IO")] == list_tree_rules(root)


def test_an_id_that_leads_out_of_the_tree_opens_no_file_there(root: Path, tmp_path: Path) -> None:
    """The id is invalid, and its target is not read: not even a digest of it is reported."""
    name = "../../outside"
    (tmp_path / "outside.json").write_bytes(b"not yours")
    (root / "wire").mkdir()
    change_record(root, SECOND, lambda record: record.update(id=name))
    change_record(
        root,
        SECOND,
        lambda record: record["response"].update(wire={"file": f"wire/{name}.json", "sha256": ZEROS}),
    )
    findings = find_tree_findings(root)

    assert (SECOND, "$.snapshots[0].id", "SN1") in [finding[:3] for finding in findings]
    assert not [finding for finding in findings if digest_bytes(b"not yours") in finding.message]


@pytest.mark.parametrize("name", ["a\0b", "a\ud800b"], ids=ascii)
def test_an_id_that_no_file_can_have_is_a_finding_and_no_crash(root: Path, name: str) -> None:
    """A NUL or a lone surrogate in an id, and so in the name of its raw response."""
    change_record(root, SECOND, lambda record: record.update(id=name), seal=False)
    change_record(
        root,
        SECOND,
        lambda record: record["response"].update(wire={"file": f"wire/{name}.json", "sha256": ZEROS}),
        seal=False,
    )

    assert (SECOND, "$.snapshots[0].id", "SN1") in list_tree_rules(root)


def test_sn8_a_request_that_is_not_deterministic(root: Path) -> None:
    """In a strict project, temperature and seed are two findings, each at its field; else the prompt is gated."""

    def loosen(record: dict[str, Any]) -> None:
        record["request"]["temperature"] = 0.7
        del record["request"]["seed"]

    change_record(root, SECOND, loosen)

    assert [
        (SECOND, "$.snapshots[0].request.seed", "SN8"),
        (SECOND, "$.snapshots[0].request.temperature", "SN8"),
    ] == list_tree_rules(root, STRICT)
    assert () == find_tree_findings(root, ModelPolicy(REQUEST_GATE, is_strict=True))
    assert (3, 1, ()) == verify_tree(str(root), ModelPolicy())[:3]


def test_a_finding_about_a_record_names_its_place_in_the_document(root: Path) -> None:
    """Also if an item before it is no record."""
    change_record(root, SECOND, lambda record: record["request"].update(temperature=1))
    document = json.loads((root / SECOND).read_bytes())
    document["snapshots"].insert(0, 5)
    (root / SECOND).write_text(json.dumps(document))

    places = [place for file, *place in list_tree_rules(root, STRICT) if file == SECOND]
    assert ["$.snapshots[0]", "SN1"] in places
    assert ["$.snapshots[1].request.temperature", "SN8"] in places


def test_calls_that_are_gated_on_their_request_are_counted(root: Path) -> None:
    """They must not look like records whose answer is checked."""
    assert 3 == verify_tree(str(root), ModelPolicy(REQUEST_GATE)).request_gated
    assert 0 == verify_tree(str(root), ModelPolicy({"claude-*": ModelRule(gate="request")})).request_gated
    assert 0 == verify_tree(str(root), ModelPolicy({"gpt-4*": ModelRule()})).request_gated


# ---------------------------------------------------------------------------------------------
# What could not be checked


def _fill(path: Path, kind: str, elsewhere: Path) -> None:
    path.unlink(missing_ok=True)
    match kind:
        case "not JSON":
            path.write_bytes(b'{"version": ')
        case "a folder":
            path.mkdir()
        case "a FIFO":
            os.mkfifo(path)
        case "a link":
            elsewhere.write_bytes(b"{}")
            path.symlink_to(elsewhere)
        case "a dangling link":
            path.symlink_to("missing.json")


@pytest.mark.parametrize("kind", ["not JSON", "a folder", "a FIFO", "a link", "a dangling link"])
@pytest.mark.parametrize("file", [SECOND, "manifest.json"])
def test_an_unreadable_file_is_one_finding_and_others_are_checked(
    root: Path, tmp_path: Path, file: str, kind: str
) -> None:
    """In a document's place or in the manifest's: unchecked, never valid, and nothing blocks."""
    _fill(root / file, kind, tmp_path / "elsewhere.json")
    text = (root / THIRD).read_text()
    (root / THIRD).write_text(text.replace("It is.", "It was."))
    rule = "PARSE" if kind == "not JSON" else "IO"

    assert {(file, "", rule), (THIRD, "$.snapshots[0].hash", "SN3")} == set(list_tree_rules(root))


@pytest.mark.parametrize("text", ["", "{", "[1,"])
def test_the_hint_for_a_broken_file_restores_it(root: Path, text: str) -> None:
    """The command in the hint is run as it is; the tree is valid afterwards."""
    git(root, "init", "-q")
    git(root, "add", ".")
    (root / SECOND).write_text(text)

    (finding,) = find_tree_findings(root)
    command = finding.hint.removeprefix("Restore it from Git: ").partition(";")[0]
    git(root, *shlex.split(command)[1:])

    assert ("PARSE", f"git checkout -- {root / SECOND}") == (finding.rule, command)
    assert () == find_tree_findings(root)


def test_a_provider_that_is_a_link_is_not_followed(root: Path, tmp_path: Path) -> None:
    """Its documents are outside the tree, so nothing is known about them."""
    (root / "openai").rename(tmp_path / "elsewhere")
    (root / "openai").symlink_to(tmp_path / "elsewhere")

    assert [("openai", "", "IO")] == list_tree_rules(root)


@pytest.mark.parametrize("name", ["wire", "notes", "x.json"])
def test_any_other_link_at_the_root_is_a_finding(root: Path, tmp_path: Path, name: str) -> None:
    """Reserved or not, to a folder or to nothing."""
    (root / name).symlink_to(tmp_path)

    assert [(name, "", "IO")] == list_tree_rules(root)


# ---------------------------------------------------------------------------------------------
# The report


def test_all_findings_of_all_files_are_reported_sorted(root: Path) -> None:
    """Four problems in four places, sorted by file, then place."""
    change_record(root, FIRST, lambda record: record["request"].update(temperature=1, seed="x"), seal=False)
    (root / SECOND).write_bytes(b"{")
    (root / "stray.txt").write_text("x")
    (root / "manifest.json").write_bytes(b"[]")
    findings = find_tree_findings(root, STRICT)

    assert sorted(findings) == list(findings)
    assert {"SN1", "SN8", "PARSE", "SN6", "MF2"} == {finding.rule for finding in findings}


def test_the_findings_do_not_depend_on_how_the_files_are_mapped(root: Path) -> None:
    """A mapper that works in another order, as one with many processes does, gives the same report."""
    (root / FIRST).write_bytes(b"{")
    change_record(root, SECOND, lambda record: record.update(id="other-id"), seal=False)

    def backwards(check: Any, tasks: list[Any]) -> list[Any]:
        return [check(task) for task in reversed(tasks)][::-1]

    assert verify_tree(str(root), ModelPolicy()) == verify_tree(str(root), ModelPolicy(), backwards)


def test_documents_can_be_checked_without_their_manifest(root: Path) -> None:
    """What rebuilding starts from: every record as an entry, and no word about the manifest."""
    (root / "manifest.json").write_bytes(b"broken")
    report = check_documents(str(root), ModelPolicy())
    (record,) = read_document((root / FIRST).read_bytes())

    assert [] == report.findings
    assert RecordEntry("openai", "snap-0000", FIRST, record.hash, "2026-01-09T10:00:00Z") == report.entries[0]
    assert 3 == len(report.entries)


def test_a_lone_surrogate_in_a_document_is_a_finding(root: Path) -> None:
    """As a key that the format does not know: named like any other."""
    change_record(root, SECOND, lambda record: record["response"].update({"\ud800": 1}), seal=False)

    assert ["SN1"] == [rule for _, _, rule in list_tree_rules(root)]

"""`packs/pack_verifier.py`: every PK rule on real folders, and digests recomputed by hand."""

from __future__ import annotations

import hashlib
import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.format_examples import DIGEST, example_ledger_entry
from support.sample_files import sample_session, write_pack
from traceforge.modelio import model_io_hash
from traceforge.packs.pack_format import ALL_FILES, write_member
from traceforge.packs.pack_verifier import pack_findings, verify_pack


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    """A valid pack with a bundle and a recording."""
    return write_pack(tmp_path / "pack")


def _violations(pack: Path) -> list[tuple[str, str]]:
    return [(violation.rule_id, violation.path) for violation in verify_pack(str(pack)).violations]


def _edit(pack: Path, name: str, change: Callable[[dict[str, Any]], object]) -> None:
    value = json.loads((pack / name).read_bytes())
    change(value)
    (pack / name).write_bytes(write_member(value))


def _set_kind(pack: Path, kind: str) -> None:
    _edit(pack, "run.json", lambda run: run.update(kernel_result_kind=kind))


# ---------------------------------------------------------------------------------------------
# Good packs


def test_a_valid_pack_has_no_violation_and_names_what_it_checked(pack: Path) -> None:
    """Files in order, and both references with what they state and what was computed."""
    report = verify_pack(str(pack))
    run = json.loads((pack / "run.json").read_bytes())
    checks = [
        ("bundle.json", "bundle.sha256", run["bundle"]["sha256"]),
        ("model_io.json", "model_io_hash", run["model_io_hash"]),
    ]

    assert {
        "ok": True,
        "pack_path": str(pack),
        "files_verified": ["bundle.json", "model_io.json", "run.json"],
        "reference_checks": [
            {
                "source": "run.json",
                "target": target,
                "field": field,
                "expected": digest,
                "computed": digest,
                "match": True,
            }
            for target, field, digest in checks
        ],
    } == report.to_json()


def test_a_pack_with_every_file_is_valid(pack: Path) -> None:
    """All nine names that a pack may hold."""
    for name in ("patch.json", "evidence.json", "runner.json", "meta.json"):
        (pack / name).write_bytes(b"{}")
    (pack / "policy.json").write_bytes(b'{ "name" : "default" }')
    (pack / "ledger.jsonl").write_bytes(write_member(example_ledger_entry()))

    assert sorted(ALL_FILES) == sorted(os.listdir(pack))
    assert [] == _violations(pack)


def test_a_run_that_refused_needs_no_bundle(pack: Path) -> None:
    """And may have one."""
    _edit(pack, "run.json", lambda run: run.pop("bundle"))
    _set_kind(pack, "REFUSE")
    assert [] == _violations(pack)

    (pack / "bundle.json").unlink()
    assert [] == _violations(pack)


@pytest.mark.parametrize("kind", ["BUNDLE", "CLARIFY"])
def test_any_other_run_needs_its_bundle(pack: Path, kind: str) -> None:
    """A run that clarified has one too."""
    _set_kind(pack, kind)
    assert [] == _violations(pack)

    (pack / "bundle.json").unlink()
    assert [("PK1", "bundle.json")] == _violations(pack)


def test_the_lf_hash_of_a_bundle_can_be_recomputed_by_hand(pack: Path) -> None:
    """Canonical text and one LF: sorted, without white space, however the file is laid out."""
    bundle = {"bundle_id": "bundle-1", "outputs": {"b": 1, "a": "é"}}
    text = '{"bundle_id":"bundle-1","outputs":{"a":"é","b":1}}\n'
    digest = f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
    (pack / "bundle.json").write_text(json.dumps(bundle, indent=4))
    _edit(pack, "run.json", lambda run: run["bundle"].update(sha256=digest))

    assert [] == _violations(pack)


def test_a_bundle_and_a_recording_need_not_be_referred_to(pack: Path) -> None:
    """`run.json` may carry the two references; null is none."""
    _edit(pack, "run.json", lambda run: run.update(bundle=None, model_io_hash=None))

    assert [] == _violations(pack)
    assert () == verify_pack(str(pack)).references


def test_an_engine_may_add_its_own_fields(pack: Path) -> None:
    """run.json, its bundle reference, bundle.json and the ledger are open."""
    _edit(pack, "run.json", lambda run: (run.update(extra={"own": 1}), run["bundle"].update(size=3)))
    (pack / "ledger.jsonl").write_bytes(write_member(example_ledger_entry() | {"extra": 1}))

    assert [] == _violations(pack)


@pytest.mark.parametrize("value", [None, 5, "text", [], {"any": "thing"}], ids=ascii)
def test_pk11_the_content_of_meta_is_ignored(pack: Path, value: Any) -> None:
    """Any JSON at all."""
    (pack / "meta.json").write_text(json.dumps(value))

    assert [] == _violations(pack)


# ---------------------------------------------------------------------------------------------
# Rule by rule


def test_pk1_a_pack_without_a_run(pack: Path) -> None:
    """Without it, the bundle is there and its reference cannot be judged."""
    (pack / "run.json").unlink()

    assert [("PK1", "run.json")] == _violations(pack)


def test_pk1_an_empty_folder(tmp_path: Path) -> None:
    """Both required files are named."""
    assert [("PK1", "bundle.json"), ("PK1", "run.json")] == _violations(tmp_path)


@pytest.mark.parametrize(
    "name", ["extra.json", "RUN.JSON", "run.json.bak", ".hidden", "ledger.json", "Bundle.json", "é", "\udcff"]
)
def test_pk2_an_unknown_name(pack: Path, name: str) -> None:
    """A pack holds only the files that a pack may hold, dot files too."""
    (pack / name).write_bytes(b"{}")

    assert [("PK2", name)] == _violations(pack)


@pytest.mark.parametrize(
    "field",
    [
        "run_schema_version",
        "run_id",
        "started_at",
        "completed_at",
        "kernel_version",
        "policy",
        "intent",
        "kernel_result_kind",
        "decision",
        "model_mode",
    ],
)
def test_pk3_a_run_lacks_a_field(pack: Path, field: str) -> None:
    """Each of the ten of the format documents; the message names it."""
    _edit(pack, "run.json", lambda run: run.pop(field))
    (violation,) = verify_pack(str(pack)).violations

    assert ("PK3", "run.json") == violation[:2]
    assert f"$.{field}: required field {field} is missing" == violation.message


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("run_id", ""),
        ("run_id", None),
        ("started_at", 5),
        ("kernel_result_kind", "REFUSED"),
        ("kernel_result_kind", None),
        ("bundle", []),
        ("model_io_hash", "sha256:x"),
        ("model_io_hash", DIGEST + "\n"),
    ],
    ids=ascii,
)
def test_pk3_a_run_has_a_bad_field(pack: Path, field: str, value: Any) -> None:
    """Wrong type, empty, or no such kind."""
    _edit(pack, "run.json", lambda run: run.update({field: value}))

    assert ("PK3", "run.json") in _violations(pack)


def test_pk3_every_bad_field_is_reported(pack: Path) -> None:
    """Not only the first."""
    _edit(pack, "run.json", lambda run: (run.pop("intent"), run.update(run_id=5, bundle={"bundle_id": ""})))

    assert 4 == _violations(pack).count(("PK3", "run.json"))


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"null", b"{} {}", b"\xff"])
def test_pk3_a_run_that_is_not_an_object(pack: Path, text: bytes) -> None:
    """Broken text and another value alike; the bundle is still demanded, and is there."""
    (pack / "run.json").write_bytes(text)

    assert {("PK3", "run.json")} == set(_violations(pack))


@pytest.mark.parametrize(
    "text", [b"{", b"[]", b"{}", b'{"bundle_id": ""}', b'{"bundle_id": 5}', b'{"bundle_id": null}']
)
def test_pk4_a_bundle_without_an_id(pack: Path, text: bytes) -> None:
    """Not JSON, not an object, or a bundle_id that is not a text."""
    (pack / "bundle.json").write_bytes(text)
    _edit(pack, "run.json", lambda run: run.pop("bundle"))

    assert [("PK4", "bundle.json")] == _violations(pack)


def test_pk4_a_bundle_with_another_id_than_the_run_states(pack: Path) -> None:
    """The message has both names; the digest differs as well."""
    _edit(pack, "bundle.json", lambda bundle: bundle.update(bundle_id="bundle-2"))
    first, second = verify_pack(str(pack)).violations

    assert ("PK4", "bundle.json", "bundle_id is bundle-2, and run.json says bundle-1") == first
    assert "PK5" == second.rule_id


def test_pk5_a_bundle_that_was_changed(pack: Path) -> None:
    """Any member; the message has both digests."""
    digest = json.loads((pack / "run.json").read_bytes())["bundle"]["sha256"]
    _edit(pack, "bundle.json", lambda bundle: bundle.update(outputs={"a": 1}))
    text = '{"bundle_id":"bundle-1","outputs":{"a":1}}\n'
    computed = f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
    (violation,) = verify_pack(str(pack)).violations

    assert ("PK5", "bundle.json") == violation[:2]
    assert f"hash mismatch: run.json says {digest}, bundle.json gives {computed}" == violation.message


def test_pk5_the_hash_is_over_the_text_and_its_lf(pack: Path) -> None:
    """The hash of the text alone is a mismatch."""
    text = '{"bundle_id":"bundle-1","outputs":{}}'
    bare = f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
    _edit(pack, "run.json", lambda run: run["bundle"].update(sha256=bare))

    assert [("PK5", "bundle.json")] == _violations(pack)


def test_pk6_a_symbolic_link(pack: Path, tmp_path: Path) -> None:
    """Not followed, whatever is behind it: an optional one is refused, a required one is missing as well."""
    (tmp_path / "outside.json").write_bytes((pack / "bundle.json").read_bytes())
    (pack / "patch.json").symlink_to(tmp_path / "outside.json")
    assert [("PK6", "patch.json")] == _violations(pack)

    (pack / "bundle.json").unlink()
    (pack / "bundle.json").symlink_to(tmp_path / "outside.json")
    assert [("PK1", "bundle.json"), ("PK6", "bundle.json"), ("PK6", "patch.json")] == _violations(pack)


@pytest.mark.parametrize("target", ["missing", ".", "/dev/zero"])
def test_pk6_a_link_to_anything(pack: Path, target: str) -> None:
    """To nothing, a folder, a device: a link."""
    (pack / "evidence.json").symlink_to(target)

    assert [("PK6", "evidence.json")] == _violations(pack)


@pytest.mark.parametrize("name", ["..\\run.json", "C:\\x", "a\\b"])
def test_pk7_a_name_that_leads_outside_the_pack(pack: Path, name: str) -> None:
    """On another system a backslash is a way out; it is an unknown name as well."""
    (pack / name).write_bytes(b"{}")

    assert [("PK2", name), ("PK7", name)] == _violations(pack)


@pytest.mark.parametrize("name", ["patch.json", "evidence.json", "policy.json", "runner.json"])
@pytest.mark.parametrize("text", [b"{", b"[]", b"null", b'"x"', b"5"])
def test_pk8_an_optional_file_that_is_not_an_object(pack: Path, name: str, text: bytes) -> None:
    """Each of the four, broken or of another type."""
    (pack / name).write_bytes(text)

    assert ("PK8", name) in _violations(pack)
    assert {"PK8"} == {rule for rule, _ in _violations(pack)}


def test_pk8_meta_that_is_not_json(pack: Path) -> None:
    """Its content is ignored, but it must be JSON."""
    (pack / "meta.json").write_bytes(b"{")

    assert [("PK8", "meta.json")] == _violations(pack)


def test_pk8_a_policy_that_differs_from_the_runs(pack: Path) -> None:
    """Canonically: another order or notation is the same, another value is not."""
    _edit(pack, "run.json", lambda run: run.update(policy={"b": 1, "a": [1.0, "é"]}))
    (pack / "policy.json").write_bytes(b'{"a": [1, "\\u00e9"], "b": 1e0}')
    assert [] == _violations(pack)

    (pack / "policy.json").write_bytes(b'{"a": [1, "e"], "b": 1}')
    assert [("PK8", "policy.json")] == _violations(pack)


def test_pk8_a_recording_that_breaks_its_rules(pack: Path) -> None:
    """Every violation of MI1 to MI12 is passed on; its hash is then not judged."""
    (pack / "model_io.json").write_bytes(write_member(sample_session() | {"mode": "x", "adapter_id": ""}))
    violations = verify_pack(str(pack)).violations

    assert [("PK8", "model_io.json")] * 2 == [violation[:2] for violation in violations]
    assert ["MI2 at $.adapter_id", "MI3 at $.mode"] == [
        violation.message.partition(":")[0] for violation in violations
    ]


def test_pk8_a_recording_with_another_hash_than_the_run_states(pack: Path) -> None:
    """A valid recording of something else."""
    other = sample_session(1)
    (pack / "model_io.json").write_bytes(write_member(other))
    (violation,) = verify_pack(str(pack)).violations

    assert ("PK8", "model_io.json") == violation[:2]
    assert (
        f"hash mismatch: run.json says {model_io_hash(sample_session())}, model_io.json gives {model_io_hash(other)}"
        == (violation.message)
    )


def test_a_recordings_ephemeral_fields_do_not_reach_its_hash(pack: Path) -> None:
    """Times and metrics may differ between two runs."""
    _edit(pack, "model_io.json", lambda value: value.update(created_at_utc="now", stats={"any": 1}))

    assert [] == _violations(pack)


@pytest.mark.parametrize("field", list(example_ledger_entry()))
def test_pk9_a_line_of_the_ledger_lacks_a_field(pack: Path, field: str) -> None:
    """Each of the seven; the message names the line."""
    broken = {name: value for name, value in example_ledger_entry().items() if name != field}
    (pack / "ledger.jsonl").write_bytes(write_member(example_ledger_entry()) + b"\n" + write_member(broken))
    (violation,) = verify_pack(str(pack)).violations

    assert ("PK9", "ledger.jsonl") == violation[:2]
    assert f"line 3: $.{field}: required field {field} is missing" == violation.message


@pytest.mark.parametrize("line", [b"{", b"[]", b"null", b"5", b"{} {}", b"\xff"])
def test_pk9_a_line_that_is_not_an_object(pack: Path, line: bytes) -> None:
    """The other lines are still checked, each with its own number."""
    good = write_member(example_ledger_entry())
    (pack / "ledger.jsonl").write_bytes(good + line + b"\n" + good + b"{}\n")
    violations = verify_pack(str(pack)).violations

    assert {"PK9"} == {violation.rule_id for violation in violations}
    assert {"line 2", "line 4"} == {violation.message.partition(":")[0] for violation in violations}


@pytest.mark.parametrize("text", [b"", b"\n\n", b"  \r\n"])
def test_blank_lines_of_a_ledger_are_ignored(pack: Path, text: bytes) -> None:
    """An empty ledger is one without entries."""
    (pack / "ledger.jsonl").write_bytes(text)

    assert [] == _violations(pack)


def test_pk10_violations_are_sorted_by_rule_path_and_message(pack: Path) -> None:
    """As plain text, so PK12 stands before PK2."""
    (pack / "zzz").mkdir()
    (pack / "aaa.json").write_bytes(b"{}")
    (pack / "patch.json").write_bytes(b"[]")
    (pack / "meta.json").write_bytes(b"{")
    (pack / "run.json").unlink()
    violations = verify_pack(str(pack)).violations

    assert sorted(violations) == list(violations)
    assert ["PK1", "PK12", "PK2", "PK2", "PK8", "PK8"] == [violation.rule_id for violation in violations]


def _make(path: Path, kind: str) -> None:
    match kind:
        case "a folder":
            path.mkdir()
        case "a FIFO":
            os.mkfifo(path)
        case "a socket":
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(str(path))


@pytest.mark.parametrize("kind", ["a folder", "a FIFO", "a socket"])
@pytest.mark.parametrize("name", ["patch.json", "ledger.jsonl", "meta.json"])
def test_pk12_a_file_that_is_not_regular(pack: Path, name: str, kind: str) -> None:
    """Refused and never opened: nothing blocks."""
    _make(pack / name, kind)

    assert [("PK12", name)] == _violations(pack)


def test_pk12_a_required_file_that_is_a_fifo_is_missing_too(pack: Path) -> None:
    """It is not there as a file."""
    (pack / "run.json").unlink()
    os.mkfifo(pack / "run.json")

    assert [("PK1", "run.json"), ("PK12", "run.json")] == _violations(pack)


# ---------------------------------------------------------------------------------------------
# What cannot be read, and how it is reported


@pytest.mark.parametrize("kind", ["missing", "a file", "a FIFO"])
def test_a_pack_that_is_not_a_folder_is_only_io(tmp_path: Path, kind: str) -> None:
    """Nothing else can be known."""
    path = tmp_path / "pack"
    if kind == "a file":
        path.write_bytes(b"{}")
    elif kind == "a FIFO":
        os.mkfifo(path)

    assert [("IO", str(path))] == _violations(path)
    assert {"ok", "pack_path", "violations"} == set(verify_pack(str(path)).to_json())


def test_a_folder_named_by_the_user_may_be_a_link(pack: Path, tmp_path: Path) -> None:
    """What they named is what they meant."""
    (tmp_path / "link").symlink_to(pack)

    assert [] == _violations(tmp_path / "link")


def test_a_violation_becomes_a_finding_at_its_file(pack: Path) -> None:
    """Files are named from where the person stands; the pack itself is not doubled."""
    (pack / "extra").write_bytes(b"")
    (finding,) = pack_findings(verify_pack(str(pack)))
    (missing,) = pack_findings(verify_pack("missing"))

    assert (f"{pack}/extra", "", "PK2") == finding[:3]
    assert ("missing", "", "IO") == missing[:3]


def test_a_lone_surrogate_in_a_run_does_not_crash(pack: Path) -> None:
    """As an unknown key, which is allowed, and as a kind, which is not."""
    run = json.loads((pack / "run.json").read_bytes())
    (pack / "run.json").write_text(json.dumps(run | {"\ud800": 1}))
    assert [] == _violations(pack)

    (pack / "run.json").write_text(json.dumps(run | {"kernel_result_kind": "\ud800"}))
    assert [("PK3", "run.json")] == _violations(pack)

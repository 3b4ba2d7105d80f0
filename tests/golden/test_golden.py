"""One real file per format version. They are read for ever and never rewritten: a new version adds a file.

A failing test here says that a file which a user committed years ago is no longer read, or has another hash. Never
fix that by changing a file or a digest in this folder.
"""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from support.node import Node
from traceforge.canon import ecmascript_bytes, parse_json
from traceforge.chat.execution_trace import read_execution_trace, write_execution_trace
from traceforge.context.model.context_snapshot import read_context_snapshot, write_context_snapshot
from traceforge.modelio import ValidRecording, read_session, recover_recording, verify_session, write_session
from traceforge.packs.pack_format import write_member
from traceforge.packs.pack_signature import load_public_key
from traceforge.packs.pack_verifier import verify_pack
from traceforge.snapshots.formats.approval_format import check_approval, read_approval, signed_bytes
from traceforge.snapshots.formats.determinism_policy import ModelPolicy
from traceforge.snapshots.formats.raw_response import (
    check_has_no_record,
    draft_raw_response,
    find_disagreements,
    read_raw_response,
    write_raw_response,
)
from traceforge.snapshots.formats.snapshot_format import check_document, computed_hash, read_document, write_document
from traceforge.snapshots.formats.snapshot_manifest import RecordEntry, check_manifest, write_manifest
from traceforge.snapshots.tree.snapshot_migration import migrate_document
from traceforge.traces.chunk_file import read_chunks, write_chunks
from traceforge.traces.spool import blank_frames, encode_frame, parse_segment
from traceforge.traces.trace_archive import TraceArchive
from traceforge.traces.trace_format import read_trace, write_trace
from traceforge.traces.trace_summary import StoredTrace, summarize_trace

GOLDEN = Path(__file__).parent

# SHA-256 over the bytes of every file, as `sha256sum` prints it.
FILES = {
    "approval-1.0.0.json": "717ba27a6abc4ed06e8901c21e326468b659f305360681613218c7af23fc1ee3",
    "approval-1.0.0-chain.json": "5a9dd70404297d4162c34df61a4573dc0bade4e45efaa9962ea4ebeccb5749c6",
    "archive-1.tfz": "82dfb4dcc844b60e1e7d9ed35044777aa758043576a55b853fb4c9a4aedfafb0",
    "chunks-1.0.0.jsonl": "ac81e5e8dfc9403398b408915344dbed4daf1caa7043c89592e0cde117aa81b2",
    "context-snapshot-1.0.0.json": "50512cbb738e3894a07837c38aaf6365b63603f6d2257807e980a77e82fa5fd1",
    "context-store-0001.json": "ed450bdc6358fa040358ae6630ecc6af015c7cb3dfc117a6061e8af787083c03",
    "context-store-0002.json": "0d8da29c263bac9938da5db29cab7d0cde0d6a5a77c47f2977e8be117729dfbc",
    "execution-trace-1.0.0.json": "c5fc76cb6b1fba8f3cc812e68da43dbaeffc9b5cfbd853d1f36072fe44242fdc",
    "manifest-1.0.0.json": "c035f4771030fb9fe40b804cccdae504bd2b226fe82d9a74e6721c4d7c073b51",
    "model_io-1.0.0.json": "87e5e61996a19414a48ce8784641e67603847d210937d6b09a5b1573db5a5896",
    "pack-1.0.0.pub": "0e622c9bc486219fdd6bf40c963cf2b33914ece4ba66433739bc8baf1fe5f8de",
    "pack-1.0.0.sig.json": "e6fcf532461ad8328f565f2cc83aac360e8f83ff0ac1b8b0873fe294df430798",
    "pack-1.0.0.tar.zst": "84d6b10041b46ed662674c6496d38fcb43fab2e940f4f75a9d9495fb8e799f0a",
    "pack-1.0.0/bundle.json": "9887a27de4b96158a61764d21d63c64731f71fdba3a45179ebcffd25fe847c05",
    "pack-1.0.0/evidence.json": "35be2814d20616657745f774b49cd5ea3a7407096697186546f0998314a7f213",
    "pack-1.0.0/ledger.jsonl": "7d73f872d4672cbcad602b79274b9f1743f53e967814eee6809b69abfc9ae122",
    "pack-1.0.0/meta.json": "6b500485a1c796413124caa470ddd3505c2432a65bc63caaf36bb3ff7dc46b5a",
    "pack-1.0.0/model_io.json": "87e5e61996a19414a48ce8784641e67603847d210937d6b09a5b1573db5a5896",
    "pack-1.0.0/patch.json": "72094c8b2dcf0bfb4f1d7ef1e19f4be87352e3165051f0a9f28b3169215a5896",
    "pack-1.0.0/policy.json": "08b9b3d19e10e50b0950fcb0440c32de64cd03fe46c1be062c07ef7703357e64",
    "pack-1.0.0/run.json": "2c27a9fdef98e9c548b98165bae202fc4a067726c735d56698b524678b0e8917",
    "pack-1.0.0/runner.json": "e1df110297b85bc6d3218f80376251f1489e645fd606f59bbecde4b1bb1f3922",
    "recording-1.0.0.journal": "801e82f2dcc5088594e4d15c6be3269626973c260640b681c5202e1d9e535c70",
    "rendered-rr_1.json": "d5a8ef586693988b9bb0228a4e8bd23812f743d0761335458911425da8fbae8b",
    "snapshot-0.9.0-migrated.json": "b5b9d40f96c53ed101d86ddb4dc498ec49bfa05d16c4d1972486bf88b5a54838",
    "snapshot-0.9.0.json": "60a1bd08bb121dda2df35c2dc28f1a34fc438482e041f7fa5c619f1677a5dd20",
    "snapshot-1.0.0-adopted.json": "43f45c913bf2488720b1905bc586e071b5faa978f531d22af6100c8fdae6ee4c",
    "snapshot-1.0.0-calls.json": "b9115f3dae30dc5a6c25f93046bf07c69b0f45fb1e890c66d11e8ff6a1871b68",
    "snapshot-1.0.0-per-worker.json": "6ccaa76d30799730a7eee1ca390d1dedea9a76ac7671cc9899922e4c4dfc40d5",
    "snapshot-1.0.0-plain.json": "7121877a1a72af1f5a60022a1fd6957828e11cd13d2cad294f2d4da7727b3ba7",
    "snapshot-1.0.0-scopes.json": "cc2bb475a3dbef813b518d396de16b00798016c414f0db508a255bbc1c2d27c1",
    "snapshot-1.0.0-stream.json": "3c8523b0eba31383a2516238617de02d0a50be0bdb052999b6d27af8499cd8d3",
    "snapshot-1.0.0.json": "6f7fcee825321405769542626fa28ba0551702b55b58c74aa13ffb7ae10d881b",
    "spool-1-blank.segment": "11182974c84eeadf1eeb0cc4dc0f515e9c05d194ccf86fecbfa2c42257ada060",
    "spool-1.segment": "d65bd7ffc74c5301224f38880f47c021f56aa588388f1c709ab940fade5e6476",
    "trace-1.0.0-recorded.json": "239a05e81401d540f3052c2cb3077cf850afc34b5e974f3ace7c773afd85d864",
    "trace-1.0.0.json": "bd53ea26f487e2480fda232ab4034aa125d79e81691213b493acc0406162a284",
    "wire-answer-1.0.0-adopted.json": "e501ecfaa5d0f6f115ff83d39e635b706243e9c1a201c2b72ad1ea9a340298e8",
    "wire-answer-1.0.0-alone.json": "88512e0d0200fee5781ce9abe7fd9da904ca82ff87f6eb8012c9dcd0e7f50544",
    "wire-answer-1.0.0-cancelled.json": "87a1dd037f0fa8c95f0e97ef5d9309fd8cf7d1b8c967991e1f6ab425e54a628e",
    "wire-answer-1.0.0-keys.json": "c2585071f9cbc39e05ee11746c41b942ca4dd28a01a9e2ee33f1469bd4602110",
    "wire-answer-1.0.0.json": "fad26d4becc6c60da83c089b8f3780bd9ac76bafa9ef908b7ee745d8a39bd35d",
}
RECORDS = (
    "sha256:1c0e662ec8c83cfa3073a80b1d16ce37e119071360b50f07e57ffd5c62476c9e",
    "sha256:ba93e9b4cea221ad58743610eaf920ca918ec44901d1e8bfd0c65eac703b6c7b",
)
DOCUMENT = "sha256:352b1bad3d6c0813072859dfc28677e9d3c5f47948678c5d23405833f1017383"
MANIFEST = "sha256:843a102d89ac8f2824d501d954c3d27ace5d6ce95b60bc8da5ea2c2043a56775"
MODEL_IO = "sha256:c974009f2f260bbc755c0b92462008de9a3fbdd430b62e848bec3d862dfa04cf"
BUNDLE = "sha256:9887a27de4b96158a61764d21d63c64731f71fdba3a45179ebcffd25fe847c05"


def _read(name: str) -> bytes:
    return (GOLDEN / name).read_bytes()


@pytest.mark.parametrize("name", FILES)
def test_a_golden_file_has_the_bytes_it_always_had(name: str) -> None:
    """It was not rewritten, and Git changed no line end."""
    assert FILES[name] == hashlib.sha256(_read(name)).hexdigest()


def test_every_golden_file_is_pinned() -> None:
    files = (path.relative_to(GOLDEN) for path in GOLDEN.rglob("*.*") if path.is_file())
    paths = {str(path) for path in files if path.suffix not in (".py", ".pyc") and path.name != ".gitattributes"}

    assert set(FILES) == paths


def test_snapshot_1_0_0_is_read_with_its_hashes() -> None:
    """Two records; the stated hashes are those of the content, and written again it is the same file."""
    records = read_document(_read("snapshot-1.0.0.json"))

    assert ("summarize-2f9c", "translate-0b1d") == tuple(record.id for record in records)
    assert tuple(record.hash for record in records) == RECORDS
    assert computed_hash(_read("snapshot-1.0.0.json")) == DOCUMENT
    assert _read("snapshot-1.0.0.json") == write_document([record.body for record in records])


def test_snapshot_1_0_0_with_scopes_is_read_with_its_hash() -> None:
    """The tests that made the call are part of the record."""
    (record,) = read_document(_read("snapshot-1.0.0-scopes.json"))

    assert "sha256:233ed10a17c6dddc68893837d1d056e8af1fdbe94668e262e1f7a941dfc072ad" == record.hash
    assert _read("snapshot-1.0.0-scopes.json") == write_document([record.body])


def test_snapshot_1_0_0_with_calls_is_read_with_its_hash() -> None:
    """How many calls each scope made is part of the record."""
    (record,) = read_document(_read("snapshot-1.0.0-calls.json"))

    assert "sha256:fbb9c92114b3e4203b36489ae26a01b48d3d1b212d3b39f325163ebf2fcfe642" == record.hash
    assert _read("snapshot-1.0.0-calls.json") == write_document([record.body])


def test_snapshot_1_0_0_with_a_call_per_worker_is_read_with_its_hash() -> None:
    """Which calls a cache may save is part of the record."""
    (record,) = read_document(_read("snapshot-1.0.0-per-worker.json"))

    assert "sha256:d5145065a430f880f74eb9d96dcc673a33df6c055a041f6919ea7de440f7edf2" == record.hash
    assert _read("snapshot-1.0.0-per-worker.json") == write_document([record.body])


def test_snapshot_1_0_0_of_a_stream_is_read_with_its_hash() -> None:
    """That the answer was streamed is part of the record, and so is a limit that nobody sent."""
    (record,) = read_document(_read("snapshot-1.0.0-stream.json"))

    assert "sha256:0c51f3c7a3f22cadad2be81d9902e55ec50f74bfbbc2419e7b529a82e222fc11" == record.hash
    assert _read("snapshot-1.0.0-stream.json") == write_document([record.body])


def test_snapshot_1_0_0_of_a_plain_call_is_read_with_its_gate() -> None:
    """What was not sent is declared, and the record says that only the prompt is gated, and why."""
    (record,) = read_document(_read("snapshot-1.0.0-plain.json"))

    assert "sha256:c838bd2efe23e9a5041909025351352f0893f581872fbc84f50ea118d7fcb136" == record.hash
    request: Any = record.body["request"]
    assert ("request", "no temperature, no seed") == (request["gate"], request["gate_reason"])
    assert _read("snapshot-1.0.0-plain.json") == write_document([record.body])


def test_snapshot_1_0_0_with_an_adopted_answer_is_read_with_its_label() -> None:
    """The record and its raw response name the snapshot that the answer was recorded with, and agree."""
    (record,) = read_document(_read("snapshot-1.0.0-adopted.json"))
    raw = read_raw_response(_read("wire-answer-1.0.0-adopted.json"))

    assert "sha256:c7d99e056a28d4ba4cd17f3a032e87ae41dde2f61755623338e5293d51f55b35" == record.hash
    response: Any = record.body["response"]
    assert raw.adopted_from == response["adopted_from"]
    assert [] == find_disagreements(record.body, raw, ModelPolicy())
    assert _read("snapshot-1.0.0-adopted.json") == write_document([record.body])
    assert _read("wire-answer-1.0.0-adopted.json") == write_raw_response(raw)


def test_snapshot_0_9_0_is_refused_and_can_be_migrated() -> None:
    """With the values that the second record lacks, it becomes this document, byte for byte."""
    old = parse_json(_read("snapshot-0.9.0.json"))
    missing_values: dict[str, Any] = {
        "file": "src/old.py", "line": 0, "function": "", "temperature": 0, "max_tokens": 16, "tokens_used": 9,
        "latency_ms": 0, "finish_reason": "stop",
    }  # fmt: skip
    bodies, findings = migrate_document(old, missing_values)

    assert ["SN2"] == [finding.rule for finding in check_document(old)]
    assert [] == findings
    assert _read("snapshot-0.9.0-migrated.json") == write_document(bodies)


def test_approval_1_0_0_is_read_with_its_hash_and_its_signature(tmp_path: Path) -> None:
    """Three changes, a tag, and a signature that still verifies."""
    value: Any = parse_json(_read("approval-1.0.0.json"))
    approval = read_approval(_read("approval-1.0.0.json"))

    assert "approvals/2026-04-01T09-00-00-250Z-707fc0bd86eb.json" == approval.file
    assert "sha256:707fc0bd86eb2515d65f0527e44538046641af86df94ed8fc621bc66bd5698d6" == approval.hash
    assert [] == check_approval(value, approval.file)
    assert _read("approval-1.0.0.json") == ecmascript_bytes(value, indent=2) + b"\n"
    (tmp_path / "signature").write_text(str(approval.signature))
    checked = subprocess.run(
        ["ssh-keygen", "-Y", "check-novalidate", "-n", "traceforge", "-s", tmp_path / "signature"],
        input=signed_bytes(value), capture_output=True, check=True,
    )  # fmt: skip
    assert str(approval.key) in checked.stdout.decode()


def test_approval_1_0_0_with_predecessors_and_a_policy_is_read() -> None:
    """What older approvals lack: `follows`, `policy`, and the raw response of a change."""
    value: Any = parse_json(_read("approval-1.0.0-chain.json"))
    approval = read_approval(_read("approval-1.0.0-chain.json"))

    assert "approvals/2026-11-16T18-00-00-125Z-55aa3b012836.json" == approval.file
    assert [] == check_approval(value, approval.file)
    assert value["follows"] == approval.follows
    assert ["sha256:" + "3" * 64, None] == [change.raw_response for change in approval.changes]
    assert {"test.may_skip": ["a.py::test_b"], 'models["gpt-4*"].gate': None} == {
        name: setting["after"] for name, setting in value["policy"].items()
    }


def test_raw_response_1_0_0_without_a_record_is_read_with_its_source() -> None:
    """An error, which no record holds; written again, it is the same file."""
    answer = read_raw_response(_read("wire-answer-1.0.0-alone.json"))

    assert answer.source is not None
    assert [{"scope": "tests/test_agents.py::test_retry[漢字]", "turn": 1}, {"scope": ""}] == answer.source["scopes"]
    assert (429, []) == (answer.status, check_has_no_record(answer, ModelPolicy()))
    assert _read("wire-answer-1.0.0-alone.json") == write_raw_response(answer)


def test_raw_response_1_0_0_of_a_cancelled_call_is_read() -> None:
    """No response came, and no record holds it; written again, it is the same file."""
    answer = read_raw_response(_read("wire-answer-1.0.0-cancelled.json"))

    assert (0, ()) == (answer.status, answer.chunks)
    assert ("timeout", 2003.25) == answer.cancellation
    assert [] == check_has_no_record(answer, ModelPolicy())
    assert _read("wire-answer-1.0.0-cancelled.json") == write_raw_response(answer)


def test_raw_response_1_0_0_is_read_with_its_chunks() -> None:
    """One chunk ends inside a character; its record can be drafted, and written again it is the same file."""
    answer = read_raw_response(_read("wire-answer-1.0.0.json"))
    draft = draft_raw_response(answer, ModelPolicy())

    assert 4 == len(answer.chunks)
    assert answer.chunks[1].data.endswith(b"H\xc3")
    assert {"content": "Hé 😀", "tokens_used": 14, "finish_reason": "stop"} == draft.response
    assert _read("wire-answer-1.0.0.json") == write_raw_response(answer)


def test_raw_response_1_0_0_names_the_api_keys_that_were_set() -> None:
    """Only their names; written again, it is the same file."""
    answer = read_raw_response(_read("wire-answer-1.0.0-keys.json"))

    assert ("ANTHROPIC_API_KEY", "OPENAI_API_KEY") == answer.key_names
    assert _read("wire-answer-1.0.0-keys.json") == write_raw_response(answer)


def test_manifest_1_0_0_matches_its_records() -> None:
    """Generated from the golden snapshot again, it is the same file."""
    first, second = read_document(_read("snapshot-1.0.0.json"))
    entries = [
        RecordEntry("openai", first.id, f"openai/{first.id}.json", first.hash, first.timestamp),
        RecordEntry("anthropic", second.id, f"anthropic/{second.id}.json", second.hash, second.timestamp),
    ]
    manifest = parse_json(_read("manifest-1.0.0.json"))

    assert isinstance(manifest, dict)
    assert manifest["hash"] == MANIFEST
    assert [] == check_manifest(_read("manifest-1.0.0.json"), entries)
    assert _read("manifest-1.0.0.json") == write_manifest(entries)


def test_trace_1_0_0_is_read_completely() -> None:
    """Written again, it is the same file, with the provider's own fields."""
    trace = read_trace(_read("trace-1.0.0.json"))

    assert "2025-12-20T15-30-45-123Z_a1b2c3d4-e5f6-7890-abcd-ef1234567890.json" == trace.file_name
    assert "fp_é😀" in _read("trace-1.0.0.json").decode()
    assert _read("trace-1.0.0.json") == write_trace(trace.body)


def test_a_recorded_trace_1_0_0_is_read_with_its_chunks() -> None:
    """Written by an early version; written again, both files are the same."""
    trace = read_trace(_read("trace-1.0.0-recorded.json"))
    chunks = read_chunks(_read("chunks-1.0.0.jsonl"))

    assert "Es war einmal" == trace.body["response"]["choices"][0]["message"]["content"]  # type: ignore[index,call-overload]
    assert b"data: [DONE]\n\n" == chunks[-1].data
    assert _read("trace-1.0.0-recorded.json") == write_trace(trace.body)
    assert _read("chunks-1.0.0.jsonl") == write_chunks(chunks, [chunk.data for chunk in chunks])


def test_segment_1_is_read_completely_and_written_the_same() -> None:
    """Four frames, one of them a stream."""
    segment = parse_segment(_read("spool-1.segment"))

    assert (4, 0, 0) == (len(segment.frames), segment.damaged_bytes, segment.torn_bytes)
    streamed = segment.frames[1]
    assert ("quiz-7", 0, True) == (
        streamed.summary.session_id,
        streamed.summary.step_index,
        streamed.summary.streamed,
    )
    assert (_read("trace-1.0.0-recorded.json"), _read("chunks-1.0.0.jsonl")) == (streamed.trace, streamed.chunks)
    traces = [StoredTrace(frame.summary, frame.trace, frame.chunks) for frame in segment.frames]
    assert _read("spool-1.segment") == b"".join(b"".join(encode_frame(trace)) for trace in traces)
    assert [summarize_trace(read_trace(trace.trace).body) for trace in traces] == [trace.summary for trace in traces]


def test_segment_1_with_a_purged_trace_is_read_completely(tmp_path: Path) -> None:
    """The frame of the stream is blank, the other three are unchanged; purging it again gives the same bytes."""
    original, segment = parse_segment(_read("spool-1.segment")), parse_segment(_read("spool-1-blank.segment"))

    assert (original.end, 0, 0) == (segment.end, segment.damaged_bytes, segment.torn_bytes)
    assert [original.frames[place] for place in (0, 2, 3)] == segment.frames
    purged = tmp_path / "made.segment"
    purged.write_bytes(_read("spool-1.segment"))
    assert [original.frames[1].summary.id] == blank_frames(str(purged), {original.frames[1].summary.id})
    assert _read("spool-1-blank.segment") == purged.read_bytes()


def test_archive_1_is_read_completely() -> None:
    """Twenty-eight traces and a dictionary; each equals the trace before compression."""
    archive = TraceArchive(str(GOLDEN / "archive-1.tfz"))
    traces = [archive.read_entry(number) for number in range(len(archive.entries))]

    assert 28 == len(traces)
    assert [summarize_trace(read_trace(trace.trace).body) for trace in traces] == [trace.summary for trace in traces]
    assert [(_read("trace-1.0.0-recorded.json"), _read("chunks-1.0.0.jsonl"))] == [
        (trace.trace, trace.chunks) for trace in traces if trace.chunks
    ]


def test_model_io_1_0_0_is_read_with_its_hash() -> None:
    """Three interactions, one of them with a lone surrogate."""
    session = read_session(_read("model_io-1.0.0.json"))
    result = verify_session(session)

    assert isinstance(result, ValidRecording)
    assert (3, MODEL_IO) == (result.interactions_count, result.model_io_hash)
    assert _read("model_io-1.0.0.json") == write_session(session)


def test_pack_1_0_0_is_valid_with_its_references() -> None:
    """All nine files, and both digests of run.json."""
    report = verify_pack(str(GOLDEN / "pack-1.0.0"))

    assert () == report.violations
    assert 9 == len(report.files)
    assert [(BUNDLE, BUNDLE), (MODEL_IO, MODEL_IO)] == [(ref.expected, ref.computed) for ref in report.references]
    assert _read("pack-1.0.0/run.json") == write_member(parse_json(_read("pack-1.0.0/run.json")))


@pytest.mark.parametrize("name", ["pack-1.0.0", "pack-1.0.0.tar.zst"])
def test_pack_1_0_0_is_signed(name: str) -> None:
    """The folder and the archive, by the key next to them."""
    report = verify_pack(str(GOLDEN / name), key=load_public_key(str(GOLDEN / "pack-1.0.0.pub")))

    assert () == report.violations
    assert report.signature is not None
    assert ("SHA256:o49ZXOAoDoQ2YLc5d8L+1YnOfA7LJ+mdbZ/18SDxdnA", True) == report.signature
    assert 9 == len(report.files)


def test_recording_1_0_0_is_recovered_from_its_journal(tmp_path: Path) -> None:
    """Two interactions in the order of their calls; the third was cut short."""
    (tmp_path / "r.json.journal").write_bytes(_read("recording-1.0.0.journal"))
    written = recover_recording(tmp_path / "r.json")

    assert (2, "sha256:242354226eaadd1fd0738966bf495bfe451378d9c771b1ba210601a4d19a1115") == (
        written.interactions,
        written.model_io_hash,
    )
    assert ValidRecording(2, written.model_io_hash) == verify_session(parse_json((tmp_path / "r.json").read_bytes()))


def test_context_snapshot_1_0_0_is_read() -> None:
    """Every field; written again, it is the same file."""
    snapshot = read_context_snapshot(_read("context-snapshot-1.0.0.json"))

    assert ("snp_01jyg7m2x4c9k8v5t3r6w0qzna", 17, 3) == (
        snapshot.id,
        snapshot.branch_version,
        len(snapshot.ordered_block_manifest),
    )
    assert _read("context-snapshot-1.0.0.json") == write_context_snapshot(snapshot)


def test_execution_trace_1_0_0_is_read() -> None:
    """Every field; the hash of an empty session prompt is the hash of no bytes."""
    trace = read_execution_trace(_read("execution-trace-1.0.0.json"))

    assert hashlib.sha256(b"").hexdigest() == trace.inputs.session_prompt_hash
    assert "Paris.\nIt is “Paris”." == msgspec.to_builtins(trace)["output"]["assistant_message"]
    assert _read("execution-trace-1.0.0.json") == write_execution_trace(trace)


def test_node_computes_the_golden_hashes_too() -> None:
    """JavaScript computes the pinned hashes from the same bytes."""
    snapshots, recordings = Node("snapshot_hash.js"), Node("model_io.js")
    (document,) = snapshots.ask([_read("snapshot-1.0.0.json")])
    (recording,) = recordings.ask([b"11" + _read("model_io-1.0.0.json")])
    snapshots.close()
    recordings.close()

    assert tuple(f"sha256:{digest}" for digest in document["records"]) == RECORDS
    assert f"sha256:{document['combined']}" == DOCUMENT
    assert recording["model_io_hash"] == MODEL_IO

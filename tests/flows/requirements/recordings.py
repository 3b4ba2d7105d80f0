"""Specification 003: recordings."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flows.requirements.product import Product
from flows.requirements.requirement import RecordingCase, Requirement
from support.json_places import Place, remove_at, replace_at
from traceforge.canon import digest_text
from traceforge.modelio import MockAdapter, RecordingSession, ReplayAdapter


def _interaction(i: int, content: str = "Paris.", **changes: Any) -> dict[str, Any]:
    hashes = {"prompt_hash": digest_text(f"prompt {i}"), "response_hash": digest_text(content)}
    return {"i": i, **hashes, "response_content": content, **changes}


RECORDING: dict[str, Any] = {
    "model_io_schema_version": "1.0.0", "adapter_id": "openai-chat", "model_id": "gpt-x", "mode": "record",
    "interactions": [_interaction(0), _interaction(1)],
}  # fmt: skip


def _recording_rows() -> Iterator[Requirement]:
    """The fields and the invariants of 003."""
    for name in ("adapter_id", "model_id", "mode", "interactions"):
        case = RecordingCase(remove_at(RECORDING, (name,)), f"SCHEMA $.{name}")
        yield Requirement("003", "3.1 Required Fields", f"{name} is required", case)
    first: Place = ("interactions", 0)
    broken: list[tuple[str, Place, Any, str]] = [
        ("MI1: the schema version is present", ("model_io_schema_version",), None, "MI1 $.model_io_schema_version"),
        ("MI1: the schema version is not empty", ("model_io_schema_version",), "", "MI1 $.model_io_schema_version"),
        ("MI1: the schema version is X.Y.Z", ("model_io_schema_version",), "1.0", "MI1 $.model_io_schema_version"),
        ("MI2: the adapter id is not empty", ("adapter_id",), "", "MI2 $.adapter_id"),
        ("MI2: the model id is not empty", ("model_id",), "", "MI2 $.model_id"),
        ("MI3: the mode is record or replay", ("mode",), "live", "MI3 $.mode"),
        ("MI4: interactions is an array", ("interactions",), {}, "SCHEMA $.interactions"),
        ("MI5: indices begin at 0", (*first, "i"), 1, "MI5 $.interactions[0].i"),
        ("MI5: an index is a number", (*first, "i"), "0", "MI5 $.interactions[0].i"),
        ("MI6: a prompt hash is sha256 and lower case", (*first, "prompt_hash"), "sha256:" + "A" * 64,
         "MI6 $.interactions[0].prompt_hash"),
        ("MI7: a response hash has its format", (*first, "response_hash"), "abc",
         "MI7 $.interactions[0].response_hash"),
        ("MI7: the content is a string", (*first, "response_content"), None,
         "MI7 $.interactions[0].response_content"),
        ("MI7: a response hash is that of the content", (*first, "response_content"), "Rome.",
         "MI7 $.interactions[0].response_hash"),
        ("MI8: prompt hash and index are unique", ("interactions",), [_interaction(0), _interaction(0)],
         "MI8 $.interactions[1]"),
        ("MI9: interactions are sorted", ("interactions",), [_interaction(1), _interaction(0)],
         "MI9 $.interactions[1]"),
        ("MI11: a response has at most 1,000,000 bytes", ("interactions",), [_interaction(0, "x" * 1_000_001)],
         "MI11 $.interactions[0].response_content"),
    ]  # fmt: skip
    for text, place, value, refused in broken:
        case = RecordingCase(replace_at(RECORDING, place, value), refused)
        yield Requirement("003", "5. Invariants", text, case)
    twice = [_interaction(0), {**_interaction(1), "prompt_hash": digest_text("prompt 0")}]
    ephemeral = {"created_at_utc": "2026-01-05T00:00:00Z", "stats": {"total_interactions": 2}}
    measured = [_interaction(0, tokens_input=5, tokens_output=7, latency_ms=9), _interaction(1)]
    valid: list[tuple[str, str, dict[str, Any]]] = [
        ("3.1 Required Fields", "a session of the required fields is valid", {}),
        ("3.2 Optional Fields", "times and statistics are optional", ephemeral),
        ("3.3 Interaction Structure", "tokens and latency are optional", {"interactions": measured}),
        ("3.5 Mode Values", "a session may be for replay", {"mode": "replay"}),
        ("5. Invariants", "MI4: there may be no interaction", {"interactions": []}),
        ("5. Invariants", "MI8: the same prompt may be asked twice", {"interactions": twice}),
        ("5. Invariants", "MI11: a response may have 1,000,000 bytes",
         {"interactions": [_interaction(0, "x" * 10**6)]}),
        ("6.2 Backwards Compatibility", "a newer minor version is valid", {"model_io_schema_version": "1.1.0"}),
    ]  # fmt: skip
    for heading, text, fields in valid:
        yield Requirement("003", heading, text, RecordingCase({**RECORDING, **fields}))


def _recording(product: Product, name: str, **changes: Any) -> Path:
    path = product.folder / f"{name}.json"
    path.write_text(json.dumps({**RECORDING, **changes}))
    return path


def _hash(product: Product, path: Path) -> str:
    return product.run(product.folder, "modelio", "hash", path).out.strip()


def _check_core_hash(product: Product) -> None:
    names = ("i", "prompt_hash", "response_content", "response_hash")
    core = {**RECORDING, "interactions": [{name: item[name] for name in names} for item in RECORDING["interactions"]]}
    text = json.dumps(core, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert f"sha256:{hashlib.sha256(text.encode()).hexdigest()}" == _hash(product, _recording(product, "core"))


def _check_ephemeral_fields(product: Product) -> None:
    measured = [
        {**item, "tokens_input": 5, "tokens_output": 7, "latency_ms": 9} for item in RECORDING["interactions"]
    ]
    other = _recording(
        product, "ephemeral", interactions=measured, created_at_utc="2026-01-05T00:00:00Z",
        ended_at_utc="2026-01-06T00:00:00Z", stats={"total_interactions": 2},
    )  # fmt: skip
    assert _hash(product, _recording(product, "plain")) == _hash(product, other)


def _check_sorted_violations(product: Product) -> None:
    path = _recording(product, "unsorted", adapter_id="", mode="x", interactions=[_interaction(3), _interaction(1)])
    ran = product.run(product.folder, "modelio", "verify", "--json", path, code=1)
    violations = [(item["rule_id"], item["path"], item["message"]) for item in json.loads(ran.out)["violations"]]
    assert sorted(violations) == violations
    assert len({rule for rule, _, _ in violations}) > 2


def _check_count_limit(product: Product) -> None:
    path = _recording(product, "many", interactions=[_interaction(i, "") for i in range(10_001)])
    assert "MI4" in product.run(product.folder, "modelio", "verify", path, code=1).out


def _check_live_recording(product: Product) -> None:
    path = product.folder / "live.json"
    with RecordingSession(path, MockAdapter(["Paris.", "Rome.", "Paris."])) as session:
        for prompt in ("France?", "Italy?", "France?"):
            session.adapter.complete(prompt)
    value = json.loads(path.read_text())
    assert ("record", [0, 1, 2]) == (value["mode"], [item["i"] for item in value["interactions"]])
    assert [digest_text(prompt) for prompt in ("France?", "Italy?", "France?")] == [
        item["prompt_hash"] for item in value["interactions"]
    ]
    assert {"total_interactions": 3}.items() <= value["stats"].items()
    product.run(product.folder, "modelio", "verify", path)
    replay = ReplayAdapter.load(path)
    assert ["Paris.", "Rome.", "Paris."] == [
        replay.complete(prompt).text for prompt in ("France?", "Italy?", "France?")
    ]


def _check_finished_recording(product: Product) -> None:
    path = _recording(product, "finished")
    before = path.read_bytes()
    ran = product.run(product.recorded, "modelio", "from-traces", "--out", path, code=3)
    assert ("already exists" in ran.err, before) == (True, path.read_bytes())


def _check_pack(product: Product) -> None:
    folder = product.folder
    run = {
        "run_schema_version": "1.0.0", "run_id": "run-1", "started_at": "2026-01-05T00:00:00Z",
        "completed_at": "2026-01-05T00:00:01Z", "kernel_version": "0.3.10", "policy": {"a": 1}, "intent": "x",
        "kernel_result_kind": "REFUSE", "decision": {}, "model_mode": "record",
    }  # fmt: skip
    (folder / "run.json").write_text(json.dumps(run))
    path = _recording(product, "packed")
    product.run(folder, "pack", "create", "--run", "run.json", "--model-io", path, "--out", "pack-1")
    written = json.loads((folder / "pack-1" / "run.json").read_text())
    assert _hash(product, path) == written["model_io_hash"]
    product.run(folder, "pack", "verify", "pack-1")
    inside = folder / "pack-1" / "model_io.json"
    inside.write_text(inside.read_text().replace("Paris.", "Milan."))
    assert "PK8" in product.run(folder, "pack", "verify", "pack-1", code=1).out


RECORDING_REQUIREMENTS: list[Requirement] = [
    *_recording_rows(),
    Requirement("003", "3.3 Interaction Structure", "live calls become interactions, and replay",
                _check_live_recording),
    Requirement("003", "3.3 Interaction Structure", "a finished recording is not overwritten",
                _check_finished_recording),
    Requirement("003", "4.4 Computing ModelIOHash", "it is SHA-256 of the canonical core", _check_core_hash),
    Requirement("003", "5. Invariants", "MI10: violations are sorted", _check_sorted_violations),
    Requirement("003", "5. Invariants", "MI4: at most 10,000 interactions", _check_count_limit),
    Requirement("003", "5. Invariants", "MI12: times and counts are not hashed", _check_ephemeral_fields),
    Requirement("003", "7. Integration with Pack Format", "a pack verifies its recording and refers to its hash",
                _check_pack),
]  # fmt: skip

"""Specification 004: sessions, branches and context snapshots."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from flows.requirements.product import Product
from flows.requirements.requirement import Requirement
from traceforge.context.model.inputs import NewEvent
from traceforge.errors import BranchConflict


def _fields(value: object) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__struct_fields__}  # type: ignore[attr-defined]


def _check_snapshot_object(product: Product) -> None:
    fields = _fields(product.conversation["snapshot"])
    assert {
        "id", "object", "session_id", "branch_id", "branch_version", "prompt_compiler_revision",
        "ordered_block_manifest", "created_at",
    } <= set(fields)  # fmt: skip
    assert "snapshot" == fields["object"]
    for name, prefix in (("id", "snp"), ("session_id", "ses"), ("branch_id", "br")):
        assert re.fullmatch(rf"{prefix}_[0-9a-z]{{26}}", fields[name])
    assert re.fullmatch(r"pc_\d+", fields["prompt_compiler_revision"])


def _check_pinned_version(product: Product) -> None:
    """The snapshot was taken after the question, and before the answer."""
    snapshot, response = product.conversation["snapshot"], product.conversation["response"]
    branch = product.context.get_branch(snapshot.session_id, snapshot.branch_id)
    assert (1, response.snapshot_id) == (snapshot.branch_version, snapshot.id)
    assert branch.version > snapshot.branch_version


def _check_block_order(product: Product) -> None:
    snapshot = product.conversation["snapshot"]
    blocks = list(product.context.iterate_blocks(snapshot.id))
    assert snapshot.ordered_block_manifest == [block.id for block in blocks]
    assert ["system", "user"] == [block.role for block in blocks]


def _check_logical_identity(product: Product) -> None:
    names = " ".join(_fields(product.conversation["snapshot"]))
    for word in ("tokenizer", "engine", "gpu", "model", "template", "key", "runtime"):
        assert word not in names


def _check_immutable(product: Product) -> None:
    snapshot = product.conversation["snapshot"]
    branch = product.context.get_branch(snapshot.session_id, snapshot.branch_id)
    product.context.append_event(
        snapshot.session_id, snapshot.branch_id, expected_version=branch.version,
        expected_head_event_id=branch.head_event_id, event=NewEvent(event_type="user_message", content="More."),
    )  # fmt: skip
    assert snapshot == product.context.get_snapshot(snapshot.id)
    assert product.context.verify_snapshot(snapshot.id).valid


def _check_binding(product: Product) -> None:
    response = product.conversation["response"]
    assert ("completed", product.conversation["snapshot"].id) == (response.status, response.snapshot_id)
    assert product.context.get_alias("helper").live_release_id == response.alias_release_id
    assert ("openai", "old") == (response.target.provider, response.target.model)


def _check_reproduction(product: Product) -> None:
    response = product.conversation["response"]
    again = product.context.create_response(model=response.alias_release_id, snapshot_id=response.snapshot_id)
    assert (response.snapshot_id, response.alias_release_id) == (again.snapshot_id, again.alias_release_id)
    assert (response.target, response.output) == (again.target, again.output)


def _check_other_model(product: Product) -> None:
    response = product.conversation["response"]
    other = product.context.create_response(model="openai/new", snapshot_id=response.snapshot_id)
    assert response.snapshot_id == other.snapshot_id
    assert "new" == other.target.model
    assert response.alias_release_id != other.alias_release_id


def _check_immutable_release(product: Product) -> None:
    response = product.conversation["response"]
    before = product.context.get_release(response.alias_release_id)
    product.context.create_release("helper", targets=[{"provider": "openai", "model": "newer"}])
    assert before.targets == product.context.get_release(response.alias_release_id).targets
    assert response.alias_release_id != product.context.get_alias("helper").live_release_id


def _check_comparison(product: Product) -> None:
    client = product.context
    run = client.create_replay_run(
        baseline=product.conversation["response"].alias_release_id, candidate="openai/new",
        snapshot_ids=[product.conversation["snapshot"].id],
    )  # fmt: skip
    while run.status in ("queued", "running"):
        run = client.get_replay_run(run.id)
    assert {"candidate_changed": 1} == client.get_replay_report(run.id).summary["verdicts"]


def _check_concurrency(product: Product) -> None:
    session = product.context.create_session()
    place, event = (session.id, session.default_branch_id), NewEvent(event_type="user_message", content="a")
    product.context.append_event(*place, expected_version=0, expected_head_event_id=None, event=event)
    with pytest.raises(BranchConflict):
        product.context.append_event(*place, expected_version=0, expected_head_event_id=None, event=event)


def _check_explicit_merge(product: Product) -> None:
    client = product.context
    session = client.create_session()
    main = session.default_branch_id
    event = NewEvent(event_type="user_message", content="a")
    client.append_event(session.id, main, expected_version=0, expected_head_event_id=None, event=event)
    fork = client.fork_branch(session.id, fork_from_branch_id=main, label="other")
    client.append_event(
        session.id, fork.id, expected_version=fork.version, expected_head_event_id=fork.head_event_id,
        event=NewEvent(event_type="user_message", content="b"),
    )  # fmt: skip
    before = client.get_branch(session.id, main)
    assert 1 == before.version
    merged = client.merge_branch(
        session.id, main, source_branch_id=fork.id, strategy="rebase", expected_version=before.version,
        expected_head_event_id=before.head_event_id,
    )  # fmt: skip
    assert (2, 1) == (merged.branch.version, len(merged.event_ids))


def _check_identity_layers(product: Product) -> None:
    """One snapshot; a key for its materialization, and one for the runtime on top of that."""
    snapshot = product.conversation["snapshot"].id
    keys = []
    runtimes = (
        {"tokenizer_revision": "1"},
        {"tokenizer_revision": "2"},
        {"tokenizer_revision": "2", "engine": "vllm"},
    )
    for number, runtime in enumerate(runtimes):
        path = product.folder / f"runtime-{number}.json"
        path.write_text(json.dumps(runtime))
        words = ("context", "cache-key", snapshot, "--runtime", path, "--db", product.folder / "context.db", "--json")
        keys.append(json.loads(product.run(product.folder, *words).out))
    assert {snapshot} == {key["snapshot_id"] for key in keys}
    first, second, third = (key["materialization_key"] for key in keys)
    assert first != second == third
    assert keys[1]["kv_compatibility_key"] != keys[2]["kv_compatibility_key"]


CONTEXT_REQUIREMENTS: list[Requirement] = [
    Requirement("004", "Snapshots", "a snapshot has these fields", _check_snapshot_object),
    Requirement("004", "What a snapshot pins", "the branch and its exact version", _check_pinned_version),
    Requirement("004", "What a snapshot pins", "the blocks, in their order", _check_block_order),
    Requirement("004", "Snapshots live at Layer 1", "no tokenizer, engine or model", _check_logical_identity),
    Requirement("004", "Snapshots live at Layer 1", "materialization and runtime are keys on top of it",
                _check_identity_layers),
    Requirement("004", "Why pinning enables reproducibility", "a snapshot never changes", _check_immutable),
    Requirement("004", "Why pinning enables reproducibility", "a response binds a snapshot and a release",
                _check_binding),
    Requirement("004", "Why pinning enables reproducibility", "the same pair resolves to the same target",
                _check_reproduction),
    Requirement("004", "Why pinning enables reproducibility", "a candidate is compared with the baseline",
                _check_comparison),
    Requirement("004", "A snapshot does not pin a model", "the same input can go to another model",
                _check_other_model),
    Requirement("004", "A snapshot does not pin a model", "a release never changes", _check_immutable_release),
    Requirement("004", "Branches", "an append with a stale head is refused", _check_concurrency),
    Requirement("004", "Branches", "a merge is explicit", _check_explicit_merge),
]  # fmt: skip

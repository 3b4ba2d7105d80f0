"""`modelio/recording_format.py`: the core names a recording, and nothing else does (MI12)."""

from __future__ import annotations

import copy
import hashlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import inspect

from support.example_counts import scale_examples
from support.format_examples import DIGEST, example_session
from traceforge.canon import digest_text
from traceforge.modelio.recording_format import (
    CORE_FIELDS,
    INTERACTION_CORE_FIELDS,
    Interaction,
    ModelIOSession,
    model_io_core,
    model_io_hash,
    write_session,
)
from traceforge.modelio.recording_verifier import ValidRecording, verify_session

ANYTHING = [None, True, 0, -1.5, "", "text", [], [1], {}, {"deep": {"time": "now"}}]
# The specification's 4.1: what is hashed. Written here again, so that a change of the module is noticed.
SESSION_CORE = ["model_io_schema_version", "adapter_id", "model_id", "mode", "interactions"]
INTERACTION_CORE = ["i", "prompt_hash", "response_hash", "response_content"]


def _fields(struct: type) -> list[str]:
    kind = inspect.type_info(struct)
    assert isinstance(kind, inspect.StructType)
    return [field.encode_name for field in kind.fields]


EPHEMERAL = [name for name in _fields(ModelIOSession) if name not in SESSION_CORE]
INTERACTION_EPHEMERAL = [name for name in _fields(Interaction) if name not in INTERACTION_CORE]


def test_the_core_has_the_fields_of_the_specification() -> None:
    """Section 4.1 and 4.2, and the ephemeral ones are the rest of the schema."""
    assert SESSION_CORE == [*CORE_FIELDS, "interactions"]
    assert tuple(INTERACTION_CORE) == INTERACTION_CORE_FIELDS
    assert ["created_at_utc", "ended_at_utc", "stats"] == EPHEMERAL
    assert ["tokens_input", "tokens_output", "latency_ms"] == INTERACTION_EPHEMERAL


def test_the_hash_can_be_recomputed_by_hand() -> None:
    """Sorted keys, no white space, no newline, SHA-256: with nothing but the standard library."""
    value = example_session("Paris.", "é")
    core = {name: value[name] for name in SESSION_CORE}
    core["interactions"] = [{name: item[name] for name in INTERACTION_CORE} for item in value["interactions"]]
    text = json.dumps(core, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    assert f"sha256:{hashlib.sha256(text.encode()).hexdigest()}" == model_io_hash(value)
    assert core == model_io_core(value)


@pytest.mark.parametrize("anything", ANYTHING, ids=ascii)
@pytest.mark.parametrize("field", [*EPHEMERAL, "unknown_field", "hash", "__proto__", "\ud800"], ids=ascii)
def test_mi12_no_ephemeral_field_of_a_session_reaches_the_hash(field: str, anything: Any) -> None:
    """With any value or none: the recording has the same hash, and stays valid."""
    value = example_session("a", "b")
    without = {name: member for name, member in value.items() if name != field}

    assert model_io_hash(value) == model_io_hash(value | {field: anything}) == model_io_hash(without)
    assert verify_session(value) == verify_session(value | {field: anything}) == verify_session(without)


@pytest.mark.parametrize("anything", ANYTHING, ids=ascii)
@pytest.mark.parametrize("field", [*INTERACTION_EPHEMERAL, "unknown_field", "hash", "\ud800"], ids=ascii)
def test_mi12_no_ephemeral_field_of_an_interaction_reaches_the_hash(field: str, anything: Any) -> None:
    """The same one level deeper."""
    value, changed, without = (copy.deepcopy(example_session("a", "b")) for _ in range(3))
    changed["interactions"][1][field] = anything
    without["interactions"][1].pop(field, None)

    assert model_io_hash(value) == model_io_hash(changed) == model_io_hash(without)
    assert verify_session(value) == verify_session(changed) == verify_session(without)


@pytest.mark.parametrize("field", SESSION_CORE)
def test_every_core_field_of_a_session_reaches_the_hash(field: str) -> None:
    """Another value is another name, also where both are valid."""
    others = {"model_io_schema_version": "1.0.1", "mode": "replay", "interactions": []}
    value = example_session("a", "b")
    changed = value | {field: others.get(field, "other")}

    assert model_io_hash(value) != model_io_hash(changed)
    assert isinstance(verify_session(changed), ValidRecording)


@pytest.mark.parametrize("field", INTERACTION_CORE)
def test_every_core_field_of_an_interaction_reaches_the_hash(field: str) -> None:
    """Another value is another name; a field that is absent stays absent."""
    others: dict[str, Any] = {"i": 7, "prompt_hash": DIGEST, "response_hash": DIGEST, "response_content": "other"}
    value, changed, without = (example_session("a", "b") for _ in range(3))
    changed["interactions"][1][field] = others[field]
    hashes = {model_io_hash(value), model_io_hash(changed)}
    if field != "i":
        del without["interactions"][1][field]
        hashes.add(model_io_hash(without))

    assert (2 if field == "i" else 3) == len(hashes)


def test_interactions_are_hashed_in_the_order_of_their_index() -> None:
    """As in section 4.3 of the specification, in any order in the file; the session itself is not changed."""
    value = example_session(*"abcdefghijkl")
    shuffled = value | {"interactions": value["interactions"][::-1]}

    assert model_io_hash(value) == model_io_hash(shuffled)
    assert 11 == shuffled["interactions"][0]["i"]


@settings(max_examples=scale_examples(100), deadline=None)
@given(st.lists(st.text(), max_size=4), st.randoms())
def test_the_order_and_notation_of_a_file_do_not_reach_the_hash(contents: list[str], chance: Any) -> None:
    """Members in any order, indices as floats, any indentation: one logical recording, one name."""
    value = example_session(*contents)
    members = list(value.items())
    chance.shuffle(members)
    other = dict(members)
    other["interactions"] = [
        dict(reversed({**item, "i": float(item["i"])}.items())) for item in value["interactions"]
    ]

    assert model_io_hash(value) == model_io_hash(json.loads(json.dumps(other, indent=chance.choice([None, 2]))))


def test_hashing_a_session_does_not_change_it() -> None:
    """Nothing is sorted, dropped or converted in the caller's value."""
    value = example_session("b", "a")
    value["interactions"].reverse()
    before = repr(value)
    model_io_hash(value)

    assert before == repr(value)


def test_a_written_session_is_canonical_text_and_one_newline() -> None:
    """Every field is kept, ephemeral ones too; equal sessions are equal bytes."""
    value = example_session("é\ud800")
    data = write_session(value)

    assert data == write_session(dict(reversed(value.items())))
    assert data.startswith(b'{"adapter_id":"openai-chat","created_at_utc":')
    assert data.endswith(b"}\n")
    assert "é\\ud800" in data.decode()
    assert value == json.loads(data)
    assert digest_text("é\ufffd") == value["interactions"][0]["response_hash"]

"""`context/model/cache_keys.py`: two keys in which nothing runs into anything else."""

from __future__ import annotations

import hashlib
import json
from itertools import combinations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.json_texts import fuzz
from traceforge.context.model.cache_keys import Runtime, kv_compatibility_key, materialization_key, read_runtime
from traceforge.context.model.objects import Snapshot
from traceforge.errors import NotJSON, StoreRefused

SERIALISED = [
    "tokenizer_revision",
    "chat_template_revision",
    "tool_serialization_revision",
    "response_schema_serialization_revision",
    "renderer_revision",
]
COMPUTED = [
    "model_revision",
    "quantization",
    "engine",
    "engine_version",
    "parallel_topology",
    "kv_dtype",
    "kv_block_size",
    "isolation_namespace",
    "purge_generation",
]
NUMBERS = {"kv_block_size", "purge_generation"}
WORDS = [name for name in SERIALISED + COMPUTED if name not in NUMBERS]
KEY = "sha256:" + "0" * 64


def _snapshot(**changed: object) -> Snapshot:
    snapshot = Snapshot(
        id="snp_" + "0" * 26,
        session_id="ses_" + "0" * 26,
        branch_id="br_" + "0" * 26,
        branch_version=1,
        prompt_compiler_revision="pc_1",
        ordered_block_manifest=[],
        ordered_block_manifest_digest="sha256:" + "1" * 64,
        created_at="2026-01-09T10:30:00Z",
    )
    return msgspec.structs.replace(snapshot, **changed)


def _by_hand(domain: str, fields: list[tuple[str, object]]) -> str:
    text = f"{domain}\n".encode()
    for tag, value in fields:
        data = str(value).encode()
        text += f"{tag}:-\n".encode() if value is None else f"{tag}:{len(data)}:".encode() + data + b"\n"
    return "sha256:" + hashlib.sha256(text).hexdigest()


runtimes = st.builds(
    Runtime,
    **{name: st.none() | st.sampled_from(["", "a", "ab", "b", "c", "bc", "-", "1:a"]) for name in WORDS},
    kv_block_size=st.none() | st.integers(1, 3),
    purge_generation=st.none() | st.integers(0, 3),
)


@fuzz(100)
@given(runtimes)
def test_both_keys_are_recomputed_by_hand(runtime: Runtime) -> None:
    """The fields of the specification, in its order, under two domains."""
    snapshot = _snapshot()

    first = materialization_key(snapshot, runtime)
    second = kv_compatibility_key(first, runtime)

    assert first == _by_hand(
        "traceforge.materialization.v2",
        [
            ("snapshot_id", snapshot.id),
            ("prompt_compiler_revision", "pc_1"),
            *((name, getattr(runtime, name)) for name in SERIALISED),
            ("ordered_block_manifest_digest", snapshot.ordered_block_manifest_digest),
        ],
    )
    assert second == _by_hand(
        "traceforge.kv.v1", [("materialization_key", first), *((name, getattr(runtime, name)) for name in COMPUTED)]
    )


@fuzz(300)
@given(runtimes, runtimes)
def test_two_runtimes_have_the_same_keys_only_where_they_are_the_same(first: Runtime, other: Runtime) -> None:
    """Each key is equal if and only if every field of its layer is."""
    snapshot = _snapshot()

    def layer(runtime: Runtime, names: list[str]) -> list[object]:
        return [getattr(runtime, name) for name in names]

    same_tokens = materialization_key(snapshot, first) == materialization_key(snapshot, other)
    same_cache = kv_compatibility_key(KEY, first) == kv_compatibility_key(KEY, other)

    assert (layer(first, SERIALISED) == layer(other, SERIALISED)) == same_tokens
    assert (layer(first, COMPUTED) == layer(other, COMPUTED)) == same_cache


@pytest.mark.parametrize(("first", "second"), list(combinations(WORDS, 2)))
def test_values_that_run_into_each_other_do_not_collide(first: str, second: str) -> None:
    """("ab", "c"), ("a", "bc"), swapped values, empty ones and nulls in any two fields: each pair is another key."""
    pairs = [
        ("ab", "c"),
        ("a", "bc"),
        ("abc", ""),
        ("", "abc"),
        ("c", "ab"),
        ("x", None),
        (None, "x"),
        (None, ""),
        ("", None),
    ]
    runtimes = [Runtime(**{first: left, second: right}) for left, right in pairs]

    keys = {
        (key := materialization_key(_snapshot(), runtime), kv_compatibility_key(key, runtime)) for runtime in runtimes
    }

    assert len(pairs) == len(keys)


@pytest.mark.parametrize("name", SERIALISED + COMPUTED)
def test_every_field_matters_in_its_own_layer_and_null_is_a_value(name: str) -> None:
    """What serialises changes both keys; what computes changes the second alone."""
    values: list[object] = [None, 1, 2, 12] if name in NUMBERS else [None, "", "-", "a", "b"]
    runtimes = [Runtime(**{name: value}) for value in values]

    first = {materialization_key(_snapshot(), runtime) for runtime in runtimes}
    second = {kv_compatibility_key(materialization_key(_snapshot(), runtime), runtime) for runtime in runtimes}

    assert (len(values) if name in SERIALISED else 1) == len(first)
    assert len(values) == len(second)


def test_the_snapshot_matters() -> None:
    """Its id, its compiler and its manifest; not what they were found under."""
    base = materialization_key(_snapshot(), Runtime())
    others = [
        {"id": "snp_" + "1" * 26},
        {"prompt_compiler_revision": "pc_2"},
        {"ordered_block_manifest_digest": "sha256:" + "2" * 64},
    ]

    assert 4 == len({base, *(materialization_key(_snapshot(**changed), Runtime()) for changed in others)})
    assert base == materialization_key(_snapshot(branch_version=9, session_id="ses_" + "1" * 26), Runtime())


def test_the_two_keys_of_one_input_differ() -> None:
    """Equal texts under two domains have two names."""
    assert materialization_key(_snapshot(), Runtime()) != kv_compatibility_key(KEY, Runtime())
    assert kv_compatibility_key(KEY, Runtime()) != kv_compatibility_key("sha256:" + "1" * 64, Runtime())


def test_a_runtime_is_read_from_json() -> None:
    """What is absent is null, and null is null."""
    settings = {
        "engine": "vllm",
        "engine_version": "0.11.0",
        "kv_block_size": 16,
        "kv_dtype": None,
        "purge_generation": 0,
    }

    runtime = read_runtime(json.dumps(settings).encode())

    assert Runtime(engine="vllm", engine_version="0.11.0", kv_block_size=16, purge_generation=0) == runtime
    assert Runtime() == read_runtime(b"{}")
    assert kv_compatibility_key(KEY, runtime) == _by_hand(
        "traceforge.kv.v1", [("materialization_key", KEY), *((name, settings.get(name)) for name in COMPUTED)]
    )
    assert SERIALISED + COMPUTED == list(Runtime.__struct_fields__)


@pytest.mark.parametrize(
    ("text", "problem", "param"),
    [
        ('{"engin": "vllm"}', r"\$\.engin: unknown field", "engin"),
        ('{"kv_block_size": "16"}', r"\$\.kv_block_size: must be number or null, got string", "kv_block_size"),
        ('{"kv_block_size": 0}', r"\$\.kv_block_size: must be at least 1, got 0", "kv_block_size"),
        ('{"kv_block_size": 1.5}', r"\$\.kv_block_size: must be a whole number, got 1\.5", "kv_block_size"),
        ('{"purge_generation": -1}', r"\$\.purge_generation", "purge_generation"),
        ('{"model_revision": 3}', r"\$\.model_revision", "model_revision"),
        ("[]", "object", None),
    ],
)
def test_a_file_that_is_no_runtime_is_refused(text: str, problem: str, param: str | None) -> None:
    """An unknown field is not passed over: it would be missing from the key."""
    with pytest.raises(StoreRefused, match=problem) as refused:
        read_runtime(text.encode())

    assert ("invalid_runtime", 400, param) == (refused.value.reason, refused.value.status, refused.value.param)


def test_a_file_that_is_no_json_says_where() -> None:
    """As every other file."""
    with pytest.raises(NotJSON, match="line 1"):
        read_runtime(b"{")


def test_a_project_gives_its_namespace_and_its_generation() -> None:
    """A purge changes every key, and a runtime that still names the old generation is refused."""
    project = "prj_" + "0" * 26
    before, after = Runtime().for_project(project, 0), Runtime().for_project(project, 1)

    assert (project, 1) == (after.isolation_namespace, after.purge_generation)
    assert kv_compatibility_key(KEY, before) != kv_compatibility_key(KEY, after)
    assert "mine" == Runtime(isolation_namespace="mine").for_project(project, 1).isolation_namespace
    assert after == Runtime(purge_generation=1).for_project(project, 1)
    with pytest.raises(StoreRefused, match="purge_generation 0, but the project has 1") as refused:
        Runtime(purge_generation=0).for_project(project, 1)
    assert "stale_purge_generation" == refused.value.reason

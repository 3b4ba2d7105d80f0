"""`modelio/recording_verifier.py`: the vectors of the original, and an independent verifier in JavaScript."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.corpus import shared_path
from support.example_counts import scale_examples
from support.format_examples import DIGEST
from support.json_texts import shallow_texts
from support.node import Node
from traceforge.canon import canonical_bytes, digest_text, parse_json
from traceforge.modelio.recording_verifier import (
    VerifyOptions,
    result_line,
    verify_session,
)


@pytest.fixture(scope="module")
def second_verifier() -> Iterator[Node]:
    """`tests/oracles/model_io.js`, written from the rules alone."""
    node = Node("model_io.js")
    yield node
    node.close()


# ---------------------------------------------------------------------------------------------
# Vectors of the original


def _vectors() -> list[Any]:
    place = shared_path("vectors/model_io.json")
    if not place.exists():
        return [pytest.param({}, marks=pytest.mark.skip(reason=f"shared data is absent: {place}"))]
    cases = json.loads(place.read_bytes())["cases"]
    return [pytest.param(case, id=f"{place}-{case['name']}") for place, case in enumerate(cases)]


def _options(case: dict[str, Any]) -> VerifyOptions:
    options = case["options"]
    return VerifyOptions(
        response_hashes=options.get("verifyResponseHashes", True), size_limits=options.get("enforceSizeLimits", True)
    )


@pytest.mark.parametrize("case", _vectors())
def test_a_vector_has_the_result_of_the_original(case: dict[str, Any]) -> None:
    """The same verdict, the same violations in the same order, the same hash."""
    result = verify_session(parse_json(case["input_json"].encode()), _options(case))

    assert case["result"] == result.to_json()


@pytest.mark.parametrize("case", _vectors())
def test_a_vector_is_printed_as_the_original_printed_it(case: dict[str, Any]) -> None:
    """One canonical JSON line, byte for byte."""
    result = verify_session(parse_json(case["input_json"].encode()), _options(case))

    assert case["cli_stdout"].encode() + b"\n" == result_line(result)


# ---------------------------------------------------------------------------------------------
# The second verifier

_DIGESTS = st.sampled_from([DIGEST, "sha256:" + "0" * 64, digest_text(""), digest_text("a")])
_BAD_DIGESTS = st.sampled_from(
    [
        "", "sha256:", DIGEST.upper(), DIGEST[:-1], DIGEST + "0", DIGEST + "\n", "\n" + DIGEST, " " + DIGEST,
        DIGEST[7:], "md5:" + "0" * 32, "sha256:" + "٣" * 64, "sha256:" + "g" * 64, [DIGEST], {"a": DIGEST},
    ]
)  # fmt: skip
_VERSIONS = st.sampled_from(
    [
        "1.0.0", "0.0.0", "01.002.9999", "1.0", "1.0.0.0", "1.0.0\n", "\n1.0.0", "1.0.0-rc1", "v1.0.0", "1..0", "",
        " ", "١.٠.٠", "1.0.٠", "1.0.０", "𝟏.0.0", "1.0.0\u2028", "1.0.²", "1_0.0.0", "+1.0.0",
    ]
)  # fmt: skip
_NUMBERS = st.sampled_from(
    [0, -0.0, 1, 1.0, 2, 3, -1, 0.5, 1e21, 1e-7, 2**53, 2**53 + 1, 2**64, -1e300, 5e-324, 123456789012345680000]
)
_STRANGE_KEYS = st.sampled_from(["a", "i", "toString"])
_STRANGE = st.recursive(
    st.none() | st.booleans() | _NUMBERS | st.sampled_from(["", "0", "1", "a", "é😀", "\ud800", "\udc00\ud800"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_STRANGE_KEYS, inner, max_size=2),
    max_leaves=4,
)
_CONTENTS = st.sampled_from(
    ["", "a", "Paris.", "é😀", "\ud800", "a\udfff\ud800b", "\n", "\x00", "x" * 300]
) | st.text(max_size=5)
_INTERACTION_FIELDS = ("i", "prompt_hash", "response_hash", "response_content")
_SESSION_FIELDS = ("model_io_schema_version", "adapter_id", "model_id", "mode", "interactions")
_UNKNOWN_FIELDS = (
    "tokens_input",
    "latency_ms",
    "__proto__",
    "constructor",
    "length",
    "created_at_utc",
    "stats",
    "\ud800",
)


@st.composite
def _sessions(draw: st.DrawFn) -> dict[str, Any]:
    contents = draw(st.lists(_CONTENTS, max_size=4))
    value = {
        "model_io_schema_version": draw(st.sampled_from(["1.0.0", "1.0.0", "2.10.3"])),
        "adapter_id": draw(st.sampled_from(["openai-chat", "\ud800", "😀", "ﬀ~", "10", "\u0000"])),
        "model_id": draw(st.sampled_from(["gpt-4", "é"])),
        "mode": draw(st.sampled_from(["record", "replay"])),
        "interactions": [
            {
                "i": draw(st.sampled_from([place, float(place)])),
                "prompt_hash": draw(_DIGESTS),
                "response_hash": digest_text(content),
                "response_content": content,
            }
            for place, content in enumerate(contents)
        ],
    }
    for _ in range(draw(st.integers(0, 5))):
        draw(st.sampled_from(_DEFECTS))(draw, value)
    return value


def _interaction(draw: st.DrawFn, value: dict[str, Any]) -> Any:
    """Some interaction; a lost object where there is none, so that the defect has no effect."""
    interactions = value.get("interactions")
    dicts = [item for item in interactions if isinstance(item, dict)] if isinstance(interactions, list) else []
    return draw(st.sampled_from(dicts)) if dicts else {}


def _strange_session_field(draw: st.DrawFn, value: dict[str, Any]) -> None:
    value[draw(st.sampled_from(_SESSION_FIELDS))] = draw(_STRANGE)


def _missing_session_field(draw: st.DrawFn, value: dict[str, Any]) -> None:
    value.pop(draw(st.sampled_from(_SESSION_FIELDS)), None)


def _other_version(draw: st.DrawFn, value: dict[str, Any]) -> None:
    value["model_io_schema_version"] = draw(_VERSIONS)


def _other_mode(draw: st.DrawFn, value: dict[str, Any]) -> None:
    value["mode"] = draw(
        st.sampled_from(["Record", "record\n", "", ["record"], ["record", "replay"], [None], [[1, [2]]], 0])
    )


def _strange_field(draw: st.DrawFn, value: dict[str, Any]) -> None:
    _interaction(draw, value)[draw(st.sampled_from(_INTERACTION_FIELDS))] = draw(_STRANGE)


def _missing_field(draw: st.DrawFn, value: dict[str, Any]) -> None:
    _interaction(draw, value).pop(draw(st.sampled_from(_INTERACTION_FIELDS)), None)


def _bad_digest(draw: st.DrawFn, value: dict[str, Any]) -> None:
    _interaction(draw, value)[draw(st.sampled_from(["prompt_hash", "response_hash"]))] = draw(_BAD_DIGESTS | _DIGESTS)


def _other_index(draw: st.DrawFn, value: dict[str, Any]) -> None:
    _interaction(draw, value)["i"] = draw(_NUMBERS)


def _other_content(draw: st.DrawFn, value: dict[str, Any]) -> None:
    _interaction(draw, value)["response_content"] = draw(_CONTENTS)


def _unknown_field(draw: st.DrawFn, value: dict[str, Any]) -> None:
    where = draw(st.sampled_from([value, _interaction(draw, value)]))
    where[draw(st.sampled_from(_UNKNOWN_FIELDS))] = draw(_STRANGE)


def _no_object(draw: st.DrawFn, value: dict[str, Any]) -> None:
    if isinstance(value.get("interactions"), list):
        value["interactions"].insert(draw(st.integers(0, 4)), draw(_STRANGE))


def _duplicate(draw: st.DrawFn, value: dict[str, Any]) -> None:
    if isinstance(value.get("interactions"), list):
        value["interactions"].append(copy.deepcopy(_interaction(draw, value)))


def _reorder(draw: st.DrawFn, value: dict[str, Any]) -> None:
    if isinstance(value.get("interactions"), list):
        value["interactions"] = draw(st.permutations(value["interactions"]))


def _many(draw: st.DrawFn, value: dict[str, Any]) -> None:
    """Past ten interactions, `[10]` sorts before `[2]`."""
    if isinstance(value.get("interactions"), list):
        value["interactions"] += [{"i": place} for place in range(11 - len(value["interactions"]))]


_DEFECTS: tuple[Callable[[st.DrawFn, dict[str, Any]], None], ...] = (
    _strange_session_field, _missing_session_field, _other_version, _other_mode, _strange_field, _strange_field,
    _missing_field, _bad_digest, _bad_digest, _other_index, _other_index, _other_content, _unknown_field, _no_object,
    _duplicate, _reorder, _many,
)  # fmt: skip

# -0 and 1e0 exist in text only as long as nobody writes them anew.
_NOTATIONS = st.sampled_from([("0", "-0"), ("0", "0.0"), ("1", "1e0"), ("2", "20e-1"), ("3", "3")])


@st.composite
def _session_texts(draw: st.DrawFn) -> bytes:
    """A session as text, or now and then any other JSON document."""
    if draw(st.integers(0, 19)) == 19:
        return draw(shallow_texts)
    text = json.dumps(draw(_sessions()))
    before, after = draw(_NOTATIONS)
    return re.sub(rf": {before}(?=[,}}])", f": {after}", text).encode()


_flags = st.sampled_from([(True, True), (True, True), (True, True), (False, True), (True, False), (False, False)])


def _assert_both_verifiers_agree(node: Node, cases: list[tuple[bytes, tuple[bool, bool]]]) -> None:
    answers = node.ask([f"{hashes:d}{sizes:d}".encode() + text for text, (hashes, sizes) in cases])
    for (text, (hashes, sizes)), answer in zip(cases, answers, strict=True):
        result = verify_session(parse_json(text), VerifyOptions(response_hashes=hashes, size_limits=sizes))

        assert answer == result.to_json(), text
        assert canonical_bytes(answer) + b"\n" == result_line(result)


@settings(max_examples=scale_examples(100), deadline=None, suppress_health_check=list(HealthCheck))
@given(cases=st.lists(st.tuples(_session_texts(), _flags), min_size=10, max_size=10))
def test_two_verifiers_agree_on_every_session(
    second_verifier: Node, cases: list[tuple[bytes, tuple[bool, bool]]]
) -> None:
    """A thousand sessions with up to five defects: the same violations in the same words, or the same hash."""
    _assert_both_verifiers_agree(second_verifier, cases)


@pytest.mark.slow
@settings(max_examples=1000, deadline=None, suppress_health_check=list(HealthCheck))
@given(cases=st.lists(st.tuples(_session_texts(), _flags), min_size=10, max_size=10))
def test_two_verifiers_agree_on_ten_thousand_sessions(
    second_verifier: Node, cases: list[tuple[bytes, tuple[bool, bool]]]
) -> None:
    """The same for ten thousand."""
    _assert_both_verifiers_agree(second_verifier, cases)


@pytest.mark.parametrize("case", _vectors())
def test_the_second_verifier_gives_the_results_of_the_vectors(second_verifier: Node, case: dict[str, Any]) -> None:
    """So that it can be trusted as the reference."""
    options = _options(case)
    flags = f"{options.response_hashes:d}{options.size_limits:d}"
    (answer,) = second_verifier.ask([(flags + case["input_json"]).encode()])

    assert case["result"] == answer

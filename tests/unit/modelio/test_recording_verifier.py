"""`modelio/recording_verifier.py`: every rule, its limits, and the files of recordings."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.format_examples import DIGEST, example_session
from traceforge.canon import digest_text
from traceforge.errors import InvalidFile, NotJSON
from traceforge.modelio.recording_format import INTERACTIONS_MAX, RESPONSE_BYTES_MAX, TOTAL_BYTES_MAX, write_session
from traceforge.modelio.recording_verifier import (
    InvalidRecording,
    ValidRecording,
    VerifyOptions,
    Violation,
    read_session,
    verify_session,
    verify_session_file,
)


def _violations(value: Any, **options: bool) -> list[tuple[str, str, str]]:
    return [
        (violation.rule_id, violation.path, violation.message)
        for violation in verify_session(value, VerifyOptions(**options)).violations
    ]


def _changed(change: Callable[[dict[str, Any]], object], *contents: str) -> dict[str, Any]:
    value = example_session(*(contents or ("zero", "one", "two")))
    change(value)
    return value


# ---------------------------------------------------------------------------------------------
# Rule by rule


@pytest.mark.parametrize(
    ("value", "type_name"),
    [(None, "null"), ([], "object"), ("x", "string"), (5, "number"), (0.5, "number"), (True, "boolean")],
)
def test_schema_a_session_that_is_not_an_object(value: Any, type_name: str) -> None:
    """With JavaScript's name for the type, and no other violation."""
    assert [("SCHEMA", "$", f"session must be object, got {type_name}")] == _violations(value)


@pytest.mark.parametrize("field", ["adapter_id", "model_id", "mode", "interactions"])
def test_schema_a_missing_field_skips_the_other_rules(field: str) -> None:
    """Presence alone: nothing after it is judged, though other things are wrong too."""
    value = _changed(lambda value: (value.pop(field), value["interactions" if field != "interactions" else "stats"]))
    value["model_id" if field != "model_id" else "adapter_id"] = ""

    assert [("SCHEMA", f"$.{field}", f"required field {field} is missing")] == _violations(value)


def test_schema_null_counts_as_present() -> None:
    """A null id violates MI2, and null interactions are not an array."""
    assert [("MI2", "$.adapter_id", "adapter_id must be non-empty string")] == _violations(
        _changed(lambda value: value.update(adapter_id=None))
    )
    assert [("SCHEMA", "$.interactions", "interactions must be an array")] == _violations(
        _changed(lambda value: value.update(interactions=None))
    )


def test_schema_an_interaction_that_is_null() -> None:
    """The original crashes there; every null is named, and the rest is not judged."""
    value = _changed(lambda value: value["interactions"].extend([None, {}, None]))

    assert [
        ("SCHEMA", "$.interactions[3]", "interaction must be object, got null"),
        ("SCHEMA", "$.interactions[5]", "interaction must be object, got null"),
    ] == _violations(value)


@pytest.mark.parametrize(
    ("version", "message"),
    [
        (None, "is missing"),
        (1.5, "must be string, got number"),
        (["1.0.0"], "must be string, got object"),
        ("", "cannot be empty"),
        ("1.0", "must be semver format, got 1.0"),
        ("1.0.0\n", "must be semver format, got 1.0.0\n"),
        ("1.0.٠", "must be semver format, got 1.0.٠"),
    ],
    ids=ascii,
)
def test_mi1_the_version(version: Any, message: str) -> None:
    """Three runs of ASCII digits, the whole string."""
    value = _changed(lambda value: value.update(model_io_schema_version=version))

    assert [("MI1", "$.model_io_schema_version", f"model_io_schema_version {message}")] == _violations(value)


@pytest.mark.parametrize("bad", ["", None, 5, [], ["a"], True], ids=ascii)
@pytest.mark.parametrize("field", ["adapter_id", "model_id"])
def test_mi2_an_id_is_a_text_that_is_not_empty(field: str, bad: Any) -> None:
    """Each of the two."""
    assert [("MI2", f"$.{field}", f"{field} must be non-empty string")] == _violations(
        _changed(lambda value: value.update({field: bad}))
    )


@pytest.mark.parametrize(
    ("mode", "shown_mode"),
    [("RECORD", "RECORD"), (None, "null"), ({}, "[object Object]"), ([1, None, [2, "a"]], "1,,2,a"), (1e21, "1e+21")],
)
def test_mi3_the_mode(mode: Any, shown_mode: str) -> None:
    """`record` or `replay`; anything else is shown as JavaScript would."""
    assert [("MI3", "$.mode", f"mode must be one of [record, replay], got {shown_mode}")] == _violations(
        _changed(lambda value: value.update(mode=mode))
    )


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ("1", "index must be a number, got string"),
        (True, "index must be a number, got boolean"),
        (None, "index must be a number, got object"),
        (1.5, "index must be 1, got 1.5"),
        (2**53 + 1, "index must be 1, got 9007199254740992"),
    ],
)
def test_mi5_an_index_is_the_position_of_its_interaction(index: Any, message: str) -> None:
    """It must be a number; `true` is not one."""
    violations = _violations(_changed(lambda value: value["interactions"][1].update(i=index)))

    assert ("MI5", "$.interactions[1].i", message) == violations[0]


@pytest.mark.parametrize("index", [0, 0.0, -0.0])
def test_mi5_zero_is_zero_in_any_spelling(index: float) -> None:
    """JavaScript's `-0 === 0`."""
    assert [] == _violations(_changed(lambda value: value["interactions"][0].update(i=index)))


@pytest.mark.parametrize("bad", [DIGEST[:-1], DIGEST + "\n", DIGEST.upper(), "", None, [DIGEST]], ids=ascii)
def test_mi6_a_prompt_hash_is_a_digest(bad: Any) -> None:
    """The whole string, in lower case; a list with one string is refused."""
    (violation,) = _violations(_changed(lambda value: value["interactions"][1].update(prompt_hash=bad)))

    assert ("MI6", "$.interactions[1].prompt_hash") == violation[:2]
    assert violation[2].startswith("prompt_hash must be sha256:<64 hex chars>, got ")


def test_mi7_a_response_hash_is_the_hash_of_the_response() -> None:
    """The message has both; with the check switched off there is no violation."""
    value = _changed(lambda value: value["interactions"][1].update(response_content="changed"))
    message = f"response_hash mismatch: expected {digest_text('changed')}, got {digest_text('one')}"

    assert [("MI7", "$.interactions[1].response_hash", message)] == _violations(value)
    assert [] == _violations(value, response_hashes=False)


def test_mi7_a_malformed_response_hash_is_reported_once() -> None:
    """This item is skipped; a content of another type beside it is not a second violation."""
    value = _changed(lambda value: value["interactions"][1].update(response_hash="x", response_content=5))

    assert [
        ("MI7", "$.interactions[1].response_hash", "response_hash must be sha256:<64 hex chars>, got x")
    ] == _violations(value)


@pytest.mark.parametrize(
    ("content", "type_name"), [(None, "object"), (5, "number"), ([], "object"), (True, "boolean")]
)
def test_mi7_a_content_that_is_not_text(content: Any, type_name: str) -> None:
    """Named with JavaScript's word for its type."""
    value = _changed(lambda value: value["interactions"][1].update(response_content=content))
    message = f"response_content must be a string, got {type_name}"

    assert [("MI7", "$.interactions[1].response_content", message)] == _violations(value)


def test_mi7_a_lone_surrogate_hashes_as_the_replacement_character() -> None:
    """As Node encodes it: three bytes."""
    value = example_session("a\ud800b")
    value["interactions"][0]["response_hash"] = digest_text("a\ufffdb")

    assert [] == _violations(value)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"prompt_hash": DIGEST, "i": 0}, {"prompt_hash": DIGEST, "i": 0}),
        ({"prompt_hash": DIGEST, "i": 0}, {"prompt_hash": DIGEST, "i": "0"}),
        ({"prompt_hash": DIGEST, "i": -0.0}, {"prompt_hash": [DIGEST], "i": 0}),
        ({}, {}),
        ({}, {"prompt_hash": "undefined", "i": "undefined"}),
        ({"prompt_hash": "a|1", "i": 2}, {"prompt_hash": "a", "i": "1|2"}),
    ],
    ids=ascii,
)
def test_mi8_a_pair_is_compared_as_the_text_that_javascript_makes_of_it(
    first: dict[str, Any], second: dict[str, Any]
) -> None:
    """The key is the template `${prompt_hash}|${i}`, so unlike values can make the same key."""
    value = example_session() | {"interactions": [first, second]}

    assert ("MI8", "$.interactions[1]", "duplicate (prompt_hash, i) pair at index 1") in _violations(value)


def test_mi8_the_same_prompt_may_be_asked_twice() -> None:
    """At another index it is another pair."""
    value = _changed(lambda value: [item.update(prompt_hash=DIGEST) for item in value["interactions"]])

    assert [] == _violations(value)


@pytest.mark.parametrize(
    ("indices", "expected"),
    [
        ([1, 0, 2], {1: "1 >= 0"}),
        ([0, 0, 2], {1: "0 >= 0"}),
        ([2, 1, 0], {1: "2 >= 1", 2: "1 >= 0"}),
        ([0, "x", 0], {}),
        ([0, True, 0], {}),
        ([5, 1e21, -0.0], {2: "1e+21 >= 0"}),
    ],
    ids=ascii,
)
def test_mi9_neighbours_that_are_both_numbers_ascend(indices: list[Any], expected: dict[int, str]) -> None:
    """Each is compared with the one before; a value that is not a number is skipped."""
    value = _changed(lambda value: [item.update(i=i) for item, i in zip(value["interactions"], indices, strict=True)])
    violations = [violation for violation in _violations(value) if violation[0] == "MI9"]

    assert [
        ("MI9", f"$.interactions[{place}]", f"interactions not sorted by i: {text}")
        for place, text in expected.items()
    ] == violations


def test_mi10_violations_are_sorted_as_plain_text() -> None:
    """`MI11` before `MI2`, and `[10]` before `[2]`."""
    value = example_session(*[str(place) for place in range(11)])
    for place in (2, 10):
        value["interactions"][place]["prompt_hash"] = "x"
    value["adapter_id"] = ""
    value["interactions"][0].update(response_content="x" * 1_000_001, response_hash=digest_text("x" * 1_000_001))

    assert ["MI11", "MI2", "MI6", "MI6"] == [violation[0] for violation in _violations(value)]
    assert ["$.interactions[10].prompt_hash", "$.interactions[2].prompt_hash"] == [
        violation[1] for violation in _violations(value)[2:]
    ]


@pytest.mark.parametrize("item", ["text", 5, True, [], [1, 2], ""], ids=ascii)
def test_an_interaction_that_is_not_an_object_lacks_every_field(item: Any) -> None:
    """MI5, MI6 and MI7 speak, with `undefined`."""
    value = example_session() | {"interactions": [item]}

    assert [
        ("MI5", "$.interactions[0].i", "index must be a number, got undefined"),
        ("MI6", "$.interactions[0].prompt_hash", "prompt_hash must be sha256:<64 hex chars>, got undefined"),
        ("MI7", "$.interactions[0].response_hash", "response_hash must be sha256:<64 hex chars>, got undefined"),
    ] == _violations(value)


# ---------------------------------------------------------------------------------------------
# Limits


def _long(count: int) -> dict[str, Any]:
    item = example_session("x")["interactions"][0]
    return example_session() | {"interactions": [item | {"i": place} for place in range(count)]}


def test_mi4_ten_thousand_interactions_are_allowed_and_one_more_is_not() -> None:
    """Inclusive; switched off with the size limits."""
    assert 10_000 == INTERACTIONS_MAX
    assert [] == _violations(_long(10_000))
    assert [("MI4", "$.interactions", "interactions length (10001) exceeds limit (10000)")] == _violations(
        _long(10_001)
    )
    assert [] == _violations(_long(10_001), size_limits=False)


@pytest.mark.parametrize("text", ["x", "é", pytest.param("\ud800", marks=pytest.mark.slow)], ids=ascii)
def test_mi11_a_response_of_a_million_bytes_is_allowed_and_one_more_is_not(text: str) -> None:
    """Bytes of UTF-8, not characters; a lone surrogate counts three."""
    size = len(text.encode("utf-8", "replace")) if text != "\ud800" else 3
    most = text * (1_000_000 // size) + "x" * (1_000_000 % size)
    message = "response_content size (1000001 bytes) exceeds limit (1000000)"

    assert 1_000_000 == RESPONSE_BYTES_MAX
    assert [] == _violations(example_session(most))
    assert [("MI11", "$.interactions[1].response_content", message)] == _violations(example_session("a", most + "x"))
    assert [] == _violations(example_session(most + "x"), size_limits=False)


def test_mi11_a_hundred_million_bytes_in_all_are_allowed_and_one_more_is_not() -> None:
    """A hundred times the same million, so that memory holds one; then one byte more."""
    most = example_session(*["x" * 1_000_000] * 100)
    message = "total response bytes (100000001) exceeds limit (100000000)"

    assert 100_000_000 == TOTAL_BYTES_MAX
    assert [] == _violations(most, response_hashes=False)
    most["interactions"].append(example_session("x")["interactions"][0] | {"i": 100})
    assert [("MI11", "$.interactions", message)] == _violations(most, response_hashes=False)
    assert [] == _violations(most, response_hashes=False, size_limits=False)


def test_mi11_a_content_that_is_not_text_has_no_bytes() -> None:
    """Its type is MI7's to report."""
    value = example_session("a") | {
        "interactions": [example_session("a")["interactions"][0] | {"response_content": ["x" * 1_000_001]}]
    }

    assert ["MI7"] == [violation[0] for violation in _violations(value)]


# ---------------------------------------------------------------------------------------------
# Files, results


def test_a_file_has_the_verdict_of_its_value(tmp_path: Path) -> None:
    file = tmp_path / "model_io.json"
    file.write_bytes(write_session(example_session("a")))
    assert verify_session(example_session("a")) == verify_session_file(str(file))

    file.write_text(json.dumps(example_session("a") | {"mode": ""}))
    assert verify_session(example_session("a") | {"mode": ""}) == verify_session_file(str(file))


@pytest.mark.parametrize(("make", "rule"), [(lambda file: None, "IO"), (os.mkfifo, "IO"), (os.mkdir, "IO")])
def test_a_file_that_cannot_be_read_is_one_violation(tmp_path: Path, make: Any, rule: str) -> None:
    """Missing, a FIFO, a folder: IO with the file as its path."""
    file = tmp_path / "model_io.json"
    make(file)
    (violation,) = verify_session_file(str(file)).violations

    assert (rule, str(file)) == violation[:2]


def test_a_file_that_is_not_json_is_one_violation(tmp_path: Path) -> None:
    """PARSE, with the place in its message."""
    file = tmp_path / "model_io.json"
    file.write_bytes(b'{"mode": }')

    (violation,) = verify_session_file(str(file)).violations
    assert ("PARSE", str(file)) == violation[:2]
    assert "line 1 column 10" in violation.message


def test_a_link_is_followed_only_where_the_user_named_it(tmp_path: Path) -> None:
    """Inside a pack it is not."""
    (tmp_path / "real.json").write_bytes(write_session(example_session("a")))
    (tmp_path / "model_io.json").symlink_to("real.json")

    assert isinstance(verify_session_file(str(tmp_path / "model_io.json")), ValidRecording)
    assert ["IO"] == [
        v.rule_id for v in verify_session_file(str(tmp_path / "model_io.json"), follow_links=False).violations
    ]


def test_a_valid_session_is_read_and_an_invalid_one_is_not() -> None:
    """The reader raises with every violation as a finding."""
    assert example_session("a", "b") == read_session(write_session(example_session("a", "b")))
    with pytest.raises(InvalidFile) as caught:
        read_session(json.dumps(example_session("a") | {"mode": "", "adapter_id": ""}).encode())
    with pytest.raises(NotJSON):
        read_session(b"{")

    assert ["MI2", "MI3"] == [finding.rule for finding in caught.value.findings]


def test_a_result_is_printed_as_json() -> None:
    """Three members when valid, two when not; a valid one has no violations."""
    valid, invalid = verify_session(example_session("a")), verify_session(None)

    assert isinstance(valid, ValidRecording)
    assert {"ok": True, "interactions_count": 1, "model_io_hash": valid.model_io_hash} == valid.to_json()
    assert () == valid.violations
    assert isinstance(invalid, InvalidRecording)
    assert {"ok": False, "violations": [Violation("SCHEMA", "$", "session must be object, got null")._asdict()]} == (
        invalid.to_json()
    )

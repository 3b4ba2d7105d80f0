"""`schemas/`: the packaged JSON Schemas are made from the types and say what the readers say."""

from __future__ import annotations

import importlib.util
import json
import sys
from functools import cache
from types import ModuleType
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.corpus import PROJECT
from support.example_counts import scale_examples
from support.format_examples import FORMATS
from support.format_values import good_values
from support.json_mutations import mutate, mutations
from support.json_places import replace_at
from support.json_texts import fuzz
from traceforge.schemas import NAMES, load_schema

# What a reader demands and a schema cannot say, by the end of the message; docs/reference lists them.
READER_ONLY = (
    "names a day or time that does not exist",
    "is missing beside choices",
    "key and signature belong together: one of them is missing",
    "is in this approval twice",
)

# A reader stops at a version that is not its own, so generated values always have the current one.
VERSIONS: dict[str, dict[str, Any]] = {
    "manifest": {"version": "1.0.0"},
    "snapshot": {"version": "1.0.0"},
    "trace": {"schema_version": "1.0.0"},
}
EVERY_FORMAT = pytest.mark.parametrize("name", NAMES)
FUZZ = settings(fuzz(500), suppress_health_check=list(HealthCheck))


@cache
def _validator(name: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(json.loads(load_schema(name)))


@cache
@cache
def _generator() -> ModuleType:
    sys.path.insert(0, str(PROJECT / "tools"))  # As a script has it.
    spec = importlib.util.spec_from_file_location("generate", PROJECT / "tools" / "generate.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _reader_accepts(name: str, value: Any) -> bool:
    findings = FORMATS[name].check(value)
    return all(finding.message.endswith(READER_ONLY) for finding in findings)


def _assert_both_judge_alike(name: str, value: Any) -> None:
    by_schema = _validator(name).is_valid(value)

    assert by_schema == _reader_accepts(name, value), FORMATS[name].check(value)


def _has_other_version(name: str, value: Any) -> bool:
    """Does its reader stop at the version? The schema does not know which one is current."""
    return any(finding.rule in ("SN2", "TR2") for finding in FORMATS[name].check(value))


@EVERY_FORMAT
def test_a_packaged_schema_is_what_the_generator_makes(name: str) -> None:
    """`make docs` was run after the last change of a type."""
    assert _generator().schema_text(name) == load_schema(name)


def test_every_format_has_a_schema_and_examples() -> None:
    """The package, the generator and these tests know the same formats."""
    assert sorted(NAMES) == list(NAMES)
    assert set(NAMES) == set(_generator().TYPES) == set(FORMATS)
    assert all(_generator().TYPES[name] is FORMATS[name].shape for name in NAMES)


@EVERY_FORMAT
def test_a_schema_is_a_valid_schema_that_names_its_format_and_version(name: str) -> None:
    """Draft 2020-12, with an id that no other format has."""
    schema = json.loads(load_schema(name))
    jsonschema.Draft202012Validator.check_schema(schema)

    assert "https://json-schema.org/draft/2020-12/schema" == schema["$schema"]
    assert f"urn:traceforge:schema:{name}:1.0.0" == schema["$id"]


@pytest.mark.parametrize(
    ("name", "example"),
    [(name, example) for name in NAMES for example in FORMATS[name].examples],
)
def test_a_good_example_passes_its_schema_and_its_reader(name: str, example: Any) -> None:
    """The fullest and the least document of every format."""
    _validator(name).validate(example())

    assert [] == FORMATS[name].check(example())


@EVERY_FORMAT
@settings(FUZZ, max_examples=scale_examples(200))
@given(data=st.data())
def test_a_generated_good_document_passes_its_schema_and_its_reader(name: str, data: st.DataObject) -> None:
    """Any optional fields, any open members, any text: what fits the type passes both."""
    value = data.draw(_good(name))
    if name == "snapshot" and any(_asks_nothing_or_twice(record) for record in value["snapshots"]):
        _assert_both_judge_alike(name, value)
        return

    _validator(name).validate(value)
    assert _reader_accepts(name, value), FORMATS[name].check(value)


@cache
def _good(name: str) -> st.SearchStrategy[Any]:
    return good_values(FORMATS[name].shape, VERSIONS.get(name, {}))


def _asks_nothing_or_twice(record: dict[str, Any]) -> bool:
    """Whether a record breaks a rule about its request that types cannot express."""
    request = record["request"]
    is_limited = request["max_tokens"] != 0 or "max_tokens" in request.get("declared", [])
    return len({"messages", "prompt"} & set(request)) != 1 or not is_limited


@EVERY_FORMAT
@FUZZ
@given(data=st.data())
def test_a_schema_accepts_what_its_reader_accepts_and_nothing_else(name: str, data: st.DataObject) -> None:
    """For any change of a valid document, both agree about its shape."""
    value = mutate(data.draw(st.sampled_from(FORMATS[name].examples))(), data.draw(mutations))
    if not _has_other_version(name, value):
        _assert_both_judge_alike(name, value)


@EVERY_FORMAT
@settings(FUZZ, max_examples=scale_examples(100))
@given(data=st.data())
def test_a_changed_generated_document_gets_the_same_verdict_from_both(name: str, data: st.DataObject) -> None:
    """The same with generated documents to start from."""
    value = mutate(data.draw(_good(name)), data.draw(mutations))
    if not _has_other_version(name, value):
        _assert_both_judge_alike(name, value)


@pytest.mark.parametrize(
    ("name", "path", "value", "rule"),
    [
        ("snapshot", ["version"], "0.9.0", "SN2"),
        ("manifest", ["version"], "0.9.0", "SN2"),
        ("trace", ["schema_version"], "0.9.0", "TR2"),
        ("snapshot", ["snapshots", 0, "timestamp"], "2026-02-30T00:00:00Z", "SN1"),
        ("trace", ["timestamp"], "2026-02-30T00:00:00Z", "TR1"),
        ("context-snapshot", ["created_at"], "2026-02-30T00:00:00Z", "CS1"),
        ("execution-trace", ["timestamp"], "2026-02-30T00:00:00Z", "ET1"),
        ("approval", ["approved_at"], "2026-02-30T00:00:00Z", "AP1"),
        ("approval", ["changes", 1, "id"], "abc", "AP1"),
        ("approval", ["signature"], "signed", "AP1"),
        ("trace", ["response"], {"object": "chat.completion", "choices": []}, "TR1"),
    ],
    ids=lambda case: case if isinstance(case, str) else "",
)
def test_rules_that_a_schema_cannot_express_are_checked_by_the_reader(
    name: str, path: list[Any], value: Any, rule: str
) -> None:
    """The rules that docs/reference lists under that heading."""
    document = replace_at(FORMATS[name].examples[0](), tuple(path), value)

    assert {rule} == {finding.rule for finding in FORMATS[name].check(document)}
    assert _validator(name).is_valid(document)

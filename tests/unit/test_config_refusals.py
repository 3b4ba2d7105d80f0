"""`config.py`: what is refused, with its key, its place and what to write instead."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from support.config_files import find_refusals, load_project_config, mark_project, refusal_messages, write_config
from traceforge.config import CONFIG_BYTES_MAX, CONFIG_FILE, PYPROJECT_FILE, Config
from traceforge.errors import CannotRead, InvalidConfig


@pytest.mark.parametrize(
    ("name", "url", "expected_message"),
    [
        ("v1", "http://a", "name"),
        ("a/b", "http://a", "name"),
        ("", "http://a", "name"),
        ("a", "a.example.com", "http://"),
        ("a", "ftp://a", "http://"),
        ("a", "http://", "http://"),
        ("a", "http://a:0", "http://"),
        ("a", "http://a:b", "not a URL"),
        ("a", "http://me:s3cret@a", "user or a password"),
        ("a", "http://a/?s3cret", "path"),
        ("a", "http://a b", "ASCII"),
    ],
)
def test_an_upstream_that_cannot_be_used_is_named_without_its_address(
    tmp_path: Path, name: str, url: str, expected_message: str
) -> None:
    """The address could hold a secret."""
    (message,) = refusal_messages(write_config(tmp_path, {"upstreams": {name: url}}))

    assert expected_message in message
    assert "s3cret" not in message


@pytest.mark.parametrize(
    ("key", "nearest"),
    [("trace_dir", "traces_dir"), ("redact_field", "redact_fields"), ("model", "models"), ("Models", "models")],
)
def test_an_unknown_key_is_refused_with_the_nearest_known_one(tmp_path: Path, key: str, nearest: str) -> None:
    """A typing mistake must not silently mean a default."""
    (finding,) = find_refusals(write_config(tmp_path, {key: 1}))

    assert f"unknown key {key}" == finding.message
    assert f"Did you mean {nearest}?" == finding.hint
    assert (CONFIG_FILE, f"$.{key}", "CF1") == (finding.file, finding.path, finding.rule)


def test_a_key_without_a_similar_one_gets_the_list_of_known_keys(tmp_path: Path) -> None:
    (finding,) = find_refusals(write_config(tmp_path, {"zzz": 1}))

    assert f"Known here: {', '.join(sorted(Config.__struct_fields__))}." == finding.hint


@pytest.mark.parametrize("name", [CONFIG_FILE, PYPROJECT_FILE])
def test_an_unknown_key_of_a_model_is_refused_with_the_nearest_known_one(tmp_path: Path, name: str) -> None:
    """In both sources."""
    text = (
        json.dumps({"models": {"claude-*": {"gates": "request"}}})
        if name == CONFIG_FILE
        else '[tool.traceforge.models."claude-*"]\ngates = "request"\n'
    )
    (finding,) = find_refusals(write_config(mark_project(tmp_path), text, name))

    assert "unknown key models['claude-*'].gates" == finding.message
    assert "Did you mean models['claude-*'].gate?" == finding.hint


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"models": {"gpt-*": {"match": {"redacted": "count"}}}}, "unknown key models['gpt-*'].match.redacted"),
        ({"test": {"match": {"a.py::*": {"headers": []}}}}, "unknown key test.match['a.py::*'].headers"),
        ({"test": {"match": {"*": {}}}}, "test.match: the pattern '*' means every test"),
        ({"test": {"match": {"*test*": {}}}}, "test.match: the pattern '*test*' means every test"),
        (
            {"test": {"match": {"a.py::*": {"ignore_paths": ["$.*"]}}}},
            "test.match[\"a.py::*\"].ignore_paths[0] is '$.*', which means everything",
        ),
        (
            {"models": {"gpt-*": {"match": {"ignore_paths": ["$[*]"]}}}},
            "models[\"gpt-*\"].match.ignore_paths[0] is '$[*]', which means everything",
        ),
    ],
)
def test_a_declaration_for_a_model_or_a_test_has_two_settings_and_names_something(
    tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    assert [message] == refusal_messages(write_config(mark_project(tmp_path), settings))


@pytest.mark.parametrize("pattern", ["*", "**", ""])
def test_a_pattern_that_declares_every_model_is_refused(tmp_path: Path, pattern: str) -> None:
    """A bare `*` would switch the gate off for models added later."""
    (finding,) = find_refusals(write_config(tmp_path, {"models": {pattern: {"gate": "request"}}}))

    assert f"models: the pattern {pattern!r} would declare every model at once" == finding.message


@pytest.mark.parametrize("pattern", ["?*", "*?", "*?*"])
def test_a_pattern_that_declares_every_model_in_other_words_is_refused_too(tmp_path: Path, pattern: str) -> None:
    """What is refused is the meaning, not one spelling of it."""
    assert find_refusals(write_config(tmp_path, {"models": {pattern: {"gate": "request"}}}))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"traces_dir": ""}, "traces_dir must not be empty"),
        ({"traces_dir": 5}, "traces_dir must be string, got number"),
        ({"traces_dir": None}, "traces_dir must be string, got null"),
        ({"max_trace_retention": -1}, "max_trace_retention must be at least 0, got -1"),
        ({"max_trace_retention": 0.5}, "max_trace_retention must be a whole number, got 0.5"),
        ({"max_trace_retention": "30"}, "max_trace_retention must be number, got string"),
        ({"max_trace_retention": True}, "max_trace_retention must be number, got boolean"),
        ({"redact_fields": "a"}, "redact_fields must be array, got string"),
        ({"redact_fields": ["a", ""]}, "redact_fields[1] must not be empty"),
        ({"models": []}, "models must be object, got array"),
        ({"models": {"gpt": {"gate": "none"}}}, "models.gpt.gate must be 'behaviour' or 'request'"),
        ({"models": {"gpt": {"temperature": 3}}}, "models.gpt.temperature must be at most 2, got 3"),
        ({"models": {"gpt": {"temperature": None}}}, "models.gpt.temperature must be number, got null"),
        ({"models": {"gpt": None}}, "models.gpt must be object, got null"),
        ({"hosts": ["a.example", "!b.example"]}, "hosts[1] is '!b.example': an entry cannot leave hosts out"),
    ],
    ids=lambda case: ascii(case) if isinstance(case, dict) else "",
)
def test_an_invalid_value_is_refused_with_its_key(tmp_path: Path, settings: dict[str, Any], message: str) -> None:
    """Type and range of every setting are checked, and the sentence starts with the key."""
    assert [message] == refusal_messages(write_config(tmp_path, settings))


@pytest.mark.parametrize("number", ["nan", "inf", "-inf"])
@pytest.mark.parametrize(
    "table", ["[tool.traceforge]\nmax_trace_retention", '[tool.traceforge.models."gpt-4"]\ntemperature']
)
def test_a_number_that_only_toml_has_is_refused(tmp_path: Path, table: str, number: str) -> None:
    """JSON has no NaN and no infinity, and no setting has a meaning for them."""
    write_config(mark_project(tmp_path), f"{table} = {number}\n", PYPROJECT_FILE)

    assert find_refusals(tmp_path)


def test_a_date_that_only_toml_has_is_refused(tmp_path: Path) -> None:
    """TOML has types that JSON has not."""
    write_config(mark_project(tmp_path), "[tool.traceforge]\ntraces_dir = 2026-01-09\n", PYPROJECT_FILE)
    (finding,) = find_refusals(tmp_path)

    assert finding.message.startswith("traces_dir must be string, got ")


def test_several_problems_are_reported_at_once(tmp_path: Path) -> None:
    """One run shows all problems of the file, and the error's line counts them."""
    write_config(
        tmp_path, {"trace_dir": 1, "max_trace_retention": -1, "models": {"*": {"gat": 1}, "gpt": {"gate": 1}}}
    )
    with pytest.raises(InvalidConfig) as caught:
        load_project_config(tmp_path)

    assert [
        "unknown key trace_dir",
        "models: the pattern '*' would declare every model at once",
        "unknown key models['*'].gat",
        "max_trace_retention must be at least 0, got -1",
        "models.gpt.gate must be 'behaviour' or 'request'",
    ] == [finding.message for finding in caught.value.findings]
    assert str(caught.value).endswith("(and 4 more: traceforge config check)")
    assert {"CF1"} == {finding.rule for finding in caught.value.findings}


@pytest.mark.parametrize("text", ["[]", "null", '"x"', "5"])
def test_a_file_that_holds_no_object_is_refused(tmp_path: Path, text: str) -> None:
    """The configuration is one object."""
    assert ["must hold one JSON object"] == refusal_messages(write_config(tmp_path, text))


@pytest.mark.parametrize("name", ["redact_fields", "gate"])
def test_a_setting_that_stands_twice_is_refused(tmp_path: Path, name: str) -> None:
    """The last one would win, and with it an empty list over the names of secret fields."""
    texts = {
        "redact_fields": '{"redact_fields": ["badge"], /* as before */ "redact_fields": []}',
        "gate": '{"models": {"m": {"gate": "request", "gate": "behaviour"}}}',
    }

    assert [f"{name} is set twice in one object"] == refusal_messages(write_config(tmp_path, texts[name]))


def test_a_file_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    """An editor saved it as Latin-1."""
    (tmp_path / CONFIG_FILE).write_bytes('{"traces_dir": "é"}'.encode("latin-1"))

    assert ["not UTF-8"] == refusal_messages(tmp_path)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["a FIFO", "a folder"])
def test_a_fifo_or_folder_in_place_of_the_file_is_unreadable_and_not_absent(tmp_path: Path, make: Any) -> None:
    """Using defaults instead would be a guess."""
    make(tmp_path / CONFIG_FILE)
    with pytest.raises(CannotRead):
        load_project_config(tmp_path)


def test_a_dangling_link_is_unreadable_and_not_absent(tmp_path: Path) -> None:
    """The file was meant to be there."""
    (tmp_path / ".git").mkdir()
    (tmp_path / CONFIG_FILE).symlink_to("missing")
    with pytest.raises(CannotRead):
        load_project_config(tmp_path)


def test_a_file_too_large_to_be_a_configuration_is_unreadable(tmp_path: Path) -> None:
    """A megabyte is the most."""
    write_config(tmp_path, "{}" + " " * CONFIG_BYTES_MAX)
    with pytest.raises(CannotRead, match="more than the limit"):
        load_project_config(tmp_path)

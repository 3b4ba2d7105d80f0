"""`config.py`: one source, known keys, every problem at once, and where each value came from."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from traceforge.config import (
    CONFIG_BYTES_MAX,
    CONFIG_FILE,
    ENVIRONMENT_VARIABLES,
    MATCH_KEY_FILE,
    MATCH_KEY_VARIABLE,
    PYPROJECT_FILE,
    Config,
    LoadedConfig,
    ModelRule,
    effective_settings,
    find_project,
    load_config,
)
from traceforge.errors import CannotRead, InvalidConfig
from traceforge.findings import Finding
from traceforge.match_key import find_match_key

DEFAULTS = {"traces_dir": ".ai-tests/traces", "max_trace_retention": 30, "redact_fields": [], "models": {}}


def _write(project: Path, text: str | dict[str, Any], name: str = CONFIG_FILE) -> Path:
    (project / name).write_text(text if isinstance(text, str) else json.dumps(text), encoding="utf-8")
    return project


def _load(project: Path, **environ: str) -> LoadedConfig:
    return load_config(str(project), environ)


def _findings(project: Path) -> tuple[Finding, ...]:
    with pytest.raises(InvalidConfig) as caught:
        _load(project)
    return caught.value.findings


def _messages(project: Path) -> list[str]:
    return [finding.message for finding in _findings(project)]


# ---------------------------------------------------------------------------------------------
# Upstreams


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
    (message,) = _messages(_write(tmp_path, {"upstreams": {name: url}}))

    assert expected_message in message
    assert "s3cret" not in message


def test_upstreams_are_names_and_addresses(tmp_path: Path) -> None:
    """With a path, a port, or neither."""
    upstreams = {"corp": "https://llm.example.com/gateway", "a.b-c_d": "http://[::1]:80"}

    assert upstreams == _load(_write(tmp_path, {"upstreams": upstreams})).config.upstreams


# ---------------------------------------------------------------------------------------------
# Where it comes from


def test_without_a_file_every_setting_has_its_default(tmp_path: Path) -> None:
    """A project need not be configured; each origin says so."""
    loaded = _load(tmp_path)

    assert DEFAULTS.items() <= msgspec.to_builtins(loaded.config).items()
    assert dict.fromkeys(Config.__struct_fields__, "default") == loaded.origins


def test_a_file_sets_what_it_names_and_leaves_the_rest(tmp_path: Path) -> None:
    """Values come from the file, all others stay at their defaults, and the origins tell which is which."""
    loaded = _load(_write(tmp_path, {"redact_fields": ["X-API-Key"], "models": {"gpt-4*": {"gate": "request"}}}))

    assert ["X-API-Key"] == loaded.config.redact_fields
    assert {"gpt-4*": ModelRule(gate="request")} == loaded.config.models
    assert ".ai-tests/traces" == loaded.config.traces_dir
    assert {"redact_fields", "models"} == {name for name, origin in loaded.origins.items() if origin == CONFIG_FILE}
    assert {CONFIG_FILE, "default"} == set(loaded.origins.values())


def test_a_table_in_pyproject_has_the_same_settings(tmp_path: Path) -> None:
    """With their own origin."""
    _write(
        _marked(tmp_path),
        '[tool.traceforge]\nmax_trace_retention = 7\n[tool.traceforge.models."claude-*"]\ntemperature = 1.0\n',
        PYPROJECT_FILE,
    )
    loaded = _load(tmp_path)

    assert 7 == loaded.config.max_trace_retention
    assert {"claude-*": ModelRule(temperature=1.0)} == loaded.config.models
    assert "pyproject.toml [tool.traceforge]" == loaded.origins["max_trace_retention"]
    assert "default" == loaded.origins["traces_dir"]


def _marked(project: Path) -> Path:
    (project / ".git").mkdir()
    return project


def test_two_sources_are_refused_and_never_merged(tmp_path: Path) -> None:
    """Even where they say nothing different."""
    _write(tmp_path, {})
    _write(tmp_path, "[tool.traceforge]\n", PYPROJECT_FILE)
    (finding,) = _findings(tmp_path)

    assert (
        "traceforge.config.json and [tool.traceforge] in pyproject.toml both configure TraceForge" == finding.message
    )
    assert "Keep one of them." == finding.hint


@pytest.mark.parametrize(
    "text",
    ["", "[project]\nname = 'x'\n", "[tool.other]\ntraceforge = 1\n", "[project]\ndependencies = ['traceforge']\n"],
)
def test_a_pyproject_without_our_table_is_ignored(tmp_path: Path, text: str) -> None:
    """Most projects have one; only [tool.traceforge] counts."""
    _write(_write(tmp_path, {"max_trace_retention": 5}), text, PYPROJECT_FILE)

    assert 5 == _load(tmp_path).config.max_trace_retention


def test_a_broken_pyproject_is_an_error_only_if_it_names_traceforge(tmp_path: Path) -> None:
    """Otherwise it cannot configure TraceForge."""
    _write(_marked(tmp_path), "[broken\n", PYPROJECT_FILE)
    assert Config() == _load(tmp_path).config

    _write(tmp_path, "[tool.traceforge]\nbroken\n", PYPROJECT_FILE)
    (finding,) = _findings(tmp_path)
    assert finding.message.startswith("not TOML: ")
    assert "line 2" in finding.message
    assert PYPROJECT_FILE == finding.file


@pytest.mark.parametrize("text", ["[tool]\ntraceforge = 5\n", "[[tool.traceforge]]\nmax_trace_retention = 1\n"])
def test_a_tool_traceforge_that_is_not_a_table_is_refused(tmp_path: Path, text: str) -> None:
    """Ignoring it would use defaults that the user did not choose."""
    _write(_marked(tmp_path), text, PYPROJECT_FILE)

    assert _findings(tmp_path)


def test_the_environment_overrides_a_file(tmp_path: Path) -> None:
    """The variable wins, and is named as the origin."""
    _write(tmp_path, {"traces_dir": "from-file", "max_trace_retention": 9})
    loaded = _load(tmp_path, TRACEFORGE_TRACES_DIR="/elsewhere")

    assert "/elsewhere" == loaded.config.traces_dir
    assert "environment variable TRACEFORGE_TRACES_DIR" == loaded.origins["traces_dir"]
    assert CONFIG_FILE == loaded.origins["max_trace_retention"]


def test_an_empty_variable_counts_as_unset(tmp_path: Path) -> None:
    """`TRACEFORGE_TRACES_DIR= traceforge …` is how a shell unsets one for a command."""
    _write(tmp_path, {"traces_dir": "from-file"})

    assert "from-file" == _load(tmp_path, TRACEFORGE_TRACES_DIR="").config.traces_dir


def test_the_real_environment_is_read_where_none_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command line passes nothing."""
    monkeypatch.setenv("TRACEFORGE_TRACES_DIR", "from-environ")

    assert "from-environ" == load_config(str(tmp_path)).config.traces_dir


def test_every_variable_sets_a_setting_that_exists() -> None:
    """A variable for nothing would be silently useless."""
    assert set(ENVIRONMENT_VARIABLES.values()) <= set(Config.__struct_fields__)
    assert all(name.startswith("TRACEFORGE_") for name in ENVIRONMENT_VARIABLES)


def test_every_effective_setting_has_its_value_and_origin(tmp_path: Path) -> None:
    """What `traceforge config show` prints."""
    loaded = _load(_write(tmp_path, {"models": {"gpt-*": {"temperature": 0}}}))
    settings = effective_settings(loaded)

    assert {"value": 30, "from": "default"} == settings["max_trace_retention"]
    match: dict[str, list[str]] = {"ignore_paths": [], "ignore_patterns": []}
    rule = {"temperature": 0, "usage_in_answers": "required", "calls": "exact", "match": match}
    assert {"value": {"gpt-*": rule}, "from": CONFIG_FILE} == settings["models"]
    assert list(Config.__struct_fields__) == list(settings)


# ---------------------------------------------------------------------------------------------
# Which project


@pytest.mark.parametrize("mark", [CONFIG_FILE, ".ai-snapshots", ".git"])
def test_the_nearest_marked_folder_upwards_is_the_project(tmp_path: Path, mark: str) -> None:
    """A configuration, a snapshot tree or a repository; the nearest one, not the outermost."""
    inner = tmp_path / "outer" / "inner"
    start = inner / "src" / "deep"
    start.mkdir(parents=True)
    (tmp_path / "outer" / ".git").mkdir()
    if mark == CONFIG_FILE:
        _write(inner, {"max_trace_retention": 1})
    else:
        (inner / mark).mkdir()

    assert str(inner.resolve()) == find_project(str(start)) == _load(start).project


def test_a_project_that_pyproject_configures_is_found_from_below(tmp_path: Path) -> None:
    """[tool.traceforge] marks a project as the file does: a command in a subfolder must not use defaults instead."""
    (tmp_path / ".git").mkdir()
    package = tmp_path / "package"
    (package / "src").mkdir(parents=True)
    _write(package, "[tool.traceforge]\nmax_trace_retention = 7\n", PYPROJECT_FILE)

    assert 7 == _load(package).config.max_trace_retention
    assert 7 == _load(package / "src").config.max_trace_retention


def test_a_pyproject_that_is_not_about_us_marks_no_project(tmp_path: Path) -> None:
    """A workspace member without settings of its own belongs to the project around it."""
    _write(tmp_path, {"max_trace_retention": 3})
    member = tmp_path / "member"
    member.mkdir()
    _write(member, "[project]\nname = 'member'\n", PYPROJECT_FILE)

    assert 3 == _load(member).config.max_trace_retention


def test_without_any_mark_the_start_is_the_project(tmp_path: Path) -> None:
    """Nothing above is read."""
    start = tmp_path / "a" / "b"
    start.mkdir(parents=True)
    project = find_project(str(start))

    assert str(start.resolve()) == project


def test_the_search_for_a_project_follows_a_linked_start_folder(tmp_path: Path) -> None:
    """The project of the folder, not of the link to it."""
    (tmp_path / "real" / "src").mkdir(parents=True)
    _write(tmp_path / "real", {})
    (tmp_path / "link").symlink_to("real/src")

    assert str((tmp_path / "real").resolve()) == find_project(str(tmp_path / "link"))


# ---------------------------------------------------------------------------------------------
# Comments


@pytest.mark.parametrize(
    ("text", "retention"),
    [
        ('{"max_trace_retention": 1 // days\n}', 1),
        ('// first\n{"max_trace_retention": 2}\n// last', 2),
        ('/* one\n * two\n */{/**/"max_trace_retention"/* : 9 */:/*x*/3/* */}', 3),
        ('{"max_trace_retention": 4 /* // not nested */ }', 4),
        ('{"max_trace_retention": 5 // /* not opened\n}', 5),
        ('{"max_trace_retention": 6 /* " */, "traces_dir": "a" /* " */}', 6),
        ('{"max_trace_retention": 7 // "\n, "traces_dir": "b" // "\n}', 7),
        ('{"max_trace_retention": 8, /* é😀 */ "traces_dir": "c"}', 8),
    ],
    ids=ascii,
)
def test_comments_are_ignored(tmp_path: Path, text: str, retention: int) -> None:
    """`//` to the end of the line, `/* */` across lines, quotes and each other."""
    assert retention == _load(_write(tmp_path, text)).config.max_trace_retention


@pytest.mark.parametrize(
    "value",
    ["http://host/a", "a // b", "/* a */", "*/", 'say "// hi"', "back\\", 'a\\" // b', "//", "é // 😀"],
    ids=ascii,
)
def test_a_comment_sign_inside_a_string_is_text(tmp_path: Path, value: str) -> None:
    """For example in URLs, also after escaped quotes and backslashes."""
    text = f'{{"redact_patterns": [{json.dumps(value)}], // a real one\n "redact_fields": [{json.dumps(value)}]}}'
    loaded = _load(_write(tmp_path, text))

    assert ([value], [value]) == (loaded.config.redact_patterns, loaded.config.redact_fields)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{\n  // one\n  /* two\n     three */ "a": }', "line 4 column 20"),
        ('{ /* é😀 */ "a": ]', "line 1 column 17"),
        ('{"a": 1 /* open\n}', "line 1 column 9"),
        ('{"traces_dir": "a"} /* never closed', "line 1 column 21"),
        ('{"a": 1} // fine\nmore', "line 2 column 1"),
        ('{"a": "unterminated // no comment\n}', "line 1 column 34"),
        ("", "the text is empty"),
        ("// only a comment", "the text is empty"),
        ('{"a": 1,}', "line 1 column 9"),
    ],
    ids=ascii,
)
def test_a_broken_file_is_refused_at_its_real_place(tmp_path: Path, text: str, place: str) -> None:
    """Comments are blanked, not cut out, so the line and column are those of the file."""
    (finding,) = _findings(_write(tmp_path, text))

    assert finding.message.startswith("not JSON: ")
    assert finding.message.endswith(place)
    assert CONFIG_FILE == finding.file
    assert finding.hint.startswith("Write {}" if place == "the text is empty" else "Repair the file at that place")


# ---------------------------------------------------------------------------------------------
# What is refused


@pytest.mark.parametrize(
    ("key", "nearest"),
    [("trace_dir", "traces_dir"), ("redact_field", "redact_fields"), ("model", "models"), ("Models", "models")],
)
def test_an_unknown_key_is_refused_with_the_nearest_known_one(tmp_path: Path, key: str, nearest: str) -> None:
    """A typing mistake must not silently mean a default."""
    (finding,) = _findings(_write(tmp_path, {key: 1}))

    assert f"unknown key {key}" == finding.message
    assert f"Did you mean {nearest}?" == finding.hint
    assert (CONFIG_FILE, f"$.{key}", "CF1") == (finding.file, finding.path, finding.rule)


def test_a_key_without_a_similar_one_gets_the_list_of_known_keys(tmp_path: Path) -> None:
    (finding,) = _findings(_write(tmp_path, {"zzz": 1}))

    assert f"Known here: {', '.join(sorted(Config.__struct_fields__))}." == finding.hint


@pytest.mark.parametrize("name", [CONFIG_FILE, PYPROJECT_FILE])
def test_an_unknown_key_of_a_model_is_refused_with_the_nearest_known_one(tmp_path: Path, name: str) -> None:
    """In both sources."""
    text = (
        json.dumps({"models": {"claude-*": {"gates": "request"}}})
        if name == CONFIG_FILE
        else '[tool.traceforge.models."claude-*"]\ngates = "request"\n'
    )
    (finding,) = _findings(_write(_marked(tmp_path), text, name))

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
    assert [message] == _messages(_write(_marked(tmp_path), settings))


@pytest.mark.parametrize("pattern", ["*", "**", ""])
def test_a_pattern_that_declares_every_model_is_refused(tmp_path: Path, pattern: str) -> None:
    """A bare `*` would switch the gate off for models added later."""
    (finding,) = _findings(_write(tmp_path, {"models": {pattern: {"gate": "request"}}}))

    assert f"models: the pattern {pattern!r} would declare every model at once" == finding.message


@pytest.mark.parametrize("pattern", ["?*", "*?", "*?*"])
def test_a_pattern_that_declares_every_model_in_other_words_is_refused_too(tmp_path: Path, pattern: str) -> None:
    """What is refused is the meaning, not one spelling of it."""
    assert _findings(_write(tmp_path, {"models": {pattern: {"gate": "request"}}}))


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
    ],
    ids=lambda case: ascii(case) if isinstance(case, dict) else "",
)
def test_an_invalid_value_is_refused_with_its_key(tmp_path: Path, settings: dict[str, Any], message: str) -> None:
    """Type and range of every setting are checked, and the sentence starts with the key."""
    assert [message] == _messages(_write(tmp_path, settings))


@pytest.mark.parametrize("number", ["nan", "inf", "-inf"])
@pytest.mark.parametrize(
    "table", ["[tool.traceforge]\nmax_trace_retention", '[tool.traceforge.models."gpt-4"]\ntemperature']
)
def test_a_number_that_only_toml_has_is_refused(tmp_path: Path, table: str, number: str) -> None:
    """JSON has no NaN and no infinity, and no setting has a meaning for them."""
    _write(_marked(tmp_path), f"{table} = {number}\n", PYPROJECT_FILE)

    assert _findings(tmp_path)


def test_a_date_that_only_toml_has_is_refused(tmp_path: Path) -> None:
    """TOML has types that JSON has not."""
    _write(_marked(tmp_path), "[tool.traceforge]\ntraces_dir = 2026-01-09\n", PYPROJECT_FILE)
    (finding,) = _findings(tmp_path)

    assert finding.message.startswith("traces_dir must be string, got ")


def test_several_problems_are_reported_at_once(tmp_path: Path) -> None:
    """One run shows all problems of the file, and the error's line counts them."""
    _write(tmp_path, {"trace_dir": 1, "max_trace_retention": -1, "models": {"*": {"gat": 1}, "gpt": {"gate": 1}}})
    with pytest.raises(InvalidConfig) as caught:
        _load(tmp_path)

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
    assert ["must hold one JSON object"] == _messages(_write(tmp_path, text))


@pytest.mark.parametrize("name", ["redact_fields", "gate"])
def test_a_setting_that_stands_twice_is_refused(tmp_path: Path, name: str) -> None:
    """The last one would win, and with it an empty list over the names of secret fields."""
    texts = {
        "redact_fields": '{"redact_fields": ["badge"], /* as before */ "redact_fields": []}',
        "gate": '{"models": {"m": {"gate": "request", "gate": "behaviour"}}}',
    }

    assert [f"{name} is set twice in one object"] == _messages(_write(tmp_path, texts[name]))


def test_a_file_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    """An editor saved it as Latin-1."""
    (tmp_path / CONFIG_FILE).write_bytes('{"traces_dir": "é"}'.encode("latin-1"))

    assert ["not UTF-8"] == _messages(tmp_path)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["a FIFO", "a folder"])
def test_a_fifo_or_folder_in_place_of_the_file_is_unreadable_and_not_absent(tmp_path: Path, make: Any) -> None:
    """Using defaults instead would be a guess."""
    make(tmp_path / CONFIG_FILE)
    with pytest.raises(CannotRead):
        _load(tmp_path)


def test_a_dangling_link_is_unreadable_and_not_absent(tmp_path: Path) -> None:
    """The file was meant to be there."""
    (tmp_path / ".git").mkdir()
    (tmp_path / CONFIG_FILE).symlink_to("missing")
    with pytest.raises(CannotRead):
        _load(tmp_path)


def test_a_file_too_large_to_be_a_configuration_is_unreadable(tmp_path: Path) -> None:
    """A megabyte is the most."""
    _write(tmp_path, "{}" + " " * CONFIG_BYTES_MAX)
    with pytest.raises(CannotRead, match="more than the limit"):
        _load(tmp_path)


# ---------------------------------------------------------------------------------------------
# The file, and the key beside it


def test_the_configuration_file_is_known_even_if_it_sets_nothing(tmp_path: Path) -> None:
    """An empty object and an empty table are configurations; a pyproject.toml about other things is none."""
    assert "" == _load(tmp_path).file
    _write(tmp_path, "[tool.other]\n", PYPROJECT_FILE)
    assert "" == _load(tmp_path).file
    _write(tmp_path, "[tool.traceforge]\n", PYPROJECT_FILE)
    assert "pyproject.toml [tool.traceforge]" == _load(tmp_path).file
    _write(tmp_path, "", PYPROJECT_FILE)
    assert CONFIG_FILE == _load(_write(tmp_path, "{} // nothing yet"), TRACEFORGE_TRACES_DIR="x").file


def _write_key(project: Path, key: bytes) -> Path:
    (project / MATCH_KEY_FILE).parent.mkdir(exist_ok=True)
    (project / MATCH_KEY_FILE).write_bytes(key)
    return project


def test_the_match_key_comes_from_the_environment_or_else_from_the_file(tmp_path: Path) -> None:
    """White space around it is ignored; an empty variable counts as unset."""
    project = str(_write_key(tmp_path, b"  from-the-file \r\n"))

    assert b"from-the-file" == find_match_key(project, {})
    assert b"from-the-file" == find_match_key(project, {MATCH_KEY_VARIABLE: ""})
    assert b"from-ci" == find_match_key(project, {MATCH_KEY_VARIABLE: " from-ci\n"})


def test_the_match_key_of_the_process_counts_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an environment to look at, it is the one we run in."""
    monkeypatch.setenv(MATCH_KEY_VARIABLE, "from-ci")
    assert b"from-ci" == find_match_key(str(tmp_path))
    monkeypatch.delenv(MATCH_KEY_VARIABLE)
    assert find_match_key(str(tmp_path)) is None


@pytest.mark.parametrize("key", [b"", b" \n", b"\xff\xfe", b"x" * (CONFIG_BYTES_MAX + 1)])
def test_a_file_without_a_key_counts_as_no_key(tmp_path: Path, key: bytes) -> None:
    """Nothing is compared then, which is safe: a wrong key would make equal values differ."""
    assert find_match_key(str(_write_key(tmp_path, key)), {}) is None


def test_a_folder_in_place_of_the_key_file_counts_as_no_key(tmp_path: Path) -> None:
    """It is not an error."""
    (tmp_path / MATCH_KEY_FILE).mkdir(parents=True)

    assert find_match_key(str(tmp_path), {}) is None

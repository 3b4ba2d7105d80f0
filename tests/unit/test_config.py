"""`config.py`: one source, known keys, every problem at once, and where each value came from."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from support.config_files import find_refusals, load_project_config, mark_project, write_config
from traceforge.config import (
    CONFIG_BYTES_MAX,
    CONFIG_FILE,
    ENVIRONMENT_VARIABLES,
    MATCH_KEY_FILE,
    MATCH_KEY_VARIABLE,
    PYPROJECT_FILE,
    Config,
    ModelRule,
    effective_settings,
    find_project,
    load_config,
)
from traceforge.match_key import find_match_key

DEFAULTS = {"traces_dir": ".ai-tests/traces", "max_trace_retention": 30, "redact_fields": [], "models": {}}


# ---------------------------------------------------------------------------------------------
# Upstreams


def test_upstreams_are_names_and_addresses(tmp_path: Path) -> None:
    """With a path, a port, or neither."""
    upstreams = {"corp": "https://llm.example.com/gateway", "a.b-c_d": "http://[::1]:80"}

    assert upstreams == load_project_config(write_config(tmp_path, {"upstreams": upstreams})).config.upstreams


# ---------------------------------------------------------------------------------------------
# Where it comes from


def test_without_a_file_every_setting_has_its_default(tmp_path: Path) -> None:
    """A project need not be configured; each origin says so."""
    loaded = load_project_config(tmp_path)

    assert DEFAULTS.items() <= msgspec.to_builtins(loaded.config).items()
    assert dict.fromkeys(Config.__struct_fields__, "default") == loaded.origins


def test_a_file_sets_what_it_names_and_leaves_the_rest(tmp_path: Path) -> None:
    """Values come from the file, all others stay at their defaults, and the origins tell which is which."""
    loaded = load_project_config(
        write_config(tmp_path, {"redact_fields": ["X-API-Key"], "models": {"gpt-4*": {"gate": "request"}}})
    )

    assert ["X-API-Key"] == loaded.config.redact_fields
    assert {"gpt-4*": ModelRule(gate="request")} == loaded.config.models
    assert ".ai-tests/traces" == loaded.config.traces_dir
    assert {"redact_fields", "models"} == {name for name, origin in loaded.origins.items() if origin == CONFIG_FILE}
    assert {CONFIG_FILE, "default"} == set(loaded.origins.values())


def test_a_table_in_pyproject_has_the_same_settings(tmp_path: Path) -> None:
    """With their own origin."""
    write_config(
        mark_project(tmp_path),
        '[tool.traceforge]\nmax_trace_retention = 7\n[tool.traceforge.models."claude-*"]\ntemperature = 1.0\n',
        PYPROJECT_FILE,
    )
    loaded = load_project_config(tmp_path)

    assert 7 == loaded.config.max_trace_retention
    assert {"claude-*": ModelRule(temperature=1.0)} == loaded.config.models
    assert "pyproject.toml [tool.traceforge]" == loaded.origins["max_trace_retention"]
    assert "default" == loaded.origins["traces_dir"]


def test_two_sources_are_refused_and_never_merged(tmp_path: Path) -> None:
    """Even where they say nothing different."""
    write_config(tmp_path, {})
    write_config(tmp_path, "[tool.traceforge]\n", PYPROJECT_FILE)
    (finding,) = find_refusals(tmp_path)

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
    write_config(write_config(tmp_path, {"max_trace_retention": 5}), text, PYPROJECT_FILE)

    assert 5 == load_project_config(tmp_path).config.max_trace_retention


def test_a_broken_pyproject_is_an_error_only_if_it_names_traceforge(tmp_path: Path) -> None:
    """Otherwise it cannot configure TraceForge."""
    write_config(mark_project(tmp_path), "[broken\n", PYPROJECT_FILE)
    assert Config() == load_project_config(tmp_path).config

    write_config(tmp_path, "[tool.traceforge]\nbroken\n", PYPROJECT_FILE)
    (finding,) = find_refusals(tmp_path)
    assert finding.message.startswith("not TOML: ")
    assert "line 2" in finding.message
    assert PYPROJECT_FILE == finding.file


@pytest.mark.parametrize("text", ["[tool]\ntraceforge = 5\n", "[[tool.traceforge]]\nmax_trace_retention = 1\n"])
def test_a_tool_traceforge_that_is_not_a_table_is_refused(tmp_path: Path, text: str) -> None:
    """Ignoring it would use defaults that the user did not choose."""
    write_config(mark_project(tmp_path), text, PYPROJECT_FILE)

    assert find_refusals(tmp_path)


def test_the_environment_overrides_a_file(tmp_path: Path) -> None:
    """The variable wins, and is named as the origin."""
    write_config(tmp_path, {"traces_dir": "from-file", "max_trace_retention": 9})
    loaded = load_project_config(tmp_path, TRACEFORGE_TRACES_DIR="/elsewhere")

    assert "/elsewhere" == loaded.config.traces_dir
    assert "environment variable TRACEFORGE_TRACES_DIR" == loaded.origins["traces_dir"]
    assert CONFIG_FILE == loaded.origins["max_trace_retention"]


def test_an_empty_variable_counts_as_unset(tmp_path: Path) -> None:
    """`TRACEFORGE_TRACES_DIR= traceforge …` is how a shell unsets one for a command."""
    write_config(tmp_path, {"traces_dir": "from-file"})

    assert "from-file" == load_project_config(tmp_path, TRACEFORGE_TRACES_DIR="").config.traces_dir


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
    loaded = load_project_config(write_config(tmp_path, {"models": {"gpt-*": {"temperature": 0}}}))
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
        write_config(inner, {"max_trace_retention": 1})
    else:
        (inner / mark).mkdir()

    assert str(inner.resolve()) == find_project(str(start)) == load_project_config(start).project


def test_a_project_that_pyproject_configures_is_found_from_below(tmp_path: Path) -> None:
    """[tool.traceforge] marks a project as the file does: a command in a subfolder must not use defaults instead."""
    (tmp_path / ".git").mkdir()
    package = tmp_path / "package"
    (package / "src").mkdir(parents=True)
    write_config(package, "[tool.traceforge]\nmax_trace_retention = 7\n", PYPROJECT_FILE)

    assert 7 == load_project_config(package).config.max_trace_retention
    assert 7 == load_project_config(package / "src").config.max_trace_retention


def test_a_pyproject_that_is_not_about_us_marks_no_project(tmp_path: Path) -> None:
    """A workspace member without settings of its own belongs to the project around it."""
    write_config(tmp_path, {"max_trace_retention": 3})
    member = tmp_path / "member"
    member.mkdir()
    write_config(member, "[project]\nname = 'member'\n", PYPROJECT_FILE)

    assert 3 == load_project_config(member).config.max_trace_retention


def test_without_any_mark_the_start_is_the_project(tmp_path: Path) -> None:
    """Nothing above is read."""
    start = tmp_path / "a" / "b"
    start.mkdir(parents=True)
    project = find_project(str(start))

    assert str(start.resolve()) == project


def test_the_search_for_a_project_follows_a_linked_start_folder(tmp_path: Path) -> None:
    """The project of the folder, not of the link to it."""
    (tmp_path / "real" / "src").mkdir(parents=True)
    write_config(tmp_path / "real", {})
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
    assert retention == load_project_config(write_config(tmp_path, text)).config.max_trace_retention


@pytest.mark.parametrize(
    "value",
    ["http://host/a", "a // b", "/* a */", "*/", 'say "// hi"', "back\\", 'a\\" // b', "//", "é // 😀"],
    ids=ascii,
)
def test_a_comment_sign_inside_a_string_is_text(tmp_path: Path, value: str) -> None:
    """For example in URLs, also after escaped quotes and backslashes."""
    text = f'{{"redact_patterns": [{json.dumps(value)}], // a real one\n "redact_fields": [{json.dumps(value)}]}}'
    loaded = load_project_config(write_config(tmp_path, text))

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
    (finding,) = find_refusals(write_config(tmp_path, text))

    assert finding.message.startswith("not JSON: ")
    assert finding.message.endswith(place)
    assert CONFIG_FILE == finding.file
    assert finding.hint.startswith("Write {}" if place == "the text is empty" else "Repair the file at that place")


# ---------------------------------------------------------------------------------------------
# The file, and the key beside it


def test_the_configuration_file_is_known_even_if_it_sets_nothing(tmp_path: Path) -> None:
    """An empty object and an empty table are configurations; a pyproject.toml about other things is none."""
    assert "" == load_project_config(tmp_path).file
    write_config(tmp_path, "[tool.other]\n", PYPROJECT_FILE)
    assert "" == load_project_config(tmp_path).file
    write_config(tmp_path, "[tool.traceforge]\n", PYPROJECT_FILE)
    assert "pyproject.toml [tool.traceforge]" == load_project_config(tmp_path).file
    write_config(tmp_path, "", PYPROJECT_FILE)
    assert (
        CONFIG_FILE
        == load_project_config(write_config(tmp_path, "{} // nothing yet"), TRACEFORGE_TRACES_DIR="x").file
    )


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

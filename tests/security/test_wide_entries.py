"""Configuration that somebody else wrote: no entry of it widens a rule to everything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.config_files import configure, refuse
from traceforge.config import CONFIG_FILE, load_config
from traceforge.errors import InvalidConfig
from traceforge.redact.custom_patterns import pattern_findings

LISTS = ["allow", "hosts", "callsite.skip", "match.ignore_paths", "match.headers", "match.ignore_headers",
         "test.allow_programs", "test.ignore_hosts", "test.may_skip", "test.may_repeat", "test.may_vary",
         "test.cassette_tests"]  # fmt: skip
EVERYTHING = [
    "*",
    "**",
    ".*",
    "?*",
    "*?",
    "*.*",
    "*@*",
    "/",
    ".",
    "$",
    "$.*",
    "$[*]",
    "*::*",
    "[!x]*",
    "[a-z]*",
    "[!]x]*",
    "[]x]*",
    "***",
]


def nest(setting: str, value: object) -> dict[str, Any]:
    section, _, name = setting.rpartition(".")
    return {section: {name: value}} if section else {name: value}


@pytest.mark.parametrize("setting", LISTS)
def test_an_entry_that_means_everything_is_refused(tmp_path: Path, setting: str) -> None:
    """In every list; the error names it."""
    for entry in EVERYTHING:
        if "[" in entry and setting == "match.ignore_paths" and entry != "$[*]":
            continue  # not a wildcard there
        assert f"{setting}[1] is {entry!r}, which means everything" in refuse(tmp_path, **nest(setting, ["a", entry]))


@pytest.mark.parametrize("setting", ["allow", "test.ignore_hosts"])
def test_an_entry_of_one_letter_between_wildcards_is_refused(tmp_path: Path, setting: str) -> None:
    """Half of all keys and hosts have it, and a list of such entries means everything."""
    for entry in ["*e*", "*.e*", "*-1*", "e*", "*é"]:
        message = refuse(tmp_path, **nest(setting, ["*.example.com", entry]))
        assert f"{setting}[1] is {entry!r}, which means whatever has one character" in message
    assert load_config(str(configure(tmp_path, **nest(setting, ["e", "*.io", "10.*", "e-*x"]))), {})


@pytest.mark.parametrize(
    "pattern",
    ["*", "?*", "*?", "*-*", "[!x]*", "[!]x]*", "[a-z]*", "*[a-z]*", "*[0-9]*", "*[-]*", "[]*", " ", "*.*"],
)
def test_a_pattern_that_means_every_model_is_refused(tmp_path: Path, pattern: str) -> None:
    """It switches the gate off for models that nobody has decided about."""
    message = f"models: the pattern {pattern!r} would declare every model at once"

    assert message in refuse(tmp_path, models={pattern: {"calls": "may_vary"}})


@pytest.mark.parametrize("pattern", ["gpt-*", "o[134]*", "*claude*", "*/llama*", "*-nano"])
def test_a_pattern_that_means_some_models_is_allowed(tmp_path: Path, pattern: str) -> None:
    assert load_config(str(configure(tmp_path, models={pattern: {"calls": "may_vary"}})), {})


@pytest.mark.parametrize(
    "ports",
    [
        ["1-65535"],
        ["00001-65535"],
        ["2-65535"],
        ["1-65534"],
        ["1-32767", "32768-65535"],
        ["1-40000", 40001, "30000-65535"],
    ],
)
def test_all_ports_at_once_are_refused(tmp_path: Path, ports: list[str | int]) -> None:
    """In one range or in several: a range is for the ports that a test needs."""
    assert "which means everything" in refuse(tmp_path, test={"allow_ports": ports})
    assert load_config(str(configure(tmp_path, test={"allow_ports": ["32768-60999"]})), {})


def test_ports_that_only_toml_has_are_refused(tmp_path: Path) -> None:
    """It has infinity, and a number that is none."""
    (tmp_path / "pyproject.toml").write_text("[tool.traceforge.test]\nallow_ports = [inf, -inf, nan]\n")
    with pytest.raises(InvalidConfig) as refused:
        load_config(str(tmp_path), {})

    messages = [finding.message for finding in refused.value.findings]
    for index in range(3):
        assert f"test.allow_ports[{index}] is neither a port nor a range of ports" in messages


@pytest.mark.parametrize("setting", ["test.may_skip", "test.may_repeat", "test.may_vary"])
@pytest.mark.parametrize("entry", ["*test*", "*::test_*", "*.py::*", "*t*"])
def test_an_entry_that_means_every_test_is_refused(tmp_path: Path, setting: str, entry: str) -> None:
    """By what all tests have in their names."""
    assert "which means everything" in refuse(tmp_path, **nest(setting, [entry]))
    assert load_config(str(configure(tmp_path, **nest(setting, ["tests/test_gpu.py::*"]))), {})


@pytest.mark.parametrize(
    "pattern", [".+", "(?s).+", r"[\s\S]+", "[^x]+|x", r"\S+", ".", r"\w+|\W+", "(?:.|\n)+", r"\PZ+"]
)
def test_an_expression_that_matches_every_text_is_refused(pattern: str) -> None:
    """In `match.ignore_patterns` it would hide every prompt, in `redact_patterns` every answer."""
    (finding,) = pattern_findings([pattern], CONFIG_FILE, "match.ignore_patterns")

    assert "match.ignore_patterns[0] matches every text" == finding.message


@pytest.mark.parametrize("pattern", ["[0-9]+", "Today is .+", "[a-z]+", r"\b\w{1,40}\b", "EMP-[0-9]{6}"])
def test_an_expression_that_matches_some_texts_is_allowed(pattern: str) -> None:
    """How much one hides is judged by the approved requests."""
    assert [] == pattern_findings([pattern], CONFIG_FILE)

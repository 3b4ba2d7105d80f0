"""What a project declares as irrelevant: refused by its effect on approved requests, proposed where it is needed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.approval_project import Project
from support.command import traceforge
from support.gate_project import CONFIG, Site
from support.model_servers import model_server
from support.sample_files import raw_response_of, snapshot_body
from traceforge.snapshots.approve.tree_commit import SnapshotChange

PROMPTS = {
    "paris": "It is 2026-11-16T10:00:00Z. What is the weather in Paris, and should I take an umbrella?",
    "rome": "It is 2026-11-16T10:00:00Z. What is the weather in Rome, and should I take an umbrella?",
    "rome-later": "It is 2026-11-17T12:30:09Z. What is the weather in Rome, and should I take an umbrella?",
    "clock": "2026-11-16T10:00:00Z",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Four approved calls."""
    project = Project(tmp_path_factory.mktemp("declarations") / "project")
    changes = []
    for name, prompt in PROMPTS.items():
        body = snapshot_body(id=name)
        body["request"]["messages"] = [{"role": "user", "content": prompt}]
        changes.append(SnapshotChange("openai", name, body, raw_response_of(body)))
    project.approve(*changes)
    return project


def _declare(project: Project, **settings: Any) -> None:
    (project.folder / "traceforge.config.json").write_text(json.dumps(settings))


MESSAGE = "of the message at $.messages[0].content of "
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "all words": ({"match": {"ignore_patterns": ["[A-Za-z]+ ?"]}}, "blanks over half of an ordinary sentence"),
    "a sentence": ({"match": {"ignore_patterns": ["What is[^?]*"]}}, f"blanks 67% {MESSAGE}paris"),
    "a message": (
        {"match": {"ignore_paths": ["$.messages[0].content"]}},
        f"ignore_paths[0] blanks 100% {MESSAGE}clock",
    ),
    "every message": ({"match": {"ignore_paths": ["$.messages[*]"]}}, f"blanks 100% {MESSAGE}clock"),
    "a city": (
        {"match": {"ignore_patterns": ["in [A-Z][a-z]+"]}},
        "match.ignore_patterns[0] makes the requests of paris and rome equal",
    ),
    "a little and a little": (
        {"match": {"ignore_patterns": ["What is the weather in P?R?", "and should I take an umbrella"]}},
        f"match blanks 60% {MESSAGE}paris",
    ),
    "redacted in parts": (
        {"redact_patterns": ["What is the weather in P?R?", "and should I take an umbrella"]},
        f"redact_patterns blanks 60% {MESSAGE}paris",
    ),
    "half of it redacted": ({"redact_patterns": ["What is[^?]*"]}, f"redact_patterns[0] blanks 67% {MESSAGE}paris"),
}


@pytest.mark.parametrize(
    "name",
    [
        name if name in ("a message", "a city", "redacted in parts") else pytest.param(name, marks=pytest.mark.slow)
        for name in REFUSED
    ],
)
def test_cf3_a_declaration_that_hides_too_much_is_refused(project: Project, name: str) -> None:
    """By what it does, and with the message or the two snapshots."""
    settings, message = REFUSED[name]
    _declare(project, **settings)

    ran = [traceforge("verify", cwd=project.folder), traceforge("test", cwd=project.folder)]
    tested = traceforge("test", "--", "true", cwd=project.folder)
    approved = traceforge("approve", "--policy", "--reason", "because", cwd=project.folder)

    assert [(1, True, True)] * 2 == [(result.code, "CF3 " in result.out, message in result.out) for result in ran], (
        ran
    )
    assert (1, True) == (tested.code, message in tested.err), tested
    assert (3, True, True) == (approved.code, "error TF701" in approved.err, message in approved.err), approved


@pytest.mark.slow
@pytest.mark.parametrize(
    ("match", "message"),
    [
        ({"ignore_patterns": [".+"]}, "match.ignore_patterns[0] matches every text"),
        ({"ignore_paths": ["$.*"]}, "match.ignore_paths[0] is '$.*', which means everything"),
    ],
)
def test_a_declaration_of_everything_is_not_read(project: Project, match: dict[str, Any], message: str) -> None:
    """Whatever the snapshots are: nothing is judged by such a configuration."""
    _declare(project, match=match)

    for words in (("verify",), ("test",), ("test", "--", "true"), ("approve", "--policy", "--reason", "because")):
        ran = traceforge(*words, cwd=project.folder)
        assert (3, True) == (ran.code, "error TF401: " in ran.err and message in ran.err), ran


@pytest.mark.parametrize(
    "settings",
    [
        {"match": {"ignore_patterns": ["It is [0-9T:-]+Z"]}},
        {"match": {"ignore_patterns": ["[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]+Z"]}},
        {"match": {"ignore_paths": ["$.user", "$.metadata.run", "$.messages[*].name"]}},
        {"redact_patterns": ["EMP-[0-9]{6}"]},
    ],
    ids=["anchored", "times", "paths", "redacted"],
)
def test_a_declaration_of_what_varies_is_not_refused(project: Project, settings: dict[str, Any]) -> None:
    """Also if it makes two requests equal that differ only in their times, and if a message is only a time."""
    _declare(project, **settings)

    ran = traceforge("verify", cwd=project.folder)

    assert (1, True, False) == (ran.code, "CF2" in ran.out, "CF3" in ran.out), ran  # It still needs an approval.


@pytest.fixture
def site(recorded: Site, tmp_path: Path) -> Iterator[Site]:
    with model_server(salt="another") as other:
        yield recorded.at(tmp_path / "checkout", other)


VARYING_TESTS = """
def test_plan():
    assert chat("Name a plan." + os.environ.get("PLAN", ""))


def test_menu():
    assert chat("Name a menu." + os.environ.get("MENU", ""))


def test_other_model():
    SETTINGS["model"] = os.environ.get("OTHER_MODEL", "gpt-4.1")
    assert chat("Name a dish." + os.environ.get("DISH", ""))
"""
NAMES = ("PLAN", "MENU", "DISH")
DAYS = [f" It is 2026-11-{day}T10:00:00Z." for day in (16, 17, 18)]
CHOSEN = ("-k", "test_plan or test_menu or test_other_model")


def _varying_site(site: Site) -> None:
    """Add three tests, each with a time in its prompt."""
    site.add(VARYING_TESTS)
    assert 0 == site.record(*CHOSEN, **dict.fromkeys(NAMES, DAYS[0])).code
    assert 0 == site.approve().code


def _record_proposal(site: Site, *varying: str) -> dict[str, Any]:
    """The setting that `record` proposes if the time of some tests varies."""
    ran = site.record(*CHOSEN, **{name: DAYS[1] if name in varying else DAYS[0] for name in NAMES})
    (line,) = [line for line in ran.err.splitlines() if '"ignore_patterns"' in line]
    setting: dict[str, Any] = json.loads(f"{{{line.strip().removeprefix('traceforge: ')}}}")
    return setting


def _code(site: Site, **changed: str) -> int:
    return site.test(*CHOSEN, **{**dict.fromkeys(NAMES, DAYS[0]), **changed}).code


@pytest.mark.slow
def test_what_varies_in_one_test_is_proposed_and_ignored_for_this_test_only(site: Site) -> None:
    """The printed line, pasted and approved, is green when the time varies there, and red when it does elsewhere."""
    _varying_site(site)

    setting = _record_proposal(site, "PLAN")

    assert ["four_providers.py::test_plan"] == list(setting["test"]["match"])
    (site.folder / "traceforge.config.json").write_text(json.dumps({**CONFIG, **setting}))
    unapproved = site.run("verify")
    assert (1, True) == (unapproved.code, 'CF2 not the approved setting: test.match["four_' in unapproved.out)
    site.configure({**CONFIG, **setting})
    assert 0 == _code(site)
    assert 0 == _code(site, PLAN=DAYS[2])
    assert [1, 1] == [_code(site, MENU=DAYS[2]), _code(site, DISH=DAYS[2])]
    assert 1 == _code(site, PLAN=" It is late.")
    chosen = dict.fromkeys(NAMES, DAYS[0])
    assert 0 == site.plugin(*CHOSEN, **{**chosen, "PLAN": DAYS[2]}).code
    assert 1 == site.plugin(*CHOSEN, **{**chosen, "MENU": DAYS[2]}).code
    again = site.record(*CHOSEN, **{**chosen, "PLAN": DAYS[2]})
    assert (0, True) == (again.code, "3 answered from snapshots, 0 live" in again.err), again


@pytest.mark.slow
def test_what_varies_in_several_tests_of_one_model_is_proposed_for_the_model(site: Site) -> None:
    """It is green in every test of the model, and red in that of another one."""
    _varying_site(site)

    setting = _record_proposal(site, "PLAN", "MENU")

    assert ["gpt-4.1-mini"] == list(setting["models"])
    site.configure({"models": {**CONFIG["models"], **setting["models"]}})
    assert 0 == _code(site, PLAN=DAYS[2], MENU=DAYS[1])
    assert [1, 1] == [_code(site, DISH=DAYS[2]), _code(site, PLAN=" It is late.")]


@pytest.mark.slow
def test_record_proposes_a_declaration_for_what_varies(site: Site) -> None:
    """As a line for the configuration, with which the next run is green."""
    site.edit('"You are brief.")', '"You are brief.") + os.environ.get("NOW", "")')
    chosen, first, later = "test_chat_again", " It is 2026-11-16T10:00:00Z.", " It is 2026-11-17T12:30:09Z."
    assert 0 == site.record("-k", chosen, NOW=first).code
    assert 0 == site.approve().code

    ran = site.record("-k", chosen, NOW=later)

    assert "only a time stamp differs (four_providers.py::test_chat_again, gpt-4.1-mini)" in ran.err, ran
    line = next(line.strip() for line in ran.err.splitlines() if '"ignore_patterns"' in line).removeprefix(
        "traceforge: "
    )
    site.configure(json.loads(json.dumps(CONFIG)[:-1] + f", {line}}}"))
    tested = site.test("-k", chosen, NOW=" It is 2026-11-18T00:00:00Z.")
    assert (0, True) == (tested.code, "ignored as volatile" in tested.err), tested
    assert 1 == site.test("-k", chosen, NOW=" It is late.").code

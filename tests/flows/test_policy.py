"""Policy is behaviour: a setting that decides what is compared changes with an approval only."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.approval_project import Project, record_change
from support.command import traceforge
from support.gate_project import CHAT, CONFIG, Site
from support.model_servers import model_server

APPROVE = 'traceforge approve --policy --reason "…"'

# One way to weaken each part of the policy; each must be red.
CHANGES: dict[str, tuple[dict[str, Any], str]] = {
    "volatile path": ({"match": {"ignore_paths": ["$.user"]}}, "match.ignore_paths"),
    "volatile pattern": ({"match": {"ignore_patterns": ["id-[0-9]+"]}}, "match.ignore_patterns"),
    "redacted parts": ({"match": {"redacted": "count"}}, "match.redacted"),
    "gate of a model": ({"models": {"gpt-4*": {"gate": "request"}}}, 'models["gpt-4*"].gate'),
    "default of a model": ({"models": {"gpt-4*": {"temperature": 0}}}, 'models["gpt-4*"].temperature'),
    "determinism": ({"determinism": "strict"}, "determinism"),
    "forced gate": ({"models": {"gpt-4*": {"gate": "behaviour"}}}, 'models["gpt-4*"].gate'),
    "skipped test": ({"test": {"may_skip": ["four_*"]}}, "test.may_skip"),
    "network": ({"test": {"seal_network": "off"}}, "test.seal_network"),
    "stricter network": ({"test": {"seal_network": "require"}}, "test.seal_network"),
    "port": ({"test": {"allow_ports": ["1024-65535"]}}, "test.allow_ports"),
    "ignored host": ({"test": {"ignore_hosts": ["*.example"]}}, "test.ignore_hosts"),
    "host": ({"hosts": ["models.example.org"]}, "hosts"),
    "redacted field": ({"redact_fields": ["content"]}, "redact_fields"),
    "redacted pattern": ({"redact_patterns": ["EMP-[0-9]{6}"]}, "redact_patterns"),
    "exception of redaction": ({"allow": ["*@example.org"]}, "allow"),
    "upstream": ({"upstreams": {"corp": "https://llm.example.org"}}, "upstreams.corp.url"),
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project whose first approval has included its settings, which are the defaults."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    repository = Project(tmp_path / "repository")
    repository.approve(record_change("greeting"))
    return repository


def _configure(project: Project, settings: Any) -> None:
    (project.folder / "traceforge.config.json").write_text(json.dumps(settings))


@pytest.mark.parametrize(
    "name", [name if name == "volatile path" else pytest.param(name, marks=pytest.mark.slow) for name in CHANGES]
)
def test_a_changed_setting_is_red_until_it_is_approved(project: Project, name: str) -> None:
    """In every command that checks the tree; and again when it is taken back."""
    settings, setting = CHANGES[name]
    _configure(project, settings)

    verified = traceforge("verify", cwd=project.folder)
    for command in (["test"], ["snapshot", "verify"], ["verify", ".ai-snapshots"]):
        assert 1 == traceforge(*command, cwd=project.folder).code, command
    shown = traceforge("diff", cwd=project.folder)
    approved = traceforge("approve", "--policy", "--reason", "as agreed", cwd=project.folder)

    assert 1 == verified.code
    assert f"traceforge.config.json: $.{setting}: CF2 not the approved setting: {setting}: not set → " in verified.out
    assert APPROVE in verified.out
    assert (1, True) == (shown.code, f"  {setting}: not set → " in shown.out)
    assert (0, True) == (approved.code, f"  {setting}: not set → " in approved.out)
    assert 0 == traceforge("verify", cwd=project.folder).code
    _configure(project, {})
    assert 1 == traceforge("verify", cwd=project.folder).code
    (project.folder / "traceforge.config.json").unlink()
    assert 1 == traceforge("verify", cwd=project.folder).code


def test_the_same_settings_written_otherwise_are_green(project: Project) -> None:
    """Comments, order, defaults, prices, what decides nothing, and the other file."""
    settings = {"test": {"may_skip": ["b", "a"]}, "hosts": ["x.example.org"], "models": {"o3*": {"gate": "request"}}}
    _configure(project, settings)
    assert 0 == traceforge("approve", "--policy", "--reason", "as agreed", cwd=project.folder).code
    own = project.folder / "traceforge.config.json"

    own.write_text(
        '{ // a comment\n"models": {"o3*": {"output_price_per_million": 8, "gate": "request"}},\n'
        '"durability": "sync",'
        ' "hosts": ["x.example.org"], "test": {"seal_network": "auto", "may_skip": ["a", "b", "a"]}, "allow": []}'
    )
    commented = traceforge("verify", cwd=project.folder, TRACEFORGE_TRACES_DIR="elsewhere")
    own.unlink()
    (project.folder / "pyproject.toml").write_text(
        '[tool.traceforge]\nhosts = ["x.example.org"]\ncallsite.skip = ["x/*"]\n'
        '[tool.traceforge.models."o3*"]\ngate = "request"\n[tool.traceforge.test]\nmay_skip = ["a", "b"]\n'
    )
    moved = traceforge("verify", cwd=project.folder)

    assert (0, 0) == (commented.code, moved.code), (commented, moved)


def test_a_tree_without_an_approved_policy_says_so_and_its_next_approval_includes_it(tmp_path: Path) -> None:
    """One that an older version wrote."""
    project = Project(tmp_path / "repository")
    project.approve_without_policy(record_change("greeting"))
    _configure(project, {"hosts": ["x.example.org"]})

    before = traceforge("verify", cwd=project.folder)
    removed = traceforge("snapshot", "rm", "greeting", "--reason", "not needed", cwd=project.folder)
    project.approve(record_change("other"))
    after = traceforge("verify", cwd=project.folder)
    _configure(project, {})

    assert (0, True) == (before.code, "note: the policy was never approved" in before.out)
    assert (0, 0, False) == (removed.code, after.code, "note" in after.out)
    assert 1 == traceforge("verify", cwd=project.folder).code


@pytest.fixture
def site(recorded: Site, tmp_path: Path) -> Iterator[Site]:
    """A fresh checkout of a project with approved calls, and a provider with other answers."""
    with model_server(salt="another") as other:
        yield recorded.at(tmp_path / "checkout", other)


@pytest.mark.slow
def test_the_gate_is_red_in_every_way_to_run_it_and_recording_goes_on(site: Site) -> None:
    """A changed prompt that a new declaration hides: `traceforge test`, plain pytest, and with workers."""
    site.edit("Name a soup.", "Name a soup!")
    weaker = {**CONFIG, "match": {"ignore_patterns": ["p[.!]"]}}
    (site.folder / "traceforge.config.json").write_text(json.dumps(weaker))

    tested = site.test("-k", CHAT)
    plugged = [site.plugin("-k", CHAT, "-n", workers) for workers in ("0", "2")]
    recorded = site.record("-k", CHAT)
    approved = site.run("approve", "--all", "--reason", "it is right")

    row = 'match.ignore_patterns: not set → ["p[.!]"]'
    assert (1, True, True) == (
        tested.code,
        f"CF2 not the approved setting: {row}" in tested.err,
        APPROVE in tested.err,
    )
    assert [(4, True)] * 2 == [(ran.code, row in ran.out + ran.err) for ran in plugged], plugged
    assert (0, True, True) == (recorded.code, row in recorded.err, APPROVE in recorded.err), recorded
    assert (0, True) == (approved.code, row in approved.out), approved
    assert 1 == site.test("-k", CHAT).code

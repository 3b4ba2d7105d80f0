"""The settings of a project are compared with the base of a build, as its snapshots are."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from support.approval_project import Project, record_change
from support.command import CommandResult, traceforge

WEAKER = {"test": {"may_skip": ["four_*"]}}
CHANGE = 'test.may_skip: not set → ["four_*"]'


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project without a configuration, whose first approval included its settings; on `main`."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    project = Project(tmp_path / "project")
    project.approve(record_change("one"))
    project.commit()
    return project


@pytest.fixture
def unapproved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project with a configuration, approved by a version that knew no policy; on `main`."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    project = Project(tmp_path / "unapproved")
    _configure(project, WEAKER)
    project.approve_without_policy(record_change("one"))
    project.commit()
    return project


def _configure(project: Project, settings: Any) -> None:
    (project.folder / "traceforge.config.json").write_text(json.dumps(settings))


def _approve(project: Project) -> CommandResult:
    return traceforge("approve", "--policy", "--reason", "as agreed", cwd=project.folder)


def test_cf2_the_settings_of_a_base_without_a_policy_count_as_approved(unapproved: Project) -> None:
    """Another value is red until it is approved; a move to pyproject.toml changes nothing."""
    assert 0 == unapproved.verify().code
    (unapproved.folder / "traceforge.config.json").unlink()
    (unapproved.folder / "pyproject.toml").write_text('[tool.traceforge.test]\nmay_skip = ["four_*"]\n')
    assert 0 == unapproved.verify().code

    with (unapproved.folder / "pyproject.toml").open("a") as file:
        file.write('seal_network = "off"\n')
    red = unapproved.verify()
    tested = traceforge("test", "--base", "main", "--", "true", cwd=unapproved.folder)

    message = 'CF2 differs from main, and no new approval has it: test.seal_network: not set → "off"'
    assert (1, True) == (red.code, f"pyproject.toml: $.test.seal_network: {message}" in red.out), red
    assert (1, True) == (tested.code, message in tested.err), tested
    approved = _approve(unapproved)
    assert (0, True) == (approved.code, "test.seal_network" in approved.out), approved
    assert 0 == unapproved.verify().code


def test_cf2_an_approved_setting_is_green_and_one_finding_is_enough(project: Project) -> None:
    _configure(project, WEAKER)

    red = project.verify()
    approved = _approve(project)

    assert (1, 1, True) == (red.code, red.out.count("CF2"), CHANGE in red.out), red
    assert (0, 0) == (approved.code, project.verify().code)


def test_cf2_an_older_approval_does_not_cover_a_setting_that_was_taken_back(project: Project) -> None:
    """The base has both approvals: what is weaker again is new."""
    _configure(project, WEAKER)
    assert 0 == _approve(project).code
    _configure(project, {})
    assert 0 == _approve(project).code
    project.commit()
    _configure(project, WEAKER)

    assert 1 == project.verify().code
    assert 0 == _approve(project).code
    assert 0 == project.verify().code


def test_removing_the_approval_of_the_policy_does_not_open_the_gate(project: Project) -> None:
    """Without it the tree has no approved policy; the base has."""
    _configure(project, WEAKER)
    assert 0 == _approve(project).code
    project.commit()
    _configure(project, {"test": {"may_skip": ["four_*"]}, "hosts": ["evil.example"]})
    for file in sorted(project.root.glob("approvals/*"))[1:]:
        file.unlink()

    red = project.verify()

    assert (1, True, True) == (red.code, "AP7" in red.out, "hosts" in red.out), red


def test_a_broken_configuration_of_the_base_counts_as_none(unapproved: Project) -> None:
    """Whoever repairs it approves what it says."""
    (unapproved.folder / "traceforge.config.json").write_text("{")
    unapproved.git("commit", "-qam", "broken")
    _configure(unapproved, WEAKER)

    red = unapproved.verify()

    assert (1, True) == (red.code, CHANGE in red.out), red
    assert 0 == _approve(unapproved).code
    assert 0 == unapproved.verify().code

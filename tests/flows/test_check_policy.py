"""A check that was removed, or that demands less, needs an approval, as a setting of the policy does."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import NoReturn

import pytest

from support.approval_project import Project, record_change
from support.command import CommandResult, traceforge
from traceforge.audit.auditor import Auditor, BaseCommit
from traceforge.checks.runs import check_verification
from traceforge.cli.project import load_project
from traceforge.cli.verify_command import project_paths
from traceforge.errors import MissingExtra
from traceforge.snapshots.formats.determinism_policy import ModelPolicy
from traceforge.snapshots.tree import base_checks
from traceforge.snapshots.tree.base_commit import check_checks_against_base

BASE = """\
name: capital
trace_id: "{{trace}}"
tags: [smoke]
runs: 100
pass_rate: 0.9
margin: 0.05
cases: {file: capitals.jsonl}
assertions:
  - {type: contains, value: Paris}
  - {type: regex, pattern: "Par[i]s"}
"""
CASES = '{"trace": "1"}\n{"trace": "2"}\n'


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project with one approved call and one check; on `main`."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    project = Project(tmp_path / "project")
    project.approve(record_change("one"))
    (project.folder / ".ai-checks").mkdir()
    write(project, "capital.yaml", BASE)
    write(project, "capitals.jsonl", CASES)
    project.commit()
    return project


def write(project: Project, name: str, text: str) -> None:
    (project.folder / ".ai-checks" / name).write_text(text)


def approve(project: Project, *options: str) -> CommandResult:
    return traceforge("approve", "--policy", *options, "--reason", "as agreed", cwd=project.folder)


LOOSENINGS = {
    "an assertion is gone": ("  - {type: contains, value: Paris}\n", "", "its assertion 1 (contains)"),
    "an expression is another one": ("Par[i]s", "P.*", "its assertion 2 (regex)"),
    "a lower pass rate": ("pass_rate: 0.9", "pass_rate: 0.8", "pass_rate: 0.9 → 0.8"),
    "no pass rate": ("pass_rate: 0.9\nmargin: 0.05\n", "", "pass_rate: 0.9 → not set"),
    "a larger margin": ("margin: 0.05", "margin: 0.2", "margin: 0.05 → 0.2"),
    "the default margin": ("margin: 0.05\n", "", "margin: 0.05 → 0.1"),
    "fewer runs": ("runs: 100", "runs: 10", "runs: 100 → 10"),
    "no limit of runs": ("runs: 100\n", "", "runs: 100 → not set"),
    "a tag is gone": ("tags: [smoke]\n", "", "it has the tag smoke no more"),
    "no data set": ("cases: {file: capitals.jsonl}\n", "", "it has no cases any more"),
    "another answer": ('trace_id: "{{trace}}"', "snapshot: one", "snapshot is another one"),
    "commands around it": ("tags: [smoke]\n", "tags: [smoke]\nfixtures: {env: {A: b}}\n", "fixtures is another one"),
    "it cannot be read": ("name: capital\n", "name: [\n", "it was removed"),
}


@pytest.mark.parametrize(("old", "new", "reason"), LOOSENINGS.values(), ids=LOOSENINGS)
def test_ck5_a_check_that_demands_less_is_red_until_it_is_approved(
    project: Project, old: str, new: str, reason: str
) -> None:
    """`verify` and `test` say what it does not demand any more, and one approval settles it."""
    assert old in BASE
    write(project, "capital.yaml", BASE.replace(old, new))

    red = project.verify()
    tested = traceforge("test", "--base", "main", "--", "true", cwd=project.folder)
    assert (1, True) == (red.code, "CK5" in red.out and reason in red.out), red
    assert red.out.startswith(".ai-checks/capital.yaml: ")
    assert (1, True) == (tested.code, "CK5" in tested.err and reason in tested.err), tested
    assert "traceforge: .ai-checks/capital.yaml" in tested.err
    assert 0 == approve(project).code

    settled = project.verify()
    assert "CK5" not in settled.out
    assert (3 if new == "name: [\n" else 0) == settled.code  # A file that cannot be read is never green.


STRICTER = {
    "a further assertion": ("assertions:\n", "assertions:\n  - {type: no_refusal}\n"),
    "a higher pass rate": ("pass_rate: 0.9", "pass_rate: 0.95"),
    "a smaller margin": ("margin: 0.05", "margin: 0.04"),
    "more runs": ("runs: 100", "runs: 200"),
    "a further tag": ("[smoke]", "[smoke, more]"),
    "another order": ("  - {type: contains, value: Paris}\n", "  - {value: Paris, name: it, type: contains}\n"),
    "more time": ("runs: 100", "runs: 100\ntimeout: 200"),
    "another name": ("name: capital", "name: the capital"),
}


@pytest.mark.parametrize(("old", "new"), STRICTER.values(), ids=STRICTER)
def test_a_check_that_demands_as_much_needs_no_approval(project: Project, old: str, new: str) -> None:
    assert old in BASE
    write(project, "capital.yaml", BASE.replace(old, new))

    assert 0 == project.verify().code


def test_ck5_a_case_that_is_gone_is_red_and_a_new_one_is_not(project: Project) -> None:
    """The data set belongs to its check, wherever its lines are."""
    write(project, "capitals.jsonl", '{"trace": "3"}\n{"trace":"2"}\n{"trace": "1"}\n')
    assert 0 == project.verify().code

    write(project, "capitals.jsonl", '{"trace": "1"}\n{"trace": "3"}\n')
    red = project.verify()
    assert (1, True) == (red.code, "without a case of its data set" in red.out), red
    assert 0 == approve(project).code
    assert 0 == project.verify().code
    write(project, "capitals.jsonl", '{"trace": "1"}\n')
    assert 1 == project.verify().code  # The approval was of another state.


def test_ck5_a_check_that_is_gone_is_red_and_one_that_moved_is_not(project: Project) -> None:
    """It is looked for by what it demands, in every check file."""
    folder = project.folder / ".ai-checks"
    (folder / "capital.yaml").rename(folder / "cities.yml")
    assert 0 == project.verify().code

    (folder / "cities.yml").rename(folder / "cities.yaml.old")
    red = project.verify()
    assert (1, True) == (red.code, "it was removed" in red.out), red
    assert 0 == approve(project).code
    assert 0 == project.verify().code
    (folder / "cities.yaml.old").rename(folder / "cities.yaml")
    assert 0 == project.verify().code


def test_ck5_a_check_file_that_became_a_link_is_gone(project: Project) -> None:
    """Git would check out a link of a pull request, and `check run` follows none."""
    file = project.folder / ".ai-checks" / "capital.yaml"
    file.rename(project.folder / "elsewhere.yaml")
    file.symlink_to(project.folder / "elsewhere.yaml")

    assert 1 == project.verify().code


def test_an_approval_of_the_base_does_not_approve_again(project: Project) -> None:
    """What was approved once, and is in the base, covers no later change to the same state."""
    looser = BASE.replace("runs: 100", "runs: 10")
    write(project, "capital.yaml", looser)
    assert 0 == approve(project).code
    project.commit()
    write(project, "capital.yaml", BASE)
    assert 0 == project.verify().code
    project.commit()
    write(project, "capital.yaml", looser)

    assert 1 == project.verify().code


def test_a_change_that_was_committed_is_approved_against_the_named_commit(project: Project) -> None:
    """The message names the command with the base of the build."""
    write(project, "capital.yaml", BASE.replace("runs: 100", "runs: 10"))
    project.commit()

    red = traceforge("verify", "--base", "HEAD~1", cwd=project.folder)
    assert (1, True) == (red.code, "approve --policy --base HEAD~1" in red.out), red
    shown = traceforge("status", cwd=project.folder)
    nothing = approve(project)
    assert (0, False) == (nothing.code, "checks[" in shown.out + nothing.out)
    approved = approve(project, "--base", "HEAD~1")

    assert (0, True) == (approved.code, 'checks[".ai-checks/capital.yaml"].capital' in approved.out), approved
    assert 0 == traceforge("verify", "--base", "HEAD~1", cwd=project.folder).code


def test_status_and_diff_name_a_check_that_waits_for_approval(project: Project) -> None:
    """As a setting of the policy; a configuration that is as approved stays so afterwards."""
    (project.folder / ".ai-checks" / "capital.yaml").unlink()

    shown, diff = (traceforge(name, cwd=project.folder) for name in ("status", "diff"))
    assert (0, 1) == (shown.code, diff.code)
    for result in (shown, diff):
        assert 'checks[".ai-checks/capital.yaml"].capital: "sha256:' in result.out
    assert 0 == approve(project).code

    assert (0, 0) == (traceforge("diff", cwd=project.folder).code, project.verify().code)


def test_check_run_compares_with_a_base_too(project: Project) -> None:
    """A build that only runs checks finds a check that is gone, and names its file."""
    write(project, "other.yaml", "name: other\ntrace_id: x\nassertions: [{type: refusal}]\n")
    (project.folder / ".ai-checks" / "capital.yaml").unlink()

    ran = traceforge("check", "run", "--base", "main", cwd=project.folder)

    assert (1, True) == (ran.code, ".ai-checks/capital.yaml: CK5" in ran.out), ran


def set_price(project: Project, price: float) -> None:
    prices = {"input_price_per_million": price, "output_price_per_million": price}
    (project.folder / "traceforge.config.json").write_text(json.dumps({"models": {"gpt-*": prices}}))


@pytest.mark.parametrize(
    "cost",
    ["{type: cost, max: 0.01}", "{type: any_of, assertions: [{type: not, assertion: {type: cost, max: 1}}]}"],
    ids=["alone", "inside of others"],
)
def test_ck5_a_changed_price_is_red_for_a_check_of_the_cost_until_it_is_approved(project: Project, cost: str) -> None:
    """The verdict follows from the price as much as from the limit, and the check file itself is unchanged."""
    write(project, "cost.yaml", f"name: cheap\nsnapshot: one\nassertions: [{cost}]\n")
    set_price(project, 8)
    project.commit()
    assert 0 == project.verify().code

    set_price(project, 0.5)
    red = project.verify()
    ran = traceforge("check", "run", "--base", "main", cwd=project.folder)

    for result in (red, ran):
        assert (1, True) == (result.code, "CK5 the check 'cheap'" in result.out), result
        assert "gpt-*: 8 and 8 → 0.5 and 0.5" in result.out
        assert "'capital'" not in result.out.partition("CK5")[2].partition("\n")[0]
    assert 'checks[".ai-checks/cost.yaml"].cheap' in traceforge("status", cwd=project.folder).out
    assert 0 == approve(project).code
    assert 0 == project.verify().code
    set_price(project, 0.1)
    assert 1 == project.verify().code  # The approval was of another price.


def test_a_changed_price_without_a_check_of_the_cost_needs_no_approval(project: Project) -> None:
    """It decides nothing then; and a first price makes a check stricter, which had no answer before."""
    set_price(project, 8)
    project.commit()
    set_price(project, 0.5)
    write(project, "cost.yaml", "name: cheap\nsnapshot: one\nassertions: [{type: cost, max: 1}]\n")

    assert 0 == project.verify().code


def test_checks_of_a_project_below_are_its_own(project: Project) -> None:
    """They are compared where that project is verified, and its approvals are there."""
    below = project.folder / "below" / ".ai-checks"
    below.mkdir(parents=True)
    (below.parent / "traceforge.config.json").write_text("{}")
    (below / "a.yaml").write_text("name: a\ntrace_id: x\nassertions: [{type: refusal}]\n")
    inner = project.folder / "package" / ".ai-checks"
    inner.mkdir(parents=True)
    (inner / "a.yaml").write_text("name: a\ntrace_id: x\nassertions: [{type: refusal}]\n")
    project.commit()

    (below / "a.yaml").unlink()
    assert 0 == project.verify().code
    (inner / "a.yaml").unlink()
    assert 1 == project.verify().code


def test_without_pyyaml_a_changed_check_file_could_not_be_compared(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that did not change needs none: a build that only verifies installs no extra."""

    def refuse(*_arguments: object) -> NoReturn:
        raise MissingExtra("PyYAML is not installed", "checks")

    monkeypatch.setattr(base_checks, "read_check_states", refuse)
    assert () == check_checks_against_base(str(project.folder), "main").findings

    write(project, "capital.yaml", BASE.replace("runs: 100", "runs: 10"))
    (finding,) = check_checks_against_base(str(project.folder), "main").findings

    assert ("IO", True) == (finding.rule, finding.is_unchecked)
    assert "PyYAML is not installed" in finding.message


@pytest.fixture
def checks_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project with a check, and neither a snapshot nor an approval; on a branch."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    project = Project(tmp_path / "project")
    (project.folder / "traceforge.config.json").write_text("{}")
    (project.folder / ".ai-checks").mkdir()
    write(project, "capital.yaml", BASE)
    write(project, "capitals.jsonl", CASES)
    project.commit()
    project.git("checkout", "-qb", "work")
    return project


def test_verify_of_a_project_with_checks_alone_checks_their_files_and_approvals(checks_only: Project) -> None:
    """Compared with a commit, or with an approval that says that there was no snapshot, it can be green."""
    write(checks_only, "capital.yaml", BASE.replace("runs: 100", "runs: 10"))
    assert 1 == checks_only.verify().code
    assert 0 == approve(checks_only).code

    compared, alone = checks_only.verify(), traceforge("verify", cwd=checks_only.folder)
    write(checks_only, "capitals.jsonl", "no JSON\n")
    write(checks_only, "broken.yaml", "name: a\ntrace_id: x\nassertions: [{type: contians, value: x}]\n")
    broken = traceforge("verify", cwd=checks_only.folder)

    assert [(0, "checked 1 approval, 1 check-file: all valid")] * 2 == [
        (result.code, result.out.splitlines()[-1]) for result in (compared, alone)
    ]
    assert (1, True, True) == (
        broken.code,
        ".ai-checks/broken.yaml: line 3 column 15: CK1" in broken.out,
        ".ai-checks/capitals.jsonl" in broken.out,
    ), broken


def test_verify_of_checks_alone_without_a_base_says_what_is_not_checked(checks_only: Project) -> None:
    """The snapshots may not have been checked out."""
    alone, compared = traceforge("verify", cwd=checks_only.folder), checks_only.verify()

    assert (3, 0) == (alone.code, compared.code), compared
    assert "no commit says whether there were any" in alone.out
    assert "traceforge verify --base REF" in alone.out


@pytest.mark.parametrize(("snapshots", "code"), [(True, 0), (False, 3)], ids=["with snapshots", "checks alone"])
def test_verify_without_pyyaml_says_that_check_files_were_not_checked(
    checks_only: Project, monkeypatch: pytest.MonkeyPatch, snapshots: bool, code: int
) -> None:
    """A note beside what was checked, as a build that verifies snapshots installs no extra; alone it is not green."""
    if snapshots:
        checks_only.approve(record_change("one"))

    def refuse(_project: str) -> NoReturn:
        raise MissingExtra("PyYAML is not installed", "checks")

    monkeypatch.setattr(check_verification, "verify_check_files", refuse)
    monkeypatch.chdir(checks_only.folder)
    loaded = load_project()
    base = BaseCommit(loaded.project, None, loaded.project)
    report = Auditor(ModelPolicy(), "traces", base=base, loaded=loaded).verify(project_paths(loaded), named=False)

    assert code == report.exit_code, report
    assert "PyYAML is not installed" in str(report.notes if snapshots else report.findings)

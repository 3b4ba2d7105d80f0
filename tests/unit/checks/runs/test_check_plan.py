"""`checks/runs/check_plan.py`: which checks run, and what cannot."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from traceforge.canon import JSONObject
from traceforge.checks.formats.check_types import CaseTraces
from traceforge.checks.runs.check_plan import CheckPlan, make_plan

CHECK = "name: {}\ntrace_id: abcd\nassertions: [{{type: refusal}}]\n"


def plan(project: Path, *paths: str, tags: Sequence[str] = (), rows: Sequence[JSONObject] = ()) -> CheckPlan:
    """The plan of these files in a project that is the current folder."""

    def list_trace_cases(_cases: CaseTraces) -> list[JSONObject]:
        return list(rows)

    return make_plan(str(project), paths, set(tags), list_trace_cases)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a folder for checks; the current folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".ai-checks" / "deep").mkdir(parents=True)
    return tmp_path


def write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def test_every_yaml_file_of_the_folder_is_read(project: Path) -> None:
    """Also in folders inside it, and with both endings; a data set is not a check file."""
    write(project / ".ai-checks" / "a.yaml", CHECK.format("a"))
    write(project / ".ai-checks" / "deep" / "b.YML", CHECK.format("b"))
    write(project / ".ai-checks" / "cases.jsonl", "{}")

    planned = plan(project)

    assert [".ai-checks/a.yaml::a", ".ai-checks/deep/b.YML::b"] == [check.id for check in planned.checks]
    assert [] == planned.findings


def test_a_file_that_cannot_be_read_is_a_finding_and_the_others_run(project: Path) -> None:
    """A malformed file, and a link, which could lead anywhere."""
    write(project / ".ai-checks" / "a.yaml", CHECK.format("a"))
    write(project / ".ai-checks" / "b.yaml", "name: [")
    write(project / ".ai-checks" / "c.yaml", "name: c")
    os.symlink("/etc/hostname", project / ".ai-checks" / "d.yaml")

    planned = plan(project)

    assert ["a"] == [check.check.name for check in planned.checks]
    assert [("b.yaml", "PARSE"), ("c.yaml", "CK1"), ("d.yaml", "IO")] == [
        (os.path.basename(finding.file), finding.rule) for finding in planned.findings
    ]


def test_a_link_to_a_folder_is_a_finding(project: Path) -> None:
    """Whoever puts shared checks there would take them for checks that run."""
    write(project / ".ai-checks" / "a.yaml", CHECK.format("a"))
    os.symlink("..", project / ".ai-checks" / "shared")

    ((file, _, rule, *_),) = plan(project).findings

    assert (".ai-checks/shared", "IO") == (file, rule)


def test_a_data_set_that_is_missing_has_a_name_and_a_place(project: Path) -> None:
    """The line of the check that names it."""
    write(project / ".ai-checks" / "a.yaml", CHECK.format("a") + "cases: {file: none.csv}\n")

    ((file, place, rule, message, _),) = plan(project).findings

    assert (".ai-checks/a.yaml", "line 4 column 1", "IO") == (file, place, rule)
    assert "the data set none.csv cannot be read: no such file or folder" == message


def test_a_tag_selects_checks(project: Path) -> None:
    """Any of several tags; the total counts the others too."""
    for name, tags in (("a", "[x]"), ("b", "[y, z]"), ("c", "[]")):
        write(project / ".ai-checks" / f"{name}.yaml", CHECK.format(name) + f"tags: {tags}\n")

    planned = plan(project, tags=["x", "z"])

    assert (["a", "b"], 3) == ([check.check.name for check in planned.checks], planned.total)


def test_each_case_is_a_check(project: Path) -> None:
    """Of the file, of a data set beside it, and of traces."""
    text = CHECK.format("a").replace("abcd", '"{{id}}"')
    write(project / ".ai-checks" / "a.yaml", text + "cases: [{id: aaaa}, {id: bbbb}]\n")
    write(project / ".ai-checks" / "b.yaml", text + "cases: {file: deep/c.csv}\n")
    write(project / ".ai-checks" / "deep" / "c.csv", "id\ncccc\n")
    write(project / ".ai-checks" / "c.yaml", CHECK.format("c").replace("trace_id: abcd\n", "cases: {traces: ''}\n"))

    planned = plan(project, rows=[{"trace_id": "dddd", "model": "m"}])

    assert [] == planned.findings
    assert ["aaaa", "bbbb", "cccc", "dddd"] == [check.check.trace_id for check in planned.checks]
    assert ".ai-checks/a.yaml::a[case 2]" == planned.checks[1].id


@pytest.mark.parametrize(
    ("cases", "message"),
    [
        ("{file: missing.csv}", "the data set missing.csv cannot be read: no such file or folder"),
        ("{file: ../../outside.csv}", "the data set of 'a' is outside of the project"),
        ("{file: /etc/passwd}", "the data set of 'a' is outside of the project"),
        ("{file: link.csv}", "the data set of 'a' is outside of the project"),
        ("{traces: x}", "no trace matches 'x', so the check 'a' has no case"),
        ("[{id: 3}]", "trace_id must be string, got number (in case 1)"),
    ],
)
def test_a_data_set_that_cannot_be_used_is_a_finding(project: Path, cases: str, message: str) -> None:
    """Nothing outside of the project is read, and a check without cases does not pass."""
    write(project.parent / "outside.csv", "id\nabcd\n")
    os.symlink(project.parent / "outside.csv", project / ".ai-checks" / "link.csv")
    write(project / ".ai-checks" / "a.yaml", CHECK.format("a").replace("abcd", '"{{id}}"') + f"cases: {cases}\n")

    planned = plan(project)

    assert [] == planned.checks
    assert [message] == [finding.message for finding in planned.findings]

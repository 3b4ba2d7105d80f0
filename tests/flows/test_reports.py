"""Reports for CI services: JUnit, SARIF, annotations and the summary of a step, from real runs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import fromstring

import pytest

from support.command import traceforge
from support.corpus import PROJECT
from support.gate_project import CHAT, Site
from support.published_schemas import SARIF, check_junit, problems
from traceforge.report.github_report import SUMMARY_BYTES_MAX

TREE = PROJECT / "tests" / "docs" / "samples" / "docs" / "how-to" / "verify-in-ci"
DOCUMENT = ".ai-snapshots/openai/capital-of-france.json"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with one snapshot."""
    shutil.copytree(TREE, tmp_path, dirs_exist_ok=True)
    return tmp_path


def edit_answer(project: Path) -> None:
    """Change an answer by hand."""
    document = project / DOCUMENT
    document.write_text(document.read_text().replace("is Paris", "is Lyon"))


def sarif(path: Path) -> Any:
    """The run of a valid file."""
    document = json.loads(path.read_bytes())
    assert [] == problems(SARIF, document)
    return document["runs"][0]


def test_verify_writes_valid_reports(project: Path) -> None:
    """Also without findings; folders are created; stdout is the same as without reports."""
    for is_broken in (False, True):
        if is_broken:
            edit_answer(project)
        ran = traceforge("verify", "--junit", "out/junit.xml", "--sarif", "out/x.sarif", cwd=project)
        without_reports = traceforge("verify", cwd=project)
        tree = traceforge("snapshot", "verify", "--junit", "tree.xml", "--sarif", "tree.sarif", cwd=project)

        assert (int(is_broken), without_reports.out, "") == (ran.code, ran.out, ran.err)
        assert is_broken == bool(tree.code)
        for name in ("out/junit.xml", "tree.xml"):
            findings, checked_files = check_junit((project / name).read_bytes())
            assert (str(int(is_broken)), "1") == (findings.attrib["failures"], checked_files.attrib["tests"])
        for name in ("out/x.sarif", "tree.sarif"):
            results = sarif(project / name)["results"]
            assert ["SN3"] * is_broken == [result["ruleId"] for result in results]
    [result] = results
    place = result["locations"][0]["physicalLocation"]
    line = 1 + (project / DOCUMENT).read_text().split("\n").index(_hash_line(project))
    assert (DOCUMENT, line) == (place["artifactLocation"]["uri"], place["region"]["startLine"])


def _hash_line(project: Path) -> str:
    return next(row for row in (project / DOCUMENT).read_text().split("\n") if row.startswith('      "hash"'))


def test_on_github_verify_annotates_and_appends_to_the_summary(project: Path) -> None:
    """On stderr, so that `--json` stays one document; after the step's own summary."""
    edit_answer(project)
    (project / "summary.md").write_text("before\n")
    variables = {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(project / "summary.md")}

    ran = traceforge("verify", "--json", cwd=project, **variables)

    assert 1 == json.loads(ran.out)["exit_code"]
    assert ran.err.startswith(f"::error title=TraceForge SN3,file={DOCUMENT},line=")
    assert 1 == ran.err.count("\n")
    summary = (project / "summary.md").read_text()
    assert summary.startswith("before\n## traceforge verify\n\n`checked 1 snapshot: 1 finding`\n")
    elsewhere = traceforge("verify", cwd=project, GITHUB_ACTIONS="false")
    assert "" == elsewhere.err


def test_a_summary_that_cannot_be_written_changes_nothing(project: Path) -> None:
    """It is reported, and the exit code is that of the check."""
    ran = traceforge("verify", cwd=project, GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY="/nowhere/summary.md")

    assert (0, "checked 1 snapshot: all valid\n") == (ran.code, ran.out)
    assert "GitHub's step summary cannot be written" in ran.err


@pytest.mark.parametrize("option", ["--junit", "--sarif"])
def test_a_report_that_cannot_be_written_is_exit_3(project: Path, option: str) -> None:
    """After the findings: a later step would upload an old report."""
    ran = traceforge("verify", option, DOCUMENT + "/x.xml", cwd=project)

    assert (3, "checked 1 snapshot: all valid\n") == (ran.code, ran.out)
    assert "error TF202" in ran.err


@pytest.mark.slow
def test_a_thousand_findings_stay_within_the_limits(project: Path) -> None:
    """A folder of a thousand broken recordings."""
    many = project / "many"
    many.mkdir()
    for number in range(1000):
        (many / f"{number:04}.json").write_text('{"model_io_schema_version": "x"}')
    variables = {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(project / "summary.md")}

    ran = traceforge("verify", "many", "--junit", "j.xml", "--sarif", "s.sarif", cwd=project, **variables)

    findings = ran.out.count("SCHEMA") + ran.out.count("MI1 ")
    lines = ran.err.splitlines()
    assert (1, 10, 11) == (ran.code, sum(line.startswith("::error ") for line in lines), len(lines))
    assert f"{findings - 10} more findings" in lines[-1]
    assert 1000 <= findings == int(check_junit((project / "j.xml").read_bytes())[0].attrib["failures"])
    assert findings == len(sarif(project / "s.sarif")["results"])
    assert (project / "summary.md").stat().st_size <= SUMMARY_BYTES_MAX


@pytest.mark.slow
def test_test_reports_the_changed_prompt_on_its_line(recorded: Site, tmp_path: Path) -> None:
    """A case for each test, a result at the call site, one annotation, and the diff in all of them."""
    site = recorded.at(tmp_path / "checkout")
    site.edit("Name a river.", "Name a lake.")
    variables = {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")}

    ran = site.test("-k", CHAT, options=("--junit", "j.xml", "--sarif", "s.sarif"), **variables)

    assert 1 == ran.code, ran.err
    findings, tests = check_junit((site.folder / "j.xml").read_bytes())
    failed = [case.attrib["name"] for case in tests.iter("testcase") if case.find("failure") is not None]
    assert ("1", "4", 1) == (findings.attrib["tests"], tests.attrib["tests"], len(failed))
    assert "[-river-]{+lake+}" in "".join(findings.itertext())
    [result] = sarif(site.folder / "s.sarif")["results"]
    place = result["locations"][0]["physicalLocation"]
    assert ("GT1", "four_providers.py") == (result["ruleId"], place["artifactLocation"]["uri"])
    assert place["region"]["startLine"] > 1
    assert 1 == ran.err.count("::error ")
    assert f"::error title=TraceForge GT1,file=four_providers.py,line={place['region']['startLine']}::" in ran.err
    assert "[-river-]{+lake+}" in (tmp_path / "summary.md").read_text()


@pytest.mark.slow
def test_test_reports_unused_tampered_and_unchecked_snapshots(recorded: Site, tmp_path: Path) -> None:
    """At the snapshot's file; without a file, as a notification."""
    site = recorded.at(tmp_path / "checkout")
    site.edit('assert len(embed("soup")) > 3', "pass")
    options = ("--junit", "j.xml", "--sarif", "s.sarif")

    unused = site.test("-k", "chat or embedding", options=options)
    [result] = sarif(site.folder / "s.sarif")["results"]
    uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert (1, "GT3") == (unused.code, result["ruleId"])
    assert (site.folder / uri).is_file()

    nothing = site.run("test", *options, "--", str(site.python), "-c", "pass")
    run = sarif(site.folder / "s.sarif")
    assert (3, [], "1") == (nothing.code, run["results"], check_junit(_read(site))[0].attrib["errors"])
    assert "no call was replayed at all" in run["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"]

    (site.folder / uri).write_text((site.folder / uri).read_text().replace("soup", "soap"))
    tampered = site.test(options=options)
    results = sarif(site.folder / "s.sarif")["results"]
    assert 1 == tampered.code
    assert {uri} == {entry["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for entry in results}

    tree = site.run("test", *options)
    assert (1, len(results)) == (tree.code, len(sarif(site.folder / "s.sarif")["results"]))
    check_junit(_read(site))


def _read(site: Site) -> bytes:
    return (site.folder / "j.xml").read_bytes()


@pytest.mark.slow
def test_pytest_s_own_junit_file_carries_the_diff_and_nothing_is_annotated_twice(
    recorded: Site, tmp_path: Path
) -> None:
    """The plugin leaves annotations to pytest; under `traceforge test` the plugin is inactive."""
    site = recorded.at(tmp_path / "checkout")
    site.edit("Name a river.", "Name a lake.")
    site.add(
        "def test_swallows() -> None:\n    try:\n        chat('Name a salad.')\n    except Exception:\n        pass"
    )

    ran = site.plugin("--junitxml=j.xml", "-k", "chat or swallows", GITHUB_ACTIONS="true")

    failures = {
        str(case.attrib["name"]): "".join(case.itertext())
        for case in fromstring((site.folder / "j.xml").read_bytes()).iter("testcase")
        if case.find("failure") is not None
    }
    assert 1 == ran.code
    assert "GT2" in failures["test_swallows"]
    assert any("[-river-]{+lake+}" in text for text in failures.values()), failures
    assert "::error" not in ran.out + ran.err
    under = site.test("--junitxml=k.xml", "-k", "chat or swallows", GITHUB_ACTIONS="true")
    assert ("::error" in under.out, under.err.count("::error ")) == (False, 2), under.err

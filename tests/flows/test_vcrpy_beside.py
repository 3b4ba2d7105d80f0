"""vcrpy and TraceForge in one suite: neither takes the calls of the other, and what vcrpy answers is not green."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.cassettes import interaction, write_cassette
from support.command import PLAIN_PYTEST, CommandResult, traceforge
from support.environments import installed_python
from support.exchanges import chat_request
from support.model_servers import ModelServer, model_server
from support.proposals import REPEATABLE

SUITE = f"""
import os

import httpx
import requests
import vcr

URL = os.environ["MODEL_URL"]
BODY = {chat_request("", **REPEATABLE)!r}


def make_body(question):
    return {{**BODY, "messages": [{{"role": "user", "content": question}}]}}


def read(answer):
    return answer.json()["choices"][0]["message"]["content"]


def open_cassette():
    return vcr.use_cassette("tests/cassettes/old.json", serializer="json", record_mode="none")


def test_old_httpx():
    with open_cassette():
        assert read(httpx.post(URL, json=make_body("soup"))) == "leek"


@vcr.use_cassette("tests/cassettes/old.json", serializer="json", record_mode="none")
def test_old_requests():
    assert read(requests.post(URL, json=make_body("soup"), timeout=9)) == "leek"


def test_new():
    assert read(httpx.post(URL, json=make_body("pie")))
    with open_cassette():
        pass
    assert read(requests.post(URL, json=make_body("cake"), timeout=9))
"""
PYTEST = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests")
OLD = "tests/test_suite.py::test_old_*"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a suite of which two tests use a cassette."""
    (tmp_path / "traceforge.config.json").write_text("{}")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_suite.py").write_text(SUITE)
    return tmp_path


def configure(project: Path, **settings: object) -> None:
    (project / "traceforge.config.json").write_text(json.dumps(settings))


def link_vcrpy(folder: Path, python: Path) -> str:
    """A folder with vcrpy alone, for a Python that has TraceForge."""
    (packages,) = python.parents[1].glob("lib/python*/site-packages")
    folder.mkdir()
    for name in ("vcr", "wrapt"):
        (folder / name).symlink_to(packages / name)
    return str(folder)


def run_pytest(project: Path, variables: dict[str, str]) -> tuple[int, str]:
    """Run pytest with the plugin; its exit code and its output."""
    environ = {"PATH": os.environ["PATH"], **PLAIN_PYTEST, **variables}
    command = [sys.executable, *PYTEST]
    ran = subprocess.run(command, cwd=project, env=environ, capture_output=True, text=True, timeout=90, check=False)
    return ran.returncode, ran.stdout + ran.stderr


def record_and_approve(project: Path, python: Path, server: ModelServer) -> CommandResult:
    url = f"{server.url}/v1/chat/completions"
    write_cassette(project, "old.json", interaction("soup", "leek", url=url))
    recorded = traceforge("record", "--", str(python), *PYTEST, cwd=project, MODEL_URL=url)
    assert 0 == traceforge("approve", "--all", "--reason", "first", cwd=project).code
    return recorded


@pytest.mark.slow
def test_calls_in_open_cassettes_stay_those_of_vcrpy(project: Path) -> None:
    """Counted and named; unchecked until the approved setting lists the tests; other tests are gated as ever."""
    python = installed_python("vcr")
    with model_server() as server:
        recorded = record_and_approve(project, python, server)
        served, command = server.served, ("--", str(python), *PYTEST)
        variables = {"MODEL_URL": f"{server.url}/v1/chat/completions"}
        unchecked = traceforge("test", *command, cwd=project, **variables)
        configure(project, test={"cassette_tests": [OLD]})
        unapproved = traceforge("test", *command, cwd=project, **variables)
        approved = traceforge("approve", "--policy", "--reason", "they keep their cassettes", cwd=project)
        green = traceforge("test", *command, cwd=project, **variables)
        suite = project / "tests" / "test_suite.py"
        suite.write_text(suite.read_text().replace('"pie"', '"tart"'))
        red = traceforge("test", *command, cwd=project, **variables)

        assert (0, 2, 2) == (recorded.code, served, server.served), recorded
    assert "2 calls of 2 tests answered by vcrpy, and not recorded: tests/test_suite.py::test_old_h" in recorded.err
    assert 3 == unchecked.code, unchecked
    assert "unchecked: vcrpy answered 2 calls of 2 tests, which were not compared" in unchecked.err
    assert "test.cassette_tests" in unchecked.err
    assert (1, True) == (unapproved.code, "CF2" in unapproved.err), unapproved
    assert 0 == approved.code
    assert (0, True) == (green.code, "GREEN: 2 calls replayed, 2 answered by vcrpy" in green.err), green
    assert "2 calls of 2 tests answered by vcrpy, and not compared" in green.err
    assert (1, True) == (red.code, "tart" in red.err), red


@pytest.mark.slow
def test_the_pytest_plugin_leaves_open_cassettes_to_vcrpy(project: Path, tmp_path: Path) -> None:
    """Plain pytest says the same, and fails until the setting is approved."""
    python = installed_python("vcr")
    packages = link_vcrpy(tmp_path / "packages", python)
    with model_server() as server:
        record_and_approve(project, python, server)
        variables = {"MODEL_URL": f"{server.url}/v1/chat/completions", "PYTHONPATH": packages}
        unchecked = run_pytest(project, variables)
        configure(project, test={"cassette_tests": [OLD]})
        assert 0 == traceforge("approve", "--policy", "--reason", "they keep their cassettes", cwd=project).code
        green = run_pytest(project, variables)

    assert (1, True) == (unchecked[0], "vcrpy answered 2 calls of 2 tests" in unchecked[1]), unchecked
    assert (0, True) == (green[0], "2 calls of 2 tests answered by vcrpy, and not compared" in green[1]), green

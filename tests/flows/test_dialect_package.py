"""A package that is installed beside TraceForge brings a dialect: its calls are recorded, approved and replayed."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.dialect_package import MODULE, install_dialect, make_environment, package_files
from support.upstream import ScriptedResponse, Upstream, upstream

APP = """
import os, sys
import httpx
reply = httpx.post(os.environ["ACME_URL"] + "/v1/acme-generate", json={"model": "acme-1", "question": sys.argv[1]})
print(reply.json()["reply"])
"""


@pytest.fixture
def acme() -> Iterator[Upstream]:
    """The provider."""
    body = json.dumps({"model": "acme-1", "reply": "forty-two"}).encode()
    with upstream() as server:
        server.respond_with(ScriptedResponse([body]))
        yield server


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """A Python with the packages of this environment, and room for another one."""
    return make_environment(tmp_path / "venv")


def run(python: Path, folder: Path, *arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, "-P", "-m", "traceforge", *arguments],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "HOME": str(folder), **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def write_app(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    project.mkdir()
    (project / "app.py").write_text(APP)
    (project / "traceforge.config.json").write_text("{}")
    return project


def read_only_trace(project: Path) -> dict[str, Any]:
    """The trace of the only call that was recorded."""
    (file,) = (project / ".ai-tests" / "traces").glob("*.json")
    trace: dict[str, Any] = json.loads(file.read_text())
    return trace


def test_a_dialect_of_a_package_is_recorded_approved_and_replayed(
    tmp_path: Path, python: Path, acme: Upstream
) -> None:
    """Nothing in TraceForge knows it; without the package, the same call is not watched at all."""
    project = write_app(tmp_path)
    call = ("--", python, "app.py", "why?")

    unwatched = run(python, project, "record", *call, ACME_URL=acme.url)
    install_dialect(python, tmp_path)
    recorded = run(python, project, "record", *call, ACME_URL=acme.url)
    trace = read_only_trace(project)
    approved = run(python, project, "approve", "--all", "--reason", "first")
    asked = len(acme.received)
    green = run(python, project, "test", *call, ACME_URL=acme.url)
    red = run(python, project, "test", "--", python, "app.py", "why not?", ACME_URL=acme.url)

    assert "forty-two" in unwatched.stdout
    assert "no model call" in unwatched.stderr, unwatched
    assert (0, "acme", "acme-1") == (recorded.returncode, trace["provider"], trace["metadata"]["model"]), recorded
    assert "forty-two" == trace["response"]["choices"][0]["message"]["content"]
    assert "why?" == trace["request"]["messages"][0]["content"]
    assert 0 == approved.returncode, approved
    assert (0, True) == (green.returncode, "1 call replayed" in green.stderr), green
    assert (1, True) == (red.returncode, "why not?" in red.stderr), red
    assert asked == len(acme.received) == 2


def test_what_is_approved_is_valid_without_the_package(tmp_path: Path, python: Path, acme: Upstream) -> None:
    """A build that does not have it checks the same files."""
    project = write_app(tmp_path)
    install_dialect(python, tmp_path)
    run(python, project, "record", "--", python, "app.py", "why?", ACME_URL=acme.url)
    run(python, project, "approve", "--all", "--reason", "first")
    plain_python = make_environment(tmp_path / "plain")

    verified = run(plain_python, project, "verify")

    assert 0 == verified.returncode, verified
    assert list((project / ".ai-snapshots" / "wire").iterdir())


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        ("raise RuntimeError('no')\n", "cannot be imported: RuntimeError"),
        ("raise SystemExit(0)\n", "cannot be imported: SystemExit"),
        ("DIALECT = 5\n", "has no DIALECT"),
        (MODULE.replace('name="acme"', 'name="openai"'), "has a name that is not free"),
        (MODULE.replace("/acme-generate/?", "/acme-generate/("), "no regular expression"),
    ],
)
def test_a_dialect_that_cannot_be_used_stops_the_command(
    tmp_path: Path, python: Path, acme: Upstream, module: str, reason: str
) -> None:
    """Its calls would not be recorded; the error names the entry point, and nothing is called."""
    project = write_app(tmp_path)
    install_dialect(python, tmp_path, module)

    result = run(python, project, "record", "--", python, "app.py", "why?", ACME_URL=acme.url)

    assert (3, True, True) == (result.returncode, reason in result.stderr, "TF405" in result.stderr), result
    assert [] == acme.received


def test_metadata_in_a_checkout_is_no_installed_package(tmp_path: Path, python: Path, acme: Upstream) -> None:
    """Not even where the folder is on the path of Python: a pull request could bring it."""
    project = write_app(tmp_path)
    for path, text in package_files("open('imported', 'w').close()\n" + MODULE, "acme_dialect").items():
        (project / path).parent.mkdir(exist_ok=True)
        (project / path).write_text(text)

    result = run(
        python, project, "record", "--", python, "app.py", "why?", ACME_URL=acme.url, PYTHONPATH=str(project)
    )

    assert "forty-two" in result.stdout
    assert not (project / "imported").exists()

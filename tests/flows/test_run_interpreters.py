"""`traceforge run` with other interpreters, environments and start-up files of Python."""

from __future__ import annotations

import glob
import os
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.calling_project import make_calling_project, program, run
from support.upstream import Upstream, upstream


@pytest.fixture(scope="module")
def server() -> Iterator[Upstream]:
    """A provider."""
    with upstream() as provider:
        yield provider


@pytest.fixture
def project(tmp_path: Path, server: Upstream, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a program that calls a model."""
    return make_calling_project(tmp_path, server, monkeypatch)


def test_a_virtual_environment_without_traceforge_is_instrumented(project: Path, tmp_path: Path) -> None:
    """It has only httpx."""
    python = _bare_venv(tmp_path / "venv")
    program(
        project,
        """
        from asking import ask
        try:
            import traceforge
        except ImportError:
            ask()
    """,
    )
    outcome, exchanges = run(project, python, "app.py")

    assert (0, 1, 1) == (outcome.exit_code, outcome.processes, len(exchanges))


def _bare_venv(folder: Path) -> Path:
    """A virtual environment with httpx and what it needs, linked from ours."""
    venv.create(folder, with_pip=False)
    (site,) = folder.glob("lib/python*/site-packages")
    _link_httpx(site)
    return folder / "bin" / "python"


def _link_httpx(site: Path) -> None:
    import httpx

    ours = Path(httpx.__file__).parent.parent
    for name in (
        "certifi",
        "h11",
        "httpcore",
        "httpx",
        "idna",
    ):  # all that the sync client needs, also in old Pythons
        (site / name).symlink_to(ours / name)


_OLD = {
    version: pythons[0]
    for version in ("2.7", "3.6", "3.8", "3.9", "3.10", "3.12", "3.13")
    if (pythons := sorted(glob.glob(os.path.expanduser(f"~/.pyenv/versions/{version}.*/bin/python"))))
}


@pytest.mark.slow
@pytest.mark.parametrize("version", ["3.9", "3.10", "3.12", "3.13"])
def test_other_python_versions_are_instrumented(project: Path, tmp_path: Path, version: str) -> None:
    """From 3.9 on."""
    if version not in _OLD:
        pytest.skip(f"there is no Python {version} here")
    site = tmp_path / "site"
    site.mkdir()
    _link_httpx(site)
    program(project, "from asking import ask\nask()")
    outcome, exchanges = run(project, _OLD[version], "app.py", PYTHONPATH=str(site), PYTHONDONTWRITEBYTECODE="1")

    assert (0, 1, {}) == (outcome.exit_code, len(exchanges), outcome.problems)


@pytest.mark.parametrize("version", ["2.7", "3.6", "3.8"])
def test_a_python_that_is_too_old_runs_without_the_hook(
    project: Path, capfd: pytest.CaptureFixture[str], version: str
) -> None:
    """Nothing is printed, nothing is on its path, and its own sitecustomize has run."""
    if version not in _OLD:
        pytest.skip(f"there is no Python {version} here")
    (project / "sitecustomize.py").write_text("import sys\nsys.chained = True\n")
    program(project, "import sys\nprint(sys.chained, [p for p in sys.path if 'capture' in p])")
    outcome, _ = run(project, _OLD[version], "app.py", PYTHONPATH=str(project))

    assert (0, 0) == (outcome.exit_code, outcome.processes)
    assert ("True", "") == (capfd.readouterr().out.replace("(", "").split()[0].strip(","), capfd.readouterr().err)


def test_an_existing_sitecustomize_runs_and_the_path_is_as_before(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The application imports it under that name."""
    (project / "sitecustomize.py").write_text("import sys\nsys.chained = True\n")
    program(
        project,
        """
        import sitecustomize, sys
        print(sys.chained, sitecustomize.__file__, sys.path)
    """,
    )
    environ = {**os.environ, "PYTHONPATH": str(project)}
    bare = subprocess.run([sys.executable, "app.py"], env=environ, capture_output=True, text=True, check=True)
    outcome, _ = run(project, sys.executable, "app.py", PYTHONPATH=str(project))

    assert (0, 1) == (outcome.exit_code, outcome.processes)
    assert bare.stdout == capfd.readouterr().out


def test_python_with_warnings_as_errors_raises_none(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """In development mode: no socket of ours is left open, nothing is printed."""
    program(project, "import asking, os\nasking.ask()\nif os.fork() == 0: asking.ask()\nelse: os.wait()")
    outcome, exchanges = run(project, sys.executable, "-X", "dev", "-W", "error", "app.py")

    assert (0, 2, ("", "")) == (outcome.exit_code, len(exchanges), tuple(capfd.readouterr()))

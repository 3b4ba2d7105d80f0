"""The first steps of a new user: the demo, and the wheel in an empty virtual environment."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest

from support import local_model
from support.chat_servers import chat_process
from support.corpus import PROJECT
from support.newcomer import build_wheel
from support.sample_files import write_tree


@pytest.mark.slow
def test_the_demo_runs_from_green_to_red_and_back() -> None:
    ran = subprocess.run(
        [sys.executable, "examples/demo.py"], cwd=PROJECT, capture_output=True, text=True, timeout=300, check=False
    )

    assert 0 == ran.returncode, ran.stdout + ran.stderr
    verdicts = [line for line in ran.stdout.splitlines() if "GREEN:" in line or "RED:" in line]
    assert ["GREEN: 14 calls replayed", "RED: 1 call replayed, 1 finding", "GREEN: 14 calls replayed"] == [
        line.removeprefix("traceforge: ") for line in verdicts
    ]
    assert "Answer in [-two or three friendly sentences-]{+one short sentence+}" in ran.stdout
    assert "\x1b" not in ran.stdout


@pytest.mark.slow
def test_a_demo_with_an_unexpected_result_fails() -> None:
    broken = "import sys; sys.path.insert(0, 'examples'); import demo; demo.TESTS = 'false'; sys.exit(demo.main())"
    ran = subprocess.run(
        [sys.executable, "-c", broken], cwd=PROJECT, capture_output=True, text=True, timeout=300, check=False
    )

    assert 1 == ran.returncode
    assert "The demo went wrong: `traceforge record -- false` should have ended with 0" in ran.stdout


@pytest.mark.slow
def test_the_wheel_works_in_an_empty_environment(tmp_path: Path) -> None:
    """With few dependencies; it verifies, and chats without a key: schemas, page and prompts are included."""
    wheel = build_wheel(tmp_path / "dist")
    venv.create(tmp_path / "venv", with_pip=False)
    python = tmp_path / "venv" / "bin" / "python"
    site = subprocess.run(
        [python, "-c", "import site; print(site.getsitepackages()[0])"], check=True, capture_output=True, text=True
    ).stdout.strip()
    lock = (PROJECT / "requirements" / "dev.txt").read_text()
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    names = tuple(f"{needed.partition('>')[0]}==" for needed in project["dependencies"])
    pins = [line.split()[0] for line in lock.splitlines() if line.startswith(names)]
    assert len(names) == len(pins)
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "-qq", "--no-deps", "--target", site, str(wheel), *pins], check=True
    )
    root = write_tree(tmp_path / ".ai-snapshots", 3)

    verified = subprocess.run(
        [python, "-m", "traceforge", "verify", root], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    schema = subprocess.run(
        [python, "-m", "traceforge", "schema", "trace"], capture_output=True, text=True, check=False
    )

    with chat_process(tmp_path, command=(str(python), "-m", "traceforge")) as chat:
        explained = chat.ask("hello", trace=True)
        page = chat.get("/")

    assert (0, "checked 3 snapshots: all valid\n") == (verified.returncode, verified.stdout), verified.stderr
    assert (PROJECT / "src/traceforge/schemas/trace.json").read_text() == schema.stdout
    assert explained["reply"] == explained["trace"]["output"]["assistant_message"]
    assert (PROJECT / "src/traceforge/chat/frontend/page.html").read_text() == page.text


def test_without_a_compiler_the_error_names_the_command_that_installs_one(tmp_path: Path) -> None:
    """`make test-model` compiles llama.cpp."""
    make = shutil.which("make")
    assert make is not None
    somebody = tmp_path / "id"
    somebody.write_text("#!/bin/sh\necho 1000\n")
    somebody.chmod(0o755)

    ran = subprocess.run(
        [make, "compiler"], cwd=PROJECT, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )

    assert 2 == ran.returncode
    assert "A real model needs CMake and a C++ compiler: sudo apt-get install cmake g++\n" == ran.stdout


def test_each_make_target_runs_its_own_suite() -> None:
    """`make test` has five minutes, `make test-all` an hour, `make soak` hours; none of them has a real model."""
    commands = {
        name: subprocess.run(["make", "-n", name], cwd=PROJECT, capture_output=True, text=True, check=True).stdout
        for name in ("test", "test-all", "soak", "test-model")
    }

    assert '-m "not slow and not soak and not model"' in commands["test"]
    assert '-m "not soak and not model"' in commands["test-all"]
    assert '-m "soak or fuzz"' in commands["soak"]
    assert "-m model tests/model" in commands["test-model"]


def test_without_a_real_model_its_tests_are_skipped_with_the_command_that_builds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_model, "ENVIRONMENT", tmp_path)

    with pytest.raises(pytest.skip.Exception, match="make test-model"):
        local_model.find_weights()

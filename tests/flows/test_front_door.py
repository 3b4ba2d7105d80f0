"""What a newcomer does first: the demo, and the wheel in an empty virtual environment."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import venv
from pathlib import Path

from support.corpus import PROJECT
from support.samples import write_tree


def test_the_demo_tells_the_whole_story() -> None:
    """`make demo` verifies every format, then finds the one changed word, and itself succeeds."""
    ran = subprocess.run(
        [sys.executable, "examples/demo.py"], cwd=PROJECT, capture_output=True, text=True, timeout=120, check=False
    )

    assert 0 == ran.returncode, ran.stderr
    kinds = "1 context-snapshot, 1 execution-trace, 1 pack, 1 snapshot, 1 trace"
    assert f"checked {kinds}: all valid\nexit code 0" in ran.stdout
    assert "SN3 hash mismatch" in ran.stdout
    assert ": 1 finding\nexit code 1" in ran.stdout


def test_the_wheel_works_in_an_empty_environment(tmp_path: Path) -> None:
    """A wheel built from the tree installs with its few dependencies and verifies, schemas included."""
    dist = tmp_path / "dist"
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(dist), str(PROJECT)],
        check=True,
        capture_output=True,
    )
    (wheel,) = dist.glob("*.whl")
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

    assert (0, "checked 3 snapshots: all valid\n") == (verified.returncode, verified.stdout), verified.stderr
    assert (PROJECT / "src/traceforge/schemas/trace.json").read_text() == schema.stdout

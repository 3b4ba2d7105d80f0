"""Environments for applications: Python and Node.js with real packages but without TraceForge.

`linked` links the packages of the test environment and is fast. `installed` installs the pins of a file in
`requirements/`, and `node_modules` those of a package-lock.json. Both install once, outside the project, into
`$TRACEFORGE_TEST_CACHE` or `~/.cache/traceforge-tests`, under a name with the digest of the pins. Where an
installation fails, for example without a network, the test is skipped with the reason.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.corpus import PROJECT

CACHE = Path(os.environ.get("TRACEFORGE_TEST_CACHE") or Path.home() / ".cache" / "traceforge-tests")
SITE_PACKAGES = Path(sysconfig.get_paths()["purelib"])
INSTALL_S = 900  # beyond it, there is no network to speak of


def linked_python(folder: Path) -> Path:
    """A Python with all packages of the test environment except TraceForge, in a new environment."""
    venv.create(folder, with_pip=False, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    for package in SITE_PACKAGES.iterdir():
        if "traceforge" not in package.name and package.suffix != ".pth" and package.name != "__pycache__":
            (site / package.name).symlink_to(package)
    return folder / "bin" / "python"


def installed_python(name: str) -> Path:
    """A Python with the packages that `requirements/NAME.txt` pins."""
    lock = PROJECT / "requirements" / f"{name}.txt"
    folder = _cache_folder(f"{name}-{sys.version_info.major}.{sys.version_info.minor}", lock)
    python = folder / "bin" / "python"
    with build_once(folder) as absent:
        if absent:
            venv.create(folder, with_pip=True, symlinks=True)
            _install([str(python), "-m", "pip", "install", "-qq", "--require-hashes", "-r", str(lock)], folder)
    return python


def node_modules(name: str) -> Path:
    """A folder with the packages that `tests/apps/NAME/package-lock.json` pins."""
    if shutil.which("npm") is None:
        pytest.skip("there is no npm here")
    source = PROJECT / "tests" / "apps" / name
    folder = _cache_folder(name, source / "package-lock.json")
    with build_once(folder) as absent:
        if absent:
            folder.mkdir(parents=True)
            for file in ("package.json", "package-lock.json"):
                shutil.copy(source / file, folder)
            _install(["npm", "ci", "--no-audit", "--no-fund"], folder)
    return folder


def _cache_folder(name: str, lock: Path) -> Path:
    return CACHE / f"{name}-{hashlib.sha256(lock.read_bytes()).hexdigest()[:16]}"


@contextmanager
def build_once(folder: Path) -> Iterator[bool]:
    """Whether the caller must build `folder`. Processes take turns; a half-built folder is removed first."""
    marker = folder.with_name(f"{folder.name}.done")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if marker.exists():
            yield False
            return
        shutil.rmtree(folder, ignore_errors=True)
        yield True
        marker.touch()


def _install(command: list[str], folder: Path) -> None:
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=INSTALL_S, check=False)
    if result.returncode:
        pytest.skip(f"could not be installed: {result.stderr.strip().splitlines()[-1:]}")

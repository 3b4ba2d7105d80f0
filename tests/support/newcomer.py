"""The environment of a newcomer: the built package and those of an application, outside the checkout.

In: a wheel, and the packages of an application. Out: a folder with `python`, `pip`, `pytest` and what `pip install`
adds. Never: asks an index; pip finds the wheel in a folder, and what it needs beside it.
"""

from __future__ import annotations

import subprocess
import sys
import venv
from collections.abc import Iterable
from importlib.metadata import distribution, entry_points, requires
from pathlib import Path

from packaging.requirements import Requirement

from support.corpus import PROJECT
from support.environments import SITE_PACKAGES, installed_python

SCRIPTS = ("pip", "pytest")


def build_distribution(source: Path, target: Path, *options: str) -> None:
    """Build what the options name, as `make dist` does: by default, the wheel from the source archive."""
    words = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(target), *options, str(source)]
    subprocess.run(words, check=True, capture_output=True)


def build_wheel(folder: Path) -> Path:
    """The wheel of this checkout."""
    build_distribution(PROJECT, folder, "--wheel")
    (wheel,) = folder.glob("*.whl")
    return wheel


def create_environment(folder: Path, packages: Iterable[Path]) -> Path:
    """A new environment with these packages and those that TraceForge needs: the folder of its commands."""
    venv.create(folder, with_pip=False, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    needed = find_packages(*(text for text in requires("traceforge-gate") or [] if "extra ==" not in text))
    for package in [*packages, *needed]:
        if not (site / package.name).exists():
            (site / package.name).symlink_to(package)
    for name in SCRIPTS:
        (entry,) = entry_points(group="console_scripts", name=name)
        script = folder / "bin" / name
        script.write_text(
            f"#!{folder}/bin/python\nimport sys\nfrom {entry.module} import {entry.attr} as main\nsys.exit(main())\n"
        )
        script.chmod(0o755)
    return folder / "bin"


def application_packages(name: str) -> list[Path]:
    """The packages that `requirements/NAME.txt` pins."""
    (site,) = installed_python(name).parent.parent.glob("lib/python*/site-packages")
    return [package for package in site.iterdir() if package.name != "__pycache__"]


def find_packages(*requirements: str) -> set[Path]:
    """The files and folders that the test environment has of these packages, and of all that they need."""
    packages: set[Path] = set()
    waiting, seen = [Requirement(text) for text in requirements], set()
    while waiting:
        requirement = waiting.pop()
        if str(requirement) in seen:
            continue
        seen.add(str(requirement))
        installed = distribution(requirement.name)
        packages |= {SITE_PACKAGES / file.parts[0] for file in installed.files or []}
        for needed in map(Requirement, installed.requires or []):
            extras = requirement.extras or {""}
            if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in extras):
                waiting.append(needed)
    return {package for package in packages if package.name not in ("..", "__pycache__")}

"""The entry point of the command, outside the package `traceforge`, so that it runs where that is not ours.

Another project on the Python index is called `traceforge`, with the same command and the same import package. Where
both are installed, each overwrites files of the other, and no verdict of such a mixture can be trusted. Only the
standard library is imported before that is ruled out, and this module has a name that the other project does not use.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import PathFinder

FOREIGN_CODE = "TF404"  # of `traceforge.errors.ForeignPackage`, which cannot be imported where it is needed

_METADATA = (".dist-info", ".egg-info")


def main() -> None:
    """Run the command line and exit; exit with 3 where `traceforge` is another project."""
    problem = find_foreign_package()
    if problem is not None:
        message, hint = problem
        if sys.stderr is not None:
            sys.stderr.write(f"error {FOREIGN_CODE}: {message}\n    hint: {hint}\n")
        sys.exit(3)
    from traceforge.cli.main import main as run_command_line

    run_command_line()


def find_foreign_package() -> tuple[str, str] | None:
    """What is wrong, and what to do about it, where `import traceforge` does not give this project alone."""
    folder = os.path.dirname(os.path.abspath(__file__))
    spec = PathFinder.find_spec("traceforge")
    ours = os.path.join(folder, "traceforge", "__init__.py")
    if spec is not None and not _is_same_file(spec.origin or "", ours):
        return (
            f"`import traceforge` gives another project: {spec.origin!a}",
            f"Rename or remove it, or run python -m pip uninstall traceforge. Ours is in {folder!a}.",
        )
    for name in os.listdir(folder):
        if name.lower().startswith(("traceforge-", "traceforge.")) and name.endswith(_METADATA):
            return (
                f"another project called traceforge is installed in the same place: {name!a} in {folder!a}",
                "python -m pip uninstall -y traceforge && python -m pip install --force-reinstall --no-deps "
                + __name__.replace("_", "-"),
            )
    return None


def _is_same_file(path: str, other: str) -> bool:
    return os.path.realpath(path) == os.path.realpath(other)

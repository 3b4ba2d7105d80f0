"""The package `traceforge.context` without the packages of its extra."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
sys.modules["sqlalchemy"] = None
import traceforge.context.model.context_snapshot
from traceforge.errors import MissingExtra
try:
    from traceforge.context import Client
except MissingExtra as exc:
    print(exc.message)
"""


def test_a_client_without_the_extra_is_an_error_that_names_the_package() -> None:
    """The snapshot format needs no extra; the clients name the package that is missing."""
    process = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert (0, "the context store cannot run here: sqlalchemy is not installed\n") == (
        process.returncode,
        process.stdout,
    ), process.stderr


COMMAND = """
import sys
sys.modules["sqlalchemy"] = None
from traceforge.cli.main import main
sys.argv = ["traceforge", "context", "session", "list"]
main()
"""


def test_a_context_command_without_the_extra_names_the_extra() -> None:
    """The command exits with 3 and says what to install, without a traceback."""
    process = subprocess.run([sys.executable, "-c", COMMAND], capture_output=True, text=True, check=False)
    assert 3 == process.returncode, process.stderr
    assert "sqlalchemy is not installed" in process.stderr
    assert "traceforge-gate[context]" in process.stderr

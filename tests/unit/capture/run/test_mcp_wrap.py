"""Which TraceForge command is around a wrapped server."""

from __future__ import annotations

import subprocess
import sys

from traceforge.capture.run.environment import RUN_VARIABLE
from traceforge.capture.run.mcp_wrap import find_run

SETTINGS = "\n".join(["unix:/tmp/x", "token", "", "", "{}"])


def test_the_nearest_process_with_a_run_decides() -> None:
    """A client passes hardly any of its own variables on; the program that started it, may."""
    code = (
        "import os, subprocess, sys\n"
        "from traceforge.capture.run.mcp_wrap import find_run\n"
        "print(sorted(find_run(dict(os.environ)).items()))\n"
    )
    starter = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]], env={})"
    environ = {RUN_VARIABLE: SETTINGS, "PYTEST_CURRENT_TEST": "tests/test_a.py::test_b (call)", "OTHER": "1"}

    out = subprocess.run(
        [sys.executable, "-S", "-c", starter, code], env={**environ}, capture_output=True, text=True, check=True
    ).stdout

    expected = {name: value for name, value in environ.items() if name != "OTHER"}
    assert f"{sorted(expected.items())}\n" == out
    assert environ == find_run(environ)

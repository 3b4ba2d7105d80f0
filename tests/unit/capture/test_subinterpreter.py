"""`capture/subinterpreter.py`: in a subinterpreter nothing is recorded, and nothing breaks."""

from __future__ import annotations

import subprocess
import sys

import pytest

from traceforge.capture.subinterpreter import is_subinterpreter, replay

RUN = """
import sys
if sys.version_info >= (3, 13):
    import _interpreters
    problem = _interpreters.exec(_interpreters.create({kind!r}), {source!r})
    assert problem is None, problem.formatted
else:
    import _xxsubinterpreters
    _xxsubinterpreters.run_string(_xxsubinterpreters.create(isolated={kind!r} == "isolated"), {source!r})
"""

USE = """
import os, sys, warnings
import traceforge
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    with traceforge.capture() as calls, traceforge.session("s"):
        pass
    installed = traceforge.install(session="s")
    traceforge.uninstall()
import traceforge.capture
with warnings.catch_warnings(record=True) as seen_by_module:
    warnings.simplefilter("always")
    with traceforge.capture():
        pass
try:
    traceforge.replay(source="traces")
    refused = False
except RuntimeError:
    refused = True
extensions = {"msgspec", "orjson", "re2", "zstandard", "brotli", "uvloop", "httptools"} & set(sys.modules)
report = [len(seen), len(seen_by_module), calls.exchanges, dict(calls.not_seen), installed.lost, refused, extensions]
os.write(1, repr(report).encode())
"""


@pytest.mark.parametrize("kind", ["legacy", "isolated"])
def test_a_subinterpreter_is_warned_and_records_nothing(kind: str) -> None:
    """One warning a call, no extension is loaded, a replay is refused, and the process ends well."""
    process = subprocess.run(
        [sys.executable, "-c", RUN.format(kind=kind, source=USE)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (0, "") == (process.returncode, process.stderr)
    assert "[2, 1, 0, {'a subinterpreter': 1}, 0, True, set()]" == process.stdout


def test_the_main_interpreter_is_no_subinterpreter() -> None:
    """So that everything records as ever."""
    assert not is_subinterpreter()
    with pytest.raises(RuntimeError, match="main interpreter"):
        replay()

"""The scripts of docs/decisions/0012 still run, and the extensions still pass them."""

from __future__ import annotations

import signal
import subprocess
import sys
from importlib.util import find_spec

import msgspec
import pytest
from pages import ROOT

FOLDER = ROOT / "docs" / "decisions" / "first_use"
MODULES = {
    "msgspec, prepared": "msgspec",
    "orjson": "orjson",
    "google-re2": "re2",
    "zstandard": "zstandard",
    "brotli": "brotli",
    "uvloop": "uvloop",
    "httptools": "httptools",
    "cryptography": "cryptography",
    "psycopg": "psycopg",
    "PyYAML": "yaml",
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("situation", ["32 threads", "fork"])
@pytest.mark.parametrize("extension", list(MODULES))
def test_the_first_use_of_an_extension_does_not_crash(extension: str, situation: str) -> None:
    """From many threads at once, and in children that are forked while threads use it."""
    if find_spec(MODULES[extension]) is None:
        pytest.skip(f"{extension} is not installed")

    process = _run("survey.py", situation, extension)

    assert (0, b"") == (process.returncode, process.stderr)


@pytest.mark.slow
@pytest.mark.skipif(not msgspec.__version__.startswith("0.22."), reason="another msgspec may be repaired")
@pytest.mark.parametrize(
    ("function", "crashes"), [("convert", True), ("inspect.type_info", True), ("json.encode", False)]
)
def test_msgspec_crashes_in_the_documented_functions_only(function: str, crashes: bool) -> None:
    """Those that build the description of a type. Three processes, because it is a race."""
    codes = {_run("msgspec_types.py", function).returncode for _ in range(3)}

    assert crashes is (-signal.SIGSEGV in codes)


def _run(script: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, FOLDER / script, *arguments]
    return subprocess.run(command, capture_output=True, timeout=90, check=False)

"""The first major version of urllib3, which botocore takes on Python 3.9, and which requests takes too."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.environments import installed_python
from support.upstream import ScriptedResponse, Upstream, upstream

APP = Path(__file__).parents[3] / "apps" / "urllib3_calls.py"
ANSWER = '{"n":1}'


@pytest.fixture(scope="module")
def server() -> Iterator[Upstream]:
    """A provider."""
    with upstream() as server:
        yield server


def test_calls_are_sent_as_ever_and_end_where_their_length_ends(server: Upstream) -> None:
    """It counts what is left of a body only after our hook, and the standard library encodes text, as Latin-1."""
    (site,) = installed_python("urllib3-1").parents[1].glob("lib/python*/site-packages")
    server.respond_with(ScriptedResponse([ANSWER.encode()]))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, str(APP), f"{server.url}/v1/chat/completions"]
    report = json.loads(subprocess.run(command, env=environment, check=True, capture_output=True, timeout=60).stdout)

    half = report["calls"].pop("half")
    assert report["version"].startswith("1.26.")
    assert [ANSWER[:3], "left"] == half
    assert {name: [ANSWER, "answered"] for name in report["calls"]} == report["calls"]
    assert b"caf\xe9" == server.received[-1].body

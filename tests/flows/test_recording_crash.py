"""A process that records is killed: every interaction it had completed is there."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.command import traceforge
from traceforge.canon import digest_text, parse_json
from traceforge.modelio import ValidRecording, verify_session

PROGRAM = """
import sys, threading
from concurrent.futures import ThreadPoolExecutor
from traceforge.modelio import CallableAdapter, RecordingSession

session = RecordingSession("r.json", CallableAdapter(lambda prompt, context: f"answer to {prompt} " * 50))
said = threading.Lock()

def ask(number):
    session.adapter.complete(str(number))
    with said:
        print(number, flush=True)

with ThreadPoolExecutor(4) as pool:
    list(pool.map(ask, range(9000)))
"""


def _kill(folder: Path, after: int) -> list[int]:
    """Let it record, kill it once it has said that many, and give the numbers it had said."""
    with subprocess.Popen([sys.executable, "-c", PROGRAM], cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        said = [int(process.stdout.readline()) for _ in range(after)]
        time.sleep(random.random() / 100)
        os.kill(process.pid, signal.SIGKILL)
        said += [int(line) for line in process.stdout if line.endswith("\n")]
    return said


def _check(folder: Path, after: int) -> None:
    said = _kill(folder, after)
    done = traceforge("modelio", "recover", "r.json", cwd=folder)
    written = parse_json((folder / "r.json").read_bytes())
    kept = {item["prompt_hash"]: item["response_content"] for item in json.loads(json.dumps(written))["interactions"]}

    assert 0 == done.code, done.err
    assert isinstance(verify_session(written), ValidRecording)
    assert {} == {n: "lost" for n in said if kept.get(digest_text(str(n))) != f"answer to {n} " * 50}
    assert ["r.json"] == os.listdir(folder)


def test_every_completed_interaction_survives_sigkill(tmp_path: Path) -> None:
    """Whatever the process had given an answer for; and nothing is left behind."""
    _check(tmp_path, 25)


@pytest.mark.slow
@pytest.mark.parametrize("round_", range(20))
def test_wherever_it_is_killed(tmp_path: Path, round_: int) -> None:
    """At many places."""
    _check(tmp_path, 1 + 97 * round_)

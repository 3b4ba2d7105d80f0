"""A recording process is killed: every completed interaction is recovered."""

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
    """Record, kill the process after it has printed `after` numbers; all numbers it printed."""
    with subprocess.Popen([sys.executable, "-c", PROGRAM], cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        numbers = [int(process.stdout.readline()) for _ in range(after)]
        time.sleep(random.random() / 100)
        os.kill(process.pid, signal.SIGKILL)
        numbers += [int(line) for line in process.stdout if line.endswith("\n")]
    return numbers


def _check(folder: Path, after: int) -> None:
    numbers = _kill(folder, after)
    recovered = traceforge("modelio", "recover", "r.json", cwd=folder)
    written = parse_json((folder / "r.json").read_bytes())
    answers = {
        item["prompt_hash"]: item["response_content"] for item in json.loads(json.dumps(written))["interactions"]
    }

    assert 0 == recovered.code, recovered.err
    assert isinstance(verify_session(written), ValidRecording)
    assert {} == {n: "lost" for n in numbers if answers.get(digest_text(str(n))) != f"answer to {n} " * 50}
    assert ["r.json"] == os.listdir(folder)


def test_every_completed_interaction_survives_sigkill(tmp_path: Path) -> None:
    """And no other file is left."""
    _check(tmp_path, 25)


@pytest.mark.slow
@pytest.mark.parametrize("round_", range(20))
def test_every_completed_interaction_survives_sigkill_at_many_places(tmp_path: Path, round_: int) -> None:
    _check(tmp_path, 1 + 97 * round_)

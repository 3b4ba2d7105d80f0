"""Verify a 100 MB recording, against the least work of a verifier in Node.js; the cost of recording and replaying."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench_canon import ACCENTS
from harness import Row, at_most, run
from traceforge.canon import digest_text
from traceforge.modelio import CallableAdapter, Completion, RecordingSession, ReplayAdapter, write_session
from traceforge.redact.redactor import Redactor

COMMAND = str(Path(sys.executable).parent / "traceforge")
INTERACTIONS = 10_000
RESPONSE_BYTES = 9_950  # so that all responses together stay below the limit of 100,000,000 bytes
NODE = """
const fs = require("fs"), crypto = require("crypto");
const session = JSON.parse(fs.readFileSync(process.argv[1], "utf8"));
for (const item of session.interactions) {
  crypto.createHash("sha256").update(item.response_content, "utf8").digest("hex");
}
"""


def write_recording(path: Path) -> None:
    """A valid session of 10,000 interactions."""
    source = random.Random(3)
    prose = " ".join(source.choices(ACCENTS, k=200_000))
    interactions = []
    for number in range(INTERACTIONS):
        start = source.randrange(len(prose) - RESPONSE_BYTES)
        text = prose[start : start + RESPONSE_BYTES].encode()[:RESPONSE_BYTES].decode(errors="ignore")
        interactions.append(
            {
                "i": number,
                "prompt_hash": digest_text(f"prompt {number}"),
                "response_hash": digest_text(text),
                "response_content": text,
                "latency_ms": 12.5,
            }
        )
    head = {"model_io_schema_version": "1.0.0", "adapter_id": "openai-chat", "model_id": "m", "mode": "record"}
    path.write_bytes(write_session({**head, "interactions": interactions}))


REPLAY_SECONDS_MAX = 20e-6  # of a replayed call in process
CALLS = 2_000
PROMPT = "Summarise the following text in one sentence, please: "
ANSWER = "A short answer of a model, as most of them are. " * 20


def _record(folder: Path) -> None:
    """Record all measured calls."""
    answer = Completion(ANSWER, 100, 200)
    redactor = Redactor()
    adapter = CallableAdapter(lambda _, __: answer)
    with RecordingSession(folder / "recorded.json", adapter, redactor=redactor, overwrite=True) as session:
        for number in range(CALLS):
            session.adapter.complete(f"{PROMPT}{number}")


def _log(folder: Path) -> None:
    """The least that keeps every call through a kill: two digests, and one line of JSON, written at once."""
    with (folder / "log.jsonl").open("wb", buffering=0) as file:
        for number in range(CALLS):
            digests = [hashlib.sha256(text.encode()).hexdigest() for text in (f"{PROMPT}{number}", ANSWER)]
            file.write(json.dumps({"i": number, "hashes": digests, "answer": ANSWER}).encode() + b"\n")
        os.fsync(file.fileno())


def _replay(file: Path) -> Row:
    """10,000 calls of a recording of 100 MB, in process; loading and verifying it does not count."""
    took = []
    for _ in range(3):
        replay = ReplayAdapter.load(file, redactor=Redactor())
        begun = time.perf_counter()
        for number in range(INTERACTIONS):
            replay.complete(f"prompt {number}")
        took.append((time.perf_counter() - begun) / INTERACTIONS)
    best = min(took)
    result = f"{best * 1e6:.1f} µs, goal {REPLAY_SECONDS_MAX * 1e6:g} µs"
    met = best <= REPLAY_SECONDS_MAX
    return Row("replay a recorded call", best, REPLAY_SECONDS_MAX, "the goal", REPLAY_SECONDS_MAX / best, result, met)


def rows() -> Iterator[Row]:
    """Every comparison."""
    node = shutil.which("node")
    if node is None:
        sys.exit("benchmark: node did not run: it is not installed (make node)")
    with tempfile.TemporaryDirectory() as temporary:
        file = Path(temporary) / "model_io.json"
        write_recording(file)
        yield at_most(
            f"verify a recording of {file.stat().st_size / 1e6:.0f} MB",
            lambda: run([COMMAND, "modelio", "verify", str(file)]),
            lambda: run([node, "-e", NODE, str(file)]),
            peer_name="Node.js: JSON.parse, SHA-256",
            goal=2,
            rounds=5,
        )
        yield _replay(file)
        yield at_most(
            f"record {CALLS:,} calls",
            lambda: _record(Path(temporary)),
            lambda: _log(Path(temporary)),
            peer_name="a log of JSON lines",
            goal=6,
            rounds=5,
        )

"""A 100 MB recording verified, parsing included, against Node.js doing the least that any verifier must do."""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench_canon import ACCENTS
from harness import Row, at_most, run
from traceforge.canon import digest_text
from traceforge.modelio import write_session

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

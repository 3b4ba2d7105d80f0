"""`traceforge verify`: 10,000 snapshots against reading and hashing the files; one file against starting click."""

from __future__ import annotations

import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench_canon import conversation
from harness import Row, at_most, run
from traceforge.snapshots.formats.snapshot_format import read_document, write_document
from traceforge.snapshots.formats.snapshot_manifest import RecordEntry, write_manifest

COMMAND = str(Path(sys.executable).parent / "traceforge")
COUNT = 10_000
PLAIN_LOOP = """
import hashlib, os, sys
for name in sorted(os.listdir(sys.argv[1])):
    with open(os.path.join(sys.argv[1], name), "rb") as file:
        hashlib.sha256(file.read()).hexdigest()
"""


def write_tree(root: Path) -> None:
    """Ten thousand valid documents of about 2 KB, and their manifest."""
    source = random.Random(2)
    folder = root / "openai"
    folder.mkdir(parents=True)
    entries = []
    for number in range(COUNT):
        name = f"snapshot-{number:05d}"
        data = write_document(
            [
                {
                    "id": name,
                    "timestamp": f"2026-01-09T10:{number % 60:02d}:00Z",
                    "source": {"file": "src/agents/summarizer.py", "line": number, "function": "generate_summary"},
                    "request": {
                        "model": "gpt-4-turbo",
                        "messages": conversation(source, 1_100),
                        "temperature": 0,
                        "max_tokens": 100,
                        "seed": number,
                    },
                    "response": {"content": "Yes.", "tokens_used": 12, "latency_ms": 450, "finish_reason": "stop"},
                }
            ]
        )
        (folder / f"{name}.json").write_bytes(data)
        (record,) = read_document(data)
        entries.append(RecordEntry("openai", name, f"openai/{name}.json", record.hash, record.timestamp))
    (root / "manifest.json").write_bytes(write_manifest(entries))


def rows() -> Iterator[Row]:
    """Every comparison."""
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary) / ".ai-snapshots"
        write_tree(root)
        snapshot = str(root / "openai" / "snapshot-00000.json")
        python = sys.executable
        yield at_most(
            f"verify {COUNT:,} snapshots of 2 KB",
            lambda: run([COMMAND, "verify", str(root)]),
            lambda: run([python, "-c", PLAIN_LOOP, str(root / "openai")]),
            peer_name="read and hash the files",
            goal=3.5,
            rounds=9,
        )
        bare = [python, "-c", "import click"]
        yield at_most(
            "traceforge --version",
            lambda: run([COMMAND, "--version"]),
            lambda: run(bare),
            peer_name="python -c 'import click'",
            goal=1.3,
            rounds=25,
        )
        yield at_most(
            "traceforge verify ONE_FILE",
            lambda: run([COMMAND, "verify", snapshot]),
            lambda: run(bare),
            peer_name="python -c 'import click'",
            goal=2,
            rounds=25,
        )

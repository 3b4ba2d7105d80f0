"""Source files for packs, and SSH keys to sign packs with."""

from __future__ import annotations

import json
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

from support.format_examples import example_ledger_entry, example_session

RUN: dict[str, Any] = {
    "run_schema_version": "1.0.0",
    "run_id": "run-1",
    "started_at": "2026-03-02T09:15:00Z",
    "completed_at": "2026-03-02T09:15:01Z",
    "kernel_version": "0.3.10",
    "policy": {"max_calls": 1},
    "intent": "name the capital of France",
    "kernel_result_kind": "BUNDLE",
    "decision": "accept",
    "model_mode": "record",
}


def write_sources(folder: Path) -> dict[str, str]:
    """Write one source for each file of a pack, in non-canonical JSON; paths by name in the pack."""
    values: dict[str, Any] = {
        "run.json": RUN,
        "bundle.json": {"bundle_id": "bundle-1", "answer": "Paris."},
        "model_io.json": example_session("Paris.", "Lyon."),
        "policy.json": RUN["policy"],
        "evidence.json": {"e": 1},
        "patch.json": {"p": 2},
        "runner.json": {"r": 3},
        "meta.json": [1, 2],
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in values.items():
        (folder / name).write_text(json.dumps(value, indent=3))
    (folder / "ledger.jsonl").write_text(
        f"{json.dumps(example_ledger_entry(), indent=None)}\n\n{json.dumps(example_ledger_entry())}"
    )
    return {name: str(folder / name) for name in [*values, "ledger.jsonl"]}


def make_key(folder: Path, name: str = "key", kind: str = "ed25519") -> Path:
    """Create an SSH key pair; returns the path of the private key."""
    path = folder / name
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", "test", "-f", str(path)], check=True)
    return path


@cache
def pack_options(sources: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    """The sources as options of `traceforge pack create`."""
    options = {name: f"--{name.split('.')[0].replace('_', '-')}" for name, _ in sources}
    return tuple(word for name, path in sources for word in (options[name], path))

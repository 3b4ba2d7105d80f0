"""Node.js as the reference for how JavaScript parses and prints JSON.

One process per test session. A batch goes out as one line of base64 fields and comes back as one line of JSON, so
that the two processes never write at the same time.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ORACLES = Path(__file__).resolve().parents[1] / "oracles"


class Node:
    """A running script of `tests/oracles`; `ask` gives its answers, in order."""

    def __init__(self, script: str) -> None:
        node = shutil.which("node")
        if node is None:
            pytest.fail("node is not on PATH: `make node` installs it, or see nodejs.org", pytrace=False)
        self._script = script
        self._process = subprocess.Popen([node, str(ORACLES / script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, requests: Sequence[bytes]) -> list[dict[str, Any]]:
        """Send a batch, and wait for the answer to each request in it."""
        assert requests, "an empty batch cannot be told from one empty request"
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(b" ".join(map(b64encode, requests)) + b"\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"{self._script} ended with exit code {self._process.wait(timeout=5)}"
        answers: list[dict[str, Any]] = json.loads(line)
        assert len(requests) == len(answers)
        return answers

    def close(self) -> None:
        """End its input, at which the process stops."""
        self._process.communicate(timeout=10)


@dataclass(frozen=True)
class Answer:
    """JavaScript's reading of one text: `error`, or all other fields."""

    error: str | None
    ecmascript: bytes = b""
    ecmascript_sha256: str = ""
    indented: bytes = b""
    canonical: bytes = b""
    canonical_sha256: str = ""
    string_sha256: str | None = None  # of the string itself, where the document is one


class CanonicalOracle:
    """`tests/oracles/canonical.js`, which shares no code and no library with `canon/`."""

    def __init__(self) -> None:
        self._node = Node("canonical.js")

    def judge(self, texts: Sequence[bytes]) -> list[Answer]:
        """Have every text parsed and printed by JavaScript."""
        return [_answer(fields) for fields in self._node.ask(texts)]

    def judge_one(self, text: bytes) -> Answer:
        """Have one text parsed and printed by JavaScript."""
        return self.judge([text])[0]

    def close(self) -> None:
        self._node.close()


def _answer(fields: dict[str, Any]) -> Answer:
    if "error" in fields:
        return Answer(error=fields["error"])
    for name in ("ecmascript", "indented", "canonical"):
        fields[name] = b64decode(fields[name])
    return Answer(error=None, **fields)

"""What the scanner costs: counted, not timed."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from traceforge.redact.scanner import (
    ANCHOR_BYTES_MAX,
    FIRST_WINDOW_BYTES,
    Scanner,
    built_in_detectors,
    compile_bytes,
    join_anchors,
)

INSTRUCTIONS_MAX = 12_000  # Compiling them takes about 5 ms, in every process that redacts something.
_LIST_COMPILED = """
import re, sys

compiled, compile_now = [], re.compile

def note(*arguments):
    module = sys._getframe(1).f_globals["__name__"]
    if module.startswith("traceforge.redact"):
        compiled.append(module)
    return compile_now(*arguments)

re.compile = note
import traceforge.redact.redactor
traceforge.redact.redactor.Redactor()
print(*compiled)
"""


def test_a_process_that_redacts_nothing_compiles_no_expression() -> None:
    """Every hook, command and plugin imports the redactor, and most of them end without a text to redact."""
    run = subprocess.run([sys.executable, "-c", _LIST_COMPILED], capture_output=True, text=True, check=True)

    assert [] == run.stdout.split()


def test_the_expression_of_all_anchors_stays_small() -> None:
    """Its size decides what the first text of a process costs."""
    assert compile_bytes(join_anchors(built_in_detectors())).programsize <= INSTRUCTIONS_MAX


def test_silence_in_audio_has_no_anchor() -> None:
    """As base64, MP3 has it in every frame; each anchor there costs as much as a kilobyte of text."""
    silence = b"//tQxAAAAAAAAAAAAAAAAAAAAAAA__t0xAADwAABpAAAACAAADSAAAAE" * 4

    assert compile_bytes(join_anchors(built_in_detectors())).search(silence) is None


@pytest.mark.parametrize("unit", ["-sk-ant-", "_sk-ant-api03", "-eyJhbGciOiJ", " password", "AIza-"])
def test_many_candidates_are_searched_in_linear_work(unit: str) -> None:
    """An anchor that could go on is read to the end of what a search sees, so no search sees the whole text."""

    def count_searched_bytes(size: int) -> int:
        scanner, sizes = Scanner(built_in_detectors()), []
        text = (unit * size).encode()[:size]
        search = scanner._search

        def count(text: bytes, start: int = 0, end: int | None = None) -> Any:
            sizes.append((len(text) if end is None else end) - start)
            return search(text, start, end)

        scanner.__dict__["_search"] = count
        scanner.scan(text)
        return sum(sizes)

    assert count_searched_bytes(120_000) < 2.5 * count_searched_bytes(60_000)


def test_an_anchor_at_the_end_of_a_window_is_found() -> None:
    """Wherever it stands behind another candidate."""
    key = b" sk-ant-api03-" + b"aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0z" * 3
    scanner = Scanner(built_in_detectors())
    for distance in (*range(FIRST_WINDOW_BYTES - 30, FIRST_WINDOW_BYTES + 30), FIRST_WINDOW_BYTES - ANCHOR_BYTES_MAX):
        text = key + b" " * distance + key

        assert 2 == len(scanner.scan(text)), distance

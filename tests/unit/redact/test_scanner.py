"""What the scanner costs: counted, not timed."""

from __future__ import annotations

import subprocess
import sys

from traceforge.redact.scanner import built_in_detectors, compile_bytes, join_anchors

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

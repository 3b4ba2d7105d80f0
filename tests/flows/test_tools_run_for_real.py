"""Tools that a test runs for real, in a process of the command: their answers are compared with the approved ones."""

from __future__ import annotations

import sys
from pathlib import Path

from support.command import CommandResult, traceforge

PROGRAM = """\
import os
import traceforge

@traceforge.tool
def find_owner():
    return os.environ["OWNER"] + " owns it"

with traceforge.real_tools():
    find_owner()
"""


def run(folder: Path, word: str, owner: str) -> CommandResult:
    return traceforge(word, "--", sys.executable, "owner.py", cwd=folder, OWNER=owner)


def test_another_text_in_the_place_of_a_redacted_value_is_red(tmp_path: Path) -> None:
    """Another address is redacted as the approved one was; `record` says the same of both."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "owner.py").write_text(PROGRAM)
    assert 0 == run(tmp_path, "record", "ada@kitchen.example").code
    assert 0 == traceforge("approve", "--all", "--reason", "as it is", cwd=tmp_path).code

    address, text = run(tmp_path, "test", "bob@kitchen.example"), run(tmp_path, "test", "nobody at all")

    assert (0, 1) == (address.code, text.code), (address, text)
    assert "the tool find_owner ran, and its answer is not the approved one" in text.err

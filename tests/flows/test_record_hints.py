"""What `traceforge record` advises when its command called no model."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from support.command import traceforge


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        (1, "See why the command failed, such as an API key that is not set, and record again"),
        (
            0,
            "Name a command that calls a model, such as your tests: traceforge record -- COMMAND; "
            'list a server of your own in the configuration: "hosts": ["HOST:PORT"]',
        ),
    ],
)
def test_without_a_call_the_hint_is_about_the_command_that_failed(tmp_path: Path, code: int, hint: str) -> None:
    ran = traceforge("record", "--", sys.executable, "-c", f"raise SystemExit({code})", cwd=tmp_path)

    assert "no model call was seen, so there is nothing to approve" in ran.err
    assert [hint] == [line.partition("hint: ")[2] for line in ran.err.splitlines() if "hint: " in line]

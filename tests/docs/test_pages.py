"""The checks of the pages work: a page with other output than the real one fails."""

from __future__ import annotations

from pathlib import Path

import pytest
from pages import FROM_THE_CHECKOUT, ROOT, Command, Page, is_shown_output, open_terminal, read_page

PAGE_OUTPUT = "6 passed in 1.07s\ntraceforge: new: 12\n…\ntraceforge: next: traceforge diff\n"


@pytest.mark.parametrize(
    ("output", "same"),
    [
        (PAGE_OUTPUT, True),
        ("6 passed in 12.70s\ntraceforge: new: 12\na\nb\ntraceforge: next: traceforge diff\n", True),
        ("6 passed in 61.07s (0:01:01)\ntraceforge: new: 12\ntraceforge: next: traceforge diff\n", True),
        ("6 passed in 1.07s\ntraceforge: new: 12\ntraceforge: next: traceforge diff  \n", True),
        ("5 passed in 1.07s\ntraceforge: new: 12\ntraceforge: next: traceforge diff\n", False),
        ("6 passed in 1.07s\ntraceforge: new: 13\ntraceforge: next: traceforge diff\n", False),
        ("6 passed in 1.07s\na\ntraceforge: new: 12\ntraceforge: next: traceforge diff\n", False),
        ("6 passed in 1.07s\ntraceforge: new: 12\ntraceforge: next: traceforge diff\na\n", False),
        ("6 passed in 1.07s\ntraceforge: new: 12\ntraceforge: next: traceforge dift\n", False),
        ("", False),
    ],
)
def test_only_seconds_and_elided_lines_may_differ_from_the_page(output: str, same: bool) -> None:
    assert same is is_shown_output(PAGE_OUTPUT, output)


def test_a_page_is_run_in_one_shell(tmp_path: Path) -> None:
    """Variables, the current folder and processes last from one command to the next."""
    page = Page(ROOT / "docs" / "a-page.md")
    with open_terminal(page, tmp_path) as terminal:
        ran = [
            terminal.run(Command(script, ""))
            for script in (
                "mkdir a && cd a && export SAID=hello",
                "echo $SAID; basename $PWD; echo wrong >&2; cat; false",
                "sleep 600 & echo 127.0.0.1:8080",
                "kill $! && printf 'no end of line'",
            )
        ]

    assert [(0, ""), (1, "hello\na\nwrong\n"), (0, "127.0.0.1:8080\n"), (0, "no end of line")] == ran


def test_every_command_of_the_tutorial_is_run() -> None:
    page = read_page(ROOT / FROM_THE_CHECKOUT)

    assert {"console"} == {block.language for block in page.blocks}

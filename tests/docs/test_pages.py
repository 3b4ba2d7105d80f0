"""The pages are really run: what a page shows is compared, and a page that says something else fails."""

from __future__ import annotations

from pathlib import Path

import pytest
from pages import FROM_THE_CHECKOUT, ROOT, Command, Page, agrees, opened, read_page

SHOWN = "6 passed in 1.07s\ntraceforge: new: 12\n…\ntraceforge: next: traceforge diff\n"


@pytest.mark.parametrize(
    ("output", "same"),
    [
        (SHOWN, True),
        ("6 passed in 12.70s\ntraceforge: new: 12\na\nb\ntraceforge: next: traceforge diff\n", True),
        ("6 passed in 1.07s\ntraceforge: new: 12\ntraceforge: next: traceforge diff  \n", True),
        ("5 passed in 1.07s\ntraceforge: new: 12\ntraceforge: next: traceforge diff\n", False),
        ("6 passed in 1.07s\ntraceforge: new: 13\ntraceforge: next: traceforge diff\n", False),
        ("6 passed in 1.07s\na\ntraceforge: new: 12\ntraceforge: next: traceforge diff\n", False),
        ("6 passed in 1.07s\ntraceforge: new: 12\ntraceforge: next: traceforge diff\na\n", False),
        ("6 passed in 1.07s\ntraceforge: new: 12\ntraceforge: next: traceforge dift\n", False),
        ("", False),
    ],
)
def test_an_output_is_what_the_page_shows_but_for_what_no_page_can_know(output: str, same: bool) -> None:
    """Seconds may differ, and a line of dots stands for lines; nothing else does."""
    assert same is agrees(SHOWN, output)


def test_a_page_is_read_in_one_shell(tmp_path: Path) -> None:
    """What a command sets, where it goes and what it starts is there for the next."""
    page = Page(ROOT / "docs" / "a-page.md")
    with opened(page, tmp_path) as terminal:
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
    """None of its blocks is only shown."""
    page = read_page(ROOT / FROM_THE_CHECKOUT)

    assert {"console"} == {block.language for block in page.blocks}

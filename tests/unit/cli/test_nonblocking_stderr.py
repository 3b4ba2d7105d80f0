"""Log lines of a server on stderr, with and without a reader."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from pathlib import Path

from traceforge.cli.nonblocking_stderr import NonBlockingStderr


@contextmanager
def piped() -> Iterator[int]:
    """The end of a pipe whose other end is stderr."""
    read_end, write_end = os.pipe()
    with os.fdopen(write_end, "w") as stderr, redirect_stderr(stderr):
        yield read_end
    os.close(read_end)


def read_available(number: int) -> str:
    """Read all available bytes."""
    os.set_blocking(number, False)
    data = b""
    while True:
        try:
            piece = os.read(number, 1 << 20)
        except BlockingIOError:
            return data.decode()
        data += piece


def lost_message(count: int) -> str:
    return f"{count} lost"


def test_a_full_pipe_does_not_block_the_writer() -> None:
    """Every line that was dropped is counted, and none that was said is torn."""
    stderr = NonBlockingStderr(lost_message)
    with piped() as reader:
        for number in range(2_000):
            stderr(f"line {number} " + "x" * 90)

        first = read_available(reader).splitlines()
        stderr("again")
        stderr("and again")
        then = read_available(reader).splitlines()

    assert 0 < len(first) < 2_000
    assert [f"line {number} " + "x" * 90 for number in range(len(first))] == first
    assert [f"{2_000 - len(first)} lost", "again", "and again"] == then


def test_a_long_line_is_said_whole_where_it_fits() -> None:
    """A line may be longer than what a pipe takes at once."""
    with piped() as reader:
        NonBlockingStderr(lost_message)("y" * 30_000)
        output = read_available(reader)

    assert (30_000, "\n") == (output.count("y"), output.strip("y"))


def test_a_line_that_is_broken_off_is_counted_and_joins_no_other() -> None:
    """What comes after it begins on a line of its own."""
    stderr = NonBlockingStderr(lost_message)
    with piped() as reader:
        stderr("y" * 200_000)
        torn = read_available(reader)
        stderr("next")
        then = read_available(reader).splitlines()

    assert {"y"} == set(torn)
    assert len(torn) < 200_000
    assert ["", "1 lost", "next"] == then


def test_a_missing_reader_does_not_block_or_fail_the_writer() -> None:
    """Nor does a closed or missing stderr; a returning reader is told how many lines were lost."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    nonblocking = NonBlockingStderr(lost_message)
    with os.fdopen(write_end, "w") as stderr, redirect_stderr(stderr):
        nonblocking("nobody")
        stderr.close()
        nonblocking("closed")
    with redirect_stderr(None):
        nonblocking("none")
    with piped() as reader:
        nonblocking("somebody")
        then = read_available(reader).splitlines()

    assert ["3 lost", "somebody"] == then


def test_a_file_takes_every_line(tmp_path: Path) -> None:
    """It is never full, and longer lines are written at once."""
    path = tmp_path / "log"
    nonblocking = NonBlockingStderr(lost_message)
    with path.open("w") as stderr, redirect_stderr(stderr):
        for number in range(100):
            nonblocking(str(number) + "z" * 10_000)

    assert [str(number) + "z" * 10_000 for number in range(100)] == path.read_text().splitlines()

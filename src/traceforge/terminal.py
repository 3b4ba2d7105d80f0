"""The only way to a terminal, a build log or a pager: everything that is printed is escaped here.

In: text and JSON, in which a checkout, a model or a socket may have a say. Out: standard output, standard error, and
escaped text for those that print for us, as pytest does. Never: a control, format, bidirectional or invisible
character; a line that a CI service takes for a command.

Two kinds of text do harm. Characters move the cursor, write to the clipboard, hide words or swap their order; they
are escaped as in Python: `\\x1b`, `\\u202e`. Commands of CI services are plain text; of these, the first character is
escaped:

    ::set-output …          GitHub Actions, at the start of a line; escaped everywhere if GitHub knows the command
    ##[…]  ##vso[…]         GitHub Actions and Azure Pipelines, anywhere
    ##teamcity[…]           TeamCity, anywhere
    section_start:…         GitLab and Travis CI (`travis_fold:…`), anywhere
    ---  +++  ~~~  ^^^      Buildkite, at the start of a line

They are escaped on every machine, because not every CI service can be recognised, and logs are copied. JSON is
escaped with the escapes of JSON, so that every reader gets the same values.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import Protocol, TextIO, TypeVar

Item = TypeVar("Item")

_GITHUB = (
    "add-mask|add-matcher|add-path|debug|echo|endgroup|error|group|notice|remove-matcher|save-state|set-env"
    "|set-output|stop-commands|warning"
)
_COMMAND = re.compile(
    rf"##(?=\w*\[)|section_(?=(?:start|end):)|travis_(?=(?:fold|time):)|::(?=(?i:{_GITHUB})(?:[ :]|$))",
    re.MULTILINE,
)
_LINE_START = re.compile(r"^((?:[ \t]|\x1b\[\d{1,2}m)*)(::|---|\+\+\+|~~~|\^\^\^)", re.MULTILINE)
_STYLE = re.compile(r"(\x1b\[\d{1,2}m)")  # Colours and bold type, which our own reports use.

_NOT_PLAIN = re.compile(r"[^\n\t -~]+")
_NOT_PLAIN_JSON = re.compile(r"[^\n -~]+")
# Python calls these printable, and a terminal shows nothing. U+FE0E and U+FE0F, which belong to emoji, are not here.
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0d\uffa0\U000e0100-\U000e01ef]"
)

_CLEAR_LINE = "\r\x1b[K"


class ProgressReporter(Protocol):
    """Passes items on, and may show how many are completed. Rooms that take long get one from the command line."""

    def __call__(self, items: Iterable[Item], total: int, label: str = ..., /) -> Iterable[Item]:
        """Yield every item, of which there will be `total`."""
        ...


def no_progress(items: Iterable[Item], total: int, label: str = "", /) -> Iterable[Item]:
    return items


def one_line(text: str) -> str:
    """Escape text from elsewhere as a part of a line, so that it cannot move the cursor or forge a line."""
    escaped = escape_characters(text).replace("\n", "\\n").replace("\t", "\\t")
    return _COMMAND.sub(_escape_first, escaped)


def escape_text(text: str) -> str:
    """Escape text of several lines; its line endings and tabs stay."""
    return _break_commands(escape_characters(text))


def escape_characters(text: str) -> str:
    """Escape everything but printable characters, line endings and tabs; commands of CI services stay."""
    if _is_printable(text.replace("\n", "").replace("\t", "")):  # Most texts are: five times as fast.
        return text
    return _NOT_PLAIN.sub(_escape_run, text)


def escape_json(data: bytes) -> bytes:
    """The same JSON values in text that can be printed."""
    text = data.decode(errors="backslashreplace")
    if not _is_printable(text.replace("\n", "")):
        text = _NOT_PLAIN_JSON.sub(_escape_json_run, text)
    return _COMMAND.sub(_escape_first_in_json, text).encode()


def print_text(text: str, *, err: bool = False, colour: bool = False, end: str = "\n") -> None:
    """Print text on standard output or standard error; with `colour`, the colours in it are printed as such."""
    if colour:
        pieces = _STYLE.split(text)  # Every second piece is a colour.
        pieces[::2] = map(escape_characters, pieces[::2])
        escaped = _break_commands("".join(pieces))
    else:
        escaped = escape_text(text)
    _write(escaped + end, err)


def print_json_bytes(data: bytes, *, err: bool = False) -> None:
    """Print a JSON document, or one line of JSON, in UTF-8."""
    _write_bytes(escape_json(data.rstrip(b"\n")) + b"\n", err)


def print_workflow_command(line: str) -> None:
    """Print a command for GitHub Actions on standard error. Its parameters and its message were escaped before."""
    _write(escape_characters(line.replace("\n", " ")) + "\n", err=True)


def print_status(text: str) -> None:
    """Replace the last line of the terminal behind standard error; an empty text clears it."""
    _write(f"{_CLEAR_LINE}{one_line(text)}", err=True)


def write_raw(data: bytes) -> None:
    """Write content that the user asked for: as it is into a file or a pipe, escaped on a terminal."""
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    _write_bytes(escape_text(data.decode(errors="backslashreplace")).encode() if is_terminal else data, err=False)


def _write(text: str, err: bool) -> None:
    stream: TextIO | None = sys.stderr if err else sys.stdout
    if stream is not None:  # It was not closed before the process started.
        stream.write(text)
        stream.flush()


def _write_bytes(data: bytes, err: bool) -> None:
    stream: TextIO | None = sys.stderr if err else sys.stdout
    if stream is not None:
        stream.flush()
        stream.buffer.write(data)
        stream.buffer.flush()


def _is_printable(text: str) -> bool:
    return text.isprintable() and (text.isascii() or not _INVISIBLE.search(text))


def _escape_run(match: re.Match[str]) -> str:
    run = match[0]
    return run if _is_printable(run) else "".join(c if _is_printable(c) else ascii(c)[1:-1] for c in run)


def _escape_json_run(match: re.Match[str]) -> str:
    run = match[0]
    return run if _is_printable(run) else "".join(c if _is_printable(c) else _json_escape(c) for c in run)


def _json_escape(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[place] << 8 | units[place + 1]:04x}" for place in range(0, len(units), 2))


def _break_commands(text: str) -> str:
    return _LINE_START.sub(_escape_line_start, _COMMAND.sub(_escape_first, text))


def _escape_first(match: re.Match[str]) -> str:
    return f"\\x{ord(match[0][0]):02x}{match[0][1:]}"


def _escape_line_start(match: re.Match[str]) -> str:
    return f"{match[1]}\\x{ord(match[2][0]):02x}{match[2][1:]}"


def _escape_first_in_json(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0][0]):04x}{match[0][1:]}"

"""A child as this process started it, and the programs that run in it as far as its words tell.

In: the words of a command. Out: names of programs. Never: runs anything, or is complete: what a `make` or a shell
script starts is not in the words.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import TypeAlias

from msgspec import Struct

from traceforge.capture.hook.child_processes import looks_like_python
from traceforge.capture.run.local_programs import LAUNCHERS, SHELLS
from traceforge.capture.run.process_files import StartedProgram
from traceforge.capture.run.process_scan import INFORMATION_OPTIONS

_SEPARATORS = frozenset({";", "&", "|", "&&", "||", "(", ")", "|&", ";;"})
_PREFIXES = frozenset(  # words behind which a command stands
    {"!", "if", "then", "else", "elif", "while", "until", "do", "{", "time", "exec", "command", "builtin", "eval"}
)
_OTHER_WORDS = frozenset(  # words that begin no program
    {
        "fi", "done", "esac", "}", "for", "case", "select", "function", ":", ".", "alias", "bg", "break", "cd",
        "continue", "declare", "dirs", "exit", "export", "fg", "getopts", "hash", "jobs", "let", "local", "popd",
        "pushd", "read", "readonly", "return", "set", "shift", "shopt", "source", "times", "trap", "type", "typeset",
        "ulimit", "umask", "unalias", "unset", "wait", "[[",
    }
)  # fmt: skip
_HEAD_BYTES = 200  # of a script: its first line names what runs it
UNREADABLE = "a shell command that cannot be read"


PathText: TypeAlias = "str | bytes | os.PathLike[str]"


class StartedChild(Struct, frozen=True):
    """One child; `pid` is 0 where it is not known."""

    pid: int
    words: tuple[str, ...]

    @classmethod
    def from_words(cls, pid: int, words: Sequence[PathText], program: PathText | None = None) -> StartedChild:
        """`program` is what is executed, where that is not the first word."""
        decoded = [os.fsdecode(word) for word in words] or [""]
        return cls(pid, (os.fsdecode(program) if program else decoded[0], *decoded[1:]))

    @property
    def command_line(self) -> str:
        """For a report: the program and its script, as of a Python."""
        return StartedProgram(self.pid, "", self.words[0], self.words, is_python=True).command_line

    @property
    def is_python(self) -> bool:
        """Whether it is a Python that runs something."""
        is_plain = looks_like_python(_find_interpreter(self.words[0]))
        return is_plain and not INFORMATION_OPTIONS.intersection(self.words[1:2])

    @property
    def programs(self) -> list[str]:
        """The names of all programs that are not Python, as far as the words tell."""
        return [name for name in dict.fromkeys(_list_programs(self.words)) if not looks_like_python(name)]


def _list_programs(words: Sequence[str]) -> Iterator[str]:
    name = _find_interpreter(words[0])
    yield name
    if name in SHELLS:
        for option, text in pairwise(words):
            if re.fullmatch(r"-[a-z]*c", option):
                yield from _list_shell_programs(text)
                break
    elif name in LAUNCHERS:
        for position, word in enumerate(words[1:], start=1):
            if not word.startswith("-") and "=" not in word and shutil.which(word):
                yield from _list_programs(words[position:])
                break


def _list_shell_programs(text: str) -> Iterator[str]:
    """The first word of each command in the text of a shell."""
    lexer = shlex.shlex(text.replace("\n", " ; "), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        tokens = list(lexer)
    except ValueError:
        yield UNREADABLE
        return
    words: list[str] = []
    for token in [*tokens, ";"]:
        if token not in _SEPARATORS:
            words.append(token)
            continue
        while words and (words[0] in _PREFIXES or re.match(r"\w+=", words[0])):
            words.pop(0)
        if words and words[0] not in _OTHER_WORDS and words[0][0] not in "<>":
            yield from [UNREADABLE] if "$" in words[0] or "`" in words[0] else _list_programs(words)
        words = []


def _find_interpreter(program: str) -> str:
    """The name of a program; of a script, that of what runs it."""
    path = program if os.path.dirname(program) else shutil.which(program) or ""
    with suppress(OSError), open(path, "rb") as file:
        head = file.read(_HEAD_BYTES)
        if head.startswith(b"#!"):
            words = head[2:].partition(b"\n")[0].decode(errors="replace").split()
            names = [os.path.basename(word) for word in words if not word.startswith("-")]
            if names:
                return names[1] if names[0] == "env" and len(names) > 1 else names[0]
    return os.path.basename(program)

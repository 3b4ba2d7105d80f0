"""The cases of the gate's matrix: a sentence, an edit of the support desk in `tests/apps/desk`, and a verdict.

A case is data. `support.desk_project` applies its steps to a copy of the approved desk and runs it in each way.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

TEST, PYTEST, XDIST, PROXY = "test", "pytest", "xdist", "proxy"
IN_PYTEST = (TEST, PYTEST, XDIST)
EVERYWHERE = (TEST, PYTEST, XDIST, PROXY)
SEALED = (TEST,)  # what only `traceforge test` can know

CONFIG = "traceforge.config.json"
SNAPSHOTS = ".ai-snapshots"


class Checkout(Protocol):
    """What a step changes: a copy of the desk."""

    folder: Path
    variables: dict[str, str]
    server: Any

    def run(self, *words: str, **variables: str) -> Any:
        """Run one `traceforge` command."""

    def git(self, *words: str) -> str:
        """Run Git."""


class Step(Protocol):
    """One edit of a checkout."""

    def __call__(self, checkout: Checkout, /) -> None:
        """Apply it."""


class Replace(NamedTuple):
    """A replacement in one file, which must contain `before`."""

    file: str
    before: str
    after: str
    everywhere: bool = False

    def __call__(self, checkout: Checkout) -> None:
        path = checkout.folder / self.file
        text = path.read_text(encoding="utf-8")
        assert self.before in text, self
        edited = text.replace(self.before, self.after, -1 if self.everywhere else 1)
        assert edited != text, self
        path.write_text(edited, encoding="utf-8")


class Write(NamedTuple):
    """A file with this text, instead of whatever was there."""

    file: str
    text: str

    def __call__(self, checkout: Checkout) -> None:
        path = checkout.folder / self.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.text, encoding="utf-8")


class Append(NamedTuple):
    """A text behind the end of a file."""

    file: str
    text: str

    def __call__(self, checkout: Checkout) -> None:
        with (checkout.folder / self.file).open("a", encoding="utf-8") as file:
            file.write(self.text)


class Remove(NamedTuple):
    """A file or folder that is gone; `*` matches, and something must match."""

    pattern: str

    def __call__(self, checkout: Checkout) -> None:
        found = list(checkout.folder.glob(self.pattern))
        assert found, self
        for path in found:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()


class Configure(NamedTuple):
    """Settings of the desk, in place of those of the same name."""

    settings: Mapping[str, Any]

    def __call__(self, checkout: Checkout) -> None:
        path = checkout.folder / CONFIG
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.strip().startswith("//")]
        path.write_text(json.dumps({**json.loads("\n".join(lines)), **self.settings}, indent=2), encoding="utf-8")


class Command(NamedTuple):
    """A `traceforge` command that must succeed."""

    words: tuple[str, ...]
    code: int = 0

    def __call__(self, checkout: Checkout) -> None:
        ran = checkout.run(*self.words)
        assert self.code == ran.code, ran


class Git(NamedTuple):
    """A Git command that must succeed."""

    words: tuple[str, ...]

    def __call__(self, checkout: Checkout) -> None:
        checkout.git(*self.words)


def commit(checkout: Checkout) -> None:
    """Commit everything, also what is ignored."""
    checkout.git("add", "-A", "-f")
    checkout.git("commit", "-qm", "a change")


def commit_tracked(checkout: Checkout) -> None:
    """Commit what is not ignored, if anything changed."""
    checkout.git("add", "-A")
    checkout.git("commit", "-qm", "a change", "--allow-empty")


Verdict = Literal["green", "red", "unchecked", "not green"]


@dataclass(frozen=True)
class Case:
    """One difference, and what the gate must say about it."""

    name: str
    verdict: Verdict
    steps: tuple[Step | Callable[[Any], None], ...] = ()
    says: str = ""  # an expression that the output matches: the rule, the test or the setting that is the cause
    tests: str = "chat_tests.py"  # the arguments of pytest, for the unedited desk too
    more: str = ""  # arguments of pytest for the edited desk only
    command: str = ""  # instead of pytest: a script and its arguments
    more_command: str = ""  # arguments of the script for the edited desk only
    python: str = ""  # options of Python
    options: tuple[str, ...] = ()  # of `traceforge test`
    variables: Mapping[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    ways: tuple[str, ...] = IN_PYTEST
    asks: bool = False  # the provider may be asked
    above: bool = False  # started from the folder above the project
    pending: str | Mapping[str, str] = ""  # the item that is not built yet, for all ways or by way

    def pending_in(self, way: str) -> str:
        """Why the case cannot pass in this way yet, or nothing."""
        return self.pending if isinstance(self.pending, str) else self.pending.get(way, "")


def red(name: str, *steps: Step | Callable[[Any], None], **fields: Any) -> Case:
    """A change that must be a finding."""
    return Case(name, "red", steps, **{"says": r"GT[12]\b", **fields})


def unchecked(name: str, *steps: Step | Callable[[Any], None], **fields: Any) -> Case:
    """A run that could not compare something."""
    return Case(name, "unchecked", steps, **fields)


def not_green(name: str, *steps: Step | Callable[[Any], None], **fields: Any) -> Case:
    """A change that must be a finding or make the run unchecked."""
    return Case(name, "not green", steps, **fields)


def green(name: str, *steps: Step | Callable[[Any], None], **fields: Any) -> Case:
    """A harmless difference."""
    return Case(name, "green", steps, **fields)

"""Children of a process that was entered: what they inherit, and which of them cannot be entered.

In: the base-URL variables that are hidden in this process. Out: children that have them, where they were given a copy
of its environment; notes about children that cannot be entered. Never: changes the environment of a child that was
given one of its own without us in it.
"""

from __future__ import annotations

import os
import re
from typing import Any

from .patches import Hook, Patches

MARK = "TRACEFORGE_RUN"
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*(?:\.exe)?\Z", re.IGNORECASE)
_ENVIRONMENT_AT = 10  # the place of `env` among the arguments of Popen, which hardly anybody counts


def hooks(variables: dict[str, tuple[str, str | None]], watcher: Any) -> dict[str, Hook]:
    """The modules through which a process has children."""

    def hook_subprocess(module: Any, patches: Patches) -> None:
        def make(init: Any) -> Any:
            def watched(self: Any, args: Any, *more: Any, **named: Any) -> None:
                try:
                    more, named = _prepare(variables, watcher, args, more, named)
                except Exception as exc:  # noqa: BLE001
                    watcher.fault(exc)
                init(self, args, *more, **named)

            return watched

        patches.wrap(module.Popen, "__init__", make)

    def hook_multiprocessing(module: Any, patches: Patches) -> None:
        """Children that multiprocessing forks end without `atexit`; they have finalizers of their own."""
        module.register_after_fork(watcher, lambda one: module.Finalize(None, one.at_exit, exitpriority=0))

    return {"subprocess": hook_subprocess, "multiprocessing.util": hook_multiprocessing}


def _prepare(variables: Any, watcher: Any, args: Any, more: Any, named: Any) -> Any:
    """Note a child that cannot be entered, and give one that copied our environment what it hides."""
    counted = len(more) >= _ENVIRONMENT_AT
    environ = more[_ENVIRONMENT_AT - 1] if counted else named.get("env")
    words = [os.fsdecode(word) for word in args] if isinstance(args, (list, tuple)) else []
    if words and looks_like_python(words[0]):
        flags = isolating_flags(words)
        if flags:
            watcher.note(f"a Python started with -{flags}")
        elif environ is not None and MARK not in environ:
            watcher.note("a Python started with an environment of its own")
    if not variables or environ is None or MARK not in environ:
        return more, named
    changed = {**environ, **{name: ours for name, (ours, users) in variables.items() if environ.get(name) == users}}
    if counted:
        return (*more[: _ENVIRONMENT_AT - 1], changed, *more[_ENVIRONMENT_AT:]), named
    return more, {**named, "env": changed}


def looks_like_python(word: str) -> bool:
    """By its name alone."""
    return _PYTHON.match(os.path.basename(word)) is not None


def isolating_flags(words: list[str]) -> str:
    """Those of -I, -E and -S that keep a Python from being entered."""
    found = ""
    for word in words[1:]:
        if not word.startswith("-") or word.startswith("--") or word == "-":
            break
        letters = re.match(r"-([bBdEhiIOPqRsSuvVx?]*)([cmWXJ]?)", word)
        if letters is None:
            break
        found += "".join(letter for letter in letters[1] if letter in "IES")
        if letters[2] in ("c", "m"):
            break
    return found

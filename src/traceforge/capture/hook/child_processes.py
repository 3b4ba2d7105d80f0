"""Children of a process that runs under `traceforge run`: what they inherit, and which cannot be instrumented.

In: the base-URL variables that are hidden in this process. Out: children that have them, where they were given a copy
of its environment; notes about children that cannot be instrumented. Never: changes the environment of a child that
was given one of its own without our variable in it.
"""

from __future__ import annotations

import os
import re
import sys
from typing import Any

from .patches import Hook, Patches

RUN_VARIABLE = "TRACEFORGE_RUN"
_PYTHON = re.compile(r"(?:python|pypy)w?[\d.]*[dmtu]{0,3}(?:-dbg)?(?:\.exe)?\Z", re.IGNORECASE)
_ENV_POSITION = 10  # of `env` among the positional arguments of Popen, which hardly any program uses


def make_hooks(variables: dict[str, tuple[str, str | None]], watcher: Any) -> dict[str, Hook]:
    """Hooks for the modules through which a process starts children."""

    def hook_subprocess(module: Any, patches: Patches) -> None:
        def wrap(init: Any) -> Any:
            def watched(self: Any, args: Any, *more: Any, **named: Any) -> None:
                try:
                    more, named = _prepare(variables, watcher, args, more, named)
                except Exception as exc:  # noqa: BLE001 (no error of the hook may reach the application)
                    watcher.add_fault(exc)
                init(self, args, *more, **named)

            return watched

        patches.wrap(module.Popen, "__init__", wrap)

    def hook_multiprocessing(module: Any, patches: Patches) -> None:
        """Children that multiprocessing forks end without `atexit`; they have finalizers of their own."""
        module.register_after_fork(watcher, lambda forked: module.Finalize(None, forked.at_exit, exitpriority=0))

    return {"subprocess": hook_subprocess, "multiprocessing.util": hook_multiprocessing}


def _prepare(variables: Any, watcher: Any, args: Any, more: Any, named: Any) -> Any:
    """Note a child that cannot be instrumented, and give one that copied our environment what it hides."""
    is_positional = len(more) >= _ENV_POSITION
    environ = more[_ENV_POSITION - 1] if is_positional else named.get("env")
    words = [os.fsdecode(word) for word in args] if isinstance(args, (list, tuple)) else []
    if words and looks_like_python(words[0]) and not _starts_tool_server():
        flags = isolating_flags(words)
        if flags:
            watcher.note_unseen(f"a Python started with -{flags}")
        elif environ is not None and RUN_VARIABLE not in environ:
            watcher.note_unseen("a Python started with an environment of its own")
    if not variables or environ is None or RUN_VARIABLE not in environ:
        return more, named
    hidden = {name: ours for name, (ours, original) in variables.items() if environ.get(name) == original}
    changed = {**environ, **hidden}
    if is_positional:
        return (*more[: _ENV_POSITION - 1], changed, *more[_ENV_POSITION:]), named
    return more, {**named, "env": changed}


def _starts_tool_server() -> bool:
    """Whether an MCP client starts its server, which is not watched itself. Only `dispatch` can know."""
    dispatch = sys.modules.get(f"{__package__}.dispatch")
    return dispatch is not None and dispatch.is_inside_tool_transport()


def looks_like_python(program: str) -> bool:
    """Whether the program is a Python by its file name; the file is not read."""
    return _PYTHON.match(os.path.basename(program)) is not None


def isolating_flags(words: list[str]) -> str:
    """Those of -I, -E and -S in a command line, with which a Python cannot be instrumented."""
    flags = ""
    for word in words[1:]:
        if not word.startswith("-") or word.startswith("--") or word == "-":
            break
        letters = re.match(r"-([bBdEhiIOPqRsSuvVx?]*)([cmWXJ]?)", word)
        if letters is None:
            break
        flags += "".join(letter for letter in letters[1] if letter in "IES")
        if letters[2] in ("c", "m"):
            break
    return flags

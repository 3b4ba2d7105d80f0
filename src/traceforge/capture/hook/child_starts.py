"""The ways in which a Python process starts another one, except a fork: patched, so that the child is instrumented.

In: a starter, which knows what a child needs. Out: hooks for `patches.ImportHook`. Never: starts a child in another
way than the application asked for, or changes the environment that it passed.

A starter has `prepare()`, which returns False for a child that is to be left alone, `instrument(environ)`, which
returns the environment for the child, and `note(pid, words, program)`.
"""

from __future__ import annotations

import os
from typing import Any

from .patches import Hook, Patches

_SHELL_POSITION, _ENV_POSITION = 7, 9  # among the positional arguments of Popen after the first


def make_hooks(starter: Any) -> dict[str, Hook]:
    """Hooks for the modules through which a process starts children."""
    starts = _ChildStarts(starter)
    return {
        "multiprocessing.util": starts.hook_multiprocessing,
        "os": starts.hook_os,
        "subprocess": starts.hook_subprocess,
    }


class _ChildStarts:
    """Patches that ask a starter about each child."""

    def __init__(self, starter: Any) -> None:
        self._starter = starter

    def hook_subprocess(self, module: Any, patches: Patches) -> None:
        patches.wrap(module.Popen, "__init__", self._wrap_popen)

    def hook_multiprocessing(self, module: Any, patches: Patches) -> None:
        patches.wrap(module, "spawnv_passfds", self._wrap_spawnv)

    def hook_os(self, module: Any, patches: Patches) -> None:
        for name in ("posix_spawn", "posix_spawnp"):
            if hasattr(module, name):
                patches.wrap(module, name, self._wrap_spawn)
        patches.wrap(module, "system", self._wrap_system)

    def _wrap_popen(self, init: Any) -> Any:
        starter = self._starter

        def watched(self: Any, args: Any, *more: Any, **named: Any) -> None:
            if not starter.prepare():
                init(self, args, *more, **named)
                return
            is_positional = len(more) > _ENV_POSITION
            requested_environ = more[_ENV_POSITION] if is_positional else named.get("env")
            environ = starter.instrument(os.environ if requested_environ is None else requested_environ)
            if is_positional:
                init(self, args, *more[:_ENV_POSITION], environ, *more[_ENV_POSITION + 1 :], **named)
            else:
                init(self, args, *more, **{**named, "env": environ})
            is_shell = more[_SHELL_POSITION] if len(more) > _SHELL_POSITION else named.get("shell")
            words = [args] if isinstance(args, (str, bytes, os.PathLike)) else list(args)
            starter.note(self.pid, ["sh", "-c", *words] if is_shell else words, named.get("executable"))

        return watched

    def _wrap_spawnv(self, spawn: Any) -> Any:
        def watched(path: Any, args: Any, *more: Any) -> Any:
            is_watched = self._starter.prepare()
            pid = spawn(path, args, *more)
            if is_watched:
                self._starter.note(pid, args, path)
            return pid

        return watched

    def _wrap_spawn(self, spawn: Any) -> Any:
        def watched(path: Any, argv: Any, env: Any, *more: Any, **named: Any) -> Any:
            if not self._starter.prepare():
                return spawn(path, argv, env, *more, **named)
            pid = spawn(path, argv, self._starter.instrument(env), *more, **named)
            self._starter.note(pid, argv, path)
            return pid

        return watched

    def _wrap_system(self, system: Any) -> Any:
        def watched(command: Any) -> Any:
            if self._starter.prepare():
                self._starter.note(0, ["sh", "-c", command], None)
            return system(command)

        return watched

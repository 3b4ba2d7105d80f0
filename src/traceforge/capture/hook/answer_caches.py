"""Caches in which a framework keeps the answers of a model: not used while calls are recorded for the gate or tested.

In: the module of a cache. Out: a cache that finds and stores nothing while a watcher of the process answers calls.
Never: changes a program that is only observed, as `traceforge run` does.

dspy has such a cache, on by default, on disk and for good. The run after a recording would make no call, and every
snapshot would count as unused; and what a test replays would answer the application outside of tests.
"""

from __future__ import annotations

from typing import Any

from . import dispatch
from .patches import Patches


def hook_dspy(module: Any, patches: Patches) -> None:
    """A dspy without this cache is left as it is."""
    cache = getattr(module, "Cache", None)
    for name in ("get", "put"):
        if hasattr(cache, name):
            patches.wrap(cache, name, _wrap_access)


def _wrap_access(access: Any) -> Any:
    def watched(self: Any, *args: Any, **options: Any) -> Any:
        return None if dispatch.is_replaying() else access(self, *args, **options)

    return watched

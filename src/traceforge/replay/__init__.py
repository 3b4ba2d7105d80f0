"""Replay: answer live requests from recordings.

The package can be called: `traceforge.replay()` is `traceforge.snapshots.tree.replay_context.replay()`. That module
is imported by its name when it is called, because this package may not import `snapshots`.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    """Makes `traceforge.replay` both a package and a function."""

    def __call__(self, **options: Any) -> Any:  # noqa: ANN401 (typed where it is defined)
        """Answer the calls in this `with` block from recordings."""
        return import_module("traceforge.snapshots.tree.replay_context").replay(**options)


sys.modules[__name__].__class__ = _Callable

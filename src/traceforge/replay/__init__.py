"""Replay: requests are recognised, and answered from what was recorded.

The package can be called: `traceforge.replay()` is `traceforge.snapshots.tree.replay_context.replay()`. It is looked
up by its name when it is called, because this package stands below the edges and imports none of them.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    """A module that is also the function people know it by."""

    def __call__(self, **options: Any) -> Any:  # noqa: ANN401 (typed where it is defined)
        """Answer the calls of this context from what was recorded until it ends."""
        return import_module("traceforge.snapshots.tree.replay_context").replay(**options)


sys.modules[__name__].__class__ = _Callable

"""Patches on client classes: made when a client is imported, undone to the letter.

In: names of modules, and for each the function that hooks it. Out: classes with a few methods replaced. Never:
imports a client by itself, or undoes a patch that somebody else has since put another one on: ours then stays below
it, and passes every call on. A client that cannot be hooked is not seen; in a replay, it is not imported.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from .guarded_call import faults

Hook = Callable[[Any, "Patches"], None]


class Patches:
    """What was replaced, and how it was before."""

    def __init__(self) -> None:
        self._made: dict[tuple[Any, str], tuple[Any, Any]] = {}

    def wrap(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Replace the method `name` of a class, or a function of a module, by `make(it)`, once."""
        owner = next(one for one in getattr(owner, "__mro__", (owner,)) if name in vars(one))
        if (owner, name) in self._made:
            return
        before = vars(owner)[name]
        after = functools.wraps(before)(make(before))
        setattr(owner, name, after)
        self._made[owner, name] = before, after

    def undo(self) -> None:
        """Put everything back as it was."""
        for (owner, name), (before, after) in list(self._made.items()):
            if vars(owner).get(name) is after:
                setattr(owner, name, before)
                del self._made[owner, name]


class Importing:
    """A finder that finds nothing itself: it waits for some modules, and hooks each when it has been imported."""

    def __init__(
        self, hooks: dict[str, Hook], patches: Patches, is_strict: Callable[[], bool] = lambda: False
    ) -> None:
        self._hooks = hooks
        self._patches = patches
        self._is_strict = is_strict  # must every client be hooked?
        self._busy: set[str] = set()

    def start(self) -> None:
        """Hook what is there, and wait for the rest."""
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)
        for name in self._hooks:
            module = sys.modules.get(name)
            if module is not None and not getattr(getattr(module, "__spec__", None), "_initializing", False):
                self._apply(name, module)

    def stop(self) -> None:
        """Wait no longer, and undo every patch."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        self._patches.undo()

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any | None:
        """Called by Python for every import: nothing for all but our few."""
        if name not in self._hooks or name in self._busy:
            return None
        self._busy.add(name)
        try:
            spec = find_spec(name)
        finally:
            self._busy.discard(name)
        loader = getattr(spec, "loader", None)
        if loader is not None:
            try:
                loader.exec_module = functools.partial(self._execute, name, loader, loader.exec_module)
            except AttributeError as exc:  # a loader that cannot be hooked: the client is not seen
                self._not_hooked(name, exc)
        return spec

    def _execute(self, name: str, loader: Any, execute: Callable[[Any], None], module: Any) -> None:
        del loader.exec_module
        execute(module)
        if self in sys.meta_path:
            self._apply(name, module)

    def _apply(self, name: str, module: Any) -> None:
        try:
            self._hooks[name](module, self._patches)
        except Exception as exc:  # noqa: BLE001 (a client of another make: not seen, and never broken)
            self._not_hooked(name, exc)

    def _not_hooked(self, name: str, exc: Exception) -> None:
        if self._is_strict():
            raise ImportError(f"TraceForge replay: calls of this {name} could not be answered: {exc!r}") from exc
        faults.add(exc)

"""Patches on client classes: made when a client is imported, undone exactly.

In: names of modules, and for each the function that hooks it. Out: classes with a few methods replaced. Never:
imports a client by itself, or undoes a patch that other code has since wrapped: ours then stays below it, and passes
every call on. A client that cannot be hooked is not watched; in a replay, its import fails.
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
    """What was replaced, and the originals."""

    def __init__(self) -> None:
        self._patched: dict[tuple[Any, str], tuple[Any, Any]] = {}

    def wrap(self, owner: Any, name: str, wrapper: Callable[[Any], Any]) -> None:
        """Replace the method `name` of a class, or a function of a module, by `wrapper(original)`, once."""
        owner = next(base for base in getattr(owner, "__mro__", (owner,)) if name in vars(base))
        if (owner, name) in self._patched:
            return
        original = vars(owner)[name]
        patched = functools.wraps(original)(wrapper(original))
        setattr(owner, name, patched)
        self._patched[owner, name] = original, patched

    def replace(self, module: Any, name: str, value: Any) -> None:
        """Replace a type of a module by a subclass, once."""
        if (module, name) not in self._patched:
            self._patched[module, name] = getattr(module, name), value
            setattr(module, name, value)

    def undo(self) -> None:
        for (owner, name), (original, patched) in list(self._patched.items()):
            if vars(owner).get(name) is patched:
                setattr(owner, name, original)
                del self._patched[owner, name]


class ImportHook:
    """A finder that finds nothing itself: it hooks some modules when they have been imported."""

    def __init__(
        self, hooks: dict[str, Hook], patches: Patches, must_hook: Callable[[], bool] = lambda: False
    ) -> None:
        self._hooks = hooks
        self._patches = patches
        self._must_hook = must_hook  # whether a client that cannot be hooked must not be imported
        self._importing: set[str] = set()

    def start(self) -> None:
        """Hook the modules that are loaded, and wait for the others."""
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)
        for name in self._hooks:
            module = sys.modules.get(name)
            if module is not None and not getattr(getattr(module, "__spec__", None), "_initializing", False):
                self._apply(name, module)

    def restart(self) -> None:
        """Be asked first again. The finder of pytest that rewrites assertions takes plugins before us."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        self.start()

    def stop(self) -> None:
        """Wait no longer, and undo every patch."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        self._patches.undo()

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any | None:
        """Called by Python for every import."""
        if name not in self._hooks or name in self._importing:
            return None
        self._importing.add(name)
        try:
            spec = find_spec(name)
        finally:
            self._importing.discard(name)
        loader = getattr(spec, "loader", None)
        if loader is not None:
            try:
                loader.exec_module = functools.partial(self._execute, name, loader, loader.exec_module)
            except AttributeError as exc:  # a loader that cannot be hooked: the client is not watched
                self._report_failure(name, exc)
        return spec

    def _execute(self, name: str, loader: Any, execute: Callable[[Any], None], module: Any) -> None:
        del loader.exec_module
        execute(module)
        if self in sys.meta_path:
            self._apply(name, module)

    def _apply(self, name: str, module: Any) -> None:
        try:
            self._hooks[name](module, self._patches)
        except Exception as exc:  # noqa: BLE001 (an unknown version of a client: not watched, and never broken)
            self._report_failure(name, exc)

    def _report_failure(self, name: str, exc: Exception) -> None:
        if self._must_hook():
            raise ImportError(f"TraceForge replay: calls of this {name} could not be answered: {exc!r}") from exc
        faults.add(exc)

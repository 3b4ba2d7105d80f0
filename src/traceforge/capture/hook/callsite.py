"""The call site: which line of the application made this call?

In: the stack of the calling thread. Out: `file:line:function`, the file from the root of the project with forward
slashes; "" where no frame is the application's. Never: looks at anything but names of files and functions.

The first frame counts that is not in the standard library, in an installed package, in a folder of scripts, in
TraceForge, or in a file that the project skips. While a coroutine runs, those that await it are on the stack; a task
that a library made is followed to those who wait for it (`task_frames.py`), before whoever runs the event loop is
asked.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType
from typing import Any

from .task_frames import root_frame, waiting_frames

FRAMES_MAX = 400  # A stack may be deep where an application recurses; its own line is near the top.
_TYPED = frozenset({"<stdin>", "<string>"})  # what a person typed, or gave to `python -c`
_COMPREHENSIONS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>"})
_PHASES = (" (setup)", " (call)", " (teardown)")
_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # TraceForge itself

_CURRENT_TEST = "PYTEST_CURRENT_TEST"
_KEPT_AS: Any = os.environ.encodekey(_CURRENT_TEST) if hasattr(os.environ, "encodekey") else _CURRENT_TEST
_last_test: list[tuple[Any, str]] = [("", "")]  # what pytest said last, and the node id in it


class CallSites:
    """Finds call sites of one project. What it learns about a file, it remembers."""

    def __init__(self, root: str, skip: Sequence[str] = ()) -> None:
        self._root = os.path.realpath(root)
        self._skip = tuple(prefix.strip("/") for prefix in skip)
        self._foreign: tuple[str, ...] = ()  # known once a file is looked at
        self._names: dict[str, str] = {}  # file of a frame: its name in the project, "" where it is not the caller's

    def find(self, depth: int = 1) -> str:
        """The call site of whoever called us, `depth` frames up."""
        frame: FrameType | None = sys._getframe(depth)
        task, root = root_frame()
        names = self._names
        for _ in range(FRAMES_MAX):
            if frame is None:
                break
            if names.get(frame.f_code.co_filename) != "":
                found = self._site(frame)
                if found:
                    return found
            if frame is root:
                found = next(filter(None, map(self._site, waiting_frames(task))), "")
                if found:
                    return found
            frame = frame.f_back
        return ""

    def _site(self, frame: FrameType) -> str:
        """A frame as a call site; "" where it is not the application's."""
        file = frame.f_code.co_filename
        name = self._names.get(file)
        if name is None:
            name = self._names[file] = self._name(file)
        if name and not _hidden(frame) and (name not in _TYPED or frame.f_globals.get("__name__") == "__main__"):
            return f"{name}:{frame.f_lineno}:{_function(frame)}"
        return ""

    def fallback(self) -> str:
        """What is said where no frame is the application's: the test, or the command's script."""
        scope = current_test()
        if scope:
            file, _, rest = scope.partition("::")
            function = rest.partition("[")[0].rpartition("::")[2]
            return f"{file}:0:{function}"
        script = getattr(sys.modules.get("__main__"), "__file__", None) or (sys.argv[0] if sys.argv else "")
        return f"{self.relative(script)}:0:<module>" if script not in ("", "-c", "-m") else ""

    def relative(self, file: str) -> str:
        """A file as the project calls it."""
        path = os.path.realpath(file)
        with suppress(ValueError):  # another drive
            path = os.path.relpath(path, self._root)
        return path.replace(os.sep, "/")

    def _name(self, file: str) -> str:
        if file in _TYPED:
            return file
        if file.startswith("<"):
            return ""
        path = os.path.abspath(file)
        self._foreign = self._foreign or tuple(os.path.join(folder, "") for folder in _foreign_folders())
        if path.startswith(self._foreign) or _is_installed(path):
            return ""
        name = self.relative(path)
        return "" if any(name == prefix or name.startswith(prefix + "/") for prefix in self._skip) else name


def current_test() -> str:
    """The node id of the test that runs, as pytest says; also in threads that lost every context."""
    environ: Any = os.environ  # A test may have put another in its place.
    kept = getattr(environ, "_data", None)  # It is asked with every call, and its front raises for what is not set.
    told = environ.get(_CURRENT_TEST) if kept is None else kept.get(_KEPT_AS)
    if not told:
        return ""
    before, scope = _last_test[0]
    if told != before:
        scope = os.fsdecode(told)
        if scope.endswith(_PHASES):
            scope = scope.rpartition(" ")[0]
        _last_test[0] = told, scope
    return scope


def _function(frame: FrameType) -> str:
    """The function of a frame. A comprehension is a part of its function, and no frame at all from Python 3.12 on."""
    while frame.f_code.co_name in _COMPREHENSIONS and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code.co_name


def _hidden(frame: FrameType) -> bool:
    """Does the function, or its module, ask to be left out, as pytest understands it?"""
    if "__tracebackhide__" in frame.f_code.co_varnames and frame.f_locals.get("__tracebackhide__"):
        return True
    return bool(frame.f_globals.get("__tracebackhide__"))


def _is_installed(path: str) -> bool:
    parts = path.replace(os.sep, "/").split("/")
    if "site-packages" in parts or "dist-packages" in parts:
        return True
    folder = os.path.dirname(path)
    if os.path.basename(folder) not in ("bin", "Scripts"):
        return False
    return os.path.exists(os.path.join(os.path.dirname(folder), "pyvenv.cfg"))


def _foreign_folders() -> tuple[str, ...]:
    """The standard library and the scripts of this Python, and TraceForge; each also by its real path."""
    import sysconfig  # It reads a file of the installation, which who only replays need not wait for.

    paths = sysconfig.get_paths()
    named = [paths.get(key) for key in ("stdlib", "platstdlib", "scripts", "purelib", "platlib")]
    named += [os.path.dirname(os.__file__), os.path.dirname(sys.executable or ""), _PACKAGE]
    folders = {os.path.abspath(folder) for folder in named if folder}
    return tuple(sorted(folders | {os.path.realpath(folder) for folder in folders}))

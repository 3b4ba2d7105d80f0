"""The call site: which line of the application makes a call.

In: the stack of the calling thread. Out: `file:line:function`, the file from the root of the project with forward
slashes; "" where no frame is the application's. Never: looks at anything but names of files and functions, or asks
the file system while an event loop runs in this thread: there, a path is taken as it is written, and a link in it is
not followed.

The first frame counts that is not in the standard library, in an installed package, in a folder of scripts, in
TraceForge, or in a file that the project skips. While a coroutine runs, those that await it are on the stack; a task
that a library made is followed to the tasks that wait for it (`task_frames.py`), before the frames that run the event
loop are looked at.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Sequence
from types import CodeType, FrameType

from .task_frames import root_frame, waiting_frames
from .worker_thread import running_loop

FRAMES_MAX = 400  # A stack may be deep where an application recurses; its own line is near the top.
_INTERACTIVE = frozenset({"<stdin>", "<string>"})  # code that was typed, or given to `python -c`
_COMPREHENSIONS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>"})
_PHASES = (" (setup)", " (call)", " (teardown)")
_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # TraceForge itself

CURRENT_TEST_VARIABLE = "PYTEST_CURRENT_TEST"


class CallSites:
    """Finds call sites of one project; remembers for each file whether it is the application's."""

    def __init__(self, root: str, skip: Sequence[str] = ()) -> None:
        self._root = os.path.realpath(root)
        self._written_root = os.path.abspath(root)
        self._folder = _current_folder(self._root)
        self._skip = tuple(prefix.strip("/") for prefix in skip)
        self._foreign = tuple(os.path.join(folder, "") for folder in _foreign_folders())
        self._names: dict[str, str] = {}  # by the file of a frame: its name in the project, "" where it is foreign
        self.is_hidden = False  # no line of this process is a call site: it makes calls for another one

    def find(self, depth: int = 1) -> str:
        """The call site of the calling code, `depth` frames up."""
        frame: FrameType | None = None if self.is_hidden else sys._getframe(depth)
        task, root = root_frame()
        names = self._names
        for _ in range(FRAMES_MAX):
            if frame is None:
                break
            if names.get(frame.f_code.co_filename) != "":
                site = self._site(frame)
                if site:
                    return site
            if frame is root:
                site = next(filter(None, map(self._site, waiting_frames(task))), "")
                if site:
                    return site
            frame = frame.f_back
        return ""

    def name_code(self, code: CodeType | None) -> str:
        """Where a function of the application begins, as a call site; "" where it is not the application's."""
        name = "" if code is None else self._name(code.co_filename)
        return f"{name}:{code.co_firstlineno}:{code.co_name}" if name and code is not None else ""

    def is_application(self, file: str) -> bool:
        """Whether a file is the application's."""
        return bool(self._name(file))

    def _site(self, frame: FrameType) -> str:
        """A frame as a call site; "" where it is not the application's."""
        file = frame.f_code.co_filename
        name = self._names.get(file)
        if name is None:
            name = self._names[file] = self._name(file)
        if (
            name
            and not _is_hidden(frame)
            and (name not in _INTERACTIVE or frame.f_globals.get("__name__") == "__main__")
        ):
            return f"{name}:{frame.f_lineno}:{_function(frame)}"
        return ""

    def fallback(self) -> str:
        """The call site where no frame is the application's: the test, or the command's script."""
        scope = current_test()
        if scope:
            file, _, test = scope.partition("::")
            function = test.partition("[")[0].rpartition("::")[2]
            return f"{file}:0:{function}"
        if self.is_hidden:
            return ""
        script = getattr(sys.modules.get("__main__"), "__file__", None) or (sys.argv[0] if sys.argv else "")
        return f"{self.relative(script)}:0:<module>" if script not in ("", "-c", "-m") else ""

    def relative(self, file: str) -> str:
        """The path of a file from the root of the project, with forward slashes."""
        path = self._absolute(file)
        root = self._root
        if running_loop() is None:
            path = os.path.realpath(path)
        elif path.startswith(os.path.join(self._written_root, "")):
            root = self._written_root
        return _relative_path(path, root).replace(os.sep, "/")

    def _absolute(self, file: str) -> str:
        return os.path.normpath(os.path.join(self._folder, file))

    def _name(self, file: str) -> str:
        if file in _INTERACTIVE:
            return file
        if file.startswith("<"):
            return ""
        path = self._absolute(file)
        if path.startswith(self._foreign) or _is_installed(path):
            return ""
        name = self.relative(path)
        return "" if any(name == prefix or name.startswith(prefix + "/") for prefix in self._skip) else name


def current_test() -> str:
    """The node id of the test that runs, as pytest sets it; "" outside tests. Works in threads without a context."""
    return parse_test(os.environ.get(CURRENT_TEST_VARIABLE, ""))


def parse_test(text: str) -> str:
    """The node id in the value of pytest's variable, which also has the phase of the test."""
    return text.rpartition(" ")[0] if text.endswith(_PHASES) else text


def _function(frame: FrameType) -> str:
    """The function of a frame. A comprehension is a part of its function, and no frame at all from Python 3.12 on."""
    while frame.f_code.co_name in _COMPREHENSIONS and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code.co_name


def _is_hidden(frame: FrameType) -> bool:
    """Whether the function, or its module, sets `__tracebackhide__`, as pytest understands it."""
    if "__tracebackhide__" in frame.f_code.co_varnames and frame.f_locals.get("__tracebackhide__"):
        return True
    return bool(frame.f_globals.get("__tracebackhide__"))


def _is_installed(path: str) -> bool:
    parts = path.replace(os.sep, "/").split("/")
    if "site-packages" in parts or "dist-packages" in parts:
        return True
    folder = os.path.dirname(path)
    if os.path.basename(folder) not in ("bin", "Scripts") or running_loop() is not None:
        return False
    return os.path.exists(os.path.join(os.path.dirname(folder), "pyvenv.cfg"))


def _current_folder(fallback: str) -> str:
    try:
        return os.getcwd()
    except OSError:  # It was removed.
        return fallback


def _relative_path(path: str, folder: str) -> str:
    """The way from a folder to a file, both absolute; `os.path.relpath` may ask for the current folder."""
    if os.path.splitdrive(path)[0] != os.path.splitdrive(folder)[0]:
        return path
    parts, folder_parts = (list(filter(None, text.split(os.sep))) for text in (path, folder))
    common = 0
    while common < min(len(parts), len(folder_parts)) and parts[common] == folder_parts[common]:
        common += 1
    return os.sep.join([os.pardir] * (len(folder_parts) - common) + parts[common:])


def _foreign_folders() -> tuple[str, ...]:
    """The standard library and the scripts of this Python, and TraceForge; each also by its real path."""
    paths = sysconfig.get_paths()
    candidates = [paths.get(key) for key in ("stdlib", "platstdlib", "scripts", "purelib", "platlib")]
    candidates += [os.path.dirname(os.__file__), os.path.dirname(sys.executable or ""), _PACKAGE]
    folders = {os.path.abspath(folder) for folder in candidates if folder}
    return tuple(sorted(folders | {os.path.realpath(folder) for folder in folders}))

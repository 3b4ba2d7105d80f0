"""Waits until files change: what `--watch` is made of.

In: files and folders. Out: a turn at the start, and one after each change. Never: more than a look at names, sizes
and times, twice a second; a change that leaves all of them as they were is missed.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator

LOOK_AFTER_S = 0.5
SETTLED_AFTER_S = 0.2  # Editors write a file in several steps.

_State = dict[str, tuple[int, int]]


def watch_files(
    list_paths: Callable[[], Iterable[str]], sleep: Callable[[float], None] = time.sleep
) -> Iterator[None]:
    """A turn at once, then one after each change of a file, at any depth of a folder; for ever."""
    while True:
        before = _look(list_paths())
        yield
        while (now := _look(list_paths())) == before:
            sleep(LOOK_AFTER_S)
        while True:
            sleep(SETTLED_AFTER_S)
            settled = _look(list_paths())
            if settled == now:
                break
            now = settled


def _look(paths: Iterable[str]) -> _State:
    state: _State = {}
    for path in paths:
        _add(state, path)
        for folder, _, names in os.walk(path):
            for name in names:
                _add(state, os.path.join(folder, name))
    return state


def _add(state: _State, path: str) -> None:
    """Note a file; an index changes because it is read."""
    try:
        status = os.lstat(path)
    except OSError:
        return
    if stat.S_ISREG(status.st_mode) and ".sqlite" not in os.path.basename(path):
        state[path] = (status.st_mtime_ns, status.st_size)

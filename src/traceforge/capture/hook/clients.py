"""Every client that is hooked, and how long.

In: watches that start and stop. Out: clients hooked from the first to the last of them. Never: imports a client; each
hook receives its module as an argument, because httpx and httpx2 are two, and an application may have both.
"""

from __future__ import annotations

import threading

from . import client_aiohttp, client_httpx, client_requests, hub
from .patches import Hook, Importing, Patches

HOOKS: dict[str, Hook] = {
    "aiohttp": client_aiohttp.hook,
    "httpx": client_httpx.hook,
    "httpx2": client_httpx.hook,
    "requests": client_requests.hook,
}

_importing = Importing(HOOKS, Patches())
_lock = threading.RLock()


def start(watch: hub.Watch) -> None:
    """Begin to tell a watcher; the clients are hooked if they are not."""
    with _lock:
        hub.enter(watch)
        _importing.start()


def stop(watch: hub.Watch) -> None:
    """Tell it no more; the clients are as before if it was the last."""
    with _lock:
        if hub.leave(watch):
            _importing.stop()

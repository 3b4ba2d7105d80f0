"""Every client that is hooked, and how long.

In: watches that start and stop. Out: clients hooked from the first to the last of them. Never: imports a client; each
hook receives its module as an argument, because httpx and httpx2 are two, and an application may have both.
"""

from __future__ import annotations

import threading

from . import client_aiohttp, client_httpx, client_requests, hub, unseen
from .patches import Hook, Importing, Patches

HOOKS: dict[str, Hook] = {
    "aiohttp": client_aiohttp.hook,
    "httpx": client_httpx.hook,
    "httpx2": client_httpx.hook,
    "requests": client_requests.hook,
    "grpc": unseen.hook_grpc,
    "uvloop": unseen.hook_uvloop,
    "websockets.asyncio.client": unseen.hook_websockets,
    "websockets.legacy.client": unseen.hook_websockets,
    "websockets.sync.client": unseen.hook_websockets,
}

_importing = Importing(HOOKS, Patches(), hub.plays)
_lock = threading.RLock()


def start(watch: hub.Watch, more: dict[str, Hook] | None = None) -> Importing:
    """Begin to tell a watcher; the clients are hooked if they are not, and so is what else is named.

    Raises:
        ImportError: it plays, and a client that is there cannot be hooked.
    """
    with _lock:
        HOOKS.update(more or {})
        hub.enter(watch)
        try:
            _importing.start()
        except ImportError:
            stop(watch)
            raise
        return _importing


def stop(watch: hub.Watch) -> None:
    """Tell it no more; the clients are as before if it was the last."""
    with _lock:
        if hub.leave(watch):
            _importing.stop()

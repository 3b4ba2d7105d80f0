"""Every client that is hooked, and how long.

In: watches that start and stop. Out: clients hooked from the first to the last of them. Never: imports a client; each
hook receives its module as an argument, because httpx and httpx2 are two, and an application may have both.
"""

from __future__ import annotations

import threading
from importlib import import_module
from typing import Any

from . import dispatch
from .patches import Hook, Importing, Patches


def _later(module: str, name: str = "hook") -> Hook:
    """The hook of a client, imported when the client is: most programs have one or two of them."""

    def hook(client: Any, patches: Patches) -> None:
        getattr(import_module(f".{module}", __package__), name)(client, patches)

    return hook


HOOKS: dict[str, Hook] = {
    "aiohttp": _later("client_aiohttp"),
    "httpx": _later("client_httpx"),
    "httpx2": _later("client_httpx"),
    "requests": _later("client_requests"),
    "grpc": _later("unwatched_transports", "hook_grpc"),
    "uvloop": _later("unwatched_transports", "hook_uvloop"),
    "websockets.asyncio.client": _later("unwatched_transports", "hook_websockets"),
    "websockets.legacy.client": _later("unwatched_transports", "hook_websockets"),
    "websockets.sync.client": _later("unwatched_transports", "hook_websockets"),
}

_importing = Importing(HOOKS, Patches(), dispatch.plays)
_lock = threading.RLock()


def start(watch: dispatch.Watch, more: dict[str, Hook] | None = None) -> Importing:
    """Begin to tell a watcher; the clients are hooked if they are not, and so is what else is named.

    Raises:
        ImportError: it plays, and a client that is there cannot be hooked.
    """
    with _lock:
        HOOKS.update(more or {})
        dispatch.enter(watch)
        try:
            _importing.start()
        except ImportError:
            stop(watch)
            raise
        return _importing


def stop(watch: dispatch.Watch) -> None:
    """Tell it no more; the clients are as before if it was the last."""
    with _lock:
        if dispatch.leave(watch):
            _importing.stop()

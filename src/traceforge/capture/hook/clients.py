"""The HTTP clients that are hooked, from the first subscription to the last.

In: subscriptions that start and stop. Out: hooked clients. Never: imports a client; each hook receives its module as
an argument, because httpx and httpx2 are two, and an application may have both.
"""

from __future__ import annotations

import threading
from importlib import import_module
from typing import Any

from . import dispatch
from .open_cassettes import open_cassettes
from .patches import Hook, ImportHook, Patches


def _deferred(module: str, name: str = "hook") -> Hook:
    """The hook of a client, imported when the client is: most programs have one or two of them."""

    def hook(client: Any, patches: Patches) -> None:
        getattr(import_module(f".{module}", __package__), name)(client, patches)

    return hook


HOOKS: dict[str, Hook] = {
    "aiohttp": _deferred("client_aiohttp"),
    "aiobotocore.credentials": _deferred("client_botocore", "hook_async_credentials"),
    "aioresponses.core": _deferred("client_mocks", "hook_aioresponses"),
    "betamax.cassette.cassette": _deferred("client_recorders", "hook_betamax"),
    "botocore.credentials": _deferred("client_botocore", "hook_credentials"),
    "botocore.session": _deferred("client_botocore", "hook_session"),
    "botocore.stub": _deferred("client_mocks", "hook_stubber"),
    "cassetter.cassette": _deferred("client_recorders", "hook_cassetter"),
    "dspy.clients.cache": _deferred("answer_caches", "hook_dspy"),
    "httpx": _deferred("client_httpx"),
    "httpx2": _deferred("client_httpx"),
    "mcp.client.sse": _deferred("client_mcp", "hook_sse"),
    "mcp.client.stdio": _deferred("client_mcp", "hook_stdio"),
    "mcp.client.streamable_http": _deferred("client_mcp", "hook_streamable_http"),
    "moto.core.botocore_stubber": _deferred("client_mocks", "hook_moto"),
    "pytest_httpx._httpx_mock": _deferred("client_mocks", "hook_pytest_httpx"),
    "requests": _deferred("client_requests"),
    "requests_mock.adapter": _deferred("client_mocks", "hook_requests_mock"),
    "responses": _deferred("client_mocks", "hook_responses"),
    "traceforge.tools.watched_function": _deferred("tool_functions", "hook_tools"),
    "urllib3": _deferred("client_urllib3"),
    "vcr.cassette": _deferred("client_vcrpy"),
    "grpc": _deferred("client_grpc"),
    "pycurl": _deferred("client_pycurl"),
    "autobahn.websocket.protocol": _deferred("other_websockets", "hook_autobahn"),
    "picows": _deferred("other_websockets", "hook_picows"),
    "tornado.websocket": _deferred("other_websockets", "hook_tornado"),
    "uvloop": _deferred("client_uvloop"),
    "websocket": _deferred("other_websockets", "hook_websocket_client"),
    "websockets.asyncio.client": _deferred("client_websockets", "hook_asyncio"),
    "websockets.legacy.client": _deferred("client_websockets", "hook_legacy"),
    "websockets.sync.client": _deferred("client_websockets", "hook_sync"),
    "wsproto": _deferred("other_websockets", "hook_wsproto"),
}

_import_hook = ImportHook(HOOKS, Patches(), dispatch.is_replaying)
_lock = threading.RLock()


def start(subscription: dispatch.Subscription, more_hooks: dict[str, Hook] | None = None) -> ImportHook:
    """Begin to report calls to a watcher; hooks the clients, and the modules of `more_hooks`, if they are not.

    Raises:
        ImportError: the watcher replays, and a client that is loaded cannot be hooked.
    """
    with _lock:
        HOOKS.update(more_hooks or {})
        dispatch.subscribe(subscription)
        try:
            _import_hook.start()
        except ImportError:
            stop(subscription)
            raise
        return _import_hook


def stop(subscription: dispatch.Subscription) -> None:
    """Report no more calls to a watcher; after the last one, the clients are as before."""
    with _lock:
        if dispatch.unsubscribe(subscription):
            _import_hook.stop()
            open_cassettes.clear()

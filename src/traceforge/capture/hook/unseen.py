"""What carries model calls and is not watched: noted, so that nobody takes silence for absence.

In: modules of gRPC and of websockets. Out: a note to the watcher. Never: looks into what they carry.
"""

from __future__ import annotations

from typing import Any

from . import hub
from .patches import Patches


def hook_grpc(module: Any, patches: Patches) -> None:
    """Calls through gRPC cannot be seen; that it is there at all is what can be said."""
    hub.note("gRPC, which is loaded")


def hook_websockets(module: Any, patches: Patches) -> None:
    """A socket to a provider: the Responses API and the realtime APIs have such a mode."""
    if isinstance(module.connect, type):
        patches.wrap(module.connect, "__init__", _make_method)
    else:
        patches.wrap(module, "connect", _make_function)


def _make_method(init: Any) -> Any:
    def watched(self: Any, uri: Any, *args: Any, **options: Any) -> None:
        hub.note_socket(str(uri))
        init(self, uri, *args, **options)

    return watched


def _make_function(connect: Any) -> Any:
    def watched(uri: Any, *args: Any, **options: Any) -> Any:
        hub.note_socket(str(uri))
        return connect(uri, *args, **options)

    return watched

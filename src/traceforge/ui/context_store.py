"""The context store that the pages read: that of the project, or one on a server.

In: the project, and the address of a server, if the user named one. Out: a client, opened when a page first needs it.
Never: creates a database; imports the packages of the extra `context` before a page needs them.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from traceforge.config import LoadedConfig

if TYPE_CHECKING:
    from traceforge.context import Client


class ContextStore:
    """One client for all pages; it may be used from many threads."""

    def __init__(self, loaded: LoadedConfig, server: str = "", opened: Client | None = None) -> None:
        """`opened` is a client to use instead; its owner closes it."""
        self._opened = opened
        self._loaded = loaded
        self._server = server
        self._lock = threading.Lock()
        self._client: Client | None = None
        self._file_id: tuple[int, int] | None = None
        self._replaced: list[Client] = []  # Of files that were replaced by others; a page may still read one.

    def find_client(self) -> Client | None:
        """The client; None if the project has no context store yet.

        Raises:
            MissingExtra: the packages of the extra `context` are not installed.
            StoreUnavailable: the database or the server cannot be used.
        """
        if self._opened is not None:
            return self._opened
        with self._lock:
            return self._find_client()

    def close(self) -> None:
        with self._lock:
            clients = [*self._replaced, *([self._client] if self._client else [])]
            self._client, self._replaced = None, []
        for client in clients:
            client.close()

    def _find_client(self) -> Client | None:
        from traceforge.ui import context_client  # The packages of the extra `context`, which few pages need.

        location = context_client.find_store(self._loaded, self._server)
        if location.file_id is None:
            return None
        if self._client is not None and location.file_id != self._file_id:
            self._replaced.append(self._client)
            self._client = None
        if self._client is None:
            self._client, self._file_id = context_client.open_store(self._loaded, location), location.file_id
        return self._client

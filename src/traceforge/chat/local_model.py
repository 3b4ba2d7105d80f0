"""The bundled model server, in a thread of this process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from traceforge.model_server.http_server import ModelServer


@contextmanager
def serve_local_model() -> Iterator[str]:
    """The base URL of a model server on a free port of loopback, while the block runs."""
    with ModelServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield f"{server.url}/v1"
        finally:
            server.shutdown()
            thread.join()

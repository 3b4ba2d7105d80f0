"""The model server that comes with TraceForge, in a thread of this process.

In: whether it is needed. Out: its address. Never: listens on anything but a free port of loopback, or writes.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def local_model(*, needed: bool) -> Iterator[str]:
    """Its URL for as long as it serves; "" where it is not needed."""
    if not needed:
        yield ""
        return
    from traceforge.model_server.http_server import ModelServer

    with ModelServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield f"{server.url}/v1"
        finally:
            server.shutdown()
            thread.join()

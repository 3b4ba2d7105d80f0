"""Fixtures of the hook's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.websocket_server import WebSocketServer, realtime, websocket_server
from traceforge.capture.hook.guarded_call import faults


@pytest.fixture
def no_faults() -> Iterator[None]:
    """No fault of the hook in a test."""
    before = faults.count
    yield
    assert before == faults.count, faults.first


@pytest.fixture
def server() -> Iterator[WebSocketServer]:
    """A server that speaks like OpenAI's realtime API."""
    with websocket_server(realtime) as running:
        yield running

"""A proxy in front of a scripted upstream, on each of the loops it can run on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.raw_sockets import LOOPS, Proxy, Upstream, proxy_and_upstream
from traceforge.capture.proxy import proxy_server


@pytest.fixture(params=LOOPS)
def pair(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Upstream, Proxy]]:
    """An upstream named `up`, and the proxy; what is due is looked for often."""
    monkeypatch.setattr(proxy_server, "EXPIRY_CHECK_SECONDS", 0.05)
    with proxy_and_upstream(loop=request.param) as pair:
        yield pair

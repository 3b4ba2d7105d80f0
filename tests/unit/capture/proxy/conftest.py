"""A proxy in front of a scripted upstream, on each of the loops it can run on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.sockets import LOOPS, Proxy, Upstream, between


@pytest.fixture(params=LOOPS)
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[Upstream, Proxy]]:
    """An upstream named `up`, and the proxy."""
    with between(loop=request.param) as pair:
        yield pair

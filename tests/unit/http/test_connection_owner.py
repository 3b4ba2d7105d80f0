"""Which user has the other end of a connection."""

from __future__ import annotations

import os
import socket
import sys

import pytest

from traceforge.http.connection_owner import is_own_client

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell")


@pytest.mark.parametrize("host", ["127.0.0.1", "::ffff:127.0.0.1"], ids=["ipv4", "ipv4 over ipv6"])
def test_a_client_of_our_user_is_known_for_as_long_as_it_is_there(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of another user is a stranger, as is one that has closed its socket: the system then says user 0."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection((host, server.getsockname()[1]))
        connection, peer = server.accept()
        with connection:
            address = connection.getsockname()
            own = is_own_client(peer, address)
            other_way = is_own_client(("127.0.0.2", peer[1]), address)
            user = os.geteuid()
            monkeypatch.setattr(os, "geteuid", lambda: user + 1)
            of_another = is_own_client(peer, address)
            monkeypatch.setattr(os, "geteuid", lambda: 0)
            client.close()
            closed = is_own_client(peer, address)

    assert (True, False, False, False) == (own, other_way, of_another, closed)
    assert not is_own_client(None, address)

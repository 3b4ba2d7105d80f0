"""Many connections from many addresses: whose connection makes room when all of them are taken."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import NamedTuple

import pytest
from starlette.responses import Response

from support.connection_flood import FLOOD_MAX, attacker_address, flood_of
from support.operation_store import Store
from support.raw_sockets import Peer, Proxy, Upstream, response
from support.store_servers import new_api_key, run_server
from support.three_servers import (
    ALL_KINDS,
    HEALTH,
    KINDS,
    SECONDS_MAX,
    AttackedServer,
    attacked_server,
    is_answered,
    status_of,
)
from traceforge.chat.chat_server import ChatServer
from traceforge.http import server_limits
from traceforge.http.plain_response import PlainResponse
from traceforge.http.server_limits import (
    FAIR_SHARES,
    PROXY_LIMITS,
    STORE_LIMITS,
    UI_LIMITS,
    ClientConnections,
    RequestPhase,
    peer_address,
)
from traceforge.web.store_application import StoreApplication
from traceforge.web.store_service import AuthorizedCaller

OpenServer = Callable[..., AttackedServer]
PLACES = 48  # Three of them are a fair share.
FLOOD = 120
KEY_PLACES = 8
# As many as the smallest of KINDS has. Of a few, all would change hands before a client on a busy machine comes
# to send its head.
REAL_PLACES = 512


@pytest.fixture(params=KINDS)
def open_server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenServer]:
    """Start one of the three servers with these limits."""
    with ExitStack() as stack:
        yield lambda **limits: stack.enter_context(attacked_server(request.param, tmp_path, **limits))


def test_half_open_heads_from_many_addresses_close_no_request(open_server: OpenServer) -> None:
    """An honest client with two requests has more connections than any address of the attacker."""
    server = open_server(connections=PLACES)
    half = server.post_head + b"Content-Length: 2\r\n\r\n{"
    honest = [server.send(half) for _ in range(2)]
    wait_for(lambda: server.count_connections() == 2)
    for number in range(FLOOD):
        server.send(HEALTH[:-3], attacker_address(number))
    wait_for(lambda: server.count_connections() == PLACES)
    for peer in honest:
        peer.send(b"}")
    if server.kind == "proxy":
        server.finish_slow()
        server.finish_slow()

    assert all(status_of(peer.response()) for peer in honest)


def hold_health_checks(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """Let the context server and the chat answer /healthz only when they may: one is asked, and they may."""
    is_asked, may_answer = threading.Event(), threading.Event()
    serve_store, serve_chat = StoreApplication._healthz, ChatServer._serve

    async def wait() -> None:
        is_asked.set()
        while not may_answer.is_set():
            await asyncio.sleep(0.01)

    async def held_store(self: StoreApplication, caller: AuthorizedCaller | None) -> Response:
        await wait()
        return await serve_store(self, caller)

    async def held_chat(self: ChatServer, path: str, body: bytes) -> PlainResponse:
        await wait()
        return await serve_chat(self, path, body)

    monkeypatch.setattr(StoreApplication, "_healthz", held_store)
    monkeypatch.setattr(ChatServer, "_serve", held_chat)
    return is_asked, may_answer


@pytest.mark.parametrize("open_server", ["serve", "chat"], indirect=True)  # The proxy answers it at once.
def test_a_request_that_is_answered_goes_after_slow_requests(
    open_server: OpenServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While clients that send slow bodies have more than half of the connections, a newcomer gets its answer."""
    is_asked, may_answer = hold_health_checks(monkeypatch)
    server = open_server(connections=PLACES)
    half = server.post_head + b"Content-Length: 2\r\n\r\n{"
    for number in range(PLACES * 3 // 4):
        server.send(half, attacker_address(number))
    wait_for(lambda: server.count_connections() == PLACES * 3 // 4)
    honest = server.send(HEALTH)
    assert is_asked.wait(SECONDS_MAX)
    for number in range(PLACES // 2):
        server.connect(attacker_address(number))
    wait_for(lambda: server.count_connections() == PLACES)
    may_answer.set()

    assert is_answered(honest)


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until something is so."""
    end = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


class KeyedServer(NamedTuple):
    """A server that requires a key, and the header that has it."""

    server: AttackedServer
    key_header: bytes


@pytest.fixture
def key_places() -> int:
    """How many connections the server with keys has."""
    return KEY_PLACES


@pytest.fixture(params=["serve", "proxy"])
def keyed_server(request: pytest.FixtureRequest, tmp_path: Path, key_places: int) -> Iterator[KeyedServer]:
    """The context server with API keys, or the proxy with a token."""
    with ExitStack() as stack:
        if request.param == "serve":
            store = stack.enter_context(closing(Store.open(str(tmp_path / "context.db"))))
            limits = STORE_LIMITS._replace(connections=key_places)
            running = stack.enter_context(run_server(store, required=True, limits=limits))
            port, count = int(running.url.rpartition(":")[2]), running.site.connections.__len__
            header = f"Authorization: Bearer {new_api_key(store, 'write')}\r\n".encode()
            post = b"POST /v2/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        else:
            upstream = stack.enter_context(closing(Upstream()))
            limits = PROXY_LIMITS._replace(connections=key_places)
            proxy = Proxy({"up": upstream.url}, token="secret", sink=False, limits=limits)
            stack.callback(proxy.stop)
            port, count, header = proxy.port, lambda: len(proxy.state.connections), b"X-TraceForge-Token: secret\r\n"
            post = b"POST /up/v1/x HTTP/1.1\r\nHost: localhost\r\n"

        def finish() -> None:
            if request.param == "proxy":
                model = upstream.accept()
                model.request()
                model.send(response())

        server = AttackedServer(request.param, port, post, b"", finish, count)
        yield KeyedServer(stack.enter_context(closing(server)), header)


def test_a_client_with_a_key_is_not_closed_for_clients_without_one(keyed_server: KeyedServer) -> None:
    """Although it has most of the connections, and the others send complete requests."""
    server, key_header = keyed_server
    honest = [post_half(server, key_header) for _ in range(6)]
    for number in range(3 * KEY_PLACES):
        flood = server.send(HEALTH, attacker_address(number))
        assert is_answered(flood)
        flood.send(HEALTH[:-3])
    assert server.count_connections() == KEY_PLACES
    for peer in honest:
        peer.send(b"}")
        server.finish_slow()

    assert all(status_of(peer.response()) in (200, 201) for peer in honest)


def post_half(server: AttackedServer, key_header: bytes) -> Peer:
    """Send a head with the key and half of its body, and wait until the server has asked for the body."""
    peer = server.send(server.post_head + key_header + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n")
    if server.kind == "serve":  # The proxy checks the token before it reads on.
        assert peer.read_head().startswith(b"HTTP/1.1 100 ")
    peer.send(b"{")
    return peer


def get_request(keyed_server: KeyedServer) -> bytes:
    """A request with the key that the server answers by itself."""
    server, key_header = keyed_server
    path = b"/v2/sessions" if server.kind == "serve" else b"/metrics"
    return b"GET %b HTTP/1.1\r\nHost: localhost\r\n%b\r\n" % (path, key_header)


def test_an_idle_client_with_a_key_is_not_closed_for_slow_requests_without_one(keyed_server: KeyedServer) -> None:
    """Also if it has not made a call yet: the proxy answers `/metrics` by itself."""
    server = keyed_server.server
    idle = server.send(get_request(keyed_server))
    statuses = [status_of(idle.response())]
    for number in range(3 * KEY_PLACES):
        server.send(FLOODS["slow bodies"], attacker_address(number))
    wait_for(lambda: server.count_connections() == KEY_PLACES)
    idle.send(get_request(keyed_server))

    assert [200, 200] == [*statuses, status_of(idle.response())]


class Connection:
    """A connection that waits for its client."""

    def __init__(
        self,
        peer: str,
        active_at: float = 0.0,
        phase: RequestPhase = RequestPhase.FIRST_HEAD,
        *,
        has_key: bool = False,
        waits_for_us: bool = False,
    ) -> None:
        self.peer, self.active_at, self.phase, self.is_authenticated = peer, active_at, phase, has_key
        self.deadline = 0.0 if waits_for_us else 100.0
        self.is_closed = False

    def make_room(self) -> None:
        self.is_closed = True


def find_closed(*connections: Connection, newcomer: Connection | None = None) -> list[int]:
    """Fill a server with these connections, and admit one more; the indexes of those that were closed."""
    places: ClientConnections[Connection] = ClientConnections(STORE_LIMITS._replace(connections=len(connections)))
    for connection in connections:
        assert places.admit(connection)
    assert places.admit(newcomer or Connection("10.9.9.9", 1000.0))
    assert len(connections) == len(places)
    return [index for index, connection in enumerate(connections) if connection.is_closed]


def test_the_address_with_the_most_connections_makes_room() -> None:
    """So that one machine cannot push out the clients of another; the one that did nothing for the longest first."""
    attackers = [Connection("10.0.0.2", active_at) for active_at in (5.0, 3.0, 4.0)]

    assert [2] == find_closed(Connection("10.0.0.1", 1.0), *attackers)


def test_an_address_with_its_fair_share_has_no_more_than_others() -> None:
    """Two connections of one client are not "the most" among many addresses with one each."""
    many = [Connection(f"10.0.1.{number}", number) for number in range(62)]

    assert [0] == find_closed(*many, Connection("10.0.0.1", 70.0), Connection("10.0.0.1", 71.0))


def test_who_has_a_key_goes_last() -> None:
    """Even in the place of one in the middle of a request without a key; among themselves, an idle one goes first."""
    phases = RequestPhase.IN_REQUEST, RequestPhase.IDLE
    keyed = [Connection("10.0.0.1", 1.0, phase, has_key=True) for phase in phases]

    assert [2] == find_closed(*keyed, Connection("10.0.0.2", 9.0, RequestPhase.IN_REQUEST))
    assert [1] == find_closed(*keyed, Connection("10.0.0.3", waits_for_us=True))


def test_a_first_head_goes_before_an_idle_connection_and_that_before_a_request() -> None:
    """However long the client of the request has done nothing."""
    phases = [RequestPhase.IN_REQUEST, RequestPhase.IDLE, RequestPhase.FIRST_HEAD]
    connections = [Connection(f"10.0.0.{index}", index, phase) for index, phase in enumerate(phases)]
    more = [Connection(f"10.0.1.{index}", 50.0) for index in range(3)]

    assert [2] == find_closed(*connections, *more)
    busy = [Connection(f"10.0.1.{index}", waits_for_us=True) for index in range(3)]
    assert [1] == find_closed(*connections[:2], *busy)
    assert [0] == find_closed(connections[0], *busy)


def test_slow_requests_take_no_more_than_half_of_the_places_from_newcomers() -> None:
    """Otherwise newcomers would close each other before their heads are read."""
    slow = [Connection(f"10.0.0.{index}", index, RequestPhase.IN_REQUEST) for index in range(6)]
    newcomers = [Connection(f"10.0.1.{index}", 50.0 + index) for index in range(2)]

    assert [0] == find_closed(*slow, *newcomers)


class CountedConnection(Connection):
    """Counts how often a server looks at its connections."""

    looks = 0

    @property
    def deadline(self) -> float:
        CountedConnection.looks += 1
        return self._deadline

    @deadline.setter
    def deadline(self, deadline: float) -> None:
        self._deadline = deadline


@pytest.mark.parametrize("addresses", [1, 2, 500])
def test_a_newcomer_costs_a_full_server_a_look_at_few_connections(addresses: int) -> None:
    """Otherwise whoever connects as fast as they can takes the time of all others."""
    places: ClientConnections[Connection] = ClientConnections(PROXY_LIMITS)
    for number in range(PROXY_LIMITS.connections + 1):
        places.admit(CountedConnection(f"10.0.{number % addresses}.1", number))
    CountedConnection.looks, newcomers = 0, 1000
    for number in range(newcomers):
        assert places.admit(CountedConnection(f"10.0.{number % addresses}.1", 5000.0 + number))

    assert PROXY_LIMITS.connections == len(places)
    assert CountedConnection.looks < newcomers * 2 * FAIR_SHARES


def test_who_does_something_after_the_choice_stays() -> None:
    """The server chooses several at once, and looks again before it closes each."""
    places: ClientConnections[Connection] = ClientConnections(STORE_LIMITS._replace(connections=64))
    connections = [Connection("10.0.0.1", number) for number in range(64)]
    for connection in connections:
        places.admit(connection)
    places.admit(Connection("10.0.0.2", 100.0))
    connections[1].active_at = 101.0
    connections[2].deadline = 0.0  # It waits for us.
    connections[3].is_authenticated = True
    for _ in range(3):
        places.admit(Connection("10.0.0.2", 102.0))

    assert [0, 4, 5, 6] == [index for index, connection in enumerate(connections) if connection.is_closed]


def test_a_choice_is_not_kept_for_later() -> None:
    """An address that has no more than others by then loses nothing for what it had."""
    places: ClientConnections[Connection] = ClientConnections(STORE_LIMITS._replace(connections=64))
    crowd = [Connection("10.0.0.1", number) for number in range(64)]
    for connection in (*crowd, Connection("10.0.0.2", 100.0)):
        places.admit(connection)
    for connection in crowd[3:]:
        places.discard(connection)
    for number in range(61):
        places.admit(Connection(f"10.0.1.{number}", number / 100))
    places.admit(Connection("10.0.0.2", 100.0))

    assert [True, False, False] == [connection.is_closed for connection in crowd[:3]]


FLOODS = {
    "connections": b"",
    "half heads": HEALTH[:-3],
    "slow bodies": HEALTH.replace(b"GET", b"POST").replace(b"\r\n\r\n", b"\r\nContent-Length: 9\r\n\r\n{"),
    "clients that never read": HEALTH * 500,
}


@pytest.mark.slow
@pytest.mark.parametrize("open_server", ALL_KINDS, indirect=True)
@pytest.mark.parametrize("kind", FLOODS)
def test_a_client_is_served_while_others_connect_as_fast_as_they_can(
    open_server: OpenServer, kind: str, request: pytest.FixtureRequest
) -> None:
    """Its requests are answered long before the flood would end."""
    is_ui = request.node.callspec.params["open_server"] == "ui"  # It has fewer than the others.
    server = open_server(connections=UI_LIMITS.connections if is_ui else REAL_PLACES)
    with flood_of(FLOODS[kind], server.port) as count:
        wait_for(lambda: count() > REAL_PLACES)
        answered = [server.is_healthy() for _ in range(5)]
        opened = count()

    assert [True] * 5 == answered
    assert opened < FLOOD_MAX - REAL_PLACES


@pytest.mark.slow
@pytest.mark.parametrize("kind", FLOODS)
def test_a_browser_that_is_signed_in_is_served_in_a_flood(tmp_path: Path, kind: str) -> None:
    """The pages of `ui`, over new connections, and over one that it keeps."""
    with attacked_server("ui", tmp_path, connections=UI_LIMITS.connections) as server:
        cookie = next(line for line in server.post_head.split(b"\r\n") if line.startswith(b"Cookie: "))
        page = b"GET /evidence HTTP/1.1\r\nHost: localhost\r\n%b\r\n\r\n" % cookie
        kept = server.send(page)
        statuses = [status_of(kept.response())]
        with flood_of(FLOODS[kind], server.port) as count:
            wait_for(lambda: count() > REAL_PLACES)
            for _ in range(5):
                kept.send(page)
                statuses += [status_of(peer.response()) for peer in (kept, server.send(page))]

    assert [200] * 11 == statuses


@pytest.mark.slow
@pytest.mark.parametrize("kind", FLOODS)
@pytest.mark.parametrize("key_places", [REAL_PLACES])
def test_a_client_with_a_key_is_served_in_a_flood(keyed_server: KeyedServer, kind: str) -> None:
    """Over new connections, and over one that it keeps."""
    server = keyed_server.server
    request = get_request(keyed_server)
    kept = server.send(request)
    statuses = [status_of(kept.response())]
    with flood_of(FLOODS[kind], server.port) as count:
        wait_for(lambda: count() > REAL_PLACES)
        for _ in range(5):
            kept.send(request)
            statuses += [status_of(peer.response()) for peer in (kept, server.send(request))]
        opened = count()

    assert [200] * 11 == statuses
    assert opened < FLOOD_MAX - REAL_PLACES


def test_an_ipv6_network_of_64_bits_counts_as_one_address() -> None:
    """Its owner has all of its addresses; an IPv4 address that is written as IPv6 is itself."""
    assert peer_address(("2001:db8:1:2::1", 1, 0, 0)) == peer_address(("2001:db8:1:2:ffff:1:2:3", 9, 0, 0))
    assert peer_address(("2001:db8:1:2::1", 1, 0, 0)) != peer_address(("2001:db8:1:3::1", 1, 0, 0))
    assert "10.0.0.1" == peer_address(("::ffff:10.0.0.1", 1, 0, 0)) == peer_address(("10.0.0.1", 1))
    assert peer_address(("fe80::1%eth0", 1, 0, 2)) == peer_address(("fe80::2", 1, 0, 2))


def test_connections_stay_below_the_limit_on_open_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the server could not accept the one that makes an idle one go."""
    monkeypatch.setattr(server_limits, "_count_affordable_connections", lambda: 1)
    connections: ClientConnections[Connection] = ClientConnections(STORE_LIMITS)
    first = Connection("10.0.0.1", 1.0)

    assert connections.admit(first)
    assert connections.admit(Connection("10.0.0.1", 2.0))
    assert (True, 1) == (first.is_closed, len(connections))


def test_a_call_does_not_ask_the_system_for_its_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit on open files is read when a client connects: thousands of calls a second come over a connection."""
    asked: list[str] = []

    def count_connections() -> int:
        asked.append("getrlimit")
        return 100

    monkeypatch.setattr(server_limits, "_count_affordable_connections", count_connections)
    connections: ClientConnections[Connection] = ClientConnections(STORE_LIMITS)
    client = Connection("10.0.0.1", 1.0)
    connections.admit(client)
    asked.clear()
    connections.check_call(client)

    assert [] == asked

"""gRPC, pycurl and other WebSockets: which of their calls are refused, noted, or left alone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import httpx
import pytest

from traceforge.capture.hook import (
    client_grpc,
    client_httpx,
    client_pycurl,
    dispatch,
    other_websockets,
    tripwire,
)
from traceforge.capture.hook.guarded_call import faults
from traceforge.capture.hook.patches import Patches
from traceforge.capture.hook.watcher import Watcher

MODEL = "/xai_api.Chat/GetCompletion"
OTHER = "/google.pubsub.v1.Publisher/Publish"
AWAY, HERE = "api.example.com:443", "localhost:8085"


class ListingWatcher(Watcher):
    """Lists what was refused, and what could not be watched."""

    def __init__(self, replays: bool) -> None:
        self.replays = self.is_strict = replays
        self.refused: list[str] = []
        self.unseen: list[str] = []

    def begin_call(self, *_: Any) -> Any:
        return object()

    def count_refusal(self, reason: str, is_deviation: bool = False, scope: str = "") -> None:
        self.refused.append(reason)

    def note_unseen(self, description: str) -> None:
        self.unseen.append(description)


class FakeCaller:
    """What a channel makes for a method."""

    def __init__(self, method: str) -> None:
        self.method = method

    def __call__(self, request: bytes) -> bytes:
        return request

    def future(self, request: bytes) -> list[bytes]:
        return [request]


class FakeChannel:
    """A channel of gRPC."""

    def __init__(self, target: str) -> None:
        self.target = target

    def unary_unary(self, method: str) -> FakeCaller:
        return FakeCaller(method)

    unary_stream = stream_unary = stream_stream = unary_unary


class FakeCurl:
    """A handle of pycurl."""

    runs = 0

    def setopt(self, option: int, value: object) -> None:
        pass

    unsetopt = getinfo = reset = lambda *_: None
    setopt_string = setopt

    def duphandle(self) -> FakeCurl:
        return type(self)()

    def perform(self) -> None:
        FakeCurl.runs += 1

    perform_rb = perform_rs = perform


class FakeMulti:
    """Several handles."""

    def add_handle(self, handle: FakeCurl) -> None:
        handle.perform()

    def remove_handle(self, handle: FakeCurl) -> None:
        pass


def make_module(**members: Any) -> Any:
    module = ModuleType("client")
    vars(module).update(members)
    return module


def fake_pycurl() -> Any:
    FakeCurl.runs = 0
    numbers = {
        "URL": 1,
        "UNIX_SOCKET_PATH": 2,
        "EFFECTIVE_URL": 3,
        "E_COULDNT_CONNECT": 7,
        "CONNECT_TO": 8,
        "PROXY": 9,
    }
    return make_module(Curl=FakeCurl, CurlMulti=FakeMulti, error=OSError, **numbers)


@pytest.fixture
def patches() -> Iterator[Patches]:
    """Patches that are undone."""
    patches = Patches()
    yield patches
    patches.undo()


@pytest.fixture(params=[False, True], ids=["recording", "in a test"])
def watcher(request: pytest.FixtureRequest) -> Iterator[ListingWatcher]:
    """A watcher of this process; in a test, there is a tripwire."""
    watcher = ListingWatcher(request.param)
    subscription = dispatch.Subscription(watcher, process_wide=True)
    dispatch.subscribe(subscription)
    wire = tripwire.Tripwire("*||", "", "")
    if request.param:
        tripwire.activate(wire)
    yield watcher
    tripwire.deactivate(wire)
    dispatch.unsubscribe(subscription)


@pytest.mark.parametrize("make", ["insecure_channel", "secure_channel"])
@pytest.mark.parametrize("kind", ["unary_unary", "unary_stream", "stream_unary", "stream_stream"])
@pytest.mark.parametrize(
    ("target", "method", "is_noted", "is_refused"),
    [(AWAY, MODEL, True, True), (HERE, MODEL, True, True), (AWAY, OTHER, False, True), (HERE, OTHER, False, False)],
)
def test_a_call_of_grpc_names_its_method(
    watcher: ListingWatcher, patches: Patches, make: str, kind: str, target: str, method: str, is_noted: bool,
    is_refused: bool,
) -> None:  # fmt: skip
    """To a model: refused in a test, else noted. To another service: refused in a test, if it is far away."""
    aio = make_module(insecure_channel=FakeChannel, secure_channel=FakeChannel)
    module = make_module(insecure_channel=FakeChannel, secure_channel=FakeChannel, aio=aio)
    client_grpc.hook(module, patches)

    for owner in (module, aio):
        caller = getattr(getattr(owner, make)(target), kind)(method)
        for call in (caller, caller.future):
            if watcher.replays and is_refused:
                with pytest.raises(ConnectionRefusedError, match=method):
                    call(b"x")
            else:
                assert call(b"x") in (b"x", [b"x"])
        assert isinstance(caller, FakeCaller)

    sentence = f"a call of gRPC to {target}, {method}"
    refusals = [f"{sentence}, is not recorded, and cannot be replayed"] * (4 if watcher.replays and is_refused else 0)
    assert refusals == watcher.refused
    notes = 4 if is_noted and not watcher.replays else 0
    assert ["gRPC, which is loaded"] + [sentence] * notes == watcher.unseen


class ClosedChannel(FakeChannel):
    """A channel whose class cannot be told from outside: it takes no attribute."""

    def __setattr__(self, name: str, value: object) -> None:
        if name != "target":
            raise AttributeError(name)
        super().__setattr__(name, value)


def test_a_channel_that_cannot_be_checked_is_refused_in_a_test_alone(
    watcher: ListingWatcher, patches: Patches
) -> None:
    """The application does not notice that the hook failed; a test is not green by it."""
    module = make_module(insecure_channel=ClosedChannel, secure_channel=ClosedChannel)
    client_grpc.hook(module, patches)
    before = faults.count

    if watcher.replays:
        with pytest.raises(ConnectionRefusedError, match="could not be checked"):
            module.insecure_channel(AWAY)
    else:
        assert b"x" == module.insecure_channel(AWAY).unary_unary(MODEL)(b"x")
    assert before + 1 == faults.count


def test_without_the_hook_channels_are_as_before(watcher: ListingWatcher, patches: Patches) -> None:
    module = make_module(insecure_channel=FakeChannel, secure_channel=FakeChannel)
    client_grpc.hook(module, patches)
    module.insecure_channel(HERE).unary_unary(OTHER)
    patches.undo()

    assert FakeChannel is module.insecure_channel
    assert FakeCaller is type(FakeChannel(AWAY).unary_unary(MODEL))


@pytest.mark.parametrize(
    ("target", "parts"),
    [
        ("api.x.ai", ("api.x.ai", "")),
        ("api.x.ai:443", ("api.x.ai", "443")),
        ("dns:///api.x.ai:443", ("api.x.ai", "443")),
        ("dns://8.8.8.8/api.x.ai:443", ("api.x.ai", "443")),
        ("dns:localhost:50051", ("localhost", "50051")),
        ("ipv4:127.0.0.1:50051,10.0.0.1:1", ("127.0.0.1", "50051")),
        ("ipv6:[::1]:50051", ("::1", "50051")),
        ("[::1]:50051", ("::1", "50051")),
        ("::1", ("::1", "")),
        ("unix:///tmp/socket", ("", "")),
        ("unix-abstract:name", ("", "")),
    ],
)
def test_an_address_of_grpc_is_divided(target: str, parts: tuple[str, str]) -> None:
    assert parts == client_grpc.split_target(target)


@pytest.mark.parametrize(
    ("url", "is_noted", "is_refused"),
    [
        ("https://api.openai.com/v1/models", True, True),
        ("http://127.0.0.1:8080/v1/chat/completions", True, True),
        ("https://other.example/page", False, True),
        ("other.example/page", False, True),
        ("http://127.0.0.1:8080/page", False, False),
        ("file:///tmp/a", False, False),
    ],
)
def test_a_call_of_pycurl_names_its_address(
    watcher: ListingWatcher, patches: Patches, url: str, is_noted: bool, is_refused: bool
) -> None:
    """Alone, as a copy, and among several."""
    pycurl = fake_pycurl()
    client_pycurl.hook(pycurl, patches)
    handle = pycurl.Curl()
    handle.setopt(pycurl.URL, url)

    copy = handle.duphandle()
    for run in (handle.perform, handle.perform_rb, copy.perform_rs, lambda: pycurl.CurlMulti().add_handle(handle)):
        if watcher.replays and is_refused:
            with pytest.raises(OSError, match="cannot be replayed"):
                run()
        else:
            run()

    assert isinstance(handle, FakeCurl)
    assert (is_refused and watcher.replays) == (FakeCurl.runs == 0) == bool(watcher.refused)
    assert (is_noted and not watcher.replays) == (len(watcher.unseen) > 1)
    patches.undo()
    assert FakeCurl is pycurl.Curl


LOCAL = "http://127.0.0.1:8080/page"


def test_an_address_of_pycurl_counts_however_it_is_set(watcher: ListingWatcher, patches: Patches) -> None:
    """As a text after another one; in a handle that was checked already; behind a proxy, or another host's name."""
    pycurl = fake_pycurl()
    client_pycurl.hook(pycurl, patches)
    textual, several, led, proxied = (pycurl.Curl() for _ in range(4))
    for handle in (textual, several, led, proxied):
        handle.setopt(pycurl.URL, LOCAL)
    multi = pycurl.CurlMulti()
    multi.add_handle(several)
    textual.setopt_string(pycurl.URL, "https://other.example/page")
    led.setopt(pycurl.CONNECT_TO, ["127.0.0.1:8080:other.example:443"])
    proxied.setopt(pycurl.PROXY, "http://other.example:3128")

    def change() -> None:
        several.setopt(pycurl.URL, "https://other.example/page")

    for run in (textual.perform, change, led.perform, proxied.perform):
        if watcher.replays:
            with pytest.raises(OSError, match="cannot be replayed"):
                run()
        else:
            run()
    multi.remove_handle(several)
    several.setopt(pycurl.URL, LOCAL)

    assert (4 if watcher.replays else 0) == len(watcher.refused)


def test_a_handle_for_a_unix_socket_stays_on_this_machine(watcher: ListingWatcher, patches: Patches) -> None:
    """As a client of Docker uses one; the host in its address is not asked."""
    pycurl = fake_pycurl()
    client_pycurl.hook(pycurl, patches)
    handle = pycurl.Curl()
    handle.setopt(pycurl.URL, "http://docker/info")
    handle.setopt(pycurl.UNIX_SOCKET_PATH, "/run/docker.sock")

    handle.perform()

    assert (1, []) == (FakeCurl.runs, watcher.refused)
    handle.reset()
    handle.setopt(pycurl.URL, "http://docker/info")
    if watcher.replays:
        with pytest.raises(OSError, match="docker"):
            handle.perform()


class FakeWebSocket:
    """A connection of any library; of wsproto, the first event is the handshake."""

    opened = 0

    def __init__(self, request: Any = None) -> None:
        self.factory = request
        self.client, self.connection = True, None
        if request is not None:
            self.connect()

    def connect(self, *_: object, **__: object) -> None:
        FakeWebSocket.opened += 1

    def send(self, event: object) -> None:
        if self.connection is None:
            self.connect()
        self.connection = self  # type: ignore[assignment]


def open_websocket_client(url: str, patches: Patches) -> None:
    module = make_module(WebSocket=FakeWebSocket)
    other_websockets.hook_websocket_client(module, patches)
    module.WebSocket().connect(url, timeout=3)


def open_tornado(url: str, patches: Patches) -> None:
    module = make_module(WebSocketClientConnection=FakeWebSocket)
    other_websockets.hook_tornado(module, patches)
    module.WebSocketClientConnection(SimpleNamespace(url=url))


def open_picows(url: str, patches: Patches) -> None:
    module = make_module(ws_connect=FakeWebSocket().connect)
    other_websockets.hook_picows(module, patches)
    module.ws_connect(object, url=url)


def open_autobahn(url: str, patches: Patches) -> None:
    protocol = type("Protocol", (), {"factory": SimpleNamespace(url=url), "startHandshake": FakeWebSocket.connect})
    other_websockets.hook_autobahn(make_module(WebSocketClientProtocol=protocol), patches)
    protocol().startHandshake()


def open_wsproto(url: str, patches: Patches) -> None:
    module = make_module(WSConnection=FakeWebSocket)
    other_websockets.hook_wsproto(module, patches)
    connection, (host, slash, path) = module.WSConnection(), url.partition("://")[2].partition("/")
    connection.send(SimpleNamespace(host=host, target=slash + path))
    connection.send(object())  # What follows is no handshake.


UPGRADE = {"Upgrade": "WebSocket", "Connection": "Upgrade"}


def open_httpx(url: str, patches: Patches) -> None:
    client_httpx.hook(httpx, patches)
    with httpx.Client() as client:
        client.get(url.replace("ws", "http", 1), headers=UPGRADE)


def open_httpx_async(url: str, patches: Patches) -> None:
    async def get() -> None:
        async with httpx.AsyncClient() as client:
            await client.get(url.replace("ws", "http", 1), headers=UPGRADE)

    client_httpx.hook(httpx, patches)
    asyncio.run(get())


OPENERS = [
    open_websocket_client, open_tornado, open_picows, open_autobahn, open_wsproto, open_httpx, open_httpx_async,
]  # fmt: skip


@pytest.mark.parametrize("open_websocket", OPENERS)
@pytest.mark.parametrize(
    ("url", "is_noted", "is_refused"),
    [
        ("wss://api.openai.com/v1/realtime?model=x", True, True),
        ("ws://127.0.0.1:8080/v1/realtime", True, True),
        (
            "ws://127.0.0.1:8080/ws/google.ai.GenerativeService.BidiGenerateContent",
            True,
            True,
        ),
        ("wss://chat.example:444/feed", False, True),
        ("ws://127.0.0.1:8080/feed", False, False),
    ],
)
def test_a_websocket_of_another_library_names_its_address(
    watcher: ListingWatcher, patches: Patches, monkeypatch: pytest.MonkeyPatch, open_websocket: Any, url: str,
    is_noted: bool, is_refused: bool,
) -> None:  # fmt: skip
    """To a model: refused in a test, else noted. To another server: refused in a test, if it is far away."""

    async def answer_async(*_: object) -> httpx.Response:
        FakeWebSocket.opened += 1
        return httpx.Response(101)

    monkeypatch.setattr(httpx.HTTPTransport, "handle_request", lambda *_: asyncio.run(answer_async()))
    monkeypatch.setattr(httpx.AsyncHTTPTransport, "handle_async_request", answer_async)
    FakeWebSocket.opened = 0

    if watcher.replays and is_refused:
        with pytest.raises(
            (ConnectionRefusedError, httpx.ConnectError), match="is not recorded, and cannot be replayed"
        ):
            open_websocket(url, patches)
    else:
        open_websocket(url, patches)

    host = url.split("/")[2]
    assert (0 if watcher.replays and is_refused else 1) == FakeWebSocket.opened
    assert [host] * (watcher.replays and is_refused) == [
        reason.partition(" is not recorded")[0].rpartition(" ")[2] for reason in watcher.refused
    ]
    assert [host] * (is_noted and not watcher.replays) == [note.rpartition(" ")[2] for note in watcher.unseen]
    assert all(text.startswith("a WebSocket of ") for text in [*watcher.refused, *watcher.unseen])

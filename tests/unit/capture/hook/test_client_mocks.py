"""The hooks for recorders and mocks: which of their answers are reported."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from traceforge.capture.hook import client_mocks, client_recorders, dispatch
from traceforge.capture.hook.patches import Patches
from traceforge.capture.hook.watcher import Watcher

URL = "https://api.openai.com/v1/chat/completions"


class ListingWatcher(Watcher):
    """Lists the libraries that answered, and what could not be watched."""

    def __init__(self) -> None:
        self.libraries: list[str] = []
        self.unseen: list[str] = []

    def count_library_answer(self, library: str) -> None:
        self.libraries.append(library)

    def note_unseen(self, description: str) -> None:
        self.unseen.append(description)


@pytest.fixture
def watcher() -> Any:
    """A watcher of this process."""
    watcher = ListingWatcher()
    subscription = dispatch.Subscription(watcher, process_wide=True)
    dispatch.subscribe(subscription)
    yield watcher
    dispatch.unsubscribe(subscription)


@pytest.fixture
def patches() -> Any:
    """Patches that are undone."""
    patches = Patches()
    yield patches
    patches.undo()


def test_the_answers_of_a_mock_transport_are_reported(watcher: ListingWatcher, patches: Patches) -> None:
    """To a model; not to another host, and not where the mock raises."""

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.host == "refused.example":
            raise httpx.ConnectError("refused")
        return httpx.Response(200, request=request)

    client_mocks.hook_mock_transport(httpx, patches)
    with httpx.Client(transport=httpx.MockTransport(answer)) as client:
        client.post(URL)
        client.post("https://example.com/")
        with pytest.raises(httpx.ConnectError):
            client.post("https://refused.example/v1/chat/completions")

    assert ["MockTransport"] == watcher.libraries


def test_a_transport_around_a_mock_may_pass_the_request_by_its_name(
    watcher: ListingWatcher, patches: Patches
) -> None:
    """As a transport of the suite does that logs each call; also in a coroutine."""
    mock = httpx.MockTransport(lambda request: httpx.Response(200, request=request))
    client_mocks.hook_mock_transport(httpx, patches)

    statuses = [
        mock.handle_request(request=httpx.Request("POST", URL)).status_code,
        asyncio.run(mock.handle_async_request(request=httpx.Request("POST", URL))).status_code,
    ]

    assert ([200, 200], ["MockTransport"] * 2) == (statuses, watcher.libraries)


def test_a_mock_that_cannot_be_hooked_is_noted(watcher: ListingWatcher, patches: Patches) -> None:
    """Another version of it may have other names; it works as ever."""
    client_mocks.hook_responses(SimpleNamespace(RequestsMock=object), patches)

    assert ["calls answered by this version of responses"] == watcher.unseen


def test_a_request_that_passes_a_mock_is_not_its_answer(watcher: ListingWatcher, patches: Patches) -> None:
    """`responses` finds a mock that lets the call through, or none."""

    class RequestsMock:
        def __init__(self, match: Any) -> None:
            self.match = match

        def _find_match(self, request: Any) -> tuple[Any, list[str]]:
            return self.match, []

    client_mocks.hook_responses(SimpleNamespace(RequestsMock=RequestsMock), patches)
    request = SimpleNamespace(method="POST", url=URL)
    for match in (None, SimpleNamespace(passthrough=True), SimpleNamespace(passthrough=False)):
        RequestsMock(match)._find_match(request)

    assert ["responses"] == watcher.libraries


def test_an_old_version_of_responses_still_works(watcher: ListingWatcher, patches: Patches) -> None:
    """Before 0.11, it returned the mock alone, and no mock let a call through."""

    class RequestsMock:
        def _find_match(self, request: Any) -> Any:
            return SimpleNamespace() if request.method == "POST" else None

    client_mocks.hook_responses(SimpleNamespace(RequestsMock=RequestsMock), patches)
    found = [RequestsMock()._find_match(SimpleNamespace(method=method, url=URL)) for method in ("POST", "GET")]

    assert [True, False] == [match is not None for match in found]
    assert ["responses"] == watcher.libraries


class CassetterCassette:
    """The parts of a cassette of cassetter that are hooked."""

    def __init__(self, *, verifies: bool = False) -> None:
        self.verifies = verifies

    def should_bypass(self, uri: str) -> bool:
        return False

    def match(self, method: str, uri: str) -> tuple[int, str]:
        return 0, "answer"

    def play_ws(self, uri: str) -> str:
        return "messages"


def test_what_cassetter_answers_is_reported_by_what_was_sent(watcher: ListingWatcher, patches: Patches) -> None:
    """Also where a filter of the suite takes the address out; not where the call is sent to be verified."""
    client_recorders.hook_cassetter(SimpleNamespace(Cassette=CassetterCassette), patches)
    for uri in (URL, "https://example.com/"):
        cassette = CassetterCassette()
        cassette.should_bypass(uri)
        cassette.match("POST", "https://scrubbed.test/")
    CassetterCassette(verifies=True).match("POST", URL)
    for uri in ("wss://api.openai.com/v1/realtime", "wss://example.com/chat"):
        CassetterCassette().play_ws(uri)

    assert ["cassetter", "cassetter"] == watcher.libraries


def test_the_answers_of_mocks_of_botocore_are_reported(watcher: ListingWatcher, patches: Patches) -> None:
    """moto and its own stubs, for a model; not for another service, nor where moto lets a call pass."""

    class Stubber:
        def _get_response_handler(self, model: object, params: object, context: object) -> str:
            return "stubbed"

    class BotocoreStubber:
        def __call__(self, event_name: str, request: Any) -> object:
            return None if "passed" in request.url else "mocked"

    model, bucket = "https://bedrock-runtime.us-east-1.amazonaws.com/model/m/converse", "https://s3.amazonaws.com/b"
    client_mocks.hook_stubber(SimpleNamespace(Stubber=Stubber), patches)
    client_mocks.hook_moto(SimpleNamespace(BotocoreStubber=BotocoreStubber), patches)
    for url in (model, bucket):
        Stubber()._get_response_handler(model=None, params={"method": "POST", "url": url}, context=None)
        BotocoreStubber()("before-send", SimpleNamespace(method="POST", url=url))
    BotocoreStubber()("before-send", SimpleNamespace(method="POST", url=model.replace("/m/", "/passed/")))

    assert ["botocore.stub", "moto"] == watcher.libraries

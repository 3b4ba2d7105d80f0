"""The web view over HTTP: signing in, what is refused, what every response has, and the list of traces."""

from __future__ import annotations

import re
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from support.stored_traces import TRACES, call, store_calls, time_ago, trace_id
from support.trace_project import make_trace_project
from support.ui_servers import TOKEN, RunningUi, run_ui
from traceforge.traces.trace_follower import TraceChanges
from traceforge.traces.trace_index import TraceIndex
from traceforge.traces.trace_store import TraceStore
from traceforge.ui.event_hub import CLIENTS_MAX
from traceforge.ui.page_context import PageRoute
from traceforge.ui.ui_access import SECURITY_HEADERS
from traceforge.ui.ui_server import AREAS


@pytest.fixture
def project(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    return make_trace_project(tmp_path)


@pytest.fixture
def ui(project: Path) -> Iterator[RunningUi]:
    with run_ui(project) as running:
        yield running


def listed(page: str) -> list[int]:
    """The numbers of the traces in a list, in order."""
    return [int(text, 16) for text in re.findall(r'<tr data-item data-id="([0-9a-f]{8})-', page)]


PAGES = [page.path for area in AREAS for page in area.pages if isinstance(page, PageRoute)]


def fill(path: str) -> str:
    """A path with an id in each place."""
    return re.sub(r"\{[^}]+\}", trace_id(1), path)


def test_the_address_with_the_token_gives_a_cookie_and_an_address_without_it(project: Path) -> None:
    """The query stays, the token goes; without it, there is no page of the project."""
    with run_ui(project, signed_in=False) as ui:
        refused = ui.http.get("/traces")
        wrong = ui.http.get("/traces?token=wrong")
        signed_in = ui.http.get(f"/traces?q=hello&token={TOKEN}")
        page = ui.http.get("/traces")

    assert [401, 401, 303, 200] == [answer.status_code for answer in (refused, wrong, signed_in, page)]
    assert "/traces?q=hello" == signed_in.headers["location"]
    assert TOKEN not in signed_in.headers["set-cookie"] + page.text
    assert not re.search(r"form-token|set-cookie", refused.text + str(refused.headers))
    assert project.name not in refused.text


@pytest.mark.parametrize("path", [*map(fill, PAGES), "/events", "/no-such-page"])
def test_no_page_is_shown_without_the_cookie(project: Path, path: str) -> None:
    with run_ui(project, signed_in=False) as ui:
        assert 401 == ui.http.get(path).status_code


@pytest.mark.parametrize("path", [*map(fill, PAGES), "/no-such-page", "/traces/ffffffff", "/healthz"])
def test_every_response_has_the_headers_of_safety(ui: RunningUi, path: str) -> None:
    """Those of errors too; no page is cached."""
    headers = ui.http.get(path).headers

    assert SECURITY_HEADERS.items() <= {name: headers.get(name) for name in SECURITY_HEADERS}.items()
    assert "no-store" == headers["cache-control"]


@pytest.mark.parametrize("path", list(map(fill, PAGES)))
def test_a_page_has_no_inline_script_or_style_and_names_no_other_host(ui: RunningUi, path: str) -> None:
    """The policy would forbid it, and the browser would say so in its console."""
    page = ui.http.get(path, follow_redirects=True).text

    assert not re.search(r"<script(?! type=\"module\" src=\"/static/)|<style|\sstyle=|\son\w+=", page)
    assert [] == re.findall(r'(?:src|href|action)="(?!/|#)[^"]*', page)


def test_a_host_or_origin_of_others_is_refused(ui: RunningUi) -> None:
    """The page about it says nothing of the project."""
    host = ui.http.get("/traces", headers={"Host": "evil.example"})
    origin = ui.http.get("/traces", headers={"Origin": "http://evil.example"})
    image = ui.http.get("/traces", headers={"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"})

    assert [421, 403, 403] == [answer.status_code for answer in (host, origin, image)]
    assert "form-token" not in host.text + origin.text + image.text


def test_a_target_with_an_authority_of_others_is_refused(ui: RunningUi) -> None:
    """Uvicorn drops it, and the Host beside it may be right."""
    with httpx.Client(proxy=ui.origin, trust_env=False) as client:
        assert 421 == client.get("http://evil.example/traces").status_code


def test_static_files_are_kept_for_ever_under_the_digest_of_their_content(ui: RunningUi) -> None:
    (style,) = re.findall(r'href="(/static/[0-9a-f]{12}/ui.css)"', ui.page("/traces"))
    found = ui.http.get(style)
    other = ui.http.get("/static/000000000000/ui.css")
    outside = ui.http.get(style.replace("ui.css", "..%2F__init__.py"))

    assert (200, "text/css; charset=utf-8") == (found.status_code, found.headers["content-type"])
    assert "immutable" in found.headers["cache-control"]
    assert [404, 404] == [other.status_code, outside.status_code]


def test_an_unknown_page_and_an_unknown_trace_say_so(ui: RunningUi) -> None:
    """With our code and the command that explains it; a method that is not allowed too."""
    missing = ui.page("/traces/ffffffff", status=404)

    assert "TF203" in missing
    assert "There is no trace ffffffff." in missing
    assert "There is no page at this address." in ui.page("/nothing", status=404)
    assert 405 == ui.http.post("/traces").status_code


def test_the_list_filters_as_the_command_does(ui: RunningUi) -> None:
    """Newest first; fields as parameters or in the text; words are searched for."""
    assert [6, 5, 4, 3, 2, 1] == listed(ui.page("/traces"))
    assert [5] == listed(ui.page("/traces?status=error"))
    assert [4] == listed(ui.page("/traces?q=provider:anthropic"))
    assert [6, 5] == listed(ui.page("/traces?session=quiz-7"))
    assert [4] == listed(ui.page("/traces?model=claude-*"))
    assert [3] == listed(ui.page("/traces?q=story"))
    assert [] == listed(ui.page("/traces?q=story+status:error"))
    assert [] == listed(ui.page("/traces?since=1h"))
    assert "Last 1 hour" in ui.page("/traces?since=1h")
    assert "is not a time" in ui.page("/traces?since=soon", status=400)


def test_a_search_shows_the_words_around_its_match(ui: RunningUi) -> None:
    assert "<mark>story</mark>" in ui.page("/traces?q=story")


def test_older_traces_are_on_the_next_page(project: Path) -> None:
    """Each trace is on one page, and the link to the next one keeps the filter."""
    store_calls(project, *(call(number, at=time_ago(minutes=200 - number)) for number in range(10, 120)))
    with run_ui(project) as ui:
        numbers, path = [], "/traces?provider=openai"
        for _ in range(3):
            page = ui.page(path)
            numbers += listed(page)
            path = next(iter(re.findall(r'rel="next"[^>]*href="([^"]+)"', page)), "").replace("&amp;", "&")

    assert "" == path
    assert [*range(119, 9, -1), 6, 5, 3, 2, 1] == numbers


def test_a_project_without_traces_says_what_to_do(tmp_path: Path) -> None:
    with run_ui(tmp_path) as ui:
        assert "traceforge run -- " in ui.page("/traces")


def test_a_text_that_hides_or_reorders_others_is_shown_as_what_it_is(project: Path) -> None:
    """And markup of a model's name is text."""
    store_calls(project, call(20, model="<b>\u202egpt\u200b</b>", at=time_ago(minutes=1)))
    with run_ui(project) as ui:
        page = ui.page("/traces")

    assert "&lt;b&gt;\\u202egpt\\u200b&lt;/b&gt;" in page
    assert not set("\u202e\u200b") & set(page)


def test_new_calls_are_announced_until_the_client_leaves(
    project: Path, ui: RunningUi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event names its kind and holds nothing of the call; then nobody looks for changes any more."""
    hub = ui.server.application.context.events
    find, has_looked = TraceChanges.find, threading.Event()

    def find_and_tell(changes: TraceChanges, store: TraceStore) -> bool:
        is_changed = find(changes, store)
        has_looked.set()
        return is_changed

    monkeypatch.setattr(TraceChanges, "find", find_and_tell)
    with ui.http.stream("GET", "/events") as response:
        lines = response.iter_lines()
        assert "text/event-stream; charset=utf-8" == response.headers["content-type"]
        assert "retry: 2000" == next(lines)
        assert has_looked.wait(20)  # What is new is what comes after the first look.
        store_calls(project, call(30, "a secret prompt", at=time_ago(seconds=1)))
        received = [line for line in (next(lines) for _ in range(3)) if line]
        assert 1 == hub.client_count

    assert ["event: traces", "data: "] == received
    deadline = time.monotonic() + 20
    while hub.client_count:
        assert time.monotonic() < deadline, "the stream goes on without its client"
        time.sleep(0.02)


def test_calls_are_made_searchable_while_a_page_is_open(project: Path, ui: RunningUi) -> None:
    """Whoever searches first need not wait until the words of every trace are read."""
    ui.page("/traces")
    index = TraceIndex(str(project / TRACES))
    assert index.rows_without_text(1)

    with ui.http.stream("GET", "/events"):
        deadline = time.monotonic() + 20
        while index.rows_without_text(1):
            assert time.monotonic() < deadline, "nothing reads the words"
            time.sleep(0.02)
    index.close()


def test_no_more_pages_listen_than_there_may(ui: RunningUi, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one is told to come again later."""
    monkeypatch.setattr("traceforge.ui.event_hub.CLIENTS_MAX", 1)
    with ui.http.stream("GET", "/events") as first:
        lines = first.iter_lines()  # httpx closes the connection with its last iterator, so keep it.
        next(lines)
        with ui.http.stream("GET", "/events") as second:  # Its body would never end if it were accepted.
            refused = (second.status_code, second.headers.get("retry-after"))

    assert (503, "5") == refused
    assert CLIENTS_MAX < 64

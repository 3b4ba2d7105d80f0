"""Attacks on `traceforge ui`: who gets in, and what a hostile checkout or model does to its pages and to commands."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from support.command import traceforge
from support.trace_project import make_trace_project
from support.ui_servers import TOKEN, RunningUi, run_ui
from traceforge.capture.http_client import CHUNK_BYTES, HttpClient
from traceforge.exchange import CallOutcome
from traceforge.http import connection_owner
from traceforge.snapshots.live import live_sender
from traceforge.snapshots.live.live_history import REPORTS_FOLDER

FOLDERS = 1200  # More than Python's recursion goes, fewer than a path of the system may have.


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_trace_project(tmp_path)


@pytest.fixture
def stranger(project: Path) -> Iterator[RunningUi]:
    """The web view, for a client that has no cookie."""
    with run_ui(project, signed_in=False) as ui:
        yield ui


def test_the_command_line_of_the_browser_does_not_have_the_token(stranger: RunningUi) -> None:
    """Every user of the machine can read it. What it has signs in once."""
    url = stranger.server.browser_url
    with httpx.Client(trust_env=False) as browser, httpx.Client(trust_env=False) as late:
        opened, again = browser.get(url), late.get(url)
        page = browser.get(stranger.origin)

    assert TOKEN not in url
    assert (303, "/", 200) == (opened.status_code, opened.headers["location"], page.status_code)
    assert (401, []) == (again.status_code, list(late.cookies))


def test_another_user_who_reads_that_command_line_does_not_get_in(
    stranger: RunningUi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if they are faster than the browser, whose code then still works."""
    url = stranger.server.browser_url
    own_user = os.geteuid()
    monkeypatch.setattr(connection_owner.os, "geteuid", lambda: own_user + 1)
    stolen = stranger.http.get(url)
    monkeypatch.undo()

    assert (401, []) == (stolen.status_code, list(stranger.http.cookies))
    assert 303 == stranger.http.get(url).status_code


@pytest.mark.parametrize(
    "other", ['a={"x":1}', "a=b c", "bad", "=x", 'a="without end', "a=[1, 2]", "traceforge_ui_1=x", "a=b=c"]
)
@pytest.mark.parametrize("order", ["before", "after"])
def test_a_cookie_of_another_server_signs_nobody_out(stranger: RunningUi, other: str, order: str) -> None:
    """A browser sends the cookies of all ports of a host, and other programs store JSON in theirs."""
    own = stranger.server.application.access.cookie_header().partition(";")[0]
    cookies = f"{other}; {own}" if order == "before" else f"{own}; {other}"

    assert 200 == stranger.http.get("/traces", headers={"Cookie": cookies}).status_code


def test_a_used_code_is_no_password(stranger: RunningUi) -> None:
    """An empty one neither."""
    stranger.http.get(stranger.server.browser_url)
    stranger.http.cookies.clear()

    assert {401} == {stranger.http.get(f"/?code={code}").status_code for code in ("", "%00", "%ff", "x" * 32)}


def test_who_owns_a_connection_is_known_for_both_kinds_of_addresses(project: Path) -> None:
    with run_ui(project, signed_in=False, host="::1") as ui:
        assert 303 == ui.http.get(ui.server.browser_url).status_code


@pytest.mark.parametrize(
    "path", ["//other.example/", "///other.example/x", "/%2f%2fother.example", "/%5cother.example"]
)
def test_signing_in_leads_to_no_other_host(stranger: RunningUi, path: str) -> None:
    """Two slashes at the start of a location are another host."""
    response = httpx.get(f"{stranger.origin}{path}?token={TOKEN}", trust_env=False)

    location = response.headers["location"]
    assert (303, "/", False) == (response.status_code, location[0], location[1:2] in ("/", "\\")), location


@pytest.fixture(scope="module")
def deep_checkout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A checkout with folders inside of each other, as Git stores them without complaint."""
    root = tmp_path_factory.mktemp("deep")
    before = Path.cwd()
    os.chdir(root)
    for _ in range(FOLDERS):
        os.mkdir("d")
        os.chdir("d")
    Path("cassette.json").write_text("{}")
    os.chdir(before)
    yield root
    subprocess.run(["rm", "-rf", str(root / "d")], check=True)  # `rmtree` recurses, too.


def test_deep_folders_break_no_page(deep_checkout: Path) -> None:
    """Whoever opened the list of evidence got an internal error."""
    with run_ui(deep_checkout) as ui:
        assert "/evidence" in ui.page("/evidence")


@pytest.mark.parametrize(
    "words", [("redact", "check", "."), ("import", "vcr", "."), ("test", "--", "true"), ("verify", ".")]
)
def test_deep_folders_end_no_command_with_an_internal_error(deep_checkout: Path, words: tuple[str, ...]) -> None:
    ran = traceforge(*words, cwd=deep_checkout)

    assert "RecursionError" not in ran.out + ran.err
    assert "TF999" not in ran.out + ran.err


def test_a_link_of_the_checkout_leads_no_page_out_of_it(project: Path, tmp_path: Path) -> None:
    """Not as a file, not as a folder, not as a report of a live check."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.json").write_text('{"report": "of another project"}')
    (project / "linked.json").symlink_to(outside / "secret.json")
    (project / "linked").symlink_to(outside)
    reports = project / REPORTS_FOLDER
    reports.mkdir(parents=True, exist_ok=True)
    (reports / "2026-11-18T12-00-00-000Z-0123abcd.json").symlink_to(outside / "secret.json")
    with run_ui(project) as ui:
        paths = [
            "/evidence/linked.json",
            "/evidence/linked/secret.json",
            f"/evidence/{quote('linked/../linked.json')}",
        ]
        statuses = {ui.http.get(path).status_code for path in paths}
        pages = [ui.page(path) for path in ("/evidence", "/live")]

    assert {404} == statuses
    assert [] == [page for page in pages if "of another project" in page]


def test_an_answer_without_end_fills_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a call that a page or `check-live` sends; it is not tried again."""
    monkeypatch.setattr(live_sender, "RESPONSE_BYTES_MAX", 1 << 20)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=answer_without_end, args=(listener,), daemon=True).start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1/chat/completions"
        exchange, is_final = live_sender.send_once(
            HttpClient("test"), live_sender.OutgoingRequest("openai", url, (), b"{}")
        )

    size = sum(len(chunk.data) for chunk in exchange.chunks)
    assert (CallOutcome.CUT, True) == (exchange.outcome, is_final)
    assert 1 << 20 < size <= (1 << 20) + CHUNK_BYTES
    assert f"more than {1 << 20:,} bytes" in exchange.error


def answer_without_end(listener: socket.socket) -> None:
    """Send a chunked body until the client leaves."""
    client, _ = listener.accept()
    with client, suppress(OSError):
        client.recv(65536)
        client.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            client.sendall(b"10000\r\n" + b" " * 65536 + b"\r\n")

"""HTTP that asks no model is recorded, approved and replayed where a project asks for it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from support.cassettes import write_cassette
from support.command import CommandResult, traceforge

PYTEST = ("--", sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:traceforge", "tests")
APP_TESTS = """
import asyncio
import os

import aiohttp
import httpx
import requests

URL = os.environ["WEB_URL"]


def test_httpx():
    assert httpx.get(f"{URL}/page?q=soup").text == "GET /page?q=soup 1"
    assert httpx.get(f"{URL}/page?q=soup").text == "GET /page?q=soup 2"


def test_requests():
    assert requests.put(f"{URL}/file", data=bytes(range(256)), timeout=9).content.startswith(b"PUT /file")


def test_aiohttp():
    async def fetch():
        async with aiohttp.ClientSession() as session, session.delete(f"{URL}/file") as response:
            return response.status, await response.text()

    assert asyncio.run(fetch())[1].startswith("DELETE /file")
"""


class WebHandler(BaseHTTPRequestHandler):
    """Says what it was asked, and how often."""

    counts: dict[str, int]

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("content-length") or 0))
        line = f"{self.command} {self.path}"
        self.counts[line] = self.counts.get(line, 0) + 1
        body = f"{line} {self.counts[line]}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Set-Cookie", "session=abc")
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_PUT = do_DELETE = _answer  # noqa: N815 (the names of `http.server`)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def counts() -> dict[str, int]:
    """What the web server was asked, and how often."""
    return {}


@pytest.fixture
def web_url(counts: dict[str, int]) -> Iterator[str]:
    """A web server."""
    handler = type("Handler", (WebHandler,), {"counts": counts})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def write_project(folder: Path, tests: str, **config: object) -> None:
    (folder / "tests").mkdir()
    (folder / "tests" / "test_web.py").write_text(tests)
    (folder / "traceforge.config.json").write_text(json.dumps(config))


def approve(folder: Path) -> CommandResult:
    return traceforge("approve", "--all", "--reason", "as it is", cwd=folder)


def test_all_calls_of_a_named_host_are_replayed_as_raw_responses(
    tmp_path: Path, web_url: str, counts: dict[str, int]
) -> None:
    """Any method and body, of three clients, in order; another query is red, and the server is asked once."""
    write_project(tmp_path, APP_TESTS, hosts=[web_url.removeprefix("http://")])

    recorded = traceforge("record", *PYTEST, cwd=tmp_path, WEB_URL=web_url)
    approved = approve(tmp_path)
    asked = dict(counts)
    green = traceforge("test", *PYTEST, cwd=tmp_path, WEB_URL=web_url)
    test_file = tmp_path / "tests" / "test_web.py"
    test_file.write_text(test_file.read_text().replace('q=soup").text == "GET', 'q=stew").text == "GET', 1))
    red = traceforge("test", *PYTEST, cwd=tmp_path, WEB_URL=web_url)

    assert (0, 0) == (recorded.code, approved.code), (recorded, approved)
    assert {"GET /page?q=soup": 2, "PUT /file": 1, "DELETE /file": 1} == asked == counts
    assert (0, True) == (green.code, "4 calls replayed" in green.err), green
    assert "4 snapshots: 4 prompt only" in green.err
    assert (1, True) == (red.code, "stew" in red.err), red
    assert [] == [path for path in tmp_path.glob(".ai-snapshots/wire/*") if "session=abc" in path.read_text()]


PAGE_TESTS = """
import httpx


def test_page():
    assert httpx.get("https://pages.example.com/menu", params={"day": "monday"}).text == "leek soup"
"""


def test_a_project_that_records_all_http_imports_and_replays_it(tmp_path: Path) -> None:
    """Without the setting, the interaction is not imported; the setting is approved like any other."""
    write_project(tmp_path, PAGE_TESTS)
    page = {
        "request": {"method": "GET", "uri": "https://pages.example.com/menu?day=monday", "headers": {}, "body": None},
        "response": {
            "status": {"code": 200, "message": "OK"}, "headers": {"content-type": ["text/plain"]},
            "body": {"string": "leek soup"},
        },
    }  # fmt: skip
    write_cassette(tmp_path, "test_web/test_page.json", page)

    left_out = traceforge("import", "vcr", "tests/cassettes", cwd=tmp_path)
    (tmp_path / "traceforge.config.json").write_text(json.dumps({"record_http": "all"}))
    imported = traceforge("import", "vcr", "tests/cassettes", cwd=tmp_path)
    approved = approve(tmp_path)
    green = traceforge("test", *PYTEST, cwd=tmp_path)
    test_file = tmp_path / "tests" / "test_web.py"
    test_file.write_text(test_file.read_text().replace('"monday"', '"sunday"'))
    red = traceforge("test", *PYTEST, cwd=tmp_path)
    (tmp_path / "traceforge.config.json").write_text("{}")
    changed = traceforge("test", *PYTEST, cwd=tmp_path)

    assert (3, True) == (left_out.code, "0 model calls, 1 interaction not imported" in left_out.out), left_out
    assert (0, True) == (imported.code, "0 model calls, 1 other call\n" in imported.out), imported
    assert (0, True) == (approved.code, "record_http" in approved.out), approved
    assert (0, True) == (green.code, "1 call replayed" in green.err), green
    assert (1, True) == (red.code, "sunday" in red.err), red
    assert (1, True) == (changed.code, "CF2" in changed.err), changed

"""Recorders and mocks beside TraceForge in one suite: what they answer is said, and what a recorder answers is not
green."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from support.command import CommandResult, traceforge
from support.environments import installed_python
from support.exchanges import chat_request

HEADER = f"""
import asyncio
import json
import os

import aiohttp
import httpx
import pytest
import requests

URL = os.environ.get("MODEL_URL", "https://api.openai.com/v1/chat/completions")
BODY = {chat_request("Name a soup.")!r}
ANSWER = {{"choices": [{{"message": {{"role": "assistant", "content": "leek"}}}}]}}


def read(answer):
    return answer.json()["choices"][0]["message"]["content"]


async def ask_aiohttp():
    async with aiohttp.ClientSession() as session, session.post(URL, json=BODY) as answer:
        return (await answer.json())["choices"][0]["message"]["content"]


async def ask_httpx(**options):
    async with httpx.AsyncClient(**options) as client:
        return read(await client.post(URL, json=BODY))
"""
BETAMAX_SUITE = f"""{HEADER}
import betamax


def test_betamax():
    session = requests.Session()
    with betamax.Betamax(session, cassette_library_dir="tests").use_cassette("old", record="none"):
        assert read(session.post(URL, json=BODY, timeout=9)) == "leek"
"""
CASSETTER_SUITE = f"""{HEADER}
import cassetter


def forget_the_host(request):
    request.uri = "https://example.test/"
    return request


def test_cassetter():
    with cassetter.use_cassette("tests/old.yaml", record_mode="none"):
        assert read(httpx.post(URL, json=BODY)) == "leek"
        assert asyncio.run(ask_httpx()) == "leek"
        assert asyncio.run(ask_aiohttp()) == "leek"


def test_cassetter_with_a_filter():
    with cassetter.use_cassette("tests/moved.yaml", record_mode="none", before_record_request=forget_the_host):
        assert read(httpx.post(URL, json=BODY)) == "leek"
"""
MOCK_SUITE = f"""{HEADER}
import aioresponses
import requests_mock
import responses
import respx


@responses.activate
def test_responses():
    responses.post(URL, json=ANSWER)
    assert read(requests.post(URL, json=BODY, timeout=9)) == "leek"


def test_requests_mock():
    with requests_mock.Mocker() as mock:
        mock.post(URL, json=ANSWER)
        assert read(requests.post(URL, json=BODY, timeout=9)) == "leek"


def test_pytest_httpx(httpx_mock):
    httpx_mock.add_response(url=URL, json=ANSWER)
    assert read(httpx.post(URL, json=BODY)) == "leek"


def test_pytest_httpx_async(httpx_mock):
    httpx_mock.add_response(url=URL, json=ANSWER)
    assert asyncio.run(ask_httpx()) == "leek"


def test_aioresponses():
    with aioresponses.aioresponses() as mock:
        mock.post(URL, payload=ANSWER)
        assert asyncio.run(ask_aiohttp()) == "leek"


def test_mock_transport():
    transport = httpx.MockTransport(lambda request: httpx.Response(200, json=ANSWER))
    assert read(httpx.Client(transport=transport).post(URL, json=BODY)) == "leek"
    assert asyncio.run(ask_httpx(transport=transport)) == "leek"


def test_respx_above_httpx():
    with respx.mock(using="httpx") as mock:
        mock.post(URL).respond(json=ANSWER)
        assert read(httpx.post(URL, json=BODY)) == "leek"


def test_a_call_to_no_model():
    transport = httpx.MockTransport(lambda request: httpx.Response(200))
    httpx.Client(transport=transport).get("https://example.com/")
"""
RESPX_SUITE = f"""{HEADER}
import respx


@respx.mock
def test_respx():
    respx.post(URL).respond(json=ANSWER)
    assert read(httpx.post(URL, json=BODY)) == "leek"
"""
PYTEST = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests")
URL = "https://api.openai.com/v1/chat/completions"
ANSWER = json.dumps({"choices": [{"message": {"role": "assistant", "content": "leek"}}]})


def make_project(folder: Path, suite: str) -> Path:
    """A project with one module of tests."""
    (folder / "traceforge.config.json").write_text("{}")
    (folder / "tests").mkdir()
    (folder / "tests" / "test_suite.py").write_text(suite)
    return folder


def write_betamax_cassette(path: Path) -> None:
    """A cassette as betamax writes it."""
    headers = {"Content-Type": ["application/json"]}
    interaction = {
        "request": {"method": "POST", "uri": URL, "headers": {}, "body": {"encoding": "utf-8", "string": ""}},
        "response": {
            "status": {"code": 200, "message": "OK"}, "url": URL, "headers": headers,
            "body": {"encoding": "utf-8", "string": ANSWER},
        },
        "recorded_at": "2026-11-01T10:00:00",
    }  # fmt: skip
    path.write_text(json.dumps({"http_interactions": [interaction], "recorded_with": "betamax/0.9.0"}))


def write_cassetter_cassette(python: Path, path: Path, url: str, times: int) -> None:
    """A cassette that cassetter itself writes, from answers of a mock transport."""
    record = f"""
import cassetter
from cassetter.cassette import Cassette

with cassetter.use_cassette({str(path)!r}, record_mode="all") as cassette:
    for _ in range({times}):
        cassette.record(
            method="POST", uri={url!r}, request_headers={{}}, request_body=b"", status=200,
            response_headers={{"content-type": ["application/json"]}}, response_body={ANSWER.encode()!r},
        )
"""
    subprocess.run([str(python), "-c", record], check=True, timeout=60)


def run_test(project: Path, python: Path) -> CommandResult:
    return traceforge("test", "--", str(python), *PYTEST, cwd=project)


def list_tests(project: Path, *tests: str) -> None:
    (project / "traceforge.config.json").write_text(json.dumps({"test": {"cassette_tests": [*tests]}}))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recorder", "calls", "tests"), [("betamax", "1 call", "1 test"), ("cassetter", "4 calls", "2 tests")]
)
def test_what_a_recorder_answers_is_not_green(tmp_path: Path, recorder: str, calls: str, tests: str) -> None:
    """Counted and named; unchecked until the approved setting lists the tests."""
    python = installed_python("recorders")
    project = make_project(tmp_path, BETAMAX_SUITE if recorder == "betamax" else CASSETTER_SUITE)
    write_betamax_cassette(project / "tests" / "old.json")
    write_cassetter_cassette(python, project / "tests" / "old.yaml", URL, 3)
    write_cassetter_cassette(python, project / "tests" / "moved.yaml", "https://example.test/", 1)
    unchecked = run_test(project, python)
    list_tests(project, f"tests/test_suite.py::test_{recorder}*")
    approved = traceforge("approve", "--policy", "--reason", "they keep their cassettes", cwd=project)
    listed = run_test(project, python)

    assert 3 == unchecked.code, unchecked
    assert f"unchecked: {recorder} answered {calls} of {tests}, which were not compared" in unchecked.err
    assert 0 == approved.code, approved
    assert f"{calls} of {tests} answered by {recorder}, and not compared" in listed.err, listed
    assert f"unchecked: {recorder}" not in listed.err


@pytest.mark.slow
def test_what_a_mock_answers_is_in_the_report(tmp_path: Path) -> None:
    """A person has chosen it, so it makes no run red; calls to other hosts are not counted."""
    python = installed_python("recorders")
    project = make_project(tmp_path, MOCK_SUITE)
    run = traceforge("test", "--json", "--", str(python), *PYTEST, cwd=project)
    report = json.loads(run.err)

    suite = "tests/test_suite.py::"
    assert {
        "MockTransport": {f"{suite}test_mock_transport": 2, f"{suite}test_respx_above_httpx": 1},
        "aioresponses": {f"{suite}test_aioresponses": 1},
        "pytest-httpx": {f"{suite}test_pytest_httpx": 1, f"{suite}test_pytest_httpx_async": 1},
        "requests-mock": {f"{suite}test_requests_mock": 1},
        "responses": {f"{suite}test_responses": 1},
    } == report["answered_by"], run


@pytest.mark.slow
def test_what_respx_mocks_below_httpx_is_gated(tmp_path: Path) -> None:
    """By default, respx would answer after TraceForge has seen the call: it is a new call."""
    project = make_project(tmp_path, RESPX_SUITE)

    run = run_test(project, installed_python("recorders"))

    assert 1 == run.code, run
    assert "answered by" not in run.err

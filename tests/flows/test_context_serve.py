"""`traceforge serve`: its address, its keys, its log and its end."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from support.command import COMMAND, traceforge
from support.operation_store import Store
from support.store_servers import server_process


@pytest.mark.parametrize("arguments", [["--host", "0.0.0.0"], ["--host", "::"], ["--host", "192.0.2.1"]])
def test_a_server_on_a_public_address_needs_api_keys(tmp_path: Path, arguments: list[str]) -> None:
    """No port is bound and no file is created."""
    ran = traceforge("serve", "--port", "0", "--db", "c.db", *arguments, cwd=tmp_path)

    assert 2 == ran.code
    assert "--auth required" in ran.err
    assert [] == list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_server_prints_its_url_and_stops_on_a_signal(tmp_path: Path) -> None:
    """One line on stdout, a log on stderr, exit code 0."""
    import httpx

    with server_process("--db", "c.db", cwd=tmp_path) as server:
        assert {"url", "pid"} == server.ready.keys()
        assert server.process.pid == server.ready["pid"]
        assert 200 == httpx.get(f"{server.url}/readyz").status_code
        projects = httpx.get(f"{server.url}/v2/projects").json()["data"]
        assert ["default"] == [record["name"] for record in projects]
        code, log = server.stop()
    assert 0 == code
    events = [json.loads(line) for line in log.splitlines()]
    assert ["start", "request", "request", "stop"] == [record["event"] for record in events]
    assert ["readyz", "list_projects"] == [record["operation"] for record in events[1:3]]


@pytest.mark.slow
def test_a_full_log_pipe_does_not_block_requests(tmp_path: Path) -> None:
    """The pipe is full after some hundred requests; lost lines are counted."""
    import httpx

    command = [str(COMMAND), "serve", "--port", "0", "--json", "--db", "c.db"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as server:
        assert server.stdout is not None
        assert server.stderr is not None
        url = json.loads(server.stdout.readline())["url"]
        with httpx.Client(base_url=url, timeout=20) as client:
            answers = [client.get("/healthz").status_code for _ in range(600)]
            records = [json.loads(server.stderr.readline()) for _ in range(100)]
            answers.append(client.get("/healthz").status_code)
        server.terminate()
        records += [json.loads(line) for line in server.stderr.read().splitlines()]

    assert [200] * 601 == answers
    events = Counter(record["event"] for record in records)
    lost = sum(record["count"] for record in records if record["event"] == "lines_lost")
    assert lost > 0
    assert (601, 1, 1) == (events["request"] + lost, events["start"], events["stop"])


def test_a_server_does_not_start_without_the_keys_of_its_database(tmp_path: Path) -> None:
    """It could not read the content; no new keyring is created."""
    Store.open(str(tmp_path / "c.db")).close()

    ran = traceforge("serve", "--port", "0", "--db", "c.db", "--keys", "other.keys", cwd=tmp_path)

    assert 3 == ran.code
    assert "other.keys: no key for project" in ran.err
    assert not (tmp_path / "other.keys").exists()

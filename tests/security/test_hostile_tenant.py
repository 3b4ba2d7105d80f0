"""A tenant with a valid key of one project attacks another project on the same server.

Slow model calls, floods, foreign ids, the same idempotency keys, metrics and purges: the other tenant's calls go on,
and nothing of it leaks.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.context_builders import new_artifact, new_session
from support.loopback_models import connect_models, model_server
from support.operation_store import Store
from support.raw_sockets import Peer
from support.store_servers import RunningServer, auth_header, new_api_key, run_server
from support.three_servers import status_of
from traceforge.context.api.error_responses import ErrorResponse
from traceforge.context.api.operations import OPERATIONS
from traceforge.context.model.inputs import NewAlias, NewProject
from traceforge.context.model.objects import Target
from traceforge.ids import new_id
from traceforge.web import store_application
from traceforge.web.project_calls import ProjectCalls

CALLS_MAX = 3  # Of a project, at once.
THREADS = 5  # For model calls, of all projects.


class Tenant:
    """A project of the server, and its client."""

    def __init__(self, store: Store, url: str) -> None:
        self.store = store
        self.url = url
        self.keys = {scope: new_api_key(store, scope) for scope in ("read", "write", "admin")}  # type: ignore[arg-type]

    def request(
        self, method: str, path: str, body: Any = None, *, scope: str = "write", **headers: str
    ) -> httpx.Response:
        """Send a request with the key of a scope."""
        all_headers = {**auth_header(self.keys[scope]), **headers}
        with httpx.Client(base_url=self.url, trust_env=False, verify=False, timeout=60) as client:
            return client.request(method, path, json=body, headers=all_headers)

    def ask(self, alias: str) -> httpx.Response:
        """Call a model as a client of OpenAI does."""
        body = {"model": alias, "messages": [{"role": "user", "content": "Hi"}]}
        return self.request("POST", "/v1/chat/completions", body)


class Site:
    """The server with a victim, an attacker, the operator, and a model that never answers."""

    def __init__(self, server: RunningServer, operator: Store, silent: socket.socket) -> None:
        self.server = server
        self.operator = Tenant(operator, server.url)
        self.victim = Tenant(operator.of_project(operator.create_project(NewProject(name="victim")).id), server.url)
        self.attacker = Tenant(
            operator.of_project(operator.create_project(NewProject(name="attacker")).id), server.url
        )
        self._silent = silent
        for tenant in (self.victim, self.attacker):
            tenant.store.create_alias(NewAlias(name="fast", targets=[Target(provider="openai", model="m")]))
            tenant.store.create_alias(NewAlias(name="slow", targets=[Target(provider="ollama", model="m")]))

    def end_slow_calls(self) -> None:
        """Break off every call of the silent model."""
        self._silent.close()


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A server that requires keys, with few threads for model calls."""
    monkeypatch.setattr(store_application, "MODEL_THREADS", THREADS)
    with ExitStack() as stack:
        silent = stack.enter_context(closing(socket.create_server(("127.0.0.1", 0), backlog=100)))
        url = stack.enter_context(model_server()).url
        store = stack.enter_context(closing(Store.open(str(tmp_path / "context.db"))))
        operator = connect_models(store, url, ollama=f"http://127.0.0.1:{silent.getsockname()[1]}")
        server = stack.enter_context(run_server(operator, required=True, model_calls_max=CALLS_MAX))
        yield Site(server, operator, silent)


def wait_for_calls(site: Site, count: int) -> None:
    """Wait until the attacker has this many calls in flight."""
    calls = site.server.site.calls.model_calls
    for _ in range(3000):
        if calls[site.attacker.store.project_id] == count:
            return
        socket_wait()
    raise AssertionError(calls)


def socket_wait() -> None:
    """Let the other threads go on for a moment."""
    asyncio.run(asyncio.sleep(0.01))


def test_the_slow_calls_of_a_tenant_leave_the_others_their_models(site: Site) -> None:
    """Beyond its limit the attacker gets 429, and when its calls have ended, it is served again."""
    with ThreadPoolExecutor(CALLS_MAX) as pool:
        slow: list[Future[httpx.Response]] = [pool.submit(site.attacker.ask, "slow") for _ in range(CALLS_MAX)]
        try:
            wait_for_calls(site, CALLS_MAX)
            refused = [site.attacker.ask("slow"), site.attacker.ask("fast")]
            streamed = site.attacker.request(
                "POST", "/v2/responses", {"model": "slow", "session_id": "ses_x", "input": "Hi", "stream": True}
            )
            served = [site.victim.ask("fast") for _ in range(3)]
        finally:
            site.end_slow_calls()
        ended = [call.result() for call in slow]

    assert [429] * 3 == [answer.status_code for answer in (*refused, streamed)]
    assert {"rate_limit_error"} == {answer.json()["error"]["type"] for answer in refused}
    assert "1" == refused[0].headers["retry-after"]
    assert [200] * 3 == [answer.status_code for answer in served]
    assert {502} == {answer.status_code for answer in ended}
    wait_for_calls(site, 0)
    assert 200 == site.attacker.ask("fast").status_code


def test_metrics_show_a_tenant_its_own_figures(site: Site) -> None:
    """The operator sees all; a key that may only write sees none."""
    assert 201 == site.victim.request("POST", "/v2/sessions", {}).status_code
    own = site.attacker.request("GET", "/metrics", scope="admin")
    everything = site.operator.request("GET", "/metrics", scope="admin")

    assert "create_session" not in own.text
    assert 'operation="create_session",status="201"} 1' in everything.text
    assert 'operation="create_session",status="201"} 1' in site.victim.request("GET", "/metrics", scope="admin").text
    assert 403 == site.attacker.request("GET", "/metrics").status_code


def test_only_an_admin_key_purges_and_only_its_own_project(site: Site) -> None:
    """A purge of a foreign object is a purge of nothing."""
    foreign = new_artifact(site.victim.store).id
    own = new_artifact(site.attacker.store).id

    assert 403 == site.attacker.request("POST", "/v2/purge-jobs", {"targets": [own]}).status_code
    stolen = site.attacker.request("POST", "/v2/purge-jobs", {"targets": [foreign]}, scope="admin")
    unknown = site.attacker.request("POST", "/v2/purge-jobs", {"targets": [new_id("art")]}, scope="admin")
    assert (404, stolen.json()["error"]["code"]) == (stolen.status_code, unknown.json()["error"]["code"])
    assert 200 == site.victim.request("GET", f"/v2/artifacts/{foreign}/content").status_code
    assert 201 == site.attacker.request("POST", "/v2/purge-jobs", {"targets": [own]}, scope="admin").status_code


def test_every_operation_that_takes_something_away_for_ever_needs_an_admin_key() -> None:
    """And none that only looks needs more than `read`."""
    scopes = {operation.name: operation.scope for operation in OPERATIONS}

    assert {"create_purge_job", "create_project", "list_projects", "create_api_key", "list_api_keys",
            "delete_api_key"} == {name for name, scope in scopes.items() if scope == "admin"}  # fmt: skip
    assert {operation.scope for operation in OPERATIONS if operation.method in ("PATCH", "DELETE")} <= {
        "write",
        "admin",
    }


@pytest.mark.slow
def test_an_idempotency_key_of_another_tenant_returns_nothing_of_it(site: Site) -> None:
    """The same key, path and body in two projects are two requests."""
    first, second = (
        tenant.request("POST", "/v2/sessions", {}, **{"Idempotency-Key": "guessed"})
        for tenant in (site.victim, site.attacker)
    )

    assert [201, 201] == [first.status_code, second.status_code]
    assert first.json()["id"] != second.json()["id"]
    assert 404 == site.attacker.request("GET", f"/v2/sessions/{first.json()['id']}").status_code


@pytest.mark.slow
def test_foreign_ids_and_lists_show_nothing(site: Site) -> None:
    """A foreign id is as unknown as one that does not exist, and no list has it."""
    session = new_session(site.victim.store).id
    foreign = site.attacker.request("GET", f"/v2/sessions/{session}", scope="admin")
    unknown = site.attacker.request("GET", f"/v2/sessions/{new_id('ses')}", scope="admin")

    assert (404, 404) == (foreign.status_code, unknown.status_code)
    assert foreign.json()["error"]["code"] == unknown.json()["error"]["code"]
    for path in ("/v2/sessions", "/v2/artifacts", "/v2/responses", "/v2/api-keys", "/v2/projects", "/v2/purge-jobs"):
        listed = site.attacker.request("GET", path, scope="admin")
        assert (200, False) == (
            listed.status_code,
            session in listed.text or site.victim.store.project_id in listed.text,
        )


def test_no_body_is_read_before_its_key_is_known(site: Site) -> None:
    """A client without a key gets its refusal with the head, so that it takes no memory."""
    port = int(site.server.url.rpartition(":")[2])
    for authorization in (b"", b"Authorization: Bearer tf_live_guess\r\n"):
        with closing(Peer(socket.create_connection(("127.0.0.1", port), 30))) as peer:
            peer.send(
                b"POST /v2/artifacts HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                b"Content-Length: 2000000\r\n%b\r\n" % authorization
            )
            assert 401 == status_of(peer.response())


@pytest.mark.slow
def test_a_flood_of_a_tenant_leaves_the_other_served(site: Site) -> None:
    """Hundreds of requests at once, good and bad, while the victim works; every one of its calls succeeds."""
    with ThreadPoolExecutor(16) as pool:
        flood = [pool.submit(site.attacker.request, "POST", "/v2/artifacts",
                             {"artifact_type": "document", "content": "x" * 10_000}) for _ in range(200)]  # fmt: skip
        flood += [pool.submit(site.attacker.request, "POST", "/v2/artifacts", {"colour": 1}) for _ in range(100)]
        served = [site.victim.request("POST", "/v2/sessions", {}).status_code for _ in range(20)]
        statuses = {call.result().status_code for call in flood}

    assert [201] * 20 == served
    assert {201, 400} == statuses


def test_a_project_never_has_all_threads_of_the_database() -> None:
    """What it asks beyond its share waits, and another project goes first."""

    async def play() -> list[str]:
        calls = ProjectCalls(model_calls_max=1, database_calls_max=1, limited=True)
        order: list[str] = []
        is_over = asyncio.Event()

        async def call(project: str, name: str, *, waits: bool = False) -> None:
            async with calls.database_call(project):
                order.append(name)
                if waits:
                    await is_over.wait()

        tasks = [asyncio.create_task(call("a", "first", waits=True))]
        await asyncio.sleep(0)
        tasks += [asyncio.create_task(call("a", "second")), asyncio.create_task(call("b", "other"))]
        await tasks[-1]
        is_over.set()
        await asyncio.gather(*tasks)
        assert not calls._database_waits
        return order

    assert ["first", "other", "second"] == asyncio.run(play())


def test_without_keys_there_is_one_tenant_and_no_limit_for_it() -> None:
    """A slot that is released twice makes room once."""
    unlimited = ProjectCalls(model_calls_max=1, database_calls_max=1, limited=False)
    slots = [unlimited.begin_model_call("a") for _ in range(3)]
    limited = ProjectCalls(model_calls_max=1, database_calls_max=1, limited=True)
    slot = limited.begin_model_call("a")

    assert 3 == unlimited.model_calls["a"] == len(slots)
    with pytest.raises(ErrorResponse):
        limited.begin_model_call("a")
    slot.release()
    slot.release()
    assert not limited.model_calls
    limited.begin_model_call("a")
    with pytest.raises(ErrorResponse):
        limited.begin_model_call("a")

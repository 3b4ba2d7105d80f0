"""`/v1` with an `Idempotency-Key`: two requests get the same bytes, after one model call."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from support.context_builders import list_all_events, new_session
from support.loopback_models import chat_answer, streamed_response
from support.operation_store import Store
from support.store_servers import RunningServer, run_server
from support.upstream import ScriptedResponse, Upstream
from traceforge.clock import now, pinned
from traceforge.context.comparison.replay_worker import execute_run
from traceforge.context.model.inputs import NewPurge, NewReplayRun
from traceforge.context.model.objects import Progress
from traceforge.context.model_calls import ModelClients
from traceforge.context.responses.openai_shape import read_chat
from traceforge.context.responses.response_generation import RunningResponse
from traceforge.web.openai_api import ENDPOINTS
from traceforge.web.openai_api import begin_call as begin

KEY = {"Idempotency-Key": "k-1"}
CHAT: Any = {"model": "bot", "messages": [{"role": "user", "content": "Count."}]}
PATHS: Any = pytest.mark.parametrize(
    ("path", "body"),
    [("/v1/chat/completions", CHAT), ("/v1/responses", {"model": "bot", "input": "Count."})],
    ids=["chat", "responses"],
)
IDS = ("session", "branch", "snapshot", "release", "response", "trace")
TOOL: Any = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
SCHEMA: Any = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object", "properties": {}}}}


@pytest.fixture(scope="session", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def backend(request: pytest.FixtureRequest) -> str:
    """The server does not know which database it is, so `make test` takes one."""
    return str(request.param)


@pytest.fixture
def site(model_store: Store) -> Iterator[RunningServer]:
    """Its server."""
    with run_server(model_store) as server:
        yield server


def ids_of(answer: httpx.Response) -> list[str]:
    """What the store says of a call."""
    return [answer.headers[f"x-traceforge-{name}"] for name in IDS]


@PATHS
@pytest.mark.parametrize("stream", [False, True])
def test_the_same_key_returns_the_same_bytes_and_calls_the_model_once(
    model_store: Store, site: RunningServer, upstream: Upstream, path: str, body: Any, stream: bool
) -> None:
    """Body, media type and ids. Another body or another session is another call."""
    upstream.respond_with(streamed_response("One", " two") if stream else ScriptedResponse([chat_answer("One two")]))
    body = {**body, "stream": stream}
    first, second = (site.http.post(path, json=body, headers=KEY) for _ in range(2))
    other = site.http.post(path, json={**body, "temperature": 0}, headers=KEY)
    elsewhere = site.http.post(path, json=body, headers={**KEY, "X-TraceForge-Session": new_session(model_store).id})

    assert (200, first.content) == (second.status_code, second.content)
    assert first.headers["content-type"] == second.headers["content-type"]
    assert b"two" in first.content
    assert ids_of(first) == ids_of(second)
    for refused in (other, elsewhere):
        assert (422, "idempotency_key_reused") == (refused.status_code, refused.json()["error"]["code"])
    assert 1 == len(upstream.received)
    assert 1 == len(model_store.list_responses().data)


@PATHS
@pytest.mark.parametrize("stream", [False, True])
def test_a_failed_model_call_is_remembered_for_its_key(
    model_store: Store, site: RunningServer, upstream: Upstream, path: str, body: Any, stream: bool
) -> None:
    """The model was called: to call it again, use another key."""
    upstream.respond_with(ScriptedResponse([b"{}"], status=500), ScriptedResponse([chat_answer("Yes.")]))
    body = {**body, "stream": stream}
    first, second = (site.http.post(path, json=body, headers=KEY) for _ in range(2))

    assert (502, "provider_refused") == (first.status_code, first.json()["error"]["code"])
    assert (502, first.content) == (second.status_code, second.content)
    assert ids_of(first) == ids_of(second)
    assert 1 == len(upstream.received)


@PATHS
def test_a_stream_that_broke_off_breaks_off_at_the_same_place(
    site: RunningServer, upstream: Upstream, path: str, body: Any
) -> None:
    """The stored events are sent again, and so is the error after them."""
    answer = streamed_response("One", " two")
    answer.pieces, answer.reset = answer.pieces[:1], True
    upstream.respond_with(answer)
    first, second = (site.http.post(path, json={**body, "stream": True}, headers=KEY) for _ in range(2))

    assert b"provider_cut" in first.content
    assert (200, first.content) == (second.status_code, second.content)
    assert 1 == len(upstream.received)


def test_the_same_key_is_a_conflict_while_the_call_is_in_flight(site: RunningServer, upstream: Upstream) -> None:
    """The model is not called a second time."""
    permits = threading.Semaphore(0)
    upstream.respond_with(streamed_response("One", " two", permits=permits))
    body = {**CHAT, "stream": True}
    with site.http.stream("POST", "/v1/chat/completions", json=body, headers=KEY) as first:
        assert any("One" in line for line in first.iter_lines())
        response = httpx.post(f"{site.url}/v1/chat/completions", json=body, headers=KEY, trust_env=False)
        permits.release(5)

    assert (409, "idempotency_in_flight") == (response.status_code, response.json()["error"]["code"])
    assert 1 == len(upstream.received)


def test_a_client_that_disconnects_with_a_key_gets_the_answer_on_its_retry(
    model_store: Store, site: RunningServer, upstream: Upstream
) -> None:
    """Without a key, a disconnect cancels the call; with one, the retry needs the answer."""
    permits = threading.Semaphore(0)
    upstream.respond_with(streamed_response("One", " two", permits=permits))
    body = {**CHAT, "stream": True}
    with site.http.stream("POST", "/v1/chat/completions", json=body, headers=KEY) as first:
        assert any("One" in line for line in first.iter_lines())
    permits.release(5)
    for _ in range(200):
        response = model_store.list_responses().data[0]
        if response.status is not Progress.RUNNING:
            break
        threading.Event().wait(0.05)

    second_response = site.http.post("/v1/chat/completions", json=body, headers=KEY)

    assert Progress.COMPLETED is response.status
    assert (200, True) == (
        second_response.status_code,
        b"two" in second_response.content and second_response.content.endswith(b"[DONE]\n\n"),
    )
    assert 1 == len(upstream.received)


def test_the_sdk_sends_no_key_by_itself_and_each_retry_is_a_new_call(
    model_store: Store, site: RunningServer, upstream: Upstream
) -> None:
    """A failed model is called again. With the caller's key, the SDK waits for a conflict and retries."""
    upstream.respond_with(ScriptedResponse([b"{}"], status=500), ScriptedResponse([chat_answer("Yes.")]))
    sent: list[str | None] = []
    transport = httpx.Client(
        trust_env=False,
        event_hooks={"request": [lambda request: sent.append(request.headers.get("idempotency-key"))]},
    )
    with openai.OpenAI(base_url=f"{site.url}/v1", api_key="none", http_client=transport) as client:
        answer = client.chat.completions.create(**CHAT)
        mine = [client.chat.completions.create(**CHAT, extra_headers=KEY).id for _ in range(2)]

    assert "Yes." == answer.choices[0].message.content
    assert [None, None, "k-1", "k-1"] == sent
    assert mine[0] == mine[1]
    assert [Progress.FAILED, Progress.COMPLETED, Progress.COMPLETED] == [
        response.status for response in model_store.list_responses().data
    ]


def test_a_retry_finishes_the_call_of_a_process_that_died(
    model_store: Store, site: RunningServer, upstream: Upstream
) -> None:
    """The session and its messages exist once; the retry returns the response of the first request."""
    chat = (model_store, ENDPOINTS["/chat/completions"], read_chat(CHAT), None, "k-1")
    dead = begin(*chat)
    in_flight = site.http.post("/v1/chat/completions", json=CHAT, headers=KEY)
    with pinned(now() + timedelta(seconds=60)):
        went_on = begin(*chat)
        assert isinstance(went_on, RunningResponse)
        went_on.wait_for_end()
    first = site.http.post("/v1/chat/completions", json=CHAT, headers=KEY)

    assert isinstance(dead, RunningResponse)
    assert dead.id == went_on.id == first.headers["x-traceforge-response"]
    assert (409, 200) == (in_flight.status_code, first.status_code)
    assert "Yes." == first.json()["choices"][0]["message"]["content"]
    (only,) = model_store.list_sessions().data
    assert ["Count.", "Yes."] == [event.content for event in list_all_events(model_store, only)]
    assert 1 == len(upstream.received)


@pytest.mark.counted("purge")
@PATHS
def test_a_purge_during_a_stream_ends_it_with_an_error(
    model_store: Store, site: RunningServer, upstream: Upstream, path: str, body: Any
) -> None:
    """An error in OpenAI's format; a retry with the key is told that the response was purged."""
    upstream.respond_with(streamed_response("One", " two", permits=threading.Semaphore(0)))
    body = {**body, "stream": True}
    with site.http.stream("POST", path, json=body, headers=KEY) as answer:
        lines = answer.iter_lines()
        assert any("One" in line for line in lines)
        running = model_store.list_responses().data[0]
        model_store.create_purge_job(NewPurge(targets=[running.session_id]))
        model_store.models.cancel(running.id)
        streamed = "\n".join(lines)
    response = site.http.post(path, json=body, headers=KEY)

    assert '"code":"purged"' in streamed.replace(" ", "")
    assert "[DONE]" not in streamed
    assert (410, "purged") == (response.status_code, response.json()["error"]["code"])


@pytest.mark.counted("purge")
@pytest.mark.parametrize("stream", [False, True])
def test_a_purge_removes_the_stored_response_of_a_key(
    model_store: Store, site: RunningServer, upstream: Upstream, stream: bool
) -> None:
    """Of `/v1` and of a `/v2` stream."""
    upstream.respond_with(streamed_response("One", " two") if stream else ScriptedResponse([chat_answer("One two")]))
    session = new_session(model_store)
    two = {"model": "bot", "session_id": session.id, "input": "Count.", "stream": stream}
    calls = [("/v2/responses", two), ("/v1/chat/completions", {**CHAT, "stream": stream})]
    first = [site.http.post(path, json=body, headers=KEY) for path, body in calls]
    model_store.create_purge_job(NewPurge(targets=[session.id, first[1].headers["x-traceforge-session"]]))

    repeated = [site.http.post(path, json=body, headers=KEY) for path, body in calls]

    assert [201, 200] == [response.status_code for response in first]
    assert [410, 410] == [response.status_code for response in repeated]


def test_a_refused_request_creates_no_session(model_store: Store, site: RunningServer, upstream: Upstream) -> None:
    """An image in an assistant message cannot be sent to a model: nothing is written."""
    unknown = site.http.post("/v1/chat/completions", json={**CHAT, "model": "nobody"}, headers=KEY)
    bad = site.http.post("/v1/chat/completions", json={**CHAT, "tools": [{}]}, headers=KEY)
    good = site.http.post("/v1/chat/completions", json=CHAT, headers=KEY)

    assert (404, 422, 200) == (unknown.status_code, bad.status_code, good.status_code)
    assert 1 == len(model_store.list_sessions().data)
    assert 1 == len(upstream.received)


def follow(site: RunningServer, first: httpx.Response, **more: Any) -> httpx.Response:
    """The next turn of a session."""
    message = first.json()["choices"][0]["message"]
    messages = [*CHAT["messages"], message, {"role": "user", "content": "And then?"}]
    header = {"X-TraceForge-Session": first.headers["x-traceforge-session"]}
    return site.http.post("/v1/chat/completions", json={**CHAT, "messages": messages, **more}, headers=header)


@pytest.mark.parametrize(
    ("began", "goes_on", "code", "param"),
    [
        ({"tools": [TOOL]}, {}, "tools_mismatch", "tools"),
        ({}, {"tools": [TOOL]}, "tools_mismatch", "tools"),
        ({"tools": [TOOL]}, {"tools": [TOOL, TOOL]}, "tools_mismatch", "tools"),
        ({"response_format": SCHEMA}, {}, "schema_mismatch", "response_format"),
        ({}, {"response_format": {"type": "json_object"}}, "schema_mismatch", "response_format"),
    ],
)
def test_a_session_continues_only_with_its_own_tools_and_schema(
    model_store: Store, site: RunningServer, upstream: Upstream, began: Any, goes_on: Any, code: str, param: str
) -> None:
    """Other tools would be in no snapshot. Nothing is appended, and no model is called."""
    first = site.http.post("/v1/chat/completions", json={**CHAT, **began})
    refused = follow(site, first, **goes_on)
    asked_once = len(upstream.received)
    followed = follow(site, first, **began)

    error = refused.json()["error"]
    assert (409, code, param) == (refused.status_code, error["code"], error["param"])
    assert 1 == asked_once
    assert 200 == followed.status_code
    sent = [httpx.Response(200, content=request.body).json() for request in upstream.received]
    for name in ("tools", "response_format"):
        assert [began.get(name)] * 2 == [request_body.get(name) for request_body in sent]
    snapshot = model_store.get_snapshot(followed.headers["x-traceforge-snapshot"])
    kinds = [block.kind for block in model_store.list_blocks(snapshot.id).data]
    assert ("tools" in began) == ("tool_bundle_source+json" in kinds)
    assert ("response_format" in began) == ("response_schema+json" in kinds)


@pytest.mark.counted("purge")
def test_purging_an_answer_s_event_purges_its_response(
    model_store: Store, upstream: Upstream, tmp_path: Path
) -> None:
    """With its trace, its stored response and the replay results that hold it; the question stays."""
    models = ModelClients({"openai": upstream.url}, traces_dir=str(tmp_path))
    store = Store(model_store.database, model_store.keyring, model_store.project_id, models)
    with run_server(store) as site:
        body = {"model": "bot", "session_id": new_session(store).id, "input": "Count."}
        first = site.http.post("/v2/responses", json=body, headers=KEY).json()
        pair = NewReplayRun(baseline="bot", candidate="bot", snapshot_ids=[first["snapshot_id"]])
        run = execute_run(store, store.create_replay_run(pair, start=False).id)
        models.drain_traces()
        recorded = {path.stem.rpartition("_")[2] for path in tmp_path.glob("*.json")}

        job = store.create_purge_job(NewPurge(targets=[first["event_id"]]))

        removed = {removal.kind: removal.ids for removal in store.get_receipt(job.id).removed}
        response = site.http.post("/v2/responses", json=body, headers=KEY)
        purged = [
            site.http.get(f"/v2/{path}") for path in (f"responses/{first['id']}", f"replay-runs/{run.id}/report")
        ]
    assert [first["event_id"]] == removed["event"]
    assert [first["id"]] == removed["response"]
    assert first["trace_id"] in recorded
    assert recorded == set(removed["trace"])
    assert [] == list(tmp_path.glob("*.json"))
    assert [f"{run.id}/0"] == removed["replay_item"]
    assert [410, 410, 410] == [answer.status_code for answer in (response, *purged)]
    assert store.verify_snapshot(first["snapshot_id"]).valid
    assert store.verify().valid

"""The clients: in this process and on a server, waiting and awaited, on both databases, they do the same."""

from __future__ import annotations

import asyncio
import inspect
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from support.awaited_clients import AwaitedClient, open_async_client, step_by_step, text_event
from support.loopback_models import chat_answer, connect_models, scripted_provider, streamed_response
from support.operation_store import Store
from support.store_servers import new_api_key, run_server
from support.upstream import ScriptedResponse, Upstream
from traceforge.context import AsyncClient, Client
from traceforge.context.api.embedded_transport import EmbeddedTransport
from traceforge.context.api.operations import OPERATIONS, OPERATIONS_BY_NAME
from traceforge.context.model.inputs import NewPurge
from traceforge.context.model.objects import BundleItem, Target
from traceforge.errors import BranchConflict, ContentPurged, InvalidFields, StoreRefused, StoreUnavailable

WAYS = ("embedded", "remote", "async embedded", "async remote")


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    """A scripted provider."""
    with scripted_provider() as provider:
        yield provider


@pytest.fixture
def store(store: Store, upstream: Upstream) -> Store:
    """A new project, which asks that provider."""
    return connect_models(store, upstream.url)


@pytest.fixture(params=WAYS)
def client(request: pytest.FixtureRequest, store: Store) -> Iterator[Any]:
    """One project, by every way to it. The async ones have the methods of `Client`, awaited by the fixture."""
    way = str(request.param)
    if way == "embedded":
        yield Client(EmbeddedTransport(store))
    elif way == "remote":
        with (
            run_server(store, required=True) as site,
            Client.connect(site.url, api_key=new_api_key(store, "admin")) as client,
        ):
            yield client
    else:
        with asyncio.Runner() as runner, open_async_client(way, store, runner) as async_client:
            yield AwaitedClient(async_client, runner.get_loop())


def test_a_client_creates_everything_from_an_artifact_to_a_snapshot(client: Any) -> None:
    """The whole way from an artifact to a snapshot."""
    artifact = client.create_artifact(artifact_type="policy", content="Be kind.", metadata={"a": [1, None]})
    assert "Be kind." == client.get_artifact_content(artifact.id).content
    assert artifact == client.get_artifact(artifact.id)
    bundle = client.create_bundle(items=[BundleItem(artifact_id=artifact.id, role="system")])
    session = client.create_session(base_bundle_ids=[bundle.id], metadata={"who": "é"})
    at = (session.id, session.default_branch_id)
    first = client.append_event(*at, expected_version=0, expected_head_event_id=None, event=text_event("hello"))
    fork = client.fork_branch(session.id, fork_from_branch_id=at[1], label="try")
    assert (1, first.id, "try") == (fork.version, fork.head_event_id, fork.label)
    other = client.append_event(
        session.id, fork.id, expected_version=1, expected_head_event_id=first.id, event=text_event("there")
    )
    assert [first, other] == client.list_events(session.id, fork.id).data
    merged = client.merge_branch(
        *at, source_branch_id=fork.id, strategy="rebase", expected_version=1, expected_head_event_id=first.id
    )
    assert (2, 1) == (merged.branch.version, len(merged.event_ids))
    assert merged.branch == client.get_branch(*at)
    with pytest.raises(StoreRefused) as refused:
        client.merge_branch(
            *at, source_branch_id=fork.id, strategy="rebase", expected_version=2,
            expected_head_event_id=merged.branch.head_event_id,
        )  # fmt: skip
    assert (409, "nothing_to_merge", "source_branch_id") == (
        refused.value.status,
        refused.value.reason,
        refused.value.param,
    )
    snapshot = client.create_snapshot(*at)
    assert snapshot == client.get_snapshot(snapshot.id)
    assert [snapshot] == client.list_snapshots(*at).data
    blocks = client.list_blocks(snapshot.id).data
    assert snapshot.ordered_block_manifest == [block.id for block in blocks]
    assert ["system", "user", "user"] == [block.role for block in blocks]
    assert client.verify_snapshot(snapshot.id).valid
    rendering = client.render_snapshot(snapshot.id, provider="gemini", model="ä/1 &x")
    assert ("ä/1 &x", "/v1beta/models/%C3%A4%2F1%20%26x:generateContent") == (rendering.model, rendering.path)
    assert {"parts": [{"text": "Be kind."}]} == rendering.body["systemInstruction"]
    assert "archived" == client.update_session(session.id, status="archived").status.value
    assert "x" == client.update_branch(*at, label="x").label
    assert client.delete_session(session.id).deleted


def test_every_client_raises_the_same_errors(client: Any) -> None:
    """Every error is the same."""
    session = client.create_session()
    at = (session.id, session.default_branch_id)
    event = client.append_event(*at, expected_version=0, expected_head_event_id=None, event=text_event("x"))

    with pytest.raises(BranchConflict) as conflict:
        client.append_event(*at, expected_version=0, expected_head_event_id=None, event=text_event("y"))
    assert (1, event.id) == (conflict.value.version, conflict.value.head_event_id)

    with pytest.raises(StoreRefused) as missing:
        client.get_session("ses_" + "0" * 26)
    assert (404, "not_found", "there is no session ses_" + "0" * 26) == (
        missing.value.status,
        missing.value.reason,
        missing.value.message,
    )

    with pytest.raises(InvalidFields) as invalid:
        client.create_artifact(artifact_type="poem", content="x", retention_class="for ever")
    assert ["artifact_type", "retention_class"] == [name for name, _ in invalid.value.problems]
    assert "artifact_type" == invalid.value.param

    with pytest.raises(StoreRefused) as cursor:
        client.list_events(*at, after="evt_" + "0" * 26)
    assert (404, "after") == (cursor.value.status, cursor.value.param)

    for limit in (0, 101):
        with pytest.raises(InvalidFields):
            client.list_sessions(limit=limit)
    with pytest.raises(StoreRefused) as both:
        client.create_artifact(artifact_type="document")
    assert "content" == both.value.param


@pytest.mark.parametrize("content", [float("nan"), float("inf"), "\ud800", object()])
def test_a_value_that_json_cannot_represent_is_refused_before_it_is_sent(client: Any, content: Any) -> None:
    with pytest.raises(StoreRefused) as refused:
        client.create_session(metadata={"a": [content]})
    assert 400 == refused.value.status
    assert [] == client.list_sessions().data


def test_an_idempotency_key_has_the_same_effect_in_every_client(client: Any) -> None:
    first = client.create_session(metadata={"a": 1, "b": 2}, idempotency_key="k 1")

    assert first == client.create_session(metadata={"b": 2, "a": 1}, idempotency_key="k 1")
    assert [first] == client.list_sessions().data
    with pytest.raises(StoreRefused) as reused:
        client.create_session(metadata={"a": 2}, idempotency_key="k 1")
    assert (422, "idempotency_key_reused") == (reused.value.status, reused.value.reason)
    for key in ("", "x" * 256, "é", "a\nb", " a"):
        with pytest.raises(StoreRefused) as wrong:
            client.create_session(idempotency_key=key)
        assert "invalid_idempotency_key" == wrong.value.reason


def name_of(item: Any) -> str:
    """The cursor of an object in a list: its id, or the name of an alias."""
    return str(getattr(item, "id", None) or item.name)


@pytest.mark.slow
def test_every_list_is_paged_without_gaps_or_repetitions(
    client: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Every list is paged without a gap and without a repetition; a response that failed is in one too."""
    monkeypatch.setenv("TRACEFORGE_UPSTREAM_OLLAMA", "http://127.0.0.1:9")
    monkeypatch.chdir(tmp_path)
    session = client.create_session()
    at = (session.id, session.default_branch_id)
    head: str | None = None
    for number in range(7):
        head = client.append_event(
            *at, expected_version=number, expected_head_event_id=head, event=text_event(str(number))
        ).id
    artifact = client.create_artifact(artifact_type="document", content="x")
    for number in range(6):
        client.create_alias(name=f"bot-{number}", targets=[Target(provider="ollama", model="m")])
        session_id = client.create_session().id
        pinned = client.create_response(model="ollama/m", session_id=session_id, input="x").snapshot_id
        client.create_replay_run(baseline="ollama/m", candidate="bot-0", snapshot_ids=[pinned])
        client.create_artifact(artifact_type="document", content="x")
        client.create_purge_job(targets=[client.create_artifact(artifact_type="document", content="y").id])
        client.create_bundle(items=[BundleItem(artifact_id=artifact.id, role="user")])
        client.create_session()
        client.fork_branch(session.id, fork_from_branch_id=at[1])
        client.create_snapshot(*at)
        client.create_api_key(scopes=["read"])
        client.create_project(name="another")
    while any(run.status in ("queued", "running") for run in client.iterate_replay_runs()):
        time.sleep(0.05)
    snapshot = client.list_snapshots(*at).data[0]
    arguments = {
        "list_branches": (session.id,),
        "list_events": at,
        "list_snapshots": at,
        "list_blocks": (snapshot.id,),
    }
    lists = [operation for operation in OPERATIONS if operation.is_list]
    for operation in lists:
        ids = arguments.get(operation.name, ())
        method = getattr(client, operation.name)
        items = list(getattr(client, operation.name.replace("list_", "iterate_"))(*ids))
        assert len(items) >= 6, operation.name
        for limit in (1, 2, 3, 100):
            paged: list[Any] = []
            more = True
            while more:
                page = method(*ids, limit=limit, after=name_of(paged[-1]) if paged else None)
                assert len(page.data) <= limit
                more = page.has_more
                assert page.data or not more
                paged += page.data
            assert items == paged, operation.name
        assert len(items) == len({name_of(item) for item in items})
    assert 9 <= len(lists)


def test_both_clients_have_the_same_method_for_every_operation() -> None:
    """Both clients have a method for every operation and they look alike."""
    for name, operation in OPERATIONS_BY_NAME.items():
        sync, awaited = getattr(Client, name), getattr(AsyncClient, name)
        assert inspect.iscoroutinefunction(awaited)
        assert not inspect.iscoroutinefunction(sync)
        assert inspect.signature(sync) == inspect.signature(awaited)
        fields = () if operation.fields is None else msgspec.structs.fields(operation.fields)
        named = inspect.signature(sync).parameters
        assert {field.name for field in fields} - {"stream"} <= named.keys()
        if operation.can_stream:
            streams = [
                getattr(client_class, name.replace("create_", "stream_")) for client_class in (Client, AsyncClient)
            ]
            assert [named.keys()] * 2 == [inspect.signature(stream).parameters.keys() for stream in streams]
        required = {field.name for field in fields if field.required}
        assert required == {
            parameter.name
            for parameter in named.values()
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY and parameter.default is inspect.Parameter.empty
        }


def test_an_unreachable_server_is_named_in_the_error() -> None:
    """A server that is not there is an error that says so."""
    with pytest.raises(StoreUnavailable) as error:
        Client.connect("http://127.0.0.1:9").list_sessions()
    assert "127.0.0.1:9" in error.value.message
    assert not error.value.outcome_unknown
    for url in ("ftp://x", "context.db", "http://"):
        with pytest.raises(StoreUnavailable):
            Client.connect(url)


def test_a_connection_that_the_server_closed_is_opened_again(store: Store) -> None:
    """A connection that the server closed is opened again."""
    with run_server(store) as first:
        client = Client.connect(first.url)
        session = client.create_session()
        for connection in client.transport._connections:
            connection.sock.shutdown(2)
        assert [session] == client.list_sessions().data
        client.close()
        assert [session] == client.list_sessions().data
        client.close()


def test_a_response_is_streamed_as_it_arrives(client: Any, upstream: Upstream) -> None:
    """A first event, one per text, and an end event; the branch is the same as after a call without streaming."""
    upstream.respond_with(streamed_response("One", " two", " three"))
    session = client.create_session()

    events = list(client.stream_response(model="openai/m", session_id=session.id, input="Count."))

    texts = ["response.text.delta"] * 3
    assert ["response.created", *texts, "response.completed"] == [event.type for event in events]
    assert ["", "One", " two", " three", ""] == [event.delta for event in events]
    assert [True, False, False, False, True] == [event.response is not None for event in events]
    first, last = events[0].response, events[-1].response
    assert (first.id, "running", None) == (last.id, first.status, first.output)
    assert last == client.get_response(last.id)
    assert "One two three" == last.output["content"]
    stored_events = list(client.iterate_events(session.id, session.default_branch_id))
    assert ["Count.", "One two three"] == [event.content for event in stored_events]
    assert last.event_id == stored_events[1].id


def test_each_text_arrives_before_the_next_one_is_sent(client: Any, upstream: Upstream) -> None:
    """Opening the stream sends nothing; each text is returned as soon as it arrives."""
    permits = threading.Semaphore(0)
    upstream.respond_with(streamed_response("One", " two", " three", permits=permits))
    events = step_by_step(client, model="openai/m", session_id=client.create_session().id, input="Count.")
    assert [] == upstream.received

    first_events = [next(events).type, next(events).delta]
    for _ in range(2):
        permits.release()
        first_events.append(next(events).delta)
    permits.release()  # What ends the stream.

    assert ["response.created", "One", " two", " three"] == first_events
    assert ["response.completed"] == [event.type for event in events]


def test_a_stream_that_is_not_read_to_its_end_is_still_stored(client: Any, upstream: Upstream) -> None:
    """The answer is paid for: it comes to its end, and stands on the branch."""
    permits = threading.Semaphore(0)
    upstream.respond_with(streamed_response("One", " two", permits=permits))
    session = client.create_session()
    events = step_by_step(client, model="openai/m", session_id=session.id, input="Count.")
    response_id = next(events).response.id
    next(events)

    threading.Timer(0.1, lambda: permits.release(2)).start()
    events.close()

    end = time.monotonic() + 20
    while client.get_response(response_id).status == "running" and time.monotonic() < end:
        time.sleep(0.01)
    assert "One two" == client.get_response(response_id).output["content"]
    assert 2 == client.get_branch(session.id, session.default_branch_id).version


def test_a_stream_with_a_key_is_done_once(client: Any, upstream: Upstream) -> None:
    """The second time there are the same events, and nothing else is done."""
    upstream.respond_with(streamed_response("Yes", "."))
    body = {"model": "openai/m", "session_id": client.create_session().id, "input": "Really?"}

    first = list(client.stream_response(**body, idempotency_key="k"))
    second = list(client.stream_response(**body, idempotency_key="k"))

    assert 4 == len(first)
    assert first == second
    assert 1 == len(upstream.received)
    with pytest.raises(StoreRefused) as error:
        list(client.stream_response(**{**body, "input": "Other"}, idempotency_key="k"))
    assert 422 == error.value.status


def test_a_refused_stream_raises_and_a_failed_model_call_ends_the_stream_with_an_error(
    client: Any, upstream: Upstream
) -> None:
    """A refusal raises as in every other call; a failed model call is the last event of the response."""
    upstream.respond_with(ScriptedResponse([b"{}"], status=500))
    session = client.create_session()
    body = {"model": "openai/m", "session_id": session.id, "input": "Hi"}

    failed = list(client.stream_response(**body))
    with pytest.raises(StoreRefused, match="nobody"):
        list(client.stream_response(**{**body, "model": "nobody"}))
    with pytest.raises(BranchConflict):
        list(client.stream_response(**body, expected_version=0, expected_head_event_id=None))
    with pytest.raises(InvalidFields, match="session_id"):
        list(client.stream_response(**{**body, "session_id": "x"}))

    assert ["response.created", "response.failed"] == [event.type for event in failed]
    assert "provider_refused" == failed[-1].response.error.code
    assert 1 == len(upstream.received)


def test_a_stream_whose_input_is_purged_ends_with_the_receipt(client: Any, store: Store, upstream: Upstream) -> None:
    """The purge happens in the middle of the answer; the error names the receipt."""
    permits = threading.Semaphore(0)
    upstream.respond_with(streamed_response("One", " two", permits=permits))
    session = client.create_session()
    events = step_by_step(client, model="openai/m", session_id=session.id, input="Secret.")
    next(events)
    next(events)

    receipt = store.create_purge_job(NewPurge(targets=[session.id])).receipt_id
    permits.release(2)

    with pytest.raises(ContentPurged, match=str(receipt)):
        list(events)


def test_create_response_takes_no_stream_field(client: Any, upstream: Upstream) -> None:
    """`create_response` waits: how it is had is a method, not a field."""
    upstream.respond_with(ScriptedResponse([chat_answer("Yes.")]))

    response = client.create_response(model="openai/m", session_id=client.create_session().id, input="Hi")

    assert "Yes." == response.output["content"]
    assert not json.loads(upstream.received[0].body).get("stream")
    with pytest.raises(TypeError, match="stream"):
        client.create_response(model="openai/m", session_id=response.session_id, stream=True)

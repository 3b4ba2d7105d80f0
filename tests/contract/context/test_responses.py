"""Responses: pinned to a snapshot, sent to a model and stored; and every failure in between."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from support.context_builders import append_event, new_session
from support.loopback_models import chat_answer, connect_models, model_server, scripted_provider, streamed_response
from support.operation_store import Store
from support.upstream import ScriptedResponse, Upstream
from traceforge.capture.recorder import MemoryRecorder
from traceforge.context.compiler.pinned_snapshots import create_snapshot
from traceforge.context.model.cache_keys import Runtime, materialization_key
from traceforge.context.model.inputs import NewAlias, NewRelease, NewResponse, SessionChange
from traceforge.context.model.objects import EventType, Progress, Snapshot, Target
from traceforge.context.responses import response_generation
from traceforge.context.responses.model_releases import PROVIDERS, resolve_release
from traceforge.context.responses.target_choice import choose_target
from traceforge.errors import BranchConflict, StoreRefused


@pytest.fixture(scope="module")
def model() -> Iterator[str]:
    """Where the bundled model server is."""
    with model_server() as server:
        yield server.url


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    """A scripted provider."""
    with scripted_provider() as provider:
        yield provider


def refused(error: pytest.ExceptionInfo[StoreRefused]) -> tuple[int, str, str | None]:
    """What a caller decides by."""
    return error.value.status, error.value.reason, error.value.param


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("stream", [False, True])
def test_every_provider_answers(store: Store, model: str, provider: str, stream: bool) -> None:
    """The input and the answer are on the branch; the response is bound to its snapshot."""
    store = connect_models(store, model)
    session = new_session(store, "You are brief.")
    texts = store.begin_response(
        NewResponse(model=f"{provider}/m-1", session_id=session.id, input="How are you?", stream=stream)
    )

    heard = "".join(texts)
    response = texts.response

    events = store.list_events(session.id, session.default_branch_id).data
    snapshot = store.get_snapshot(response.snapshot_id)
    assert Progress.COMPLETED is response.status
    assert response.output is not None
    assert response.output["content"]
    assert heard == (response.output["content"] if stream else "")
    assert ["user_message", "assistant_message"] == [event.event_type for event in events]
    assert events[1].id == response.event_id
    assert {"response_id": response.id} == events[1].metadata
    assert 1 == snapshot.branch_version
    assert 2 == len(snapshot.ordered_block_manifest)
    serialization = f"rr_1/{provider}"
    runtime = Runtime(
        tool_serialization_revision=serialization, response_schema_serialization_revision=serialization,
        renderer_revision="rr_1",
    )  # fmt: skip
    assert materialization_key(snapshot, runtime) == response.materialization_key
    assert (provider, "m-1") == (response.target.provider, response.target.model)
    assert store.get_release(response.alias_release_id).alias is None
    assert response.usage is not None
    assert response == store.get_response(response.id)
    assert [response] == store.list_responses().data


def test_every_model_call_has_a_trace(store: Store, upstream: Upstream) -> None:
    """A response names its trace, also a failed one; the trace belongs to the session."""
    store = connect_models(store, upstream.url)
    upstream.respond_with(ScriptedResponse([chat_answer("Yes.")]), ScriptedResponse([b"{}"], status=500))
    session = new_session(store)

    response = store.create_response(NewResponse(model="openai/m", session_id=session.id, input="One?"))
    failed = store.create_response(NewResponse(model="openai/m", session_id=session.id, input="Two?"))

    recorder = store.models._caller_recorder
    assert isinstance(recorder, MemoryRecorder)
    assert [response.trace_id, failed.trace_id] == [exchange.id for exchange in recorder.exchanges]
    assert {session.id} == {exchange.caller.session_id for exchange in recorder.exchanges}


def test_a_branch_that_has_moved_on_is_a_conflict_and_no_model_is_called(store: Store, upstream: Upstream) -> None:
    """Nothing was written: neither the input, nor a snapshot, nor a response."""
    store = connect_models(store, upstream.url)
    session = new_session(store)
    head = append_event(store, session, "Somebody was first.")

    with pytest.raises(BranchConflict) as error:
        store.create_response(
            NewResponse(
                model="openai/m", session_id=session.id, input="Hi", expected_version=0, expected_head_event_id=None
            )
        )

    assert (1, head.id) == (error.value.version, error.value.head_event_id)
    assert [] == upstream.received
    assert [] == store.list_responses().data
    assert [] == store.list_snapshots(session.id, session.default_branch_id).data
    assert [head] == store.list_events(session.id, session.default_branch_id).data


@pytest.mark.parametrize("backend", ["postgresql"], indirect=True)  # SQLite has one writer at a time.
def test_a_branch_that_moves_on_before_it_is_compiled_is_a_conflict(
    store: Store, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event is committed on another connection after the head was checked; the prompt must not hold it."""
    store = connect_models(store, upstream.url)
    session = new_session(store)
    first = append_event(store, session, "First.")

    def create_snapshot_later(*arguments: Any) -> Snapshot:
        append_event(store, session, "Meanwhile.")
        return create_snapshot(*arguments)

    monkeypatch.setattr(response_generation, "create_snapshot", create_snapshot_later)
    body = NewResponse(model="openai/m", session_id=session.id, expected_version=1, expected_head_event_id=first.id)
    with pytest.raises(BranchConflict) as error:
        store.create_response(body)

    assert 2 == error.value.version
    assert [] == upstream.received
    assert [] == store.list_snapshots(session.id, session.default_branch_id).data


def test_a_conflict_after_the_model_call_keeps_the_answer(store: Store, upstream: Upstream) -> None:
    """The response is completed and names the branch's head; the answer is on no branch."""
    store = connect_models(store, upstream.url)
    permits = threading.Semaphore(0)
    upstream.respond_with(streamed_response("Paid", " for.", permits=permits))
    session = new_session(store)
    texts = store.begin_response(NewResponse(model="openai/m", session_id=session.id, input="Hi", stream=True))

    assert "Paid" == next(texts)
    other = append_event(store, session, "I am quicker.")
    permits.release(5)
    response = texts.wait_for_end()

    events = store.list_events(session.id, session.default_branch_id).data
    assert Progress.COMPLETED is response.status
    assert response.output is not None
    assert "Paid for." == response.output["content"]
    assert response.event_id is None
    assert response.append_conflict is not None
    assert (2, other.id) == (
        response.append_conflict.current_version,
        response.append_conflict.current_head_event_id,
    )
    assert ["Hi", "I am quicker."] == [event.content for event in events]


def test_a_response_in_a_session_archived_meanwhile_keeps_the_answer(store: Store, upstream: Upstream) -> None:
    """It is completed, and appended nowhere."""
    store = connect_models(store, upstream.url)
    upstream.respond_with(ScriptedResponse([chat_answer("Yes.")]))
    session = new_session(store)
    texts = store.begin_response(NewResponse(model="openai/m", session_id=session.id, input="Hi"))
    store.update_session(session.id, SessionChange(status="archived"))

    response = texts.wait_for_end()

    assert (Progress.COMPLETED, None) == (response.status, response.event_id)
    assert response.append_conflict is not None


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (
            ScriptedResponse([b'{"error": {"message": "the prompt was Hi", "type": "server_error"}}'], status=500),
            "provider_refused",
        ),
        (ScriptedResponse([b"no JSON at all"]), "provider_unreadable"),
        (ScriptedResponse([b'{"choices": []}']), "provider_empty"),
        (ScriptedResponse([chat_answer("").replace(b'"content": ""', b'"content": null')]), "provider_empty"),
        (ScriptedResponse([chat_answer("half of a character: \ud800")]), "provider_unreadable"),
        (ScriptedResponse([chat_answer("Hi").replace(b'"stop"', rb'"st\u0000op"')]), "provider_unreadable"),
        (ScriptedResponse([chat_answer("Hi").replace(b'"stop"', rb'"\ud800"')]), "provider_unreadable"),
        (ScriptedResponse([b'{"choices"'], reset=True), "provider_cut"),
        (ScriptedResponse([], silent=True), "provider_cut"),
        (ScriptedResponse([b"{}"], waits_first=True, permits=threading.Semaphore(0)), "provider_timeout"),
    ],
    ids=[
        "refused",
        "unreadable",
        "no choice",
        "nothing said",
        "half a character",
        "NUL in the reason",
        "half a reason",
        "cut",
        "silent",
        "stalled",
    ],
)
def test_a_failed_model_call_is_a_failed_response(
    store: Store, upstream: Upstream, answer: ScriptedResponse, code: str
) -> None:
    """It keeps its snapshot, quotes nothing of the provider's text, and can be repeated by the snapshot."""
    store = connect_models(store, upstream.url, timeout_s=1.0)
    upstream.respond_with(answer, ScriptedResponse([chat_answer("Now.")]))
    session = new_session(store)

    response = store.create_response(NewResponse(model="openai/m", session_id=session.id, input="Hi"))
    second = store.create_response(NewResponse(model=response.alias_release_id, snapshot_id=response.snapshot_id))

    assert response.error is not None
    assert (Progress.FAILED, code) == (response.status, response.error.code)
    assert "the prompt was" not in response.error.message
    assert (None, None) == (response.output, response.event_id)
    assert response.completed_at is not None
    assert response.trace_id
    assert (Progress.COMPLETED, response.snapshot_id) == (second.status, second.snapshot_id)
    assert ["Hi", "Now."] == [
        event.content for event in store.list_events(session.id, session.default_branch_id).data
    ]


def test_a_stream_with_half_of_a_character_fails_and_every_response_can_still_be_listed(
    store: Store, upstream: Upstream
) -> None:
    """The response says that its answer cannot be read."""
    store = connect_models(store, upstream.url)
    upstream.respond_with(streamed_response("So ", "\ud83d", "far"))
    session = new_session(store)

    texts = store.begin_response(NewResponse(model="openai/m", session_id=session.id, input="Hi", stream=True))

    assert ["So ", "far"] == list(texts)
    assert texts.response.error is not None
    assert "provider_unreadable" == texts.response.error.code
    assert [texts.response] == store.list_responses().data


@pytest.mark.parametrize("count", [2**53, 2**70, -1, True, "3"])
def test_an_impossible_token_count_is_stored_as_unknown(store: Store, upstream: Upstream, count: object) -> None:
    """The answer is stored all the same."""
    store = connect_models(store, upstream.url)
    upstream.respond_with(
        ScriptedResponse(
            [chat_answer("Yes.").replace(b'"prompt_tokens": 3', b'"prompt_tokens": %b' % json.dumps(count).encode())]
        )
    )

    response = store.create_response(NewResponse(model="openai/m", session_id=new_session(store).id, input="Hi"))

    assert response.usage is not None
    assert (None, 2) == (response.usage.input_tokens, response.usage.output_tokens)
    assert (Progress.COMPLETED, response) == (response.status, store.get_response(response.id))


def test_a_provider_that_does_not_listen_is_unreachable(store: Store) -> None:
    store = connect_models(store, "http://127.0.0.1:9")
    response = store.create_response(NewResponse(model="ollama/m", session_id=new_session(store).id, input="Hi"))

    assert response.error is not None
    assert "provider_unreachable" == response.error.code


def test_a_new_release_becomes_live_and_the_old_one_stays(store: Store, upstream: Upstream) -> None:
    """An alias points to exactly one release; a response names its release."""
    store = connect_models(store, upstream.url)
    upstream.respond_with(ScriptedResponse([chat_answer("Yes.")]))
    session = new_session(store)
    alias = store.create_alias(NewAlias(name="support-bot", targets=[Target(provider="openai", model="old")]))
    first = store.create_response(NewResponse(model="support-bot", session_id=session.id, input="1"))
    release = store.create_release("support-bot", NewRelease(targets=[Target(provider="openai", model="new")]))
    second = store.create_response(NewResponse(model="support-bot", session_id=session.id, input="2"))
    third = store.create_response(NewResponse(model=alias.live_release_id, session_id=session.id, input="3"))

    assert ["old", "new", "old"] == [response.target.model for response in (first, second, third)]
    assert alias.live_release_id == first.alias_release_id
    assert release.id == second.alias_release_id == store.get_alias("support-bot").live_release_id
    assert "support-bot" == store.get_release(alias.live_release_id).alias
    assert ["support-bot"] == [listed_alias.name for listed_alias in store.list_aliases().data]


def test_a_snapshot_and_a_release_always_resolve_to_the_same_target(store: Store, upstream: Upstream) -> None:
    """The weighted choice is a hash of both ids, and every target gets its share."""
    store = connect_models(store, upstream.url)
    upstream.respond_with(ScriptedResponse([chat_answer("Yes.")]))
    targets = [Target(provider="openai", model=name, weight=weight) for name, weight in (("a", 3), ("b", 1))]
    store.create_alias(NewAlias(name="both", targets=targets))
    texts = []
    for _ in range(12):
        first = store.create_response(NewResponse(model="both", session_id=new_session(store).id, input="Hi"))
        response = store.create_response(NewResponse(model="both", snapshot_id=first.snapshot_id))
        assert (
            first.target
            == response.target
            == targets[choose_target(first.alias_release_id, first.snapshot_id, [3, 1])]
        )
        assert first.materialization_key == response.materialization_key
        texts.append(first.target.model)

    assert set(texts) <= {"a", "b"}


def test_a_target_named_directly_has_one_release_per_project(store: Store, other: Store) -> None:
    """However many requests create it at once."""
    created_ids: list[str] = []

    def ask() -> None:
        created_ids.append(store.write(lambda tx: resolve_release(tx, "openai/gpt-x").id))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 8 == len(created_ids)
    assert 1 == len(set(created_ids))
    assert created_ids[0] != other.write(lambda tx: resolve_release(tx, "openai/gpt-x").id)


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("nobody", (404, "not_found", "model")),
        ("acme/m", (404, "unknown_provider", "model")),
        ("alr_00000000000000000000000000", (404, "not_found", "model")),
    ],
)
def test_an_unknown_model_is_refused_before_anything_is_written(
    store: Store, model: str, expected: tuple[int, str, str]
) -> None:
    """The input is not on the branch."""
    session = new_session(store)
    with pytest.raises(StoreRefused) as error:
        store.create_response(NewResponse(model=model, session_id=session.id, input="Hi"))

    assert expected == refused(error)
    assert 0 == store.get_branch(session.id, session.default_branch_id).version


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"input": "Hi"}, (400, "invalid_response", "session_id")),
        ({"snapshot_id": "snp_00000000000000000000000000", "input": "Hi"}, (400, "invalid_response", "input")),
        ({"snapshot_id": "snp_00000000000000000000000000"}, (404, "not_found", None)),
        ({"params": {"messages": []}, "input": "Hi"}, (400, "invalid_params", "params.messages")),
        ({"params": {"n": 2}, "input": "Hi"}, (400, "invalid_params", "params.n")),
        ({"params": {"n": True}, "input": "Hi"}, (400, "invalid_params", "params.n")),
    ],
)
def test_a_body_with_conflicting_missing_or_reserved_fields_is_refused(
    store: Store, body: dict[str, object], expected: tuple[int, str, str | None]
) -> None:
    """The prompt is pinned: no parameter may change it."""
    with pytest.raises(StoreRefused) as error:
        store.create_response(NewResponse(model="openai/m", **body))  # type: ignore[arg-type]

    assert expected == refused(error)


def test_parameters_of_the_call_override_those_of_the_target(store: Store, upstream: Upstream) -> None:
    """Both are sent, under the provider's own names."""
    store = connect_models(store, upstream.url)
    upstream.respond_with(ScriptedResponse([chat_answer("Yes.")]))
    target = Target(provider="openai", model="m", params={"temperature": 1, "seed": 7})
    store.create_alias(NewAlias(name="warm", targets=[target]))
    store.create_response(
        NewResponse(model="warm", session_id=new_session(store).id, input="Hi", params={"temperature": 0})
    )

    sent = json.loads(upstream.received[0].body)
    assert (0, 7, "m") == (sent["temperature"], sent["seed"], sent["model"])
    assert [{"role": "user", "content": "Hi"}] == sent["messages"]


def test_a_running_response_is_canceled_at_once(store: Store, upstream: Upstream) -> None:
    """The connection is closed, the input stays, and a second cancellation changes nothing."""
    store = connect_models(store, upstream.url)
    upstream.respond_with(streamed_response("One", " two", permits=threading.Semaphore(0)))
    session = new_session(store)
    texts = store.begin_response(NewResponse(model="openai/m", session_id=session.id, input="Hi", stream=True))
    assert "One" == next(texts)

    canceled = store.cancel_response(texts.id)
    response = texts.wait_for_end()

    assert Progress.CANCELED is canceled.status
    assert (Progress.CANCELED, None) == (response.status, response.output)
    assert Progress.CANCELED is store.cancel_response(texts.id).status
    assert ["Hi"] == [event.content for event in store.list_events(session.id, session.default_branch_id).data]


def test_a_finished_response_is_not_canceled(store: Store, upstream: Upstream) -> None:
    """It is returned unchanged."""
    store = connect_models(store, upstream.url)
    upstream.respond_with(ScriptedResponse([chat_answer("Yes.")]))
    response = store.create_response(NewResponse(model="openai/m", session_id=new_session(store).id, input="Hi"))

    with pytest.raises(StoreRefused) as error:
        store.cancel_response(response.id)

    assert (409, "already_final", None) == refused(error)


def test_a_tool_call_is_stored_and_sent_back_with_its_result(store: Store, upstream: Upstream) -> None:
    """The assistant's message holds the call; the next request has the call and its result."""
    store = connect_models(store, upstream.url)
    call = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    upstream.respond_with(
        ScriptedResponse([chat_answer(None, tool_calls=[call])]), ScriptedResponse([chat_answer("Done.")])
    )  # type: ignore[arg-type]
    session = new_session(store)
    store.create_response(NewResponse(model="openai/m", session_id=session.id, input="Use it."))
    append_event(store, session, {"tool_call_id": "call_1", "content": "42"}, event_type=EventType.TOOL_RESULT)
    store.create_response(NewResponse(model="openai/m", session_id=session.id))

    sent = json.loads(upstream.received[1].body)["messages"]
    assert [call] == sent[1]["tool_calls"]
    assert {"role": "tool", "tool_call_id": "call_1", "content": "42"} == sent[2]

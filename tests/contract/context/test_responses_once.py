"""A response with an idempotency key: sent twice, executed once, even if a process died in between."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from support.context_builders import append_event, fork_branch, list_all_events, new_session
from support.loopback_models import chat_answer, connect_models, streamed_response
from support.operation_store import Store
from support.upstream import ScriptedResponse, Upstream
from traceforge.clock import now, pinned
from traceforge.context.api.idempotency import make_key, perform_operation
from traceforge.context.api.idempotent_operations import completed_encoder, start_response_once
from traceforge.context.api.operation_types import OperationArguments
from traceforge.context.api.operations import OPERATIONS_BY_NAME
from traceforge.context.model.inputs import Merge, NewArtifact, NewPurge, NewResponse
from traceforge.context.model.objects import ArtifactType, MergeStrategy, Progress
from traceforge.context.responses.response_generation import RunningResponse
from traceforge.errors import BranchConflict, InvalidFields, StoreRefused

CREATE = OPERATIONS_BY_NAME["create_response"]


def body_of(session_id: str, text: str = "Hi") -> dict[str, Any]:
    """What is sent."""
    return {"model": "openai/m", "session_id": session_id, "input": text}


def send(store: Store, body: dict[str, Any], key: str = "k-1") -> bytes:
    """As the server and the client do it."""
    return perform_operation(store, CREATE, OperationArguments((), NewResponse(**body)), key, body).body


def begin(store: Store, body: dict[str, Any], key: str = "k-1") -> RunningResponse:
    """As far as a process comes that dies before it has asked the model."""
    begun = start_response_once(
        store, NewResponse(**body), make_key("/responses", key, body), completed_encoder(CREATE, stream=False)
    )
    assert isinstance(begun, RunningResponse)
    return begun


def test_the_same_key_returns_the_same_bytes_after_one_model_call(store: Store, upstream: Upstream) -> None:
    """One input and one answer."""
    store = connect_models(store, upstream.url)
    session = new_session(store)
    body = body_of(session.id)

    first, second = send(store, body), send(store, body)

    assert first == second
    assert b'"status":"completed"' in first
    assert 1 == len(upstream.received)
    assert ["Hi", "Yes."] == [event.content for event in list_all_events(store, session)]


def test_the_same_key_with_another_body_is_refused(store: Store, upstream: Upstream) -> None:
    """No model is called."""
    store = connect_models(store, upstream.url)
    session = new_session(store)
    send(store, body_of(session.id))

    with pytest.raises(StoreRefused) as error:
        send(store, body_of(session.id, "Another"))

    assert (422, "idempotency_key_reused") == (error.value.status, error.value.reason)
    assert 1 == len(upstream.received)


def test_a_refusal_is_not_remembered(store: Store, upstream: Upstream) -> None:
    """A conflict wrote nothing; the same key may be sent again."""
    store = connect_models(store, upstream.url)
    session = new_session(store)
    wrong = {**body_of(session.id), "expected_version": 7}
    with pytest.raises(BranchConflict):
        send(store, wrong)

    assert b'"status":"completed"' in send(store, body_of(session.id))


def test_a_retry_finishes_the_response_of_a_dead_process_and_the_input_is_stored_once(
    store: Store, upstream: Upstream
) -> None:
    """In flight until the lease ends; after that the model is called again for the same response."""
    store = connect_models(store, upstream.url)
    session = new_session(store)
    body = body_of(session.id)
    dead = begin(store, body)

    with pytest.raises(StoreRefused) as error:
        send(store, body)
    with pinned(now() + timedelta(seconds=60)):
        answer = send(store, body)
        second = send(store, body)

    response = store.get_response(dead.id)
    assert (409, "idempotency_in_flight") == (error.value.status, error.value.reason)
    assert answer == second
    assert dead.id.encode() in answer
    assert Progress.COMPLETED is response.status
    assert 1 == len(upstream.received)
    assert ["Hi", "Yes."] == [event.content for event in list_all_events(store, session)]


def test_a_retry_resumes_a_response_from_before_the_clock_was_set_back(store: Store, upstream: Upstream) -> None:
    """Its process died while the clock was six hours ahead; the input is stored once."""
    store = connect_models(store, upstream.url)
    session = new_session(store)
    body = body_of(session.id)
    with pinned(now() + timedelta(hours=6)):
        dead = begin(store, body)

    send(store, body)

    assert Progress.COMPLETED is store.get_response(dead.id).status
    assert ["Hi", "Yes."] == [event.content for event in list_all_events(store, session)]


def test_a_process_that_lost_its_lease_cannot_store_its_answer(store: Store, upstream: Upstream) -> None:
    """The answer of the process that took over stays."""
    store = connect_models(store, upstream.url)
    session = new_session(store)
    body = body_of(session.id)
    sleeper = begin(store, body)
    with pinned(now() + timedelta(seconds=60)):
        send(store, body)

    upstream.respond_with(ScriptedResponse([chat_answer("Too late.")]))
    late = sleeper.wait_for_end()

    assert late.output is not None
    assert "Yes." == late.output["content"]
    assert ["Hi", "Yes."] == [event.content for event in list_all_events(store, session)]


def test_a_response_that_no_process_resumes_is_marked_failed(store: Store, upstream: Upstream) -> None:
    """The next read marks it; its snapshot is still there."""
    store = connect_models(store, upstream.url)
    dead = store.begin_response(NewResponse(**body_of(new_session(store).id)))

    assert Progress.RUNNING is store.get_response(dead.id).status
    with pinned(now() + timedelta(seconds=1000)):
        response = store.get_response(dead.id)

    assert response.error is not None
    assert (Progress.FAILED, "interrupted") == (response.status, response.error.code)
    assert response == store.get_response(dead.id)
    assert store.get_snapshot(response.snapshot_id).id == response.snapshot_id


def merging(store: Store) -> tuple[Any, Any, Merge]:
    """A branch with a fork, and the merge that a model summarizes."""
    session = new_session(store, "Be exact.")
    head = append_event(store, session, "We agreed on 42.")
    side = fork_branch(store, session)
    last = append_event(store, side, "And on Friday.")
    body = Merge(
        source_branch_id=side.id,
        strategy=MergeStrategy.COMPACT,
        expected_version=1,
        expected_head_event_id=head.id,
        model="openai/m",
    )
    return session, last, body


def test_a_model_writes_the_summary_of_a_merge(store: Store, upstream: Upstream) -> None:
    """Its answer is a response; the event names the response and the summarized events. The source is unchanged."""
    store = connect_models(store, upstream.url)
    session, last, body = merging(store)

    merged = store.merge_branch(session.id, session.default_branch_id, body)

    event = list_all_events(store, session)[-1]
    response = store.list_responses().data[0]
    assert merged.event_ids == [event.id]
    assert (last.id, last.id) == (event.merged_from, merged.source_head_event_id)
    assert response.id == event.metadata["response_id"]
    assert event.payload_ref is not None
    assert b"Yes." == store.get_artifact_content(event.payload_ref).data
    assert last.id == store.get_branch(session.id, body.source_branch_id).head_event_id
    assert b"We agreed on 42." in upstream.received[0].body
    assert b"And on Friday." in upstream.received[0].body


def test_a_merge_of_nothing_new_calls_no_model(store: Store, upstream: Upstream) -> None:
    """The summary of the first merge covers every event of the source."""
    store = connect_models(store, upstream.url)
    session, _, body = merging(store)
    merged = store.merge_branch(session.id, session.default_branch_id, body)
    before = everything(store, session.id)
    again = replace(body, expected_version=2, expected_head_event_id=merged.branch.head_event_id)

    with pytest.raises(StoreRefused) as error:
        store.merge_branch(session.id, session.default_branch_id, again)

    assert (409, "nothing_to_merge") == (error.value.status, error.value.reason)
    assert 1 == len(upstream.received)
    assert before == everything(store, session.id)


def test_a_merge_into_a_branch_that_moved_calls_no_model(store: Store, upstream: Upstream) -> None:
    store = connect_models(store, upstream.url)
    session, _, body = merging(store)
    append_event(store, session, "Quicker.")

    with pytest.raises(BranchConflict):
        store.merge_branch(session.id, session.default_branch_id, body)

    assert [] == upstream.received
    assert 2 == len(store.list_branches(session.id).data)


@pytest.mark.parametrize("model", ["nobody", "nowhere/m"])
def test_a_merge_with_an_unknown_model_creates_no_branch(store: Store, model: str) -> None:
    session, _, body = merging(store)

    with pytest.raises(StoreRefused) as error:
        store.merge_branch(session.id, session.default_branch_id, replace(body, model=model))

    assert (404, "model") == (error.value.status, error.value.param)
    assert 2 == len(store.list_branches(session.id).data)


def everything(store: Store, session_id: str) -> list[Any]:
    """What a merge could leave behind."""
    branches = store.list_branches(session_id).data
    snapshots = [snapshot for branch in branches for snapshot in store.list_snapshots(session_id, branch.id).data]
    return [branches, snapshots, store.list_responses().data, store.list_artifacts().data]


@pytest.mark.counted("purge", "merge compact")
@pytest.mark.parametrize("key", [None, "m-1"])
@pytest.mark.parametrize("why", ["purged", "unsupported_attachment"])
def test_a_merge_that_is_refused_before_its_model_call_writes_nothing(
    store: Store, upstream: Upstream, why: str, key: str | None
) -> None:
    """Not even the fork for the model call. The key can be used again."""
    store = connect_models(store, upstream.url)
    session, last, body = merging(store)
    if why == "purged":
        store.create_purge_job(NewPurge(targets=[last.id]))
    else:
        bits = NewArtifact(
            artifact_type=ArtifactType.BINARY_ATTACHMENT, content_base64="AAAA", content_media_type="audio/wav"
        )
        source = store.get_branch(session.id, body.source_branch_id)
        append_event(store, source, payload_ref=store.create_artifact(bits).id)
    before = everything(store, session.id)
    ask = OperationArguments((session.id, session.default_branch_id), body)
    for _ in range(2):
        with pytest.raises(StoreRefused) as error:
            perform_operation(store, OPERATIONS_BY_NAME["merge_branch"], ask, key, {"any": "body"})
        assert why == error.value.reason

    assert [] == upstream.received
    assert before == everything(store, session.id)


@pytest.mark.parametrize("both", [True, False])
def test_a_merge_needs_either_a_summary_or_a_model_that_writes_it(
    store: Store, upstream: Upstream, both: bool
) -> None:
    """With both or with neither, the error names both fields and nothing is written."""
    store = connect_models(store, upstream.url)
    session, _, body = merging(store)
    wrong = replace(body, summary="We agreed.") if both else replace(body, model=None)
    with pytest.raises(StoreRefused) as error:
        store.merge_branch(session.id, session.default_branch_id, wrong)

    assert (400, "invalid_merge", "summary") == (error.value.status, error.value.reason, error.value.param)
    if both:
        assert isinstance(error.value, InvalidFields)
        assert ["summary", "model"] == [name for name, _ in error.value.problems]
    assert [] == upstream.received
    assert 1 == store.get_branch(session.id, session.default_branch_id).version


@pytest.mark.parametrize(
    "answer",
    [
        ScriptedResponse([b"{}"], status=500),
        ScriptedResponse([chat_answer("")]),
        ScriptedResponse([b'{"choices": []}']),
    ],
    ids=["failed", "nothing said", "no answer"],
)
def test_a_failed_summary_model_merges_nothing(store: Store, upstream: Upstream, answer: ScriptedResponse) -> None:
    """The error names the failed response."""
    store = connect_models(store, upstream.url)
    upstream.respond_with(answer)
    session, _, body = merging(store)

    with pytest.raises(StoreRefused) as error:
        store.merge_branch(session.id, session.default_branch_id, body)

    assert (502, "no_summary") == (error.value.status, error.value.reason)
    assert store.list_responses().data[0].id in error.value.message
    assert 1 == store.get_branch(session.id, session.default_branch_id).version


def test_a_merge_with_a_model_and_a_key_is_done_once(store: Store, upstream: Upstream) -> None:
    """The same bytes, and one call."""
    store = connect_models(store, upstream.url)
    session, _, body = merging(store)
    ask = OperationArguments((session.id, session.default_branch_id), body)

    first, second = [
        perform_operation(store, OPERATIONS_BY_NAME["merge_branch"], ask, "m-1", {"any": "body"}).body
        for _ in range(2)
    ]

    assert first == second
    assert 1 == len(upstream.received)
    assert 2 == store.get_branch(session.id, session.default_branch_id).version


def test_a_streamed_and_a_plain_request_share_a_key(store: Store, upstream: Upstream) -> None:
    """A client in this process and one over HTTP get the same response, each in its own form."""
    store = connect_models(store, upstream.url)
    upstream.respond_with(streamed_response("One", " two"))
    body = {**body_of(new_session(store).id), "stream": True}

    first, second = send(store, body), send(store, body)
    events = start_response_once(
        store,
        NewResponse(**body),
        make_key("/responses", "k-1", body),
        completed_encoder(CREATE, stream=True),
        stream=True,
    )

    assert first == second
    assert b'"status":"completed"' in first
    assert not isinstance(events, RunningResponse)
    assert events.body.startswith(b"event: response.created\n")
    assert events.body.endswith(b"event: response.completed\ndata: " + first + b"\n\n")
    assert 1 == len(upstream.received)

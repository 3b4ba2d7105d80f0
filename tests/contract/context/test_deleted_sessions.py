"""What `DELETE /sessions/{id}` does to every object of the session, operation by operation.

The session and its branches are no longer found: nothing can be read from them, appended to them or made from them.
What was made from the session before stays: snapshots, responses, replay runs, stored answers. Nothing is removed
before a purge.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from support.context_builders import append_event, fork_branch, new_artifact, new_session
from support.operation_store import Store
from support.purge_rows import purge
from traceforge.context.api.idempotency import perform_operation
from traceforge.context.api.operation_types import OperationArguments
from traceforge.context.api.operations import OPERATIONS, OPERATIONS_BY_NAME
from traceforge.context.comparison.replay_worker import execute_run
from traceforge.context.model import inputs
from traceforge.context.model.objects import BundleItem, Session
from traceforge.errors import ContentPurged, StoreRefused


class Made(NamedTuple):
    """A session, and what was made from it."""

    session: Session
    event_id: str
    fork_id: str
    snapshot_id: str
    response_id: str
    run_id: str
    artifact_id: str
    bundle_id: str

    @property
    def at(self) -> tuple[str, str]:
        """The session and its first branch."""
        return self.session.id, self.session.default_branch_id


def make(store: Store) -> Made:
    """A session with a fork, a response and a replay run."""
    artifact = new_artifact(store, "rules")
    bundle = store.create_bundle(inputs.NewBundle(items=[BundleItem(artifact_id=artifact.id, role="system")]))
    session = store.create_session(inputs.NewSession(base_bundle_ids=[bundle.id]))
    event = append_event(store, session, "Hello?")
    fork = fork_branch(store, session)
    append_event(store, fork, "aside")
    response = store.create_response(inputs.NewResponse(model="bot", session_id=session.id))
    body = inputs.NewReplayRun(baseline="bot", candidate="bot", snapshot_ids=[response.snapshot_id])
    run = execute_run(store, store.create_replay_run(body, start=False).id)
    return Made(
        session, event.id, fork.id, response.snapshot_id, response.id, run.id, artifact.id, bundle.id
    )  # fmt: skip


Calls = dict[str, Callable[[], Any]]


def hidden_calls(store: Store, made: Made) -> Calls:
    """The operations that look for the session or for one of its branches."""
    head = {"expected_version": 2, "expected_head_event_id": made.event_id}
    note = inputs.NewEvent(event_type="note", content="x")
    fork = inputs.NewBranch(fork_from_branch_id=made.at[1])
    merge = inputs.Merge(source_branch_id=made.fork_id, strategy="rebase", **head)
    trajectory = inputs.NewReplayRun(baseline="bot", candidate="bot", session_id=made.session.id)
    return {
        "get_session": lambda: store.get_session(made.session.id),
        "update_session": lambda: store.update_session(made.session.id, inputs.SessionChange(status="active")),
        "delete_session": lambda: store.delete_session(made.session.id),
        "fork_branch": lambda: store.fork_branch(made.session.id, fork),
        "list_branches": lambda: store.list_branches(made.session.id),
        "get_branch": lambda: store.get_branch(made.session.id, made.fork_id),
        "update_branch": lambda: store.update_branch(made.session.id, made.fork_id, inputs.BranchChange(label="x")),
        "append_event": lambda: store.append_event(*made.at, inputs.Append(event=note, **head)),
        "list_events": lambda: store.list_events(*made.at),
        "merge_branch": lambda: store.merge_branch(*made.at, merge),
        "create_snapshot": lambda: store.create_snapshot(*made.at, inputs.NewSnapshot()),
        "list_snapshots": lambda: store.list_snapshots(*made.at),
        "create_response": lambda: store.create_response(
            inputs.NewResponse(model="bot", session_id=made.session.id, input="x")
        ),
        "create_replay_run": lambda: store.create_replay_run(trajectory),
    }


def unchanged_calls(store: Store, made: Made) -> Calls:
    """The operations that read what was made from the session before, or what it was made from."""
    return {
        "get_snapshot": lambda: store.get_snapshot(made.snapshot_id),
        "list_blocks": lambda: store.list_blocks(made.snapshot_id),
        "render_snapshot": lambda: store.render_snapshot(
            made.snapshot_id, inputs.SnapshotRendering(provider="openai", model="m-1")
        ),
        "verify_snapshot": lambda: store.verify_snapshot(made.snapshot_id),
        "get_response": lambda: store.get_response(made.response_id),
        "verify_response": lambda: store.verify_response(made.response_id),
        "list_responses": store.list_responses,
        "get_replay_run": lambda: store.get_replay_run(made.run_id),
        "list_replay_runs": store.list_replay_runs,
        "get_replay_report": lambda: store.get_replay_report(made.run_id),
        "get_artifact": lambda: store.get_artifact(made.artifact_id),
        "get_artifact_content": lambda: store.get_artifact_content(made.artifact_id),
        "list_artifacts": store.list_artifacts,
        "get_bundle": lambda: store.get_bundle(made.bundle_id),
        "list_bundles": store.list_bundles,
    }


# They do not take a session, a branch, or anything made from one; the tests below and others call them.
NOT_OF_A_SESSION = {
    "create_artifact", "delete_artifact", "create_bundle", "delete_bundle", "create_session", "list_sessions",
    "cancel_response", "create_alias", "list_aliases", "get_alias", "create_release", "get_release",
    "cancel_replay_run", "create_purge_job", "list_purge_jobs", "get_purge_job", "get_receipt", "create_project",
    "list_projects", "create_api_key", "list_api_keys", "delete_api_key",
}  # fmt: skip


def test_every_operation_is_said_to_find_a_deleted_session_or_not(model_store: Store) -> None:
    """An operation that is added to the table is added here."""
    made = make(model_store)
    named = [*hidden_calls(model_store, made), *unchanged_calls(model_store, made), *NOT_OF_A_SESSION]

    assert sorted(operation.name for operation in OPERATIONS) == sorted(named)


def test_no_operation_finds_a_deleted_session_or_its_branches(model_store: Store) -> None:
    """Each answers 404 and says that it was deleted; nothing is written, and no model is asked."""
    store = model_store
    made = make(store)
    store.delete_session(made.session.id)
    before = [store.list_responses(), store.list_replay_runs(), store.list_artifacts()]

    for name, call in hidden_calls(store, made).items():
        with pytest.raises(StoreRefused) as error:
            call()
        message = f"session {made.session.id} was deleted"
        assert (404, "not_found", message) == (error.value.status, error.value.reason, error.value.message), name
    assert [] == store.list_sessions().data
    assert before == [store.list_responses(), store.list_replay_runs(), store.list_artifacts()]


def test_what_was_made_from_a_deleted_session_stays_as_it_was(model_store: Store) -> None:
    """Also the stored answer to a call with an idempotency key."""
    store = model_store
    made = make(store)
    before = {name: call() for name, call in unchanged_calls(store, made).items()}
    note = inputs.NewEvent(event_type="note", content="once")
    branch = store.get_branch(*made.at)
    body = inputs.Append(
        event=note, expected_version=branch.version, expected_head_event_id=branch.head_event_id
    )  # fmt: skip
    ask = OperationArguments(made.at, body)
    answer = perform_operation(store, OPERATIONS_BY_NAME["append_event"], ask, "k-1", {"any": "body"})

    store.delete_session(made.session.id)

    assert before == {name: call() for name, call in unchanged_calls(store, made).items()}
    assert answer == perform_operation(store, OPERATIONS_BY_NAME["append_event"], ask, "k-1", {"any": "body"})
    assert store.verify().valid


def test_a_snapshot_of_a_deleted_session_can_still_be_sent_to_a_model(model_store: Store) -> None:
    """The answer is in the response; it is appended to no branch. A replay run of the snapshot works too."""
    store = model_store
    made = make(store)
    store.delete_session(made.session.id)

    response = store.create_response(inputs.NewResponse(model="bot", snapshot_id=made.snapshot_id))
    body = inputs.NewReplayRun(baseline="bot", candidate="bot", snapshot_ids=[made.snapshot_id])
    run = execute_run(store, store.create_replay_run(body, start=False).id)

    assert ("completed", None, 2) == (
        response.status,
        response.event_id,
        response.append_conflict.current_version,
    )
    assert "completed" == run.status


def test_a_deleted_session_is_a_cursor_of_its_list(store: Store) -> None:
    """So a list that is read page by page goes on behind it."""
    sessions = [new_session(store) for _ in range(3)]
    store.delete_session(sessions[1].id)

    assert [sessions[2]] == store.list_sessions(after=sessions[1].id).data


def test_a_deleted_session_can_be_purged_with_what_was_made_from_it(model_store: Store) -> None:
    """A purge finds it, and then everything answers 410 with the receipt."""
    store = model_store
    made = make(store)
    store.delete_session(made.session.id)

    receipt = purge(store, made.session.id)

    for call in (
        lambda: store.get_session(made.session.id),
        lambda: store.get_snapshot(made.snapshot_id),
        lambda: store.get_response(made.response_id),
        lambda: store.get_replay_run(made.run_id),
    ):
        with pytest.raises(ContentPurged) as error:
            call()
        assert receipt.id == error.value.receipt_id

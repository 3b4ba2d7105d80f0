"""A project with a context store: a session with forks and merges, responses of a model, a replay run, a purge."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, NamedTuple

from support.context_builders import append_event, fork_branch, merge_branch, new_artifact, new_session
from support.loopback_models import connect_models, model_server
from support.operation_store import Store
from traceforge.context.api.project_client import project_database
from traceforge.context.model.inputs import NewPurge, NewReplayRun, NewResponse, NewSnapshot
from traceforge.context.model.objects import EventType, MergeStrategy, Progress, ReplayRun, Response

SECONDS_MAX = 30.0
SECRET_NOTE = "The customer's door code is 7714."
CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": "call_1", "type": "function", "function": {"name": "find_order", "arguments": '{"order": 4711}'}}
    ],
}


class ContextProject(NamedTuple):
    """Ids of what the store has."""

    folder: Path
    session: str
    main: str
    refund: str  # A fork of main, merged back as a checkpoint.
    retry: str  # A fork of the fork, copied to main.
    event: str  # The first of main.
    purged_event: str
    purged_snapshot: str
    responses: list[Response]
    replay_run: str
    purge_job: str
    receipt: str


def open_project_store(folder: Path) -> Store:
    """The context store of a project; created if it is missing."""
    (folder / "traceforge.config.json").write_text("{}")
    path = project_database(str(folder))
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    return Store.open(path)


def wait_for_run(store: Store, run: ReplayRun) -> ReplayRun:
    end = time.monotonic() + SECONDS_MAX
    while run.status in (Progress.QUEUED, Progress.RUNNING) and time.monotonic() < end:
        time.sleep(0.02)
        run = store.get_replay_run(run.id)
    assert Progress.COMPLETED is run.status
    return run


def make_context_project(folder: Path, words: str = "Where is my order 4711?") -> ContextProject:
    """Create the store. `words` are the first message, a label and the instructions."""
    opened = open_project_store(folder)
    with model_server() as model:
        store = connect_models(opened, model.url)
        project = _fill(folder, store, words)
    opened.close()
    return project


def _fill(folder: Path, store: Store, words: str) -> ContextProject:
    session = new_session(store, f"You are the desk of a shop. Be brief. {words}", "Refunds need an order number.")
    main = session.default_branch_id
    first = append_event(store, session, words)
    responses = [_respond(store, session.id, main, "Please look it up.", temperature=0)]
    append_event(store, session, CALL, EventType.ASSISTANT_MESSAGE)
    append_event(
        store,
        session,
        {"role": "tool", "tool_call_id": "call_1", "content": '{"status": "lost in transit"}'},
        EventType.TOOL_RESULT,
    )
    refund = fork_branch(store, session, label="refund")
    append_event(store, refund, "I want my money back.")
    responses.append(_respond(store, session.id, refund.id, "How long does it take?"))
    retry = fork_branch(store, refund, at=first, label=f"send again {words[:20]}")
    append_event(store, retry, "Please send it again instead.")
    document = new_artifact(store, "Parcels are insured up to 500 euros.\n" * 40)
    append_event(store, session, event_type=EventType.RETRIEVAL_RESULT, payload_ref=document.id)
    merge_branch(store, refund, session, MergeStrategy.CHECKPOINT)
    merge_branch(store, retry, session, MergeStrategy.REBASE)
    responses.append(_respond(store, session.id, main, "So what will you do?"))
    secret = append_event(store, retry, SECRET_NOTE, EventType.NOTE)
    pinned = store.create_snapshot(session.id, retry.id, NewSnapshot())
    run = store.create_replay_run(
        NewReplayRun(
            baseline="openai/desk-1",
            candidate="openai/desk-2",
            snapshot_ids=[response.snapshot_id for response in responses],
        )
    )
    wait_for_run(store, run)
    job = store.create_purge_job(NewPurge(targets=[secret.id], reason="asked for by the customer"))
    receipt = store.get_receipt(job.id)
    return ContextProject(
        folder, session.id, main, refund.id, retry.id, first.id, secret.id, pinned.id, responses, run.id, job.id,
        receipt.id,
    )  # fmt: skip


def _respond(store: Store, session_id: str, branch_id: str, text: str, **params: Any) -> Response:
    response: Response = store.create_response(
        NewResponse(model="openai/desk-1", session_id=session_id, branch_id=branch_id, input=text, params=params)
    )
    assert Progress.COMPLETED is response.status, response.error
    return response

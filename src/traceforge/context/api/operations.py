"""Every operation of the context store, listed once.

In: nothing. Out: for each operation its name, its route, its types, who may call it, and the function that does it.
Never: a second list; the server, the OpenAPI document, both clients and the tests are made from this one.

To add an operation, write its function and add a row. `reads`, `lists` and `writes` run a function of a transaction:
`function(tx, *ids)`, with `limit` and `after` of a page, or with the body. A function that needs several
transactions, or has to know the caller, takes the store instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from traceforge.context.api import project_operations
from traceforge.context.api.idempotent_operations import (
    create_api_key_once,
    create_replay_run_once,
    create_response_once,
    merge_once,
)
from traceforge.context.api.operation_types import (
    IdempotentFunction,
    Operation,
    OperationArguments,
    OperationFunction,
    Scope,
)
from traceforge.context.comparison import replay_runs, replay_worker
from traceforge.context.compiler import pinned_snapshots
from traceforge.context.history import artifacts, branches, bundles, events, sessions
from traceforge.context.model import inputs, objects, verification_objects
from traceforge.context.model.objects import Page
from traceforge.context.project_store import Store
from traceforge.context.purge import purge_jobs
from traceforge.context.responses import (
    merge_summary,
    model_releases,
    response_operations,
    response_verification,
    snapshot_rendering,
)


def reads(function: Callable[..., Any]) -> OperationFunction:
    """Run `function(tx, *ids)`, or `function(tx, *ids, query)` if it has a query, on one state of the project."""
    return lambda store, arguments: store.read(lambda tx: function(tx, *_values(arguments)))


def lists(function: Callable[..., Any]) -> OperationFunction:
    """Run `function(tx, *ids, limit, after)`, after the inserts that are under way."""
    return lambda store, arguments: store.read_list(
        lambda tx: function(tx, *arguments.ids, arguments.limit, arguments.after)
    )


def reads_page(function: Callable[..., Any]) -> OperationFunction:
    """Run `function(tx, *ids, limit, after)` for a list whose order no insert can disturb."""
    return lambda store, arguments: store.read(
        lambda tx: function(tx, *arguments.ids, arguments.limit, arguments.after)
    )


def writes(function: Callable[..., Any]) -> OperationFunction:
    """Run `function(tx, *ids)`, or `function(tx, *ids, body)` where there is a body, in one transaction."""
    return lambda store, arguments: store.write(lambda tx: function(tx, *_values(arguments)))


def with_store(function: Callable[..., Any]) -> OperationFunction:
    """Call `function(store, *ids)`, or `function(store, *ids, body)` where there is a body."""
    return lambda store, arguments: function(store, *_values(arguments))


def _values(arguments: OperationArguments) -> tuple[Any, ...]:
    return arguments.ids if arguments.body is None else (*arguments.ids, arguments.body)


def _list(name: str, path: str, item: Any, call: OperationFunction, summary: str, scope: Scope = "read") -> Operation:  # noqa: ANN401
    return Operation(name, "GET", path, scope, 200, None, Page[item], call, summary, is_list=True)


def _get(
    name: str, path: str, answer: Any, call: OperationFunction, summary: str,  # noqa: ANN401
    query: type[Struct] | None = None,
) -> Operation:  # fmt: skip
    return Operation(name, "GET", path, "read", 200, None, answer, call, summary, query=query)


def _post(
    name: str, path: str, body: type[Struct] | None, answer: Any, call: OperationFunction, summary: str,  # noqa: ANN401
    *, scope: Scope = "write", status: int = 201, idempotent_call: IdempotentFunction | None = None,
    is_long: bool = False,
) -> Operation:  # fmt: skip
    return Operation(
        name,
        "POST",
        path,
        scope,
        status,
        body,
        answer,
        call,
        summary,
        idempotent_call=idempotent_call,
        is_long=is_long,
    )


def _patch(name: str, path: str, body: type[Struct], answer: Any, call: OperationFunction, summary: str) -> Operation:  # noqa: ANN401
    return Operation(name, "PATCH", path, "write", 200, body, answer, call, summary)


def _delete(name: str, path: str, call: OperationFunction, summary: str, scope: Scope = "write") -> Operation:
    return Operation(name, "DELETE", path, scope, 200, None, objects.Deleted, call, summary)


def _list_responses(store: Store, arguments: OperationArguments) -> Page[objects.Response]:
    return response_operations.list_responses(store, arguments.limit, arguments.after)


_BRANCH = "/sessions/{session_id}/branches/{branch_id}"

# fmt: off
OPERATIONS: tuple[Operation, ...] = (
    _post("create_artifact", "/artifacts", inputs.NewArtifact, objects.Artifact,
          writes(artifacts.create_artifact), "Store content that never changes."),
    _list("list_artifacts", "/artifacts", objects.Artifact,
          lists(artifacts.list_artifacts), "List artifacts, without their content."),
    _get("get_artifact", "/artifacts/{artifact_id}", objects.Artifact,
         reads(artifacts.get_artifact), "Get an artifact, without its content."),
    _delete("delete_artifact", "/artifacts/{artifact_id}",
            writes(artifacts.delete_artifact), "Delete an artifact; bundles and events that use it keep it."),
    _get("get_artifact_content", "/artifacts/{artifact_id}/content", objects.ArtifactContent,
         reads(artifacts.get_artifact_content), "Get the content of an artifact."),

    _post("create_bundle", "/bundles", inputs.NewBundle, objects.Bundle,
          writes(bundles.create_bundle), "Store an ordered list of artifacts."),
    _list("list_bundles", "/bundles", objects.Bundle,
          lists(bundles.list_bundles), "List bundles, oldest first."),
    _get("get_bundle", "/bundles/{bundle_id}", objects.Bundle,
         reads(bundles.get_bundle), "Get a bundle by its id."),
    _delete("delete_bundle", "/bundles/{bundle_id}",
            writes(bundles.delete_bundle), "Delete a bundle; sessions that use it keep it."),

    _post("create_session", "/sessions", inputs.NewSession, objects.Session,
          writes(sessions.create_session), "Start a context session, with an empty first branch."),
    _list("list_sessions", "/sessions", objects.Session,
          lists(sessions.list_sessions), "List context sessions, oldest first."),
    _get("get_session", "/sessions/{session_id}", objects.Session,
         reads(sessions.get_session), "Get a context session by its id."),
    _patch("update_session", "/sessions/{session_id}", inputs.SessionChange, objects.Session,
           writes(sessions.update_session),
           "Change the metadata of a session, archive it, or reopen it."),
    _delete("delete_session", "/sessions/{session_id}",
            writes(sessions.delete_session), "Delete a session; its snapshots stay."),

    _post("fork_branch", "/sessions/{session_id}/branches", inputs.NewBranch, objects.Branch,
          writes(branches.fork_branch), "Fork a branch at its head or at an event."),
    _list("list_branches", "/sessions/{session_id}/branches", objects.Branch,
          lists(branches.list_branches), "List the branches of a session."),
    _get("get_branch", _BRANCH, objects.Branch,
         reads(branches.get_branch), "Get a branch, with its head and version."),
    _patch("update_branch", _BRANCH, inputs.BranchChange, objects.Branch,
           writes(branches.update_branch), "Change the label of a branch."),

    _post("append_event", f"{_BRANCH}/events", inputs.Append, objects.Event,
          writes(events.append_event),
          "Append an event if the branch still has the expected head and version."),
    _list("list_events", f"{_BRANCH}/events", objects.Event,
          reads_page(events.list_events),
          "List the events of a branch, inherited ones first."),
    _post("merge_branch", f"{_BRANCH}/merges", inputs.Merge, objects.Merged,
          with_store(merge_summary.merge_branch),
          "Merge another branch into this one; the other does not change.",
          idempotent_call=merge_once, is_long=True),

    _post("create_snapshot", f"{_BRANCH}/snapshots", inputs.NewSnapshot, objects.Snapshot,
          writes(pinned_snapshots.create_snapshot),
          "Compile a branch and store the result as a snapshot."),
    _list("list_snapshots", f"{_BRANCH}/snapshots", objects.Snapshot,
          lists(pinned_snapshots.list_snapshots), "List the snapshots of a branch."),
    _get("get_snapshot", "/snapshots/{snapshot_id}", objects.Snapshot,
         reads(pinned_snapshots.get_snapshot), "Get a snapshot by its id."),
    _list("list_blocks", "/snapshots/{snapshot_id}/blocks", objects.Block,
          reads_page(pinned_snapshots.list_blocks), "List the blocks of a snapshot, in order."),
    _get("render_snapshot", "/snapshots/{snapshot_id}/render", objects.Rendering,
         reads(snapshot_rendering.render_snapshot),
         "Render a snapshot as the request that a provider would be sent.", inputs.SnapshotRendering),
    _post("verify_snapshot", "/snapshots/{snapshot_id}/verify", None, verification_objects.Verification,
          reads(pinned_snapshots.verify_snapshot), "Compile a snapshot again and compare the digests.",
          scope="read", status=200),

    _post("create_response", "/responses", inputs.NewResponse, objects.Response,
          with_store(response_operations.create_response),
          "Ask a model about a branch or a snapshot; with `stream`, as server-sent events.",
          idempotent_call=create_response_once, is_long=True),
    _list("list_responses", "/responses", objects.Response,
          _list_responses, "List responses, oldest first."),
    _get("get_response", "/responses/{response_id}", objects.Response,
         with_store(response_operations.get_response), "Get a response by its id."),
    _post("verify_response", "/responses/{response_id}/verify", None, verification_objects.ResponseVerification,
          reads(response_verification.verify_response),
          "Render the snapshot of a response again and compare the digests.", scope="read", status=200),
    _post("cancel_response", "/responses/{response_id}/cancel", None, objects.Response,
          with_store(response_operations.cancel_response), "Cancel a response that is in progress.", status=200),

    _post("create_alias", "/model-aliases", inputs.NewAlias, objects.Alias,
          writes(model_releases.create_alias), "Create an alias with its first release."),
    _list("list_aliases", "/model-aliases", objects.Alias,
          lists(model_releases.list_aliases),
          "List aliases; `after` is the name of the last alias you have."),
    _get("get_alias", "/model-aliases/{alias}", objects.Alias,
         reads(model_releases.get_alias), "Get an alias, with its live release."),
    _post("create_release", "/model-aliases/{alias}/releases", inputs.NewRelease, objects.Release,
          writes(model_releases.create_release),
          "Create a release and make it the live one."),
    _get("get_release", "/releases/{release_id}", objects.Release,
         reads(model_releases.get_release), "Get a release, with its targets."),

    _post("create_replay_run", "/replay-runs", inputs.NewReplayRun, objects.ReplayRun,
          with_store(replay_worker.create_replay_run),
          "Send snapshots, or a session, to a baseline and a candidate, and compare the answers.",
          idempotent_call=create_replay_run_once, is_long=True),
    _list("list_replay_runs", "/replay-runs", objects.ReplayRun,
          lists(replay_runs.list_runs), "List replay runs, oldest first."),
    _get("get_replay_run", "/replay-runs/{replay_run_id}", objects.ReplayRun,
         reads(replay_runs.get_run), "Get a replay run and its progress."),
    _get("get_replay_report", "/replay-runs/{replay_run_id}/report", objects.ReplayReport,
         reads(replay_runs.get_report), "Get the report of a completed replay run."),
    _post("cancel_replay_run", "/replay-runs/{replay_run_id}/cancel", None, objects.ReplayRun,
          with_store(replay_worker.cancel_replay_run),
          "Cancel a replay run; finished items are kept.", status=200),

    _post("create_purge_job", "/purge-jobs", inputs.NewPurge, objects.PurgeJob,
          with_store(purge_jobs.start_purge),
          "Remove content permanently, with everything made from it.", scope="admin"),
    _list("list_purge_jobs", "/purge-jobs", objects.PurgeJob,
          lists(purge_jobs.list_purge_jobs), "List purge jobs, oldest first."),
    _get("get_purge_job", "/purge-jobs/{purge_job_id}", objects.PurgeJob,
         reads(purge_jobs.get_purge_job), "Get a purge job and its progress."),
    _get("get_receipt", "/purge-jobs/{purge_job_id}/receipt", objects.Receipt,
         reads(purge_jobs.get_receipt), "Get the receipt of a completed purge: what it removed."),

    _post("create_project", "/projects", inputs.NewProject, objects.Project,
          project_operations.create_project, "Create a project; only the operator may.", scope="admin"),
    _list("list_projects", "/projects", objects.Project,
          project_operations.list_projects, "List the projects that the caller may see.", "admin"),
    _post("create_api_key", "/api-keys", inputs.NewApiKey, objects.ApiKey,
          project_operations.create_api_key, "Create an API key; only this response shows it.", scope="admin",
          idempotent_call=create_api_key_once),
    _list("list_api_keys", "/api-keys", objects.ApiKey,
          project_operations.list_api_keys,
          "List the API keys of the project; for the operator, of all projects.", "admin"),
    _delete("delete_api_key", "/api-keys/{key_id}",
            project_operations.delete_api_key, "Revoke an API key.", "admin"),
)
# fmt: on

OPERATIONS_BY_NAME: Mapping[str, Operation] = {operation.name: operation for operation in OPERATIONS}

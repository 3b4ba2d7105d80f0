"""Every operation of the context store, listed once.

In: nothing. Out: for each operation its name, its route, what it takes, what it answers, who may call it and what it
does. Never: a second list; the server, the OpenAPI document, both clients and the tests are made from this one.

An operation is `call(store, ask)`: a store of one project, and what is asked. To add one, add a row.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypedDict

from msgspec import Struct
from msgspec.structs import replace

from traceforge.context.model import context_snapshot, inputs, objects
from traceforge.context.model.objects import Page
from traceforge.context.storage.paging import unknown_cursor
from traceforge.errors import StoreRefused

if TYPE_CHECKING:
    from traceforge.context.api.context_store import Store
    from traceforge.context.api.idempotency import EncodedResponse, IdempotencyKey

Scope = Literal["read", "write", "admin"]
Method = Literal["GET", "POST", "PATCH", "DELETE"]

# What a scope allows: who may write may read, and who may do everything may do both.
ALLOWS: Mapping[str, frozenset[str]] = {
    "read": frozenset(("read",)),
    "write": frozenset(("read", "write")),
    "admin": frozenset(("read", "write", "admin")),
}
LIMIT_DEFAULT = 20
LIMIT_MAX = 100

# What a name in a path stands for.
PARAMETERS: Mapping[str, Any] = {
    "artifact_id": objects.ArtifactId,
    "bundle_id": objects.BundleId,
    "session_id": context_snapshot.SessionId,
    "branch_id": context_snapshot.BranchId,
    "snapshot_id": context_snapshot.SnapshotId,
    "response_id": objects.ResponseId,
    "release_id": objects.ReleaseId,
    "replay_run_id": objects.ReplayRunId,
    "purge_job_id": objects.PurgeJobId,
    "key_id": objects.KeyId,
    "alias": objects.AliasName,
}

OperationFunction = Callable[["Store", "OperationArguments"], Any]

_NAME = re.compile(r"\{([a-z_]+)\}")


class OperationArguments(NamedTuple):
    """One call: the ids of its path, its body, and which part of a list.

    `operator`: whoever runs the store asks, and not somebody to whom a project was given.
    """

    ids: tuple[str, ...] = ()
    body: Any = None
    limit: int = LIMIT_DEFAULT
    after: str | None = None
    operator: bool = True

    @property
    def first_id(self) -> str:
        """The first id."""
        return self.ids[0]

    @property
    def second_id(self) -> str:
        """The second id."""
        return self.ids[1]


IdempotentFunction = Callable[["Store", OperationArguments, "Operation", "IdempotencyKey"], "EncodedResponse"]


class Operation(NamedTuple):
    """One thing the store does; `path` is below /v2."""

    name: str
    method: Method
    path: str
    scope: Scope
    status: int
    body: type[Struct] | None
    answer: Any  # A Struct, or a Page of them.
    call: OperationFunction
    summary: str
    is_list: bool = False
    idempotent_call: IdempotentFunction | None = (
        None  # The same with a key, where one transaction around `call` is not the way.
    )
    is_long: bool = False  # May it take longer than a transaction should? Then it asks a model, and joins none.
    call_nowait: OperationFunction | None = (
        None  # The same for who must not wait for another writer; None where it would.
    )

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names in its path, in their order."""
        return tuple(_NAME.findall(self.path))

    @property
    def can_stream(self) -> bool:
        """May its answer be had as it comes?"""
        return self.body is not None and "stream" in self.body.__struct_fields__

    @property
    def takes_key(self) -> bool:
        """May it be sent with an idempotency key?"""
        return self.method == "POST"

    def fill_path(self, ids: tuple[str, ...]) -> str:
        """Its path with the ids in it."""
        remaining_ids = iter(ids)
        return _NAME.sub(lambda _: next(remaining_ids), self.path)


def _list(name: str, path: str, item: Any, call: OperationFunction, about: str, scope: Scope = "read") -> Operation:  # noqa: ANN401
    return Operation(name, "GET", path, scope, 200, None, Page[item], call, about, is_list=True)


def _get(name: str, path: str, answer: Any, call: OperationFunction, about: str) -> Operation:  # noqa: ANN401
    return Operation(name, "GET", path, "read", 200, None, answer, call, about)


def _post(
    name: str, path: str, body: type[Struct] | None, answer: Any, call: OperationFunction, about: str,  # noqa: ANN401
    *, scope: Scope = "write", status: int = 201, idempotent_call: IdempotentFunction | None = None,
    is_long: bool = False, call_nowait: OperationFunction | None = None,
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
        about,
        idempotent_call=idempotent_call,
        is_long=is_long,
        call_nowait=call_nowait,
    )


def _patch(name: str, path: str, body: type[Struct], answer: Any, call: OperationFunction, about: str) -> Operation:  # noqa: ANN401
    return Operation(name, "PATCH", path, "write", 200, body, answer, call, about)


def _delete(name: str, path: str, call: OperationFunction, about: str, scope: Scope = "write") -> Operation:
    return Operation(name, "DELETE", path, scope, 200, None, objects.Deleted, call, about)


class _PageArguments(TypedDict):
    limit: int
    after: str | None


def _page(arguments: OperationArguments) -> _PageArguments:
    return {"limit": arguments.limit, "after": arguments.after}


def artifact_content(store: Store, artifact_id: str) -> objects.ArtifactContent:
    """What an artifact holds, as JSON can say it."""
    from traceforge.context.history import artifacts

    row, content = store.read(lambda tx: artifacts.load_artifact_content(tx, artifact_id))
    artifact_content_object = objects.ArtifactContent(id=row.id, content_media_type=row.content_media_type)
    if isinstance(content, bytes):
        return replace(artifact_content_object, content_base64=b64encode(content).decode())
    return replace(artifact_content_object, content=content)


def _create_project(store: Store, arguments: OperationArguments) -> objects.Project:
    if not arguments.operator:
        message = "projects are made by the operator: with an admin key of the first project, or on the command line"
        raise StoreRefused(message, reason="operator_only", status=403)
    return store.create_project(arguments.body)


def _list_projects(store: Store, arguments: OperationArguments) -> Page[objects.Project]:
    """The operator sees all projects, anybody else their own."""
    if arguments.operator:
        return store.list_projects(limit=arguments.limit, after=arguments.after)
    own = store.get_project()
    if arguments.after not in (None, own.id):
        raise unknown_cursor(str(arguments.after))
    return Page(data=[] if arguments.after else [own], has_more=False)


def create_api_key(store: Store, arguments: OperationArguments, key: str | None = None) -> objects.ApiKey:
    """A key for another project is the operator's to make; for anybody else there is no other project.

    `key` is what it shall be; None: a new one.
    """
    wanted = arguments.body.project_id
    if not arguments.operator and wanted not in (None, store.project_id):
        raise StoreRefused(f"there is no project {wanted}", reason="not_found", status=404, param="project_id")
    return store.create_api_key(arguments.body, key)


def _api_key_once(
    store: Store, arguments: OperationArguments, operation: Operation, key: IdempotencyKey
) -> EncodedResponse:
    from traceforge.context.api.idempotent_operations import create_api_key_once

    return create_api_key_once(store, arguments, operation, key)


def _respond_once(
    store: Store, arguments: OperationArguments, operation: Operation, key: IdempotencyKey
) -> EncodedResponse:
    from traceforge.context.api.idempotent_operations import create_response_once

    return create_response_once(store, arguments, operation, key)


def _merge_once(
    store: Store, arguments: OperationArguments, operation: Operation, key: IdempotencyKey
) -> EncodedResponse:
    from traceforge.context.api.idempotent_operations import merge_once

    return merge_once(store, arguments, operation, key)


def _replay_once(
    store: Store, arguments: OperationArguments, operation: Operation, key: IdempotencyKey
) -> EncodedResponse:
    from traceforge.context.api.idempotent_operations import create_replay_run_once

    return create_replay_run_once(store, arguments, operation, key)


_BRANCH = "/sessions/{session_id}/branches/{branch_id}"

# fmt: off
OPERATIONS: tuple[Operation, ...] = (
    _post("create_artifact", "/artifacts", inputs.NewArtifact, objects.Artifact,
          lambda store, args: store.create_artifact(args.body), "Keep a piece of content that never changes."),
    _list("list_artifacts", "/artifacts", objects.Artifact,
          lambda store, args: store.list_artifacts(**_page(args)), "Artifacts, without their content."),
    _get("get_artifact", "/artifacts/{artifact_id}", objects.Artifact,
         lambda store, args: store.get_artifact(*args.ids), "One artifact, without its content."),
    _delete("delete_artifact", "/artifacts/{artifact_id}",
            lambda store, args: store.delete_artifact(*args.ids), "Revoke the handle; what uses it keeps it."),
    _get("get_artifact_content", "/artifacts/{artifact_id}/content", objects.ArtifactContent,
         lambda store, args: artifact_content(store, *args.ids), "What an artifact holds."),

    _post("create_bundle", "/bundles", inputs.NewBundle, objects.Bundle,
          lambda store, args: store.create_bundle(args.body), "Put artifacts into an order that is meaning."),
    _list("list_bundles", "/bundles", objects.Bundle,
          lambda store, args: store.list_bundles(**_page(args)), "Bundles."),
    _get("get_bundle", "/bundles/{bundle_id}", objects.Bundle,
         lambda store, args: store.get_bundle(*args.ids), "One bundle."),
    _delete("delete_bundle", "/bundles/{bundle_id}",
            lambda store, args: store.delete_bundle(*args.ids), "Revoke the handle; what uses it keeps it."),

    _post("create_session", "/sessions", inputs.NewSession, objects.Session,
          lambda store, args: store.create_session(args.body), "Begin a context session, with its first branch."),
    _list("list_sessions", "/sessions", objects.Session,
          lambda store, args: store.list_sessions(**_page(args)), "Context sessions."),
    _get("get_session", "/sessions/{session_id}", objects.Session,
         lambda store, args: store.get_session(*args.ids), "One context session."),
    _patch("update_session", "/sessions/{session_id}", inputs.SessionChange, objects.Session,
           lambda store, args: store.update_session(args.first_id, args.body),
           "Change metadata, archive, or reopen."),
    _delete("delete_session", "/sessions/{session_id}",
            lambda store, args: store.delete_session(*args.ids), "Revoke the handle of a session and all in it."),

    _post("fork_branch", "/sessions/{session_id}/branches", inputs.NewBranch, objects.Branch,
          lambda store, args: store.fork_branch(args.first_id, args.body), "Fork a branch at its head or an event."),
    _list("list_branches", "/sessions/{session_id}/branches", objects.Branch,
          lambda store, args: store.list_branches(*args.ids, **_page(args)), "The branches of a session."),
    _get("get_branch", _BRANCH, objects.Branch,
         lambda store, args: store.get_branch(*args.ids), "One branch, with its head and version."),
    _patch("update_branch", _BRANCH, inputs.BranchChange, objects.Branch,
           lambda store, args: store.update_branch(args.first_id, args.second_id, args.body), "Change its label."),

    _post("append_event", f"{_BRANCH}/events", inputs.Append, objects.Event,
          lambda store, args: store.append_event(args.first_id, args.second_id, args.body),
          "Append one event, if the branch is still where the caller thinks it is."),
    _list("list_events", f"{_BRANCH}/events", objects.Event,
          lambda store, args: store.list_events(*args.ids, **_page(args)),
          "The events of a branch, those it inherited first."),
    _post("merge_branch", f"{_BRANCH}/merges", inputs.Merge, objects.Merged,
          lambda store, args: store.merge_branch(args.first_id, args.second_id, args.body),
          "Bring the past of another branch into this one; the other stays as it is.",
          idempotent_call=_merge_once, is_long=True),

    _post("create_snapshot", f"{_BRANCH}/snapshots", inputs.NewSnapshot, objects.Snapshot,
          lambda store, args: store.create_snapshot(args.first_id, args.second_id, args.body),
          "Compile a branch, and pin it."),
    _list("list_snapshots", f"{_BRANCH}/snapshots", objects.Snapshot,
          lambda store, args: store.list_snapshots(*args.ids, **_page(args)), "The snapshots of a branch."),
    _get("get_snapshot", "/snapshots/{snapshot_id}", objects.Snapshot,
         lambda store, args: store.get_snapshot(*args.ids), "One snapshot."),
    _list("list_blocks", "/snapshots/{snapshot_id}/blocks", objects.Block,
          lambda store, args: store.list_blocks(*args.ids, **_page(args)), "The blocks of a snapshot, in order."),
    _post("verify_snapshot", "/snapshots/{snapshot_id}/verify", None, objects.Verification,
          lambda store, args: store.verify_snapshot(*args.ids), "Compile a snapshot again, and compare.",
          scope="read", status=200),

    _post("create_response", "/responses", inputs.NewResponse, objects.Response,
          lambda store, args: store.create_response(args.body),
          "Ask a model about a branch or a snapshot; with `stream`, as server-sent events.",
          idempotent_call=_respond_once, is_long=True),
    _list("list_responses", "/responses", objects.Response,
          lambda store, args: store.list_responses(limit=args.limit, after=args.after), "Responses."),
    _get("get_response", "/responses/{response_id}", objects.Response,
         lambda store, args: store.get_response(args.first_id), "One response."),
    _post("cancel_response", "/responses/{response_id}/cancel", None, objects.Response,
          lambda store, args: store.cancel_response(args.first_id), "End a response that runs.", status=200),

    _post("create_alias", "/model-aliases", inputs.NewAlias, objects.Alias,
          lambda store, args: store.create_alias(args.body), "Make an alias, with its first release."),
    _list("list_aliases", "/model-aliases", objects.Alias,
          lambda store, args: store.list_aliases(limit=args.limit, after=args.after),
          "Aliases; `after` is the name of the last one seen."),
    _get("get_alias", "/model-aliases/{alias}", objects.Alias,
         lambda store, args: store.get_alias(args.first_id), "One alias, with its live release."),
    _post("create_release", "/model-aliases/{alias}/releases", inputs.NewRelease, objects.Release,
          lambda store, args: store.create_release(args.first_id, args.body),
          "Make a release: it is the live one from then on."),
    _get("get_release", "/releases/{release_id}", objects.Release,
         lambda store, args: store.get_release(args.first_id), "One release, with its targets."),

    _post("create_replay_run", "/replay-runs", inputs.NewReplayRun, objects.ReplayRun,
          lambda store, args: store.create_replay_run(args.body),
          "Replay snapshots, or a session, on a baseline and on a candidate.",
          idempotent_call=_replay_once, is_long=True),
    _list("list_replay_runs", "/replay-runs", objects.ReplayRun,
          lambda store, args: store.list_replay_runs(limit=args.limit, after=args.after), "Replay runs."),
    _get("get_replay_run", "/replay-runs/{replay_run_id}", objects.ReplayRun,
         lambda store, args: store.get_replay_run(args.first_id), "One replay run, and how far it is."),
    _get("get_replay_report", "/replay-runs/{replay_run_id}/report", objects.ReplayReport,
         lambda store, args: store.get_replay_report(args.first_id), "What a completed run found."),
    _post("cancel_replay_run", "/replay-runs/{replay_run_id}/cancel", None, objects.ReplayRun,
          lambda store, args: store.cancel_replay_run(args.first_id),
          "End a run; what was finished stays.", status=200),

    _post("create_purge_job", "/purge-jobs", inputs.NewPurge, objects.PurgeJob,
          lambda store, args: store.create_purge_job(args.body),
          "Remove content for good, with all that was made of it."),
    _list("list_purge_jobs", "/purge-jobs", objects.PurgeJob,
          lambda store, args: store.list_purge_jobs(**_page(args)), "Purge jobs."),
    _get("get_purge_job", "/purge-jobs/{purge_job_id}", objects.PurgeJob,
         lambda store, args: store.get_purge_job(*args.ids), "One purge job, and how far it is."),
    _get("get_receipt", "/purge-jobs/{purge_job_id}/receipt", objects.Receipt,
         lambda store, args: store.get_receipt(*args.ids), "What a purge has removed, once it is completed."),

    _post("create_project", "/projects", inputs.NewProject, objects.Project,
          _create_project, "Make a project. Only the operator may.", scope="admin"),
    _list("list_projects", "/projects", objects.Project,
          _list_projects, "The projects the caller may see.", "admin"),
    _post("create_api_key", "/api-keys", inputs.NewApiKey, objects.ApiKey,
          create_api_key, "Make a key. It is shown once.", scope="admin", idempotent_call=_api_key_once),
    _list("list_api_keys", "/api-keys", objects.ApiKey,
          lambda store, args: store.list_api_keys(**_page(args), everywhere=args.operator),
          "The keys of the project; of every one, for whoever runs the store.", "admin"),
    _delete("delete_api_key", "/api-keys/{key_id}",
            lambda store, args: store.delete_api_key(*args.ids, everywhere=args.operator), "Revoke a key.", "admin"),
)
# fmt: on

OPERATIONS_BY_NAME: Mapping[str, Operation] = {operation.name: operation for operation in OPERATIONS}

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
    from traceforge.context.api.idempotency import Answer, Key

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

Call = Callable[["Store", "Ask"], Any]

_NAME = re.compile(r"\{([a-z_]+)\}")


class Ask(NamedTuple):
    """One call: the ids of its path, its body, and which part of a list.

    `operator`: whoever runs the store asks, and not somebody to whom a project was given.
    """

    ids: tuple[str, ...] = ()
    body: Any = None
    limit: int = LIMIT_DEFAULT
    after: str | None = None
    operator: bool = True

    @property
    def first(self) -> str:
        """The first id."""
        return self.ids[0]

    @property
    def second(self) -> str:
        """The second id."""
        return self.ids[1]


Keyed = Callable[["Store", Ask, "Operation", "Key"], "Answer"]


class Operation(NamedTuple):
    """One thing the store does; `path` is below /v2."""

    name: str
    method: Method
    path: str
    scope: Scope
    status: int
    body: type[Struct] | None
    answer: Any  # A Struct, or a Page of them.
    call: Call
    about: str
    lists: bool = False
    keyed: Keyed | None = None  # The same with a key, where one transaction around `call` is not the way.
    is_long: bool = False  # May it take longer than a transaction should? Then it asks a model, and joins none.
    at_once: Call | None = None  # The same for who must not wait for another writer; None where it would.

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names in its path, in their order."""
        return tuple(_NAME.findall(self.path))

    @property
    def streams(self) -> bool:
        """May its answer be had as it comes?"""
        return self.body is not None and "stream" in self.body.__struct_fields__

    @property
    def takes_key(self) -> bool:
        """May it be sent with an idempotency key?"""
        return self.method == "POST"

    def fill(self, ids: tuple[str, ...]) -> str:
        """Its path with the ids in it."""
        left = iter(ids)
        return _NAME.sub(lambda _: next(left), self.path)


def _list(name: str, path: str, item: Any, call: Call, about: str, scope: Scope = "read") -> Operation:  # noqa: ANN401
    return Operation(name, "GET", path, scope, 200, None, Page[item], call, about, lists=True)


def _get(name: str, path: str, answer: Any, call: Call, about: str) -> Operation:  # noqa: ANN401
    return Operation(name, "GET", path, "read", 200, None, answer, call, about)


def _post(
    name: str, path: str, body: type[Struct] | None, answer: Any, call: Call, about: str,  # noqa: ANN401
    *, scope: Scope = "write", status: int = 201, keyed: Keyed | None = None, is_long: bool = False,
    at_once: Call | None = None,
) -> Operation:  # fmt: skip
    return Operation(
        name, "POST", path, scope, status, body, answer, call, about, keyed=keyed, is_long=is_long, at_once=at_once
    )


def _patch(name: str, path: str, body: type[Struct], answer: Any, call: Call, about: str) -> Operation:  # noqa: ANN401
    return Operation(name, "PATCH", path, "write", 200, body, answer, call, about)


def _delete(name: str, path: str, call: Call, about: str, scope: Scope = "write") -> Operation:
    return Operation(name, "DELETE", path, scope, 200, None, objects.Deleted, call, about)


class _Part(TypedDict):
    limit: int
    after: str | None


def _part(ask: Ask) -> _Part:
    return {"limit": ask.limit, "after": ask.after}


def artifact_content(store: Store, artifact_id: str) -> objects.ArtifactContent:
    """What an artifact holds, as JSON can say it."""
    from traceforge.context.history import artifacts

    row, content = store.read(lambda tx: artifacts.load_artifact_content(tx, artifact_id))
    made = objects.ArtifactContent(id=row.id, content_media_type=row.content_media_type)
    if isinstance(content, bytes):
        return replace(made, content_base64=b64encode(content).decode())
    return replace(made, content=content)


def _create_project(store: Store, ask: Ask) -> objects.Project:
    if not ask.operator:
        told = "projects are made by the operator: with an admin key of the first project, or on the command line"
        raise StoreRefused(told, reason="operator_only", status=403)
    return store.create_project(ask.body)


def _list_projects(store: Store, ask: Ask) -> Page[objects.Project]:
    """The operator sees all projects, anybody else their own."""
    if ask.operator:
        return store.list_projects(limit=ask.limit, after=ask.after)
    own = store.get_project()
    if ask.after not in (None, own.id):
        raise unknown_cursor(str(ask.after))
    return Page(data=[] if ask.after else [own], has_more=False)


def create_api_key(store: Store, ask: Ask, key: str | None = None) -> objects.ApiKey:
    """A key for another project is the operator's to make; for anybody else there is no other project.

    `key` is what it shall be; None: a new one.
    """
    wanted = ask.body.project_id
    if not ask.operator and wanted not in (None, store.project_id):
        raise StoreRefused(f"there is no project {wanted}", reason="not_found", status=404, param="project_id")
    return store.create_api_key(ask.body, key)


def _api_key_once(store: Store, ask: Ask, operation: Operation, key: Key) -> Answer:
    from traceforge.context.api.idempotent_operations import api_key_once

    return api_key_once(store, ask, operation, key)


def _respond_once(store: Store, ask: Ask, operation: Operation, key: Key) -> Answer:
    from traceforge.context.api.idempotent_operations import respond_once

    return respond_once(store, ask, operation, key)


def _merge_once(store: Store, ask: Ask, operation: Operation, key: Key) -> Answer:
    from traceforge.context.api.idempotent_operations import merge_once

    return merge_once(store, ask, operation, key)


def _replay_once(store: Store, ask: Ask, operation: Operation, key: Key) -> Answer:
    from traceforge.context.api.idempotent_operations import replay_once

    return replay_once(store, ask, operation, key)


_BRANCH = "/sessions/{session_id}/branches/{branch_id}"

# fmt: off
OPERATIONS: tuple[Operation, ...] = (
    _post("create_artifact", "/artifacts", inputs.NewArtifact, objects.Artifact,
          lambda store, ask: store.create_artifact(ask.body), "Keep a piece of content that never changes."),
    _list("list_artifacts", "/artifacts", objects.Artifact,
          lambda store, ask: store.list_artifacts(**_part(ask)), "Artifacts, without their content."),
    _get("get_artifact", "/artifacts/{artifact_id}", objects.Artifact,
         lambda store, ask: store.get_artifact(*ask.ids), "One artifact, without its content."),
    _delete("delete_artifact", "/artifacts/{artifact_id}",
            lambda store, ask: store.delete_artifact(*ask.ids), "Revoke the handle; what uses it keeps it."),
    _get("get_artifact_content", "/artifacts/{artifact_id}/content", objects.ArtifactContent,
         lambda store, ask: artifact_content(store, *ask.ids), "What an artifact holds."),

    _post("create_bundle", "/bundles", inputs.NewBundle, objects.Bundle,
          lambda store, ask: store.create_bundle(ask.body), "Put artifacts into an order that is meaning."),
    _list("list_bundles", "/bundles", objects.Bundle,
          lambda store, ask: store.list_bundles(**_part(ask)), "Bundles."),
    _get("get_bundle", "/bundles/{bundle_id}", objects.Bundle,
         lambda store, ask: store.get_bundle(*ask.ids), "One bundle."),
    _delete("delete_bundle", "/bundles/{bundle_id}",
            lambda store, ask: store.delete_bundle(*ask.ids), "Revoke the handle; what uses it keeps it."),

    _post("create_session", "/sessions", inputs.NewSession, objects.Session,
          lambda store, ask: store.create_session(ask.body), "Begin a context session, with its first branch."),
    _list("list_sessions", "/sessions", objects.Session,
          lambda store, ask: store.list_sessions(**_part(ask)), "Context sessions."),
    _get("get_session", "/sessions/{session_id}", objects.Session,
         lambda store, ask: store.get_session(*ask.ids), "One context session."),
    _patch("update_session", "/sessions/{session_id}", inputs.SessionChange, objects.Session,
           lambda store, ask: store.update_session(ask.first, ask.body), "Change metadata, archive, or reopen."),
    _delete("delete_session", "/sessions/{session_id}",
            lambda store, ask: store.delete_session(*ask.ids), "Revoke the handle of a session and all in it."),

    _post("fork_branch", "/sessions/{session_id}/branches", inputs.NewBranch, objects.Branch,
          lambda store, ask: store.fork_branch(ask.first, ask.body), "Fork a branch at its head or an event."),
    _list("list_branches", "/sessions/{session_id}/branches", objects.Branch,
          lambda store, ask: store.list_branches(*ask.ids, **_part(ask)), "The branches of a session."),
    _get("get_branch", _BRANCH, objects.Branch,
         lambda store, ask: store.get_branch(*ask.ids), "One branch, with its head and version."),
    _patch("update_branch", _BRANCH, inputs.BranchChange, objects.Branch,
           lambda store, ask: store.update_branch(ask.first, ask.second, ask.body), "Change its label."),

    _post("append_event", f"{_BRANCH}/events", inputs.Append, objects.Event,
          lambda store, ask: store.append_event(ask.first, ask.second, ask.body),
          "Append one event, if the branch is still where the caller thinks it is."),
    _list("list_events", f"{_BRANCH}/events", objects.Event,
          lambda store, ask: store.list_events(*ask.ids, **_part(ask)),
          "The events of a branch, those it inherited first."),
    _post("merge_branch", f"{_BRANCH}/merges", inputs.Merge, objects.Merged,
          lambda store, ask: store.merge_branch(ask.first, ask.second, ask.body),
          "Bring the past of another branch into this one; the other stays as it is.",
          keyed=_merge_once, is_long=True),

    _post("create_snapshot", f"{_BRANCH}/snapshots", inputs.NewSnapshot, objects.Snapshot,
          lambda store, ask: store.create_snapshot(ask.first, ask.second, ask.body), "Compile a branch, and pin it."),
    _list("list_snapshots", f"{_BRANCH}/snapshots", objects.Snapshot,
          lambda store, ask: store.list_snapshots(*ask.ids, **_part(ask)), "The snapshots of a branch."),
    _get("get_snapshot", "/snapshots/{snapshot_id}", objects.Snapshot,
         lambda store, ask: store.get_snapshot(*ask.ids), "One snapshot."),
    _list("list_blocks", "/snapshots/{snapshot_id}/blocks", objects.Block,
          lambda store, ask: store.list_blocks(*ask.ids, **_part(ask)), "The blocks of a snapshot, in order."),
    _post("verify_snapshot", "/snapshots/{snapshot_id}/verify", None, objects.Verification,
          lambda store, ask: store.verify_snapshot(*ask.ids), "Compile a snapshot again, and compare.",
          scope="read", status=200),

    _post("create_response", "/responses", inputs.NewResponse, objects.Response,
          lambda store, ask: store.create_response(ask.body),
          "Ask a model about a branch or a snapshot; with `stream`, as server-sent events.",
          keyed=_respond_once, is_long=True),
    _list("list_responses", "/responses", objects.Response,
          lambda store, ask: store.list_responses(limit=ask.limit, after=ask.after), "Responses."),
    _get("get_response", "/responses/{response_id}", objects.Response,
         lambda store, ask: store.get_response(ask.first), "One response."),
    _post("cancel_response", "/responses/{response_id}/cancel", None, objects.Response,
          lambda store, ask: store.cancel_response(ask.first), "End a response that runs.", status=200),

    _post("create_alias", "/model-aliases", inputs.NewAlias, objects.Alias,
          lambda store, ask: store.create_alias(ask.body), "Make an alias, with its first release."),
    _list("list_aliases", "/model-aliases", objects.Alias,
          lambda store, ask: store.list_aliases(limit=ask.limit, after=ask.after),
          "Aliases; `after` is the name of the last one seen."),
    _get("get_alias", "/model-aliases/{alias}", objects.Alias,
         lambda store, ask: store.get_alias(ask.first), "One alias, with its live release."),
    _post("create_release", "/model-aliases/{alias}/releases", inputs.NewRelease, objects.Release,
          lambda store, ask: store.create_release(ask.first, ask.body),
          "Make a release: it is the live one from then on."),
    _get("get_release", "/releases/{release_id}", objects.Release,
         lambda store, ask: store.get_release(ask.first), "One release, with its targets."),

    _post("create_replay_run", "/replay-runs", inputs.NewReplayRun, objects.ReplayRun,
          lambda store, ask: store.create_replay_run(ask.body),
          "Replay snapshots, or a session, on a baseline and on a candidate.",
          keyed=_replay_once, is_long=True),
    _list("list_replay_runs", "/replay-runs", objects.ReplayRun,
          lambda store, ask: store.list_replay_runs(limit=ask.limit, after=ask.after), "Replay runs."),
    _get("get_replay_run", "/replay-runs/{replay_run_id}", objects.ReplayRun,
         lambda store, ask: store.get_replay_run(ask.first), "One replay run, and how far it is."),
    _get("get_replay_report", "/replay-runs/{replay_run_id}/report", objects.ReplayReport,
         lambda store, ask: store.get_replay_report(ask.first), "What a completed run found."),
    _post("cancel_replay_run", "/replay-runs/{replay_run_id}/cancel", None, objects.ReplayRun,
          lambda store, ask: store.cancel_replay_run(ask.first), "End a run; what was finished stays.", status=200),

    _post("create_purge_job", "/purge-jobs", inputs.NewPurge, objects.PurgeJob,
          lambda store, ask: store.create_purge_job(ask.body),
          "Remove content for good, with all that was made of it."),
    _list("list_purge_jobs", "/purge-jobs", objects.PurgeJob,
          lambda store, ask: store.list_purge_jobs(**_part(ask)), "Purge jobs."),
    _get("get_purge_job", "/purge-jobs/{purge_job_id}", objects.PurgeJob,
         lambda store, ask: store.get_purge_job(*ask.ids), "One purge job, and how far it is."),
    _get("get_receipt", "/purge-jobs/{purge_job_id}/receipt", objects.Receipt,
         lambda store, ask: store.get_receipt(*ask.ids), "What a purge has removed, once it is completed."),

    _post("create_project", "/projects", inputs.NewProject, objects.Project,
          _create_project, "Make a project. Only the operator may.", scope="admin"),
    _list("list_projects", "/projects", objects.Project,
          _list_projects, "The projects the caller may see.", "admin"),
    _post("create_api_key", "/api-keys", inputs.NewApiKey, objects.ApiKey,
          create_api_key, "Make a key. It is shown once.", scope="admin", keyed=_api_key_once),
    _list("list_api_keys", "/api-keys", objects.ApiKey,
          lambda store, ask: store.list_api_keys(**_part(ask), everywhere=ask.operator),
          "The keys of the project; of every one, for whoever runs the store.", "admin"),
    _delete("delete_api_key", "/api-keys/{key_id}",
            lambda store, ask: store.delete_api_key(*ask.ids, everywhere=ask.operator), "Revoke a key.", "admin"),
)
# fmt: on

BY_NAME: Mapping[str, Operation] = {one.name: one for one in OPERATIONS}

"""Every operation as a coroutine.

Made by `make docs` from the table in `operations`; edit that.

In: ids and fields. Out: the object that the operation answers with. Never: work on the loop's thread.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Literal

from msgspec import UNSET, UnsetType

from traceforge.context.api.operations import LIMIT_DEFAULT, LIMIT_MAX
from traceforge.context.model.context_snapshot import BranchId, CompilerRevision, SessionId, SnapshotId
from traceforge.context.model.inputs import Base64, Label, MediaType, ModelName, Name, NewEvent, PurgeTarget, Scope
from traceforge.context.model.objects import (
    Alias,
    AliasName,
    ApiKey,
    Artifact,
    ArtifactContent,
    ArtifactId,
    ArtifactType,
    Block,
    Branch,
    Bundle,
    BundleId,
    BundleItem,
    Content,
    Count,
    Deleted,
    Event,
    EventId,
    KeyId,
    Merged,
    MergeStrategy,
    Metadata,
    Page,
    Project,
    ProjectId,
    PurgeJob,
    PurgeJobId,
    Receipt,
    Release,
    ReleaseId,
    ReplayReport,
    ReplayRun,
    ReplayRunId,
    Response,
    ResponseEvent,
    ResponseId,
    RetentionClass,
    Session,
    Snapshot,
    Target,
    Verification,
)


class AsyncCalls:
    """The methods of the client that is awaited."""

    async def _ask(
        self,
        name: str,
        ids: tuple[str, ...],
        fields: dict[str, Any],
        *,
        key: str | None = None,
        limit: int = LIMIT_DEFAULT,
        after: str | None = None,
    ) -> Any:  # noqa: ANN401 (the operation's answer)
        raise NotImplementedError  # Whoever has a way to a store says how.

    def _stream(
        self, name: str, ids: tuple[str, ...], fields: dict[str, Any], *, key: str | None = None
    ) -> AsyncIterator[ResponseEvent]:
        raise NotImplementedError  # Whoever has a way to a store says how.

    async def create_artifact(
        self,
        *,
        artifact_type: ArtifactType | str,
        content: Content | UnsetType = UNSET,
        content_base64: Base64 | UnsetType = UNSET,
        content_media_type: MediaType | UnsetType = UNSET,
        retention_class: RetentionClass | str | UnsetType = UNSET,
        metadata: Metadata | UnsetType = UNSET,
        idempotency_key: str | None = None,
    ) -> Artifact:
        """Keep a piece of content that never changes."""
        answer: Artifact = await self._ask(
            "create_artifact",
            (),
            {
                "artifact_type": artifact_type,
                "content": content,
                "content_base64": content_base64,
                "content_media_type": content_media_type,
                "retention_class": retention_class,
                "metadata": metadata,
            },
            key=idempotency_key,
        )
        return answer

    async def list_artifacts(self, *, limit: int = LIMIT_DEFAULT, after: str | None = None) -> Page[Artifact]:
        """Artifacts, without their content."""
        answer: Page[Artifact] = await self._ask("list_artifacts", (), {}, limit=limit, after=after)
        return answer

    async def iterate_artifacts(self) -> AsyncIterator[Artifact]:
        """The same as `list_artifacts`, to its end: pages are fetched as they are needed."""
        after: str | None = None
        while True:
            page = await self.list_artifacts(limit=LIMIT_MAX, after=after)
            for one in page.data:
                yield one
            if not page.has_more:
                return
            after = page.data[-1].id

    async def get_artifact(self, artifact_id: ArtifactId) -> Artifact:
        """One artifact, without its content."""
        answer: Artifact = await self._ask("get_artifact", (artifact_id,), {})
        return answer

    async def delete_artifact(self, artifact_id: ArtifactId) -> Deleted:
        """Revoke the handle; what uses it keeps it."""
        answer: Deleted = await self._ask("delete_artifact", (artifact_id,), {})
        return answer

    async def get_artifact_content(self, artifact_id: ArtifactId) -> ArtifactContent:
        """What an artifact holds."""
        answer: ArtifactContent = await self._ask("get_artifact_content", (artifact_id,), {})
        return answer

    async def create_bundle(
        self, *, items: list[BundleItem], metadata: Metadata | UnsetType = UNSET, idempotency_key: str | None = None
    ) -> Bundle:
        """Put artifacts into an order that is meaning."""
        answer: Bundle = await self._ask(
            "create_bundle", (), {"items": items, "metadata": metadata}, key=idempotency_key
        )
        return answer

    async def list_bundles(self, *, limit: int = LIMIT_DEFAULT, after: str | None = None) -> Page[Bundle]:
        """Bundles."""
        answer: Page[Bundle] = await self._ask("list_bundles", (), {}, limit=limit, after=after)
        return answer

    async def iterate_bundles(self) -> AsyncIterator[Bundle]:
        """The same as `list_bundles`, to its end: pages are fetched as they are needed."""
        after: str | None = None
        while True:
            page = await self.list_bundles(limit=LIMIT_MAX, after=after)
            for one in page.data:
                yield one
            if not page.has_more:
                return
            after = page.data[-1].id

    async def get_bundle(self, bundle_id: BundleId) -> Bundle:
        """One bundle."""
        answer: Bundle = await self._ask("get_bundle", (bundle_id,), {})
        return answer

    async def delete_bundle(self, bundle_id: BundleId) -> Deleted:
        """Revoke the handle; what uses it keeps it."""
        answer: Deleted = await self._ask("delete_bundle", (bundle_id,), {})
        return answer

    async def create_session(
        self,
        *,
        base_bundle_ids: list[BundleId] | UnsetType = UNSET,
        metadata: Metadata | UnsetType = UNSET,
        idempotency_key: str | None = None,
    ) -> Session:
        """Begin a context session, with its first branch."""
        answer: Session = await self._ask(
            "create_session", (), {"base_bundle_ids": base_bundle_ids, "metadata": metadata}, key=idempotency_key
        )
        return answer

    async def list_sessions(self, *, limit: int = LIMIT_DEFAULT, after: str | None = None) -> Page[Session]:
        """Context sessions."""
        answer: Page[Session] = await self._ask("list_sessions", (), {}, limit=limit, after=after)
        return answer

    async def iterate_sessions(self) -> AsyncIterator[Session]:
        """The same as `list_sessions`, to its end: pages are fetched as they are needed."""
        after: str | None = None
        while True:
            page = await self.list_sessions(limit=LIMIT_MAX, after=after)
            for one in page.data:
                yield one
            if not page.has_more:
                return
            after = page.data[-1].id

    async def get_session(self, session_id: SessionId) -> Session:
        """One context session."""
        answer: Session = await self._ask("get_session", (session_id,), {})
        return answer

    async def update_session(
        self,
        session_id: SessionId,
        *,
        metadata: Metadata | UnsetType = UNSET,
        status: Literal["active", "archived"] | UnsetType = UNSET,
    ) -> Session:
        """Change metadata, archive, or reopen."""
        answer: Session = await self._ask("update_session", (session_id,), {"metadata": metadata, "status": status})
        return answer

    async def delete_session(self, session_id: SessionId) -> Deleted:
        """Revoke the handle of a session and all in it."""
        answer: Deleted = await self._ask("delete_session", (session_id,), {})
        return answer

    async def fork_branch(
        self,
        session_id: SessionId,
        *,
        fork_from_branch_id: BranchId,
        fork_from_event_id: EventId | None = None,
        label: Label | UnsetType = UNSET,
        idempotency_key: str | None = None,
    ) -> Branch:
        """Fork a branch at its head or an event."""
        answer: Branch = await self._ask(
            "fork_branch",
            (session_id,),
            {"fork_from_branch_id": fork_from_branch_id, "fork_from_event_id": fork_from_event_id, "label": label},
            key=idempotency_key,
        )
        return answer

    async def list_branches(
        self, session_id: SessionId, *, limit: int = LIMIT_DEFAULT, after: str | None = None
    ) -> Page[Branch]:
        """The branches of a session."""
        answer: Page[Branch] = await self._ask("list_branches", (session_id,), {}, limit=limit, after=after)
        return answer

    async def iterate_branches(self, session_id: SessionId) -> AsyncIterator[Branch]:
        """The same as `list_branches`, to its end: pages are fetched as they are needed."""
        after: str | None = None
        while True:
            page = await self.list_branches(session_id, limit=LIMIT_MAX, after=after)
            for one in page.data:
                yield one
            if not page.has_more:
                return
            after = page.data[-1].id

    async def get_branch(self, session_id: SessionId, branch_id: BranchId) -> Branch:
        """One branch, with its head and version."""
        answer: Branch = await self._ask(
            "get_branch",
            (
                session_id,
                branch_id,
            ),
            {},
        )
        return answer

    async def update_branch(
        self, session_id: SessionId, branch_id: BranchId, *, label: Label | UnsetType = UNSET
    ) -> Branch:
        """Change its label."""
        answer: Branch = await self._ask(
            "update_branch",
            (
                session_id,
                branch_id,
            ),
            {"label": label},
        )
        return answer

    async def append_event(
        self,
        session_id: SessionId,
        branch_id: BranchId,
        *,
        expected_version: Count,
        expected_head_event_id: EventId | None,
        event: NewEvent,
        idempotency_key: str | None = None,
    ) -> Event:
        """Append one event, if the branch is still where the caller thinks it is."""
        answer: Event = await self._ask(
            "append_event",
            (
                session_id,
                branch_id,
            ),
            {"expected_version": expected_version, "expected_head_event_id": expected_head_event_id, "event": event},
            key=idempotency_key,
        )
        return answer

    async def list_events(
        self, session_id: SessionId, branch_id: BranchId, *, limit: int = LIMIT_DEFAULT, after: str | None = None
    ) -> Page[Event]:
        """The events of a branch, those it inherited first."""
        answer: Page[Event] = await self._ask(
            "list_events",
            (
                session_id,
                branch_id,
            ),
            {},
            limit=limit,
            after=after,
        )
        return answer

    async def iterate_events(self, session_id: SessionId, branch_id: BranchId) -> AsyncIterator[Event]:
        """The same as `list_events`, to its end: pages are fetched as they are needed."""
        after: str | None = None
        while True:
            page = await self.list_events(session_id, branch_id, limit=LIMIT_MAX, after=after)
            for one in page.data:
                yield one
            if not page.has_more:
                return
            after = page.data[-1].id

    async def merge_branch(
        self,
        session_id: SessionId,
        branch_id: BranchId,
        *,
        source_branch_id: BranchId,
        strategy: MergeStrategy | str,
        expected_version: Count,
        expected_head_event_id: EventId | None,
        summary: Content | None = None,
        model: ModelName | None = None,
        label: Label | UnsetType = UNSET,
        idempotency_key: str | None = None,
    ) -> Merged:
        """Bring the past of another branch into this one; the other stays as it is."""
        answer: Merged = await self._ask(
            "merge_branch",
            (
                session_id,
                branch_id,
            ),
            {
                "source_branch_id": source_branch_id,
                "strategy": strategy,
                "expected_version": expected_version,
                "expected_head_event_id": expected_head_event_id,
                "summary": summary,
                "model": model,
                "label": label,
            },
            key=idempotency_key,
        )
        return answer

    async def create_snapshot(
        self,
        session_id: SessionId,
        branch_id: BranchId,
        *,
        prompt_compiler_revision: CompilerRevision | None = None,
        idempotency_key: str | None = None,
    ) -> Snapshot:
        """Compile a branch, and pin it."""
        answer: Snapshot = await self._ask(
            "create_snapshot",
            (
                session_id,
                branch_id,
            ),
            {"prompt_compiler_revision": prompt_compiler_revision},
            key=idempotency_key,
        )
        return answer

    async def list_snapshots(
        self, session_id: SessionId, branch_id: BranchId, *, limit: int = LIMIT_DEFAULT, after: str | None = None
    ) -> Page[Snapshot]:
        """The snapshots of a branch."""
        answer: Page[Snapshot] = await self._ask(
            "list_snapshots",
            (
                session_id,
                branch_id,
            ),
            {},
            limit=limit,
            after=after,
        )
        return answer

    async def iterate_snapshots(self, session_id: SessionId, branch_id: BranchId) -> AsyncIterator[Snapshot]:
        """The same as `list_snapshots`, to its end: pages are fetched as they are needed."""
        after: str | None = None
        while True:
            page = await self.list_snapshots(session_id, branch_id, limit=LIMIT_MAX, after=after)
            for one in page.data:
                yield one
            if not page.has_more:
                return
            after = page.data[-1].id

    async def get_snapshot(self, snapshot_id: SnapshotId) -> Snapshot:
        """One snapshot."""
        answer: Snapshot = await self._ask("get_snapshot", (snapshot_id,), {})
        return answer

    async def list_blocks(
        self, snapshot_id: SnapshotId, *, limit: int = LIMIT_DEFAULT, after: str | None = None
    ) -> Page[Block]:
        """The blocks of a snapshot, in order."""
        answer: Page[Block] = await self._ask("list_blocks", (snapshot_id,), {}, limit=limit, after=after)
        return answer

    async def iterate_blocks(self, snapshot_id: SnapshotId) -> AsyncIterator[Block]:
        """The same as `list_blocks`, to its end: pages are fetched as they are needed."""
        after: str | None = None
        while True:
            page = await self.list_blocks(snapshot_id, limit=LIMIT_MAX, after=after)
            for one in page.data:
                yield one
            if not page.has_more:
                return
            after = page.data[-1].id

    async def verify_snapshot(self, snapshot_id: SnapshotId, *, idempotency_key: str | None = None) -> Verification:
        """Compile a snapshot again, and compare."""
        answer: Verification = await self._ask("verify_snapshot", (snapshot_id,), {}, key=idempotency_key)
        return answer

    async def create_response(
        self,
        *,
        model: ModelName,
        snapshot_id: SnapshotId | None = None,
        session_id: SessionId | None = None,
        branch_id: BranchId | None = None,
        input: Content | None = None,
        expected_version: Count | UnsetType = UNSET,
        expected_head_event_id: EventId | UnsetType | None = UNSET,
        prompt_compiler_revision: CompilerRevision | None = None,
        params: dict[str, Any] | UnsetType = UNSET,
        idempotency_key: str | None = None,
    ) -> Response:
        """Ask a model about a branch or a snapshot."""
        answer: Response = await self._ask(
            "create_response",
            (),
            {
                "model": model,
                "snapshot_id": snapshot_id,
                "session_id": session_id,
                "branch_id": branch_id,
                "input": input,
                "expected_version": expected_version,
                "expected_head_event_id": expected_head_event_id,
                "prompt_compiler_revision": prompt_compiler_revision,
                "params": params,
            },
            key=idempotency_key,
        )
        return answer

    def stream_response(
        self,
        *,
        model: ModelName,
        snapshot_id: SnapshotId | None = None,
        session_id: SessionId | None = None,
        branch_id: BranchId | None = None,
        input: Content | None = None,
        expected_version: Count | UnsetType = UNSET,
        expected_head_event_id: EventId | UnsetType | None = UNSET,
        prompt_compiler_revision: CompilerRevision | None = None,
        params: dict[str, Any] | UnsetType = UNSET,
        idempotency_key: str | None = None,
    ) -> AsyncIterator[ResponseEvent]:
        """The same as `create_response`, as it comes: that it began, each text, and how it ended.

        Nothing is asked before the first event is. Whoever stops early changes nothing: the answer comes to its end,
        and is kept. With a key that was used before, the end is all there is.
        """
        return self._stream(
            "create_response",
            (),
            {
                "model": model,
                "snapshot_id": snapshot_id,
                "session_id": session_id,
                "branch_id": branch_id,
                "input": input,
                "expected_version": expected_version,
                "expected_head_event_id": expected_head_event_id,
                "prompt_compiler_revision": prompt_compiler_revision,
                "params": params,
            },
            key=idempotency_key,
        )

    async def list_responses(self, *, limit: int = LIMIT_DEFAULT, after: str | None = None) -> Page[Response]:
        """Responses."""
        answer: Page[Response] = await self._ask("list_responses", (), {}, limit=limit, after=after)
        return answer

    async def iterate_responses(self) -> AsyncIterator[Response]:
        """The same as `list_responses`, to its end: pages are fetched as they are needed."""
        after: str | None = None
        while True:
            page = await self.list_responses(limit=LIMIT_MAX, after=after)
            for one in page.data:
                yield one
            if not page.has_more:
                return
            after = page.data[-1].id

    async def get_response(self, response_id: ResponseId) -> Response:
        """One response."""
        answer: Response = await self._ask("get_response", (response_id,), {})
        return answer

    async def cancel_response(self, response_id: ResponseId, *, idempotency_key: str | None = None) -> Response:
        """End a response that runs."""
        answer: Response = await self._ask("cancel_response", (response_id,), {}, key=idempotency_key)
        return answer

    async def create_alias(
        self, *, name: AliasName, targets: list[Target], idempotency_key: str | None = None
    ) -> Alias:
        """Make an alias, with its first release."""
        answer: Alias = await self._ask("create_alias", (), {"name": name, "targets": targets}, key=idempotency_key)
        return answer

    async def list_aliases(self, *, limit: int = LIMIT_DEFAULT, after: str | None = None) -> Page[Alias]:
        """Aliases; `after` is the name of the last one seen."""
        answer: Page[Alias] = await self._ask("list_aliases", (), {}, limit=limit, after=after)
        return answer

    async def iterate_aliases(self) -> AsyncIterator[Alias]:
        """The same as `list_aliases`, to its end: pages are fetched as they are needed."""
        after: str | None = None
        while True:
            page = await self.list_aliases(limit=LIMIT_MAX, after=after)
            for one in page.data:
                yield one
            if not page.has_more:
                return
            after = page.data[-1].name

    async def get_alias(self, alias: AliasName) -> Alias:
        """One alias, with its live release."""
        answer: Alias = await self._ask("get_alias", (alias,), {})
        return answer

    async def create_release(
        self, alias: AliasName, *, targets: list[Target], idempotency_key: str | None = None
    ) -> Release:
        """Make a release: it is the live one from then on."""
        answer: Release = await self._ask("create_release", (alias,), {"targets": targets}, key=idempotency_key)
        return answer

    async def get_release(self, release_id: ReleaseId) -> Release:
        """One release, with its targets."""
        answer: Release = await self._ask("get_release", (release_id,), {})
        return answer

    async def create_replay_run(
        self,
        *,
        candidate: ModelName,
        baseline: ModelName,
        snapshot_ids: list[SnapshotId] | UnsetType = UNSET,
        session_id: SessionId | None = None,
        fresh_baseline: bool | UnsetType = UNSET,
        concurrency: int | UnsetType = UNSET,
        idempotency_key: str | None = None,
    ) -> ReplayRun:
        """Replay snapshots, or a session, on a baseline and on a candidate."""
        answer: ReplayRun = await self._ask(
            "create_replay_run",
            (),
            {
                "candidate": candidate,
                "baseline": baseline,
                "snapshot_ids": snapshot_ids,
                "session_id": session_id,
                "fresh_baseline": fresh_baseline,
                "concurrency": concurrency,
            },
            key=idempotency_key,
        )
        return answer

    async def list_replay_runs(self, *, limit: int = LIMIT_DEFAULT, after: str | None = None) -> Page[ReplayRun]:
        """Replay runs."""
        answer: Page[ReplayRun] = await self._ask("list_replay_runs", (), {}, limit=limit, after=after)
        return answer

    async def iterate_replay_runs(self) -> AsyncIterator[ReplayRun]:
        """The same as `list_replay_runs`, to its end: pages are fetched as they are needed."""
        after: str | None = None
        while True:
            page = await self.list_replay_runs(limit=LIMIT_MAX, after=after)
            for one in page.data:
                yield one
            if not page.has_more:
                return
            after = page.data[-1].id

    async def get_replay_run(self, replay_run_id: ReplayRunId) -> ReplayRun:
        """One replay run, and how far it is."""
        answer: ReplayRun = await self._ask("get_replay_run", (replay_run_id,), {})
        return answer

    async def get_replay_report(self, replay_run_id: ReplayRunId) -> ReplayReport:
        """What a completed run found."""
        answer: ReplayReport = await self._ask("get_replay_report", (replay_run_id,), {})
        return answer

    async def cancel_replay_run(self, replay_run_id: ReplayRunId, *, idempotency_key: str | None = None) -> ReplayRun:
        """End a run; what was finished stays."""
        answer: ReplayRun = await self._ask("cancel_replay_run", (replay_run_id,), {}, key=idempotency_key)
        return answer

    async def create_purge_job(
        self, *, targets: list[PurgeTarget], reason: str | UnsetType = UNSET, idempotency_key: str | None = None
    ) -> PurgeJob:
        """Remove content for good, with all that was made of it."""
        answer: PurgeJob = await self._ask(
            "create_purge_job", (), {"targets": targets, "reason": reason}, key=idempotency_key
        )
        return answer

    async def list_purge_jobs(self, *, limit: int = LIMIT_DEFAULT, after: str | None = None) -> Page[PurgeJob]:
        """Purge jobs."""
        answer: Page[PurgeJob] = await self._ask("list_purge_jobs", (), {}, limit=limit, after=after)
        return answer

    async def iterate_purge_jobs(self) -> AsyncIterator[PurgeJob]:
        """The same as `list_purge_jobs`, to its end: pages are fetched as they are needed."""
        after: str | None = None
        while True:
            page = await self.list_purge_jobs(limit=LIMIT_MAX, after=after)
            for one in page.data:
                yield one
            if not page.has_more:
                return
            after = page.data[-1].id

    async def get_purge_job(self, purge_job_id: PurgeJobId) -> PurgeJob:
        """One purge job, and how far it is."""
        answer: PurgeJob = await self._ask("get_purge_job", (purge_job_id,), {})
        return answer

    async def get_receipt(self, purge_job_id: PurgeJobId) -> Receipt:
        """What a purge has removed, once it is completed."""
        answer: Receipt = await self._ask("get_receipt", (purge_job_id,), {})
        return answer

    async def create_project(self, *, name: Name, idempotency_key: str | None = None) -> Project:
        """Make a project. Only the operator may."""
        answer: Project = await self._ask("create_project", (), {"name": name}, key=idempotency_key)
        return answer

    async def list_projects(self, *, limit: int = LIMIT_DEFAULT, after: str | None = None) -> Page[Project]:
        """The projects the caller may see."""
        answer: Page[Project] = await self._ask("list_projects", (), {}, limit=limit, after=after)
        return answer

    async def iterate_projects(self) -> AsyncIterator[Project]:
        """The same as `list_projects`, to its end: pages are fetched as they are needed."""
        after: str | None = None
        while True:
            page = await self.list_projects(limit=LIMIT_MAX, after=after)
            for one in page.data:
                yield one
            if not page.has_more:
                return
            after = page.data[-1].id

    async def create_api_key(
        self,
        *,
        scopes: list[Scope],
        label: Label | UnsetType = UNSET,
        project_id: ProjectId | None = None,
        idempotency_key: str | None = None,
    ) -> ApiKey:
        """Make a key. It is shown once."""
        answer: ApiKey = await self._ask(
            "create_api_key", (), {"scopes": scopes, "label": label, "project_id": project_id}, key=idempotency_key
        )
        return answer

    async def list_api_keys(self, *, limit: int = LIMIT_DEFAULT, after: str | None = None) -> Page[ApiKey]:
        """The keys of the project; of every one, for whoever runs the store."""
        answer: Page[ApiKey] = await self._ask("list_api_keys", (), {}, limit=limit, after=after)
        return answer

    async def iterate_api_keys(self) -> AsyncIterator[ApiKey]:
        """The same as `list_api_keys`, to its end: pages are fetched as they are needed."""
        after: str | None = None
        while True:
            page = await self.list_api_keys(limit=LIMIT_MAX, after=after)
            for one in page.data:
                yield one
            if not page.has_more:
                return
            after = page.data[-1].id

    async def delete_api_key(self, key_id: KeyId) -> Deleted:
        """Revoke a key."""
        answer: Deleted = await self._ask("delete_api_key", (key_id,), {})
        return answer

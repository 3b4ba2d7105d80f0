"""A context store in this process with a method for each operation of the operations table.

`store.create_session(NewSession())` looks up `create_session` in the table and calls it. The arguments are the ids of
the operation's path and then its body; lists also take `limit` and `after`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Self

from traceforge.canon import json_bytes
from traceforge.context.api.open_store import open_store
from traceforge.context.api.operation_types import LIMIT_DEFAULT, OperationArguments
from traceforge.context.api.operations import OPERATIONS_BY_NAME
from traceforge.context.comparison import replay_worker
from traceforge.context.history.artifacts import open_artifact
from traceforge.context.model.inputs import NewReplayRun, NewResponse
from traceforge.context.model.objects import ApiKey, Deleted, Page, Project, ReplayRun
from traceforge.context.model.verification_objects import StoreCheck
from traceforge.context.project_store import Store as ProjectStore
from traceforge.context.purge.purge_jobs import finish_purges
from traceforge.context.responses.response_generation import RunningResponse, start_response
from traceforge.context.responses.response_verification import verify_project
from traceforge.context.storage import projects
from traceforge.context.storage.tables import artifacts


class RawContent(NamedTuple):
    """The bytes of an artifact, and their media type."""

    data: bytes
    media_type: str


class Store(ProjectStore):
    """The store of one project with a method per operation."""

    @classmethod
    def open(cls, target: str, **options: Any) -> Self:
        """Open a database with `open_store`."""
        store = open_store(target, **options)
        return cls(store.database, store.keyring, store.project_id, store.models)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """The operation of this name."""
        if name not in OPERATIONS_BY_NAME:
            raise AttributeError(name)
        return lambda *values, **options: self._call(name, values, **options)

    def _call(
        self,
        name: str,
        values: tuple[Any, ...],
        *,
        limit: int = LIMIT_DEFAULT,
        after: str | None = None,
        operator: bool = True,
    ) -> Any:
        operation = OPERATIONS_BY_NAME[name]
        count = len(operation.parameters)
        ids, body = values[:count], values[count:]
        assert (count, operation.fields is not None) == (len(ids), len(body) == 1), f"{name}{values}"
        return operation.call(self, OperationArguments(ids, body[0] if body else None, limit, after, operator))

    def list_api_keys(self, *, everywhere: bool = False, **page: Any) -> Page[ApiKey]:
        """The API keys of this project, or of every project."""
        api_keys: Page[ApiKey] = self._call("list_api_keys", (), operator=everywhere, **page)
        return api_keys

    def delete_api_key(self, key_id: str, *, everywhere: bool = False) -> Deleted:
        """Revoke an API key of this project, or of any project."""
        deleted: Deleted = self._call("delete_api_key", (key_id,), operator=everywhere)
        return deleted

    def find_api_key(self, key: str) -> ApiKey | None:
        """The stored object of an API key."""
        return self.read(lambda tx: projects.find_api_key(tx.connection, key))

    def get_project(self) -> Project:
        return self.read(projects.get_project)

    def get_artifact_content(self, artifact_id: str) -> RawContent:
        def work(tx: Any) -> RawContent:
            row = tx.load(artifacts, "artifact", artifact_id)
            content, media_type = open_artifact(tx, row)
            if isinstance(content, bytes):
                return RawContent(content, media_type)
            data = content.encode() if isinstance(content, str) else json_bytes(content)
            return RawContent(data, media_type)

        return self.read(work)

    def begin_response(self, body: NewResponse) -> RunningResponse:
        """Start a response whose texts are read as they arrive."""
        return start_response(self, body)

    def create_replay_run(self, body: NewReplayRun, *, start: bool = True) -> ReplayRun:
        """Create a replay run; `start=False` leaves it waiting."""
        return replay_worker.create_replay_run(self, body, start=start)

    def resume_replay_runs(self) -> list[str]:
        """Resume the runs that no process works on."""
        return replay_worker.resume_replay_runs(self)

    def finish_purges(self) -> None:
        """Finish the purges that a crash has interrupted."""
        finish_purges(self)

    def verify(self) -> StoreCheck:
        """Check everything in the project."""
        return self.read(verify_project)

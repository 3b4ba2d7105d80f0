"""What an operation of the context store is: its route, its types, who may call it, and the function that does it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from msgspec import Struct

from traceforge.context.model import context_snapshot, objects

if TYPE_CHECKING:
    from traceforge.context.api.idempotency import EncodedResponse, IdempotencyKey
    from traceforge.context.project_store import Store

Scope = Literal["read", "write", "admin"]
Method = Literal["GET", "POST", "PATCH", "DELETE"]

# The scopes that each scope includes.
ALLOWS: Mapping[str, frozenset[str]] = {
    "read": frozenset(("read",)),
    "write": frozenset(("read", "write")),
    "admin": frozenset(("read", "write", "admin")),
}
LIMIT_DEFAULT = 20
LIMIT_MAX = 100

# The type of each id in a path, by its name.
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
    """One call: the ids of its path, its body or query, and which part of a list.

    `operator`: whether the caller operates the store, and is not limited to one project.
    """

    ids: tuple[str, ...] = ()
    body: Any = None
    limit: int = LIMIT_DEFAULT
    after: str | None = None
    operator: bool = True

    @property
    def first_id(self) -> str:
        return self.ids[0]

    @property
    def second_id(self) -> str:
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
    idempotent_call: IdempotentFunction | None = None  # With a key, where `call` cannot run in one transaction.
    is_long: bool = False  # Whether it calls a model, which takes longer than a transaction should.
    query: type[Struct] | None = None  # The parameters after the path, where it is not a list; each is a text.

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names in its path, in their order."""
        return tuple(_NAME.findall(self.path))

    @property
    def fields(self) -> type[Struct] | None:
        """The type of what a caller gives beside the ids: the body or the query."""
        return self.body or self.query

    @property
    def can_stream(self) -> bool:
        """Whether the response can be streamed."""
        return self.body is not None and "stream" in self.body.__struct_fields__

    @property
    def takes_key(self) -> bool:
        """Whether a request may carry an idempotency key."""
        return self.method == "POST"

    def fill_path(self, ids: tuple[str, ...]) -> str:
        """Its path with the ids in it."""
        remaining_ids = iter(ids)
        return _NAME.sub(lambda _: next(remaining_ids), self.path)

"""The tables of the context store: one schema for SQLite and PostgreSQL.

In: nothing. Out: tables, for statements to be built from. Never: creates one; the migrations do, and a test compares
both.

`sealed` is content, encrypted under a data key of its own row. `wrapped_key` is that key, encrypted under the key of
the project's `generation`, which is not in the database. A purged row keeps its id and the id of the receipt
(`purged_by`); its content is null. A deleted row has a time in `deleted_at` and keeps its content. In the clear are
ids, times, counts, digests, and what rows are found by: the names of projects and aliases, types, roles and states.
`seq` is the order of insertion, and of every list.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    ForeignKeyConstraint,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    UniqueConstraint,
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

Big = BigInteger().with_variant(Integer(), "sqlite")
Id = String(32)
Time = String(24)
Digest = String(71)


def _seq() -> Column[int]:
    return Column("seq", Big, Identity(), primary_key=True)


def _id() -> Column[str]:
    return Column("id", Id, nullable=False, unique=True)


def _project() -> Column[str]:
    return Column("project_id", Id, ForeignKey("projects.id"), nullable=False)


def _created() -> Column[str]:
    return Column("created_at", Time, nullable=False)


def _deleted() -> Column[str]:
    return Column("deleted_at", Time)


def _purged() -> Column[str]:
    return Column("purged_by", Id)


def _sealed() -> tuple[Column[bytes], Column[bytes], Column[int]]:
    return Column("sealed", LargeBinary), Column("wrapped_key", LargeBinary), Column("generation", Integer)


projects = Table(
    "projects",
    metadata,
    _seq(),
    _id(),
    Column("name", Text, nullable=False),
    Column("generation", Integer, nullable=False),
    _created(),
)

api_keys = Table(
    "api_keys",
    metadata,
    _seq(),
    _id(),
    _project(),
    Column("hash", String(64), nullable=False, unique=True),  # SHA-256 of a key with 256 random bits.
    Column("scopes", Text, nullable=False),  # Joined by a space.
    *_sealed(),  # The label; null where it is empty.
    _created(),
    _deleted(),
)

artifacts = Table(
    "artifacts",
    metadata,
    _seq(),
    _id(),
    _project(),
    Column("artifact_type", String(32), nullable=False),
    Column("kind", String(48), nullable=False),  # The type, with "+json" or "+binary" if the content is not text.
    Column("content_digest", Digest),
    Column("size_bytes", Big),
    Column("retention_class", String(16), nullable=False),
    Column("expires_at", Time),  # Null: never, or purged.
    *_sealed(),
    Column(
        "sealed_metadata", LargeBinary
    ),  # Under the same data key, apart from the content, so that a list need not read the content.
    Column("sealed_media_type", LargeBinary),  # Under the same data key. It may name a file.
    _created(),
    _deleted(),
    _purged(),
    Index(None, "project_id", "seq"),
    Index(
        None,
        "expires_at",
        sqlite_where=Column("expires_at").is_not(None),
        postgresql_where=Column("expires_at").is_not(None),
    ),
)

bundles = Table(
    "bundles",
    metadata,
    _seq(),
    _id(),
    _project(),
    *_sealed(),
    _created(),
    _deleted(),
    _purged(),
    Index(None, "project_id", "seq"),
)

bundle_items = Table(
    "bundle_items",
    metadata,
    Column("bundle_id", Id, ForeignKey("bundles.id"), nullable=False),
    Column("position", Integer, nullable=False),
    Column("artifact_id", Id, ForeignKey("artifacts.id"), nullable=False, index=True),
    Column("role", String(16), nullable=False),
    Column("block_id", Id, nullable=False, unique=True),
    PrimaryKeyConstraint("bundle_id", "position"),
)

sessions = Table(
    "sessions",
    metadata,
    _seq(),
    _id(),
    _project(),
    Column("default_branch_id", Id, nullable=False),
    Column("status", String(16), nullable=False),
    *_sealed(),
    _created(),
    _deleted(),
    _purged(),
    Index(None, "project_id", "seq"),
)

session_bundles = Table(
    "session_bundles",
    metadata,
    Column("session_id", Id, ForeignKey("sessions.id"), nullable=False),
    Column("position", Integer, nullable=False),
    Column("bundle_id", Id, ForeignKey("bundles.id"), nullable=False, index=True),
    PrimaryKeyConstraint("session_id", "position"),
)

branches = Table(
    "branches",
    metadata,
    _seq(),
    _id(),
    _project(),
    Column("session_id", Id, ForeignKey("sessions.id"), nullable=False),
    Column("parent_branch_id", Id),
    Column("forked_from_event_id", Id),
    Column("forked_at", Big, nullable=False),  # The sequence of that event; 0 if nothing is inherited.
    Column("head_event_id", Id),
    Column("version", Big, nullable=False),
    *_sealed(),  # The label; null where it is empty.
    _created(),
    Index(None, "session_id", "seq"),
)

events = Table(
    "events",
    metadata,
    Column("id", Id, primary_key=True),
    Column("project_id", Id, nullable=False),
    Column("session_id", Id, nullable=False),
    Column("branch_id", Id, ForeignKey("branches.id"), nullable=False),
    Column("parent_event_id", Id),
    Column("sequence", Big, nullable=False),
    Column("event_type", String(32), nullable=False),
    Column("role", String(16), nullable=False),
    Column("kind", String(48), nullable=False),
    Column("payload_ref", Id),
    Column("content_digest", Digest),
    Column("block_id", Id, nullable=False),
    Column("rebased_from", Id),
    Column("merged_from", Id),
    *_sealed(),  # Metadata and the inline content, under one key.
    _created(),
    _purged(),
    UniqueConstraint("branch_id", "sequence"),
    Index(
        None,
        "payload_ref",
        sqlite_where=Column("payload_ref").is_not(None),
        postgresql_where=Column("payload_ref").is_not(None),
    ),
)

snapshots = Table(
    "snapshots",
    metadata,
    _seq(),
    _id(),
    _project(),
    Column("session_id", Id, ForeignKey("sessions.id"), nullable=False),
    Column("branch_id", Id, ForeignKey("branches.id"), nullable=False),
    Column("version", Big, nullable=False),
    Column("head_event_id", Id),
    Column("revision", String(16), nullable=False),
    Column("manifest_digest", Digest),
    Column("blocks", Big, nullable=False),
    _created(),
    _purged(),
    Index(None, "branch_id", "seq"),
    Index(None, "session_id"),
)

prefixes = Table(  # The state of a compiler after an event; computed again if missing.
    "prefixes",
    metadata,
    Column("branch_id", Id, ForeignKey("branches.id"), nullable=False),
    Column("revision", String(16), nullable=False),
    Column("sequence", Big, nullable=False),
    Column("state", Text, nullable=False),
    PrimaryKeyConstraint("branch_id", "revision", "sequence"),
)

pages = Table(  # The block ids of many events in one row; computed again if missing.
    "pages",
    metadata,
    Column("branch_id", Id, ForeignKey("branches.id"), nullable=False),
    Column("page", Big, nullable=False),
    Column("block_ids", Text, nullable=False),
    PrimaryKeyConstraint("branch_id", "page"),
)

releases = Table(
    "releases",
    metadata,
    _seq(),
    _id(),
    _project(),
    Column("alias", String(64)),
    *_sealed(),  # The targets, with their parameters.
    _created(),
)

aliases = Table(
    "aliases",
    metadata,
    _seq(),
    _project(),
    Column("name", String(64), nullable=False),
    Column("live_release_id", Id, ForeignKey("releases.id"), nullable=False),
    _created(),
    UniqueConstraint("project_id", "name"),
)

responses = Table(
    "responses",
    metadata,
    _seq(),
    _id(),
    _project(),
    Column("status", String(16), nullable=False),
    Column("session_id", Id, ForeignKey("sessions.id"), nullable=False, index=True),
    Column("branch_id", Id, ForeignKey("branches.id"), nullable=False),
    Column("snapshot_id", Id, ForeignKey("snapshots.id"), nullable=False, index=True),
    Column("release_id", Id, ForeignKey("releases.id"), nullable=False),
    Column("materialization_key", Digest, nullable=False),
    Column("renderer_revision", String(16)),  # Null in rows of the first two schemas.
    Column("input_tokens", Big),
    Column("output_tokens", Big),
    Column("trace_id", Text),
    Column("input_event_id", Id),
    Column("event_id", Id),
    Column("append_conflict", Boolean, nullable=False),
    Column("conflict_version", Big),
    Column("conflict_head_event_id", Id),
    Column("error_code", Text),
    Column("cancel_requested", Boolean, nullable=False),
    Column("lease_owner", Text),
    Column("lease_until", Time),
    *_sealed(),  # The target, the parameters, their digest and that of the request, the output, how it ended.
    _created(),
    Column("completed_at", Time),
    _purged(),
    Index(None, "project_id", "seq"),
)

replay_runs = Table(
    "replay_runs",
    metadata,
    _seq(),
    _id(),
    _project(),
    Column("status", String(16), nullable=False),
    Column("mode", String(16), nullable=False),
    Column("baseline", Id, ForeignKey("releases.id"), nullable=False),
    Column("candidate", Id, ForeignKey("releases.id"), nullable=False),
    Column("session_id", Id, index=True),
    Column("fresh_baseline", Boolean, nullable=False),
    Column("concurrency", Integer, nullable=False),
    Column("total", Big, nullable=False),
    Column("evidence_digest", Digest),
    Column("error_code", Text),
    Column("cancel_requested", Boolean, nullable=False),
    Column("lease_owner", Text),
    Column("lease_until", Time),
    *_sealed(),  # The report.
    _created(),
    Column("completed_at", Time),
    _purged(),
    Index(None, "project_id", "seq"),
)

replay_items = Table(
    "replay_items",
    metadata,
    Column("run_id", Id, ForeignKey("replay_runs.id"), nullable=False),
    Column("position", Integer, nullable=False),
    Column("snapshot_id", Id, ForeignKey("snapshots.id"), nullable=False, index=True),
    Column("response_id", Id),
    Column("status", String(16), nullable=False),
    Column("trace_ids", Text),  # Of the calls made for this item, joined by a space.
    *_sealed(),  # The answers of both lanes, and their differences.
    Column("completed_at", Time),
    _purged(),
    PrimaryKeyConstraint("run_id", "position"),
)

purge_jobs = Table(
    "purge_jobs",
    metadata,
    _seq(),
    _id(),
    _project(),
    Column("status", String(16), nullable=False),
    Column("targets", Text, nullable=False),
    *_sealed(),  # The reason; null where it is empty.
    Column("old_generation", Integer),
    Column("new_generation", Integer),
    Column("pending", Text),  # The traces to be removed after the commit; later, those that were not found.
    Column("error_code", Text),
    Column("receipt_id", Id),
    _created(),
    Column("completed_at", Time),
    Index(None, "project_id", "seq"),
)

receipts = Table(
    "receipts",
    metadata,
    Column("id", Id, primary_key=True),
    _project(),
    Column("purge_job_id", Id, ForeignKey("purge_jobs.id"), nullable=False, unique=True),
    Column("removed", Text, nullable=False),
    Column("invalidated", Text, nullable=False),
    Column("generation", Integer, nullable=False),
    _created(),
)

idempotency = Table(
    "idempotency",
    metadata,
    _project(),
    Column("path", Text, nullable=False),
    Column("key_digest", Digest, nullable=False),  # A digest, because the key may contain private data.
    Column("body_digest", Digest, nullable=False),
    Column("status", Integer),  # Of the HTTP response; null while the request is in flight.
    Column("response_id", Id),  # A retry after a crash continues with this response.
    Column("lease_owner", Text),
    Column("lease_until", Time),
    *_sealed(),  # The HTTP response, byte for byte.
    Column("purged_by", Id),
    Column("created_at", Time, nullable=False, index=True),
    PrimaryKeyConstraint("project_id", "path", "key_digest"),
)

idempotency_subjects = Table(  # The objects that a stored HTTP response is about, for a purge.
    "idempotency_subjects",
    metadata,
    Column("project_id", Id, nullable=False),
    Column("path", Text, nullable=False),
    Column("key_digest", Digest, nullable=False),
    Column("subject_id", Id, nullable=False),
    PrimaryKeyConstraint("project_id", "path", "key_digest", "subject_id"),
    ForeignKeyConstraint(
        ["project_id", "path", "key_digest"],
        ["idempotency.project_id", "idempotency.path", "idempotency.key_digest"],
        ondelete="CASCADE",
    ),
    Index(None, "project_id", "subject_id"),
)

"""The first schema.

Revision ID: 0001
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_BIG_INTEGER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Create every table, those that others refer to first."""
    _create_projects()
    _create_api_keys()
    _create_artifacts()
    _create_bundles()
    _create_idempotency()
    _create_purge_jobs()
    _create_releases()
    _create_sessions()
    _create_aliases()
    _create_branches()
    _create_bundle_items()
    _create_idempotency_subjects()
    _create_receipts()
    _create_replay_runs()
    _create_session_bundles()
    _create_events()
    _create_pages()
    _create_prefixes()
    _create_snapshots()
    _create_replay_items()
    _create_responses()


def _row_number() -> sa.Column[int]:
    return sa.Column("seq", _BIG_INTEGER, sa.Identity(always=False), nullable=False)


def _row_keys(table: str) -> list[sa.Constraint]:
    return [
        sa.PrimaryKeyConstraint("seq", name=op.f(f"pk_{table}")),
        sa.UniqueConstraint("id", name=op.f(f"uq_{table}_id")),
    ]


def _id(name: str, *, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.String(length=32), nullable=nullable)


def _time(name: str, *, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.String(length=24), nullable=nullable)


def _sealed_content() -> list[sa.Column[Any]]:
    return [
        sa.Column("sealed", sa.LargeBinary(), nullable=True),
        sa.Column("wrapped_key", sa.LargeBinary(), nullable=True),
        sa.Column("generation", sa.Integer(), nullable=True),
    ]


def _create_projects() -> None:
    op.create_table(
        "projects",
        _row_number(),
        _id("id"),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        _time("created_at"),
        *_row_keys("projects"),
    )


def _create_api_keys() -> None:
    op.create_table(
        "api_keys",
        _row_number(),
        _id("id"),
        _id("project_id"),
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("scopes", sa.Text(), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        _time("created_at"),
        _time("deleted_at", nullable=True),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_api_keys_project_id")),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_api_keys")),
        sa.UniqueConstraint("hash", name=op.f("uq_api_keys_hash")),
        sa.UniqueConstraint("id", name=op.f("uq_api_keys_id")),
    )


def _create_artifacts() -> None:
    op.create_table(
        "artifacts",
        _row_number(),
        _id("id"),
        _id("project_id"),
        sa.Column("artifact_type", sa.String(length=32), nullable=False),
        sa.Column("kind", sa.String(length=48), nullable=False),
        sa.Column("content_media_type", sa.Text(), nullable=False),
        sa.Column("content_digest", sa.String(length=71), nullable=True),
        sa.Column("size_bytes", _BIG_INTEGER, nullable=True),
        sa.Column("retention_class", sa.String(length=16), nullable=False),
        *_sealed_content(),
        sa.Column("sealed_metadata", sa.LargeBinary(), nullable=True),
        _time("created_at"),
        _time("deleted_at", nullable=True),
        _id("purged_by", nullable=True),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_artifacts_project_id")),
        *_row_keys("artifacts"),
    )
    op.create_index(op.f("ix_artifacts_project_id_seq"), "artifacts", ["project_id", "seq"])


def _create_bundles() -> None:
    op.create_table(
        "bundles",
        _row_number(),
        _id("id"),
        _id("project_id"),
        *_sealed_content(),
        _time("created_at"),
        _time("deleted_at", nullable=True),
        _id("purged_by", nullable=True),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_bundles_project_id")),
        *_row_keys("bundles"),
    )
    op.create_index(op.f("ix_bundles_project_id_seq"), "bundles", ["project_id", "seq"])


def _create_idempotency() -> None:
    op.create_table(
        "idempotency",
        _id("project_id"),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("key_digest", sa.String(length=71), nullable=False),
        sa.Column("body_digest", sa.String(length=71), nullable=False),
        sa.Column("status", sa.Integer(), nullable=True),
        _id("response_id", nullable=True),
        sa.Column("lease_owner", sa.Text(), nullable=True),
        _time("lease_until", nullable=True),
        *_sealed_content(),
        _id("purged_by", nullable=True),
        _time("created_at"),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_idempotency_project_id")),
        sa.PrimaryKeyConstraint("project_id", "path", "key_digest", name=op.f("pk_idempotency")),
    )
    op.create_index(op.f("ix_idempotency_created_at"), "idempotency", ["created_at"])


def _create_purge_jobs() -> None:
    op.create_table(
        "purge_jobs",
        _row_number(),
        _id("id"),
        _id("project_id"),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("targets", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("old_generation", sa.Integer(), nullable=True),
        sa.Column("new_generation", sa.Integer(), nullable=True),
        sa.Column("pending", sa.Text(), nullable=True),
        sa.Column("error_code", sa.Text(), nullable=True),
        _id("receipt_id", nullable=True),
        _time("created_at"),
        _time("completed_at", nullable=True),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_purge_jobs_project_id")),
        *_row_keys("purge_jobs"),
    )
    op.create_index(op.f("ix_purge_jobs_project_id_seq"), "purge_jobs", ["project_id", "seq"])


def _create_releases() -> None:
    op.create_table(
        "releases",
        _row_number(),
        _id("id"),
        _id("project_id"),
        sa.Column("alias", sa.String(length=64), nullable=True),
        sa.Column("targets", sa.Text(), nullable=False),
        sa.Column("targets_digest", sa.String(length=71), nullable=False),
        _time("created_at"),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_releases_project_id")),
        *_row_keys("releases"),
    )
    op.create_index(op.f("ix_releases_project_id_targets_digest"), "releases", ["project_id", "targets_digest"])


def _create_sessions() -> None:
    op.create_table(
        "sessions",
        _row_number(),
        _id("id"),
        _id("project_id"),
        _id("default_branch_id"),
        sa.Column("status", sa.String(length=16), nullable=False),
        *_sealed_content(),
        _time("created_at"),
        _time("deleted_at", nullable=True),
        _id("purged_by", nullable=True),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_sessions_project_id")),
        *_row_keys("sessions"),
    )
    op.create_index(op.f("ix_sessions_project_id_seq"), "sessions", ["project_id", "seq"])


def _create_aliases() -> None:
    op.create_table(
        "aliases",
        _row_number(),
        _id("project_id"),
        sa.Column("name", sa.String(length=64), nullable=False),
        _id("live_release_id"),
        _time("created_at"),
        sa.ForeignKeyConstraint(["live_release_id"], ["releases.id"], name=op.f("fk_aliases_live_release_id")),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_aliases_project_id")),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_aliases")),
        sa.UniqueConstraint("project_id", "name", name=op.f("uq_aliases_project_id_name")),
    )


def _create_branches() -> None:
    op.create_table(
        "branches",
        _row_number(),
        _id("id"),
        _id("project_id"),
        _id("session_id"),
        _id("parent_branch_id", nullable=True),
        _id("forked_from_event_id", nullable=True),
        sa.Column("forked_at", _BIG_INTEGER, nullable=False),
        _id("head_event_id", nullable=True),
        sa.Column("version", _BIG_INTEGER, nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        _time("created_at"),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_branches_project_id")),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name=op.f("fk_branches_session_id")),
        *_row_keys("branches"),
    )
    op.create_index(op.f("ix_branches_session_id_seq"), "branches", ["session_id", "seq"])


def _create_bundle_items() -> None:
    op.create_table(
        "bundle_items",
        _id("bundle_id"),
        sa.Column("position", sa.Integer(), nullable=False),
        _id("artifact_id"),
        sa.Column("role", sa.String(length=16), nullable=False),
        _id("block_id"),
        sa.ForeignKeyConstraint(["artifact_id"], ["artifacts.id"], name=op.f("fk_bundle_items_artifact_id")),
        sa.ForeignKeyConstraint(["bundle_id"], ["bundles.id"], name=op.f("fk_bundle_items_bundle_id")),
        sa.PrimaryKeyConstraint("bundle_id", "position", name=op.f("pk_bundle_items")),
        sa.UniqueConstraint("block_id", name=op.f("uq_bundle_items_block_id")),
    )
    op.create_index(op.f("ix_bundle_items_artifact_id"), "bundle_items", ["artifact_id"])


def _create_idempotency_subjects() -> None:
    op.create_table(
        "idempotency_subjects",
        _id("project_id"),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("key_digest", sa.String(length=71), nullable=False),
        _id("subject_id"),
        sa.ForeignKeyConstraint(
            ["project_id", "path", "key_digest"],
            ["idempotency.project_id", "idempotency.path", "idempotency.key_digest"],
            name=op.f("fk_idempotency_subjects_project_id_path_key_digest"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint(
            "project_id", "path", "key_digest", "subject_id", name=op.f("pk_idempotency_subjects")
        ),
    )
    op.create_index(
        op.f("ix_idempotency_subjects_project_id_subject_id"),
        "idempotency_subjects",
        ["project_id", "subject_id"],
    )


def _create_receipts() -> None:
    op.create_table(
        "receipts",
        _id("id"),
        _id("project_id"),
        _id("purge_job_id"),
        sa.Column("removed", sa.Text(), nullable=False),
        sa.Column("invalidated", sa.Text(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        _time("created_at"),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_receipts_project_id")),
        sa.ForeignKeyConstraint(["purge_job_id"], ["purge_jobs.id"], name=op.f("fk_receipts_purge_job_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_receipts")),
        sa.UniqueConstraint("purge_job_id", name=op.f("uq_receipts_purge_job_id")),
    )


def _create_replay_runs() -> None:
    op.create_table(
        "replay_runs",
        _row_number(),
        _id("id"),
        _id("project_id"),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("mode", sa.String(length=16), nullable=False),
        _id("baseline"),
        _id("candidate"),
        _id("session_id", nullable=True),
        sa.Column("fresh_baseline", sa.Boolean(), nullable=False),
        sa.Column("concurrency", sa.Integer(), nullable=False),
        sa.Column("total", _BIG_INTEGER, nullable=False),
        sa.Column("evidence_digest", sa.String(length=71), nullable=True),
        sa.Column("error_code", sa.Text(), nullable=True),
        sa.Column("cancel_requested", sa.Boolean(), nullable=False),
        sa.Column("lease_owner", sa.Text(), nullable=True),
        _time("lease_until", nullable=True),
        *_sealed_content(),
        _time("created_at"),
        _time("completed_at", nullable=True),
        _id("purged_by", nullable=True),
        sa.ForeignKeyConstraint(["baseline"], ["releases.id"], name=op.f("fk_replay_runs_baseline")),
        sa.ForeignKeyConstraint(["candidate"], ["releases.id"], name=op.f("fk_replay_runs_candidate")),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_replay_runs_project_id")),
        *_row_keys("replay_runs"),
    )
    op.create_index(op.f("ix_replay_runs_project_id_seq"), "replay_runs", ["project_id", "seq"])
    op.create_index(op.f("ix_replay_runs_session_id"), "replay_runs", ["session_id"])


def _create_session_bundles() -> None:
    op.create_table(
        "session_bundles",
        _id("session_id"),
        sa.Column("position", sa.Integer(), nullable=False),
        _id("bundle_id"),
        sa.ForeignKeyConstraint(["bundle_id"], ["bundles.id"], name=op.f("fk_session_bundles_bundle_id")),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name=op.f("fk_session_bundles_session_id")),
        sa.PrimaryKeyConstraint("session_id", "position", name=op.f("pk_session_bundles")),
    )
    op.create_index(op.f("ix_session_bundles_bundle_id"), "session_bundles", ["bundle_id"])


def _create_events() -> None:
    op.create_table(
        "events",
        _id("id"),
        _id("project_id"),
        _id("session_id"),
        _id("branch_id"),
        _id("parent_event_id", nullable=True),
        sa.Column("sequence", _BIG_INTEGER, nullable=False),
        sa.Column("event_type", sa.String(length=32), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("kind", sa.String(length=48), nullable=False),
        _id("payload_ref", nullable=True),
        sa.Column("content_digest", sa.String(length=71), nullable=True),
        _id("block_id"),
        _id("rebased_from", nullable=True),
        _id("merged_from", nullable=True),
        *_sealed_content(),
        _time("created_at"),
        _id("purged_by", nullable=True),
        sa.ForeignKeyConstraint(["branch_id"], ["branches.id"], name=op.f("fk_events_branch_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_events")),
        sa.UniqueConstraint("branch_id", "sequence", name=op.f("uq_events_branch_id_sequence")),
    )
    op.create_index(
        op.f("ix_events_payload_ref"),
        "events",
        ["payload_ref"],
        sqlite_where=sa.text("payload_ref IS NOT NULL"),
        postgresql_where=sa.text("payload_ref IS NOT NULL"),
    )


def _create_pages() -> None:
    op.create_table(
        "pages",
        _id("branch_id"),
        sa.Column("page", _BIG_INTEGER, nullable=False),
        sa.Column("block_ids", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["branch_id"], ["branches.id"], name=op.f("fk_pages_branch_id")),
        sa.PrimaryKeyConstraint("branch_id", "page", name=op.f("pk_pages")),
    )


def _create_prefixes() -> None:
    op.create_table(
        "prefixes",
        _id("branch_id"),
        sa.Column("revision", sa.String(length=16), nullable=False),
        sa.Column("sequence", _BIG_INTEGER, nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["branch_id"], ["branches.id"], name=op.f("fk_prefixes_branch_id")),
        sa.PrimaryKeyConstraint("branch_id", "revision", "sequence", name=op.f("pk_prefixes")),
    )


def _create_snapshots() -> None:
    op.create_table(
        "snapshots",
        _row_number(),
        _id("id"),
        _id("project_id"),
        _id("session_id"),
        _id("branch_id"),
        sa.Column("version", _BIG_INTEGER, nullable=False),
        _id("head_event_id", nullable=True),
        sa.Column("revision", sa.String(length=16), nullable=False),
        sa.Column("manifest_digest", sa.String(length=71), nullable=True),
        sa.Column("blocks", _BIG_INTEGER, nullable=False),
        _time("created_at"),
        _id("purged_by", nullable=True),
        sa.ForeignKeyConstraint(["branch_id"], ["branches.id"], name=op.f("fk_snapshots_branch_id")),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_snapshots_project_id")),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name=op.f("fk_snapshots_session_id")),
        *_row_keys("snapshots"),
    )
    op.create_index(op.f("ix_snapshots_branch_id_seq"), "snapshots", ["branch_id", "seq"])
    op.create_index(op.f("ix_snapshots_session_id"), "snapshots", ["session_id"])


def _create_replay_items() -> None:
    op.create_table(
        "replay_items",
        _id("run_id"),
        sa.Column("position", sa.Integer(), nullable=False),
        _id("snapshot_id"),
        _id("response_id", nullable=True),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("trace_ids", sa.Text(), nullable=True),
        *_sealed_content(),
        _time("completed_at", nullable=True),
        _id("purged_by", nullable=True),
        sa.ForeignKeyConstraint(["run_id"], ["replay_runs.id"], name=op.f("fk_replay_items_run_id")),
        sa.ForeignKeyConstraint(["snapshot_id"], ["snapshots.id"], name=op.f("fk_replay_items_snapshot_id")),
        sa.PrimaryKeyConstraint("run_id", "position", name=op.f("pk_replay_items")),
    )
    op.create_index(op.f("ix_replay_items_snapshot_id"), "replay_items", ["snapshot_id"])


def _create_responses() -> None:
    op.create_table(
        "responses",
        _row_number(),
        _id("id"),
        _id("project_id"),
        sa.Column("status", sa.String(length=16), nullable=False),
        _id("session_id"),
        _id("branch_id"),
        _id("snapshot_id"),
        _id("release_id"),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("materialization_key", sa.String(length=71), nullable=False),
        sa.Column("finish_reason", sa.Text(), nullable=True),
        sa.Column("input_tokens", _BIG_INTEGER, nullable=True),
        sa.Column("output_tokens", _BIG_INTEGER, nullable=True),
        sa.Column("trace_id", sa.Text(), nullable=True),
        _id("input_event_id", nullable=True),
        _id("event_id", nullable=True),
        sa.Column("append_conflict", sa.Boolean(), nullable=False),
        sa.Column("conflict_version", _BIG_INTEGER, nullable=True),
        _id("conflict_head_event_id", nullable=True),
        sa.Column("error_code", sa.Text(), nullable=True),
        sa.Column("cancel_requested", sa.Boolean(), nullable=False),
        sa.Column("lease_owner", sa.Text(), nullable=True),
        _time("lease_until", nullable=True),
        *_sealed_content(),
        _time("created_at"),
        _time("completed_at", nullable=True),
        _id("purged_by", nullable=True),
        sa.ForeignKeyConstraint(["branch_id"], ["branches.id"], name=op.f("fk_responses_branch_id")),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_responses_project_id")),
        sa.ForeignKeyConstraint(["release_id"], ["releases.id"], name=op.f("fk_responses_release_id")),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name=op.f("fk_responses_session_id")),
        sa.ForeignKeyConstraint(["snapshot_id"], ["snapshots.id"], name=op.f("fk_responses_snapshot_id")),
        *_row_keys("responses"),
    )
    op.create_index(op.f("ix_responses_project_id_seq"), "responses", ["project_id", "seq"])
    op.create_index(op.f("ix_responses_session_id"), "responses", ["session_id"])
    op.create_index(op.f("ix_responses_snapshot_id"), "responses", ["snapshot_id"])

"""Add the time at which an artifact expires.

An artifact that was stored before does not expire, also not an ephemeral one: the class had no effect at that time.

Revision ID: 0004
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add the column, and an index of the artifacts that have such a time."""
    op.add_column("artifacts", sa.Column("expires_at", sa.String(24), nullable=True))
    op.create_index(
        op.f("ix_artifacts_expires_at"),
        "artifacts",
        ["expires_at"],
        sqlite_where=sa.text("expires_at IS NOT NULL"),
        postgresql_where=sa.text("expires_at IS NOT NULL"),
    )

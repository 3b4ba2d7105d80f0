"""Add the renderer revision of a response.

How older responses were rendered was not recorded: theirs stays null. Their sealed content has no digest of the
parameters and none of the request. Nothing else may change here later.

Revision ID: 0003
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the column; rows that are there get no value."""
    op.add_column("responses", sa.Column("renderer_revision", sa.String(length=16), nullable=True))

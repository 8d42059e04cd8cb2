"""Bitmaps of many blocks in one row. What is there already is joined in the background, newest first.

A table that a release before this one does not see: what its workers may still write is not in it yet.
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "search_stretches",
        sa.Column("term", sa.LargeBinary(), nullable=False),
        sa.Column("stretch", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("width", sa.Integer(), nullable=False),
        sa.Column("bits", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("term", "stretch"),
    )
    op.create_index(op.f("ix_search_stretches_stretch"), "search_stretches", ["stretch"], unique=False)
    if op.get_bind().dialect.name == "postgresql":
        # Bitmaps are no smaller compressed, and long to compress and to read.
        op.execute("alter table search_stretches alter column bits set storage external")

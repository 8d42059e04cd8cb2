"""Meters shared by channels, their uses, receipts to be asked for, users' own templates.

New tables only: SQLite cannot change one without copying it.
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "channel_meters",
        sa.Column("channel_id", sa.String(), nullable=False),
        sa.Column("meter", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("channel_id", "meter"),
    )
    op.create_index(op.f("ix_channel_meters_meter"), "channel_meters", ["meter"], unique=False)
    op.create_table(
        "meter_uses",
        sa.Column("meter", sa.String(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("attempt_id", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("meter", "started_at", "attempt_id"),
    )
    op.create_table(
        "receipts",
        sa.Column("delivery_id", sa.String(), nullable=False),
        sa.Column("channel_id", sa.String(), nullable=False),
        sa.Column("sent", sa.JSON(), nullable=False),
        sa.Column("looks", sa.Integer(), nullable=False),
        sa.Column("due_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("delivery_id"),
    )
    op.create_index(op.f("ix_receipts_due_at"), "receipts", ["due_at"], unique=False)
    op.create_table(
        "templates",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("pool", sa.String(), nullable=False),
        sa.Column("queue", sa.String(), nullable=False),
        sa.Column("channel", sa.String(), nullable=False),
        sa.Column("item", sa.String(), nullable=False),
        sa.Column("language", sa.String(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("pool", "queue", "channel", "item", "language"),
    )

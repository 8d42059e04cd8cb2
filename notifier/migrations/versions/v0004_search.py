"""Words of the delivery log. What is there already is read in the background, newest first.

Only tables that a release before this one does not see: its workers go on while this runs.
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "search_blocks",
        sa.Column("block", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("after_id", sa.String(), nullable=False),
        sa.Column("last_id", sa.String(), nullable=False),
        sa.Column("used", sa.Integer(), nullable=False),
        sa.Column("is_checked", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("block"),
    )
    op.create_table(
        "search_slots",
        sa.Column(
            "slot",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=False,
            nullable=False,
        ),
        sa.Column("delivery_id", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("slot"),
        sa.UniqueConstraint("delivery_id"),
    )
    op.create_table(
        "search_bits",
        sa.Column("term", sa.LargeBinary(), nullable=False),
        sa.Column("block", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("bits", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("term", "block"),
    )
    op.create_index(op.f("ix_search_bits_block"), "search_bits", ["block"], unique=False)
    op.create_table(
        "search_watch",
        sa.Column("delivery_id", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("attempt_count", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("delivery_id"),
    )

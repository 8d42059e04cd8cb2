"""The first form: the notifier's and the master's tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    _notifier()
    _master()


def _notifier() -> None:
    op.create_table(
        "alert_configs",
        sa.Column("owner_kind", sa.String(), nullable=False),
        sa.Column("owner_id", sa.String(), nullable=False),
        sa.Column("config", sa.JSON(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("owner_kind", "owner_id"),
    )
    op.create_table(
        "alerts",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("pool", sa.String(), nullable=False),
        sa.Column("queue", sa.String(), nullable=False),
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("token_id", sa.String(), nullable=False),
        sa.Column("dedup_key", sa.String(), nullable=True),
        sa.Column("item", sa.String(), nullable=False),
        sa.Column("items", sa.JSON(), nullable=False),
        sa.Column("severity", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("labels", sa.JSON(), nullable=False),
        sa.Column("context", sa.JSON(), nullable=False),
        sa.Column("job_id", sa.String(), nullable=True),
        sa.Column("job_name", sa.String(), nullable=True),
        sa.Column("event_id", sa.String(), nullable=True),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("repeats", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("last_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("resolved_at", sa.BigInteger(), nullable=True),
        sa.Column("acked_at", sa.BigInteger(), nullable=True),
        sa.Column("acked_by", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("alerts_event", "alerts", ["event_id"], unique=False)
    op.create_index("alerts_job", "alerts", ["job_id", "id"], unique=False)
    op.create_index(
        "alerts_open_dedup",
        "alerts",
        ["token_id", "source", "dedup_key"],
        unique=True,
        sqlite_where=sa.text("status = 'firing' and dedup_key is not null"),
        postgresql_where=sa.text("status = 'firing' and dedup_key is not null"),
    )
    op.create_index("alerts_scope", "alerts", ["pool", "queue", "id"], unique=False)
    op.create_table(
        "channels",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("pool", sa.String(), nullable=False),
        sa.Column("queue", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("config", sa.JSON(), nullable=False),
        sa.Column("secrets", sa.Text(), nullable=False),
        sa.Column("language", sa.String(), nullable=True),
        sa.Column("timezone", sa.String(), nullable=True),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("health", sa.String(), nullable=False),
        sa.Column("health_why", sa.Text(), nullable=False),
        sa.Column("paused_until", sa.BigInteger(), nullable=True),
        sa.Column("shard", sa.Integer(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("pool", "queue", "name"),
    )
    op.create_table(
        "deliveries",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("alert_id", sa.String(), nullable=True),
        sa.Column("event_id", sa.String(), nullable=True),
        sa.Column("job_id", sa.String(), nullable=True),
        sa.Column("job_name", sa.String(), nullable=True),
        sa.Column("pool", sa.String(), nullable=False),
        sa.Column("queue", sa.String(), nullable=False),
        sa.Column("channel_id", sa.String(), nullable=False),
        sa.Column("channel", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("item", sa.String(), nullable=False),
        sa.Column("items", sa.JSON(), nullable=False),
        sa.Column("severity", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("language", sa.String(), nullable=False),
        sa.Column("timezone", sa.String(), nullable=False),
        sa.Column("trigger", sa.String(), nullable=False),
        sa.Column("is_digest", sa.Boolean(), nullable=False),
        sa.Column("fallback", sa.JSON(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("order_key", sa.String(), nullable=False),
        sa.Column("shard", sa.Integer(), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("attempt_count", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("first_attempt_at", sa.BigInteger(), nullable=True),
        sa.Column("delivered_at", sa.BigInteger(), nullable=True),
        sa.Column("next_attempt_at", sa.BigInteger(), nullable=True),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("lease_token", sa.String(), nullable=True),
        sa.Column("lease_until", sa.BigInteger(), nullable=True),
        sa.Column("mends", sa.JSON(), nullable=False),
        sa.Column("message", sa.JSON(), nullable=True),
        sa.Column("error_code", sa.String(), nullable=True),
        sa.Column("error_message", sa.Text(), nullable=True),
        sa.Column("error_permanent", sa.Boolean(), nullable=True),
        sa.Column("recipients", sa.JSON(), nullable=False),
        sa.Column("provider_message_id", sa.String(), nullable=True),
        sa.Column("merged_into", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("deliveries_alert", "deliveries", ["alert_id"], unique=False)
    op.create_index("deliveries_channel", "deliveries", ["channel", "id"], unique=False)
    op.create_index(
        "deliveries_due",
        "deliveries",
        ["shard", "next_attempt_at"],
        unique=False,
        sqlite_where=sa.text("state in ('pending','retrying','sending')"),
        postgresql_where=sa.text("state in ('pending','retrying','sending')"),
    )
    op.create_index("deliveries_event", "deliveries", ["event_id"], unique=False)
    op.create_index("deliveries_item", "deliveries", ["item", "id"], unique=False)
    op.create_index("deliveries_job", "deliveries", ["job_id", "id"], unique=False)
    op.create_index("deliveries_kind", "deliveries", ["kind", "id"], unique=False)
    op.create_index("deliveries_merged", "deliveries", ["merged_into"], unique=False)
    op.create_index("deliveries_order", "deliveries", ["channel_id", "order_key", "id"], unique=False)
    op.create_index("deliveries_scope", "deliveries", ["pool", "queue", "id"], unique=False)
    op.create_index("deliveries_state", "deliveries", ["state", "id"], unique=False)
    op.create_table(
        "idempotency",
        sa.Column("token_id", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("fingerprint", sa.String(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=False),
        sa.Column("body", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("token_id", "key"),
    )
    op.create_table(
        "meta",
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("key"),
    )
    op.create_table(
        "shards",
        sa.Column("shard", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("shard"),
    )
    op.create_table(
        "tokens",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("role", sa.String(), nullable=False),
        sa.Column("pool", sa.String(), nullable=True),
        sa.Column("queue", sa.String(), nullable=True),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("pod_id", sa.String(), nullable=True),
        sa.Column("node", sa.String(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("sha256"),
    )
    op.create_index(op.f("ix_tokens_pod_id"), "tokens", ["pod_id"], unique=False)
    op.create_table(
        "attempts",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("delivery_id", sa.String(), nullable=False),
        sa.Column("channel_id", sa.String(), nullable=False),
        sa.Column("n", sa.Integer(), nullable=False),
        sa.Column("part", sa.Integer(), nullable=False),
        sa.Column("parts", sa.Integer(), nullable=False),
        sa.Column("trigger", sa.String(), nullable=False),
        sa.Column("lease_token", sa.String(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("finished_at", sa.BigInteger(), nullable=True),
        sa.Column("outcome", sa.String(), nullable=True),
        sa.Column("http_status", sa.Integer(), nullable=True),
        sa.Column("provider_code", sa.String(), nullable=True),
        sa.Column("provider_message", sa.Text(), nullable=True),
        sa.Column("possible_duplicate", sa.Boolean(), nullable=False),
        sa.Column("recipients", sa.JSON(), nullable=False),
        sa.Column("request", sa.Text(), nullable=True),
        sa.Column("response", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["delivery_id"],
            ["deliveries.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("attempts_channel", "attempts", ["channel_id", "started_at"], unique=False)
    op.create_index("attempts_delivery", "attempts", ["delivery_id", "n"], unique=False)


def _master() -> None:
    op.create_table(
        "agent_lives",
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("boot", sa.String(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("seen_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("owner", "boot"),
    )
    op.create_table(
        "datasources",
        sa.Column("pool", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("type", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("pool", "name"),
    )
    op.create_table(
        "fault_events",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("pool", sa.String(), nullable=False),
        sa.Column("queue", sa.String(), nullable=False),
        sa.Column("run", sa.Integer(), nullable=False),
        sa.Column("incident", sa.Integer(), nullable=False),
        sa.Column("time", sa.BigInteger(), nullable=False),
        sa.Column("fault_class", sa.String(), nullable=False),
        sa.Column("cause", sa.String(), nullable=False),
        sa.Column("reason", sa.JSON(), nullable=False),
        sa.Column("advice", sa.JSON(), nullable=False),
        sa.Column("culprit", sa.JSON(), nullable=False),
        sa.Column("confidence", sa.Double(), nullable=False),
        sa.Column("hardware", sa.Boolean(), nullable=False),
        sa.Column("retryable", sa.Boolean(), nullable=False),
        sa.Column("fingerprint", sa.String(), nullable=False),
        sa.Column("step", sa.Integer(), nullable=True),
        sa.Column("evidence", sa.JSON(), nullable=False),
        sa.Column("decision", sa.JSON(), nullable=False),
        sa.Column("detected_at", sa.BigInteger(), nullable=False),
        sa.Column("decided_at", sa.BigInteger(), nullable=False),
        sa.Column("recovered_at", sa.BigInteger(), nullable=True),
        sa.Column("steps_lost", sa.Integer(), nullable=True),
        sa.Column("downtime_s", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("job_id", "run", "incident"),
    )
    op.create_index("fault_events_job", "fault_events", ["job_id", "id"], unique=False)
    op.create_table(
        "jobs",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("pool", sa.String(), nullable=False),
        sa.Column("queue", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("priority", sa.String(), nullable=False),
        sa.Column("spec", sa.JSON(), nullable=False),
        sa.Column("fault_tolerance", sa.JSON(), nullable=False),
        sa.Column("warnings", sa.JSON(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("run", sa.Integer(), nullable=False),
        sa.Column("restarts_used", sa.Integer(), nullable=False),
        sa.Column("unconditional_used", sa.Integer(), nullable=False),
        sa.Column("stop_requested", sa.Boolean(), nullable=False),
        sa.Column("delete_requested", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=True),
        sa.Column("finished_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("jobs_status", "jobs", ["status"], unique=False)
    op.create_table(
        "leaders",
        sa.Column("pool", sa.String(), nullable=False),
        sa.Column("holder", sa.String(), nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("pool"),
    )
    op.create_table(
        "nodes",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("pool", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("isolated_at", sa.BigInteger(), nullable=True),
        sa.Column("agent_seen_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "observations",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("job_id", sa.String(), nullable=True),
        sa.Column("run", sa.Integer(), nullable=True),
        sa.Column("pod_id", sa.String(), nullable=True),
        sa.Column("node", sa.String(), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=True),
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("received_at", sa.BigInteger(), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("observations_node", "observations", ["node", "id"], unique=False)
    op.create_index("observations_run", "observations", ["job_id", "run", "id"], unique=False)
    op.create_table(
        "pods",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("run", sa.Integer(), nullable=False),
        sa.Column("index", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("node", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("handle", sa.JSON(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=True),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("agent_started_at", sa.BigInteger(), nullable=True),
        sa.Column("agent_seen_at", sa.BigInteger(), nullable=True),
        sa.Column("agent_lost_at", sa.BigInteger(), nullable=True),
        sa.Column("closed_at", sa.BigInteger(), nullable=True),
        sa.Column("stacks_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("job_id", "run", "index"),
    )
    op.create_index(op.f("ix_pods_job_id"), "pods", ["job_id"], unique=False)
    op.create_table(
        "pools",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("fault_isolation", sa.Boolean(), nullable=False),
        sa.Column("isolation_cap", sa.Double(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "queues",
        sa.Column("pool", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("pool", "name"),
    )
    op.create_table(
        "recoveries",
        sa.Column("event_id", sa.String(), nullable=False),
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("run", sa.Integer(), nullable=False),
        sa.Column("stage", sa.String(), nullable=False),
        sa.Column("not_before", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("event_id"),
    )
    op.create_index(op.f("ix_recoveries_job_id"), "recoveries", ["job_id"], unique=False)
    op.create_table(
        "runs",
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("n", sa.Integer(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("first_step_at", sa.BigInteger(), nullable=True),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("first_step", sa.Integer(), nullable=True),
        sa.Column("last_step", sa.Integer(), nullable=True),
        sa.Column("last_step_at", sa.BigInteger(), nullable=True),
        sa.Column("last_log_at", sa.BigInteger(), nullable=True),
        sa.Column("end_reason", sa.String(), nullable=False),
        sa.Column("rhythm", sa.JSON(), nullable=False),
        sa.Column("stacks_wanted_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("job_id", "n"),
    )

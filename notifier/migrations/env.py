"""Run by Alembic, always on the connection that `notifier.migrations.migrate` opened and will commit."""

from alembic import context

import notifier.model  # noqa: F401  fills Base.metadata
from notifier.storage import Base

context.configure(connection=context.config.attributes["connection"], target_metadata=Base.metadata)
context.run_migrations()

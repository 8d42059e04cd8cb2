"""Run by Alembic, always on the connection that `notifier.migrations.migrate` opened and will commit."""

from alembic import context

import notifier.model
import notifier.searchmodel  # noqa: F401  both fill Base.metadata
from notifier.storage import Base

context.configure(connection=context.config.attributes["connection"], target_metadata=Base.metadata)
context.run_migrations()

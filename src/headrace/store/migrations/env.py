"""Run by Alembic: applies migrations on the connection that `store.migrate` hands over.

The connection is inside a transaction that holds the migration lock, and it stays with its
owner to commit.
"""

from alembic import context

from headrace.store.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=True,
    compare_type=True,
)
context.run_migrations()

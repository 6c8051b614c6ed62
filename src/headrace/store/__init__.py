"""The database: schema, migrations, and the way to reach it."""

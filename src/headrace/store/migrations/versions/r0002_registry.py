"""Tenants' terms, several secrets a key, aliases, pins, prices and who changed what."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("UPDATE counters SET name = 'registry' WHERE name = 'keys'")
    _extend_tenants()
    _part_secrets_from_keys()
    _create_aliases()
    _create_pins()
    _create_prices()
    _create_audit()
    # Written out, because SQLite adds a reference only together with its column.
    op.execute(
        "ALTER TABLE charges ADD COLUMN price_id "
        + ("UUID" if _is_postgresql() else "CHAR(32)")
        + " CONSTRAINT fk_charges_price_id REFERENCES prices (id)"
    )
    op.add_column("charges", sa.Column("cost", sa.BigInteger))


def _extend_tenants() -> None:
    for column in (
        sa.Column("service_class", sa.String(20), nullable=False, server_default="default"),
        sa.Column("weight", sa.Integer, nullable=False, server_default="1"),
        sa.Column("enabled", sa.Boolean, nullable=False, server_default=sa.true()),
        sa.Column("limits", sa.Text, nullable=False, server_default="{}"),
        sa.Column("models", sa.Text),
    ):
        op.add_column("tenants", column)


def _part_secrets_from_keys() -> None:
    op.create_table(
        "key_secrets",
        sa.Column("key_id", sa.String(200), nullable=False),
        sa.Column("number", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger),
        sa.PrimaryKeyConstraint("key_id", "number", name="pk_key_secrets"),
        sa.ForeignKeyConstraint(["key_id"], ["keys.id"], name="fk_key_secrets_key_id"),
    )
    op.execute(
        "INSERT INTO key_secrets (key_id, number, digest, created_at)"
        " SELECT id, 1, digest, created_at FROM keys"
    )
    op.drop_column("keys", "digest")
    op.add_column("keys", sa.Column("limits", sa.Text, nullable=False, server_default="{}"))


def _create_aliases() -> None:
    aliases = op.create_table(
        "aliases",
        sa.Column("id", sa.Uuid, nullable=False),
        sa.Column("tenant_id", sa.Uuid),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("target", sa.String(401), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_aliases"),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name="fk_aliases_tenant_id"),
    )
    op.create_index("ix_aliases_tenant_id_name", "aliases", ["tenant_id", "name"], unique=True)
    everybodys = aliases.c.tenant_id.is_(None)
    op.create_index(
        "ix_aliases_everybodys",
        "aliases",
        ["name"],
        unique=True,
        sqlite_where=everybodys,
        postgresql_where=everybodys,
    )


def _create_pins() -> None:
    op.create_table(
        "pins",
        sa.Column("tenant_id", sa.Uuid, nullable=False),
        sa.Column("model", sa.String(200), nullable=False),
        sa.Column("version", sa.String(200), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "model", name="pk_pins"),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name="fk_pins_tenant_id"),
    )


def _create_prices() -> None:
    op.create_table(
        "prices",
        sa.Column("id", sa.Uuid, nullable=False),
        sa.Column("model", sa.String(200), nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("valid_from", sa.BigInteger, nullable=False),
        sa.Column("input", sa.BigInteger, nullable=False),
        sa.Column("cached_input", sa.BigInteger, nullable=False),
        sa.Column("output", sa.BigInteger, nullable=False),
        sa.Column("long_from", sa.Integer),
        sa.Column("long_input", sa.BigInteger),
        sa.Column("long_cached_input", sa.BigInteger),
        sa.Column("long_output", sa.BigInteger),
        sa.PrimaryKeyConstraint("id", name="pk_prices"),
    )
    op.create_index("ix_prices_model_version", "prices", ["model", "version"], unique=True)


def _create_audit() -> None:
    op.create_table(
        "audit",
        sa.Column("id", sa.Uuid, nullable=False),
        sa.Column("moment", sa.BigInteger, nullable=False),
        sa.Column("actor", sa.String(300), nullable=False),
        sa.Column("action", sa.String(40), nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("before", sa.Text),
        sa.Column("after", sa.Text),
        sa.PrimaryKeyConstraint("id", name="pk_audit"),
    )


def _is_postgresql() -> bool:
    return op.get_context().dialect.name == "postgresql"

"""Tenants, keys and charges."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    counters = op.create_table(
        "counters",
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("value", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_counters"),
    )
    op.bulk_insert(counters, [{"name": "keys", "value": 0}])
    op.create_table(
        "tenants",
        sa.Column("id", sa.Uuid, nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_tenants"),
        sa.UniqueConstraint("name", name="uq_tenants_name"),
    )
    op.create_table(
        "keys",
        sa.Column("id", sa.String(200), nullable=False),
        sa.Column("tenant_id", sa.Uuid, nullable=False),
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.Column("scopes", sa.String(200), nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger),
        sa.Column("revoked_at", sa.BigInteger),
        sa.PrimaryKeyConstraint("id", name="pk_keys"),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name="fk_keys_tenant_id"),
    )
    op.create_index("ix_keys_tenant_id", "keys", ["tenant_id"])
    charges = op.create_table(
        "charges",
        sa.Column("id", sa.Uuid, nullable=False),
        sa.Column("edge", sa.Uuid, nullable=False),
        sa.Column("tenant_id", sa.Uuid, nullable=False),
        sa.Column("key_id", sa.String(200), nullable=False),
        sa.Column("request_id", sa.Text, nullable=False),
        sa.Column("endpoint", sa.Text, nullable=False),
        sa.Column("stream", sa.Boolean, nullable=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("model_version", sa.Text, nullable=False),
        sa.Column("opened_at", sa.BigInteger, nullable=False),
        sa.Column("closed_at", sa.BigInteger),
        sa.Column("prompt_tokens", sa.Integer, nullable=False),
        sa.Column("completion_tokens", sa.Integer, nullable=False),
        sa.Column("cached_tokens", sa.Integer, nullable=False),
        sa.Column("reasoning_tokens", sa.Integer, nullable=False),
        sa.Column("ending", sa.String(20)),
        sa.PrimaryKeyConstraint("id", name="pk_charges"),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name="fk_charges_tenant_id"),
        sa.ForeignKeyConstraint(["key_id"], ["keys.id"], name="fk_charges_key_id"),
    )
    op.create_index("ix_charges_tenant_id_opened_at", "charges", ["tenant_id", "opened_at"])
    op.create_index("ix_charges_opened_at", "charges", ["opened_at"])
    is_open = charges.c.ending.is_(None)
    op.create_index(
        "ix_charges_open", "charges", ["edge"], sqlite_where=is_open, postgresql_where=is_open
    )

"""The tables. Written for SQLite and PostgreSQL alike.

Moments are unix milliseconds, identifiers of our own are UUIDs of version 7. Tables change only
by a migration; `HEAD` names the last one.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    Uuid,
)

HEAD = "0001"

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)

counters = Table(
    "counters",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("value", BigInteger, nullable=False),
)
"""Numbers that only grow. `keys`: raised by every change to keys, so that a process that keeps
keys in memory can cheaply ask whether it must forget them."""

tenants = Table(
    "tenants",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("name", String(200), nullable=False, unique=True),
    Column("created_at", BigInteger, nullable=False),
)

keys = Table(
    "keys",
    metadata,
    Column("id", String(200), primary_key=True),
    Column("tenant_id", ForeignKey("tenants.id"), nullable=False, index=True),
    Column("digest", LargeBinary(32), nullable=False),
    Column("scopes", String(200), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger),
    Column("revoked_at", BigInteger),
)
"""id: the public part of the key. digest: HMAC-SHA256 of the whole key under the pepper; the key
itself is nowhere. scopes: words. Keys are never deleted: charges refer to them."""

charges = Table(
    "charges",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("edge", Uuid, nullable=False),
    Column("tenant_id", ForeignKey("tenants.id"), nullable=False),
    Column("key_id", ForeignKey("keys.id"), nullable=False),
    Column("request_id", Text, nullable=False),
    Column("endpoint", Text, nullable=False),
    Column("stream", Boolean, nullable=False),
    Column("model", Text, nullable=False),
    Column("model_version", Text, nullable=False),
    Column("opened_at", BigInteger, nullable=False),
    Column("closed_at", BigInteger),
    Column("prompt_tokens", Integer, nullable=False),
    Column("completion_tokens", Integer, nullable=False),
    Column("cached_tokens", Integer, nullable=False),
    Column("reasoning_tokens", Integer, nullable=False),
    Column("ending", String(20)),
)
"""One row a request. edge: the installation that serves it and will close the charge. ending:
null while the request is on its way. cached_tokens are part of prompt_tokens, reasoning_tokens
of completion_tokens."""

Index("ix_charges_tenant_id_opened_at", charges.c.tenant_id, charges.c.opened_at)
Index("ix_charges_opened_at", charges.c.opened_at)
Index(
    "ix_charges_open",
    charges.c.edge,
    sqlite_where=charges.c.ending.is_(None),
    postgresql_where=charges.c.ending.is_(None),
)

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
    true,
)

HEAD = "0003"

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
"""Numbers that only grow. `probe`: raised to try whether the database can be written. `registry`:
raised by every change to tenants, keys, aliases, pins and prices, so that a process that keeps them
in memory can cheaply ask whether it must forget them."""

changes = Table(
    "changes",
    metadata,
    Column("revision", BigInteger, primary_key=True, autoincrement=False),
    Column("kind", String(20), nullable=False),
    Column("name", Text, nullable=False),
)
"""What the latest changes were about: see `access.revision.Change`. revision: the value that the
counter `registry` had after the change. Old rows are deleted."""

installation = Table(
    "installation",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("value", LargeBinary, nullable=False),
)
"""Values that belong to the whole installation. `pepper_check`: see `access.pepper`."""

tenants = Table(
    "tenants",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("name", String(200), nullable=False, unique=True),
    Column("created_at", BigInteger, nullable=False),
    Column("service_class", String(20), nullable=False, server_default="default"),
    Column("weight", Integer, nullable=False, server_default="1"),
    Column("enabled", Boolean, nullable=False, server_default=true()),
    Column("limits", Text, nullable=False, server_default="{}"),
    Column("models", Text),
)
"""limits: a JSON object, see `access.limits.Limits.given`. models: a JSON list of names, null for
all."""

keys = Table(
    "keys",
    metadata,
    Column("id", String(200), primary_key=True),
    Column("tenant_id", ForeignKey("tenants.id"), nullable=False, index=True),
    Column("scopes", String(200), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger),
    Column("revoked_at", BigInteger),
    Column("limits", Text, nullable=False, server_default="{}"),
)
"""id: the public part of the key. scopes: words. limits: as a tenant's. Keys are never deleted:
charges refer to them."""

key_secrets = Table(
    "key_secrets",
    metadata,
    Column("key_id", ForeignKey("keys.id"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("digest", LargeBinary(32), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger),
)
"""number: 1 for the first of its key. digest: HMAC-SHA256 of the whole key under the pepper; the
key itself is nowhere. Those that ended stay, so that nothing makes them valid again."""

aliases = Table(
    "aliases",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("tenant_id", ForeignKey("tenants.id")),
    Column("name", String(200), nullable=False),
    Column("target", String(401), nullable=False),
)
"""Names for what the model of a request may say: a tenant's, or everybody's if it is null."""

Index("ix_aliases_tenant_id_name", aliases.c.tenant_id, aliases.c.name, unique=True)
Index(
    "ix_aliases_everybodys",
    aliases.c.name,
    unique=True,
    sqlite_where=aliases.c.tenant_id.is_(None),
    postgresql_where=aliases.c.tenant_id.is_(None),
)

pins = Table(
    "pins",
    metadata,
    Column("tenant_id", ForeignKey("tenants.id"), primary_key=True),
    Column("model", String(200), primary_key=True),
    Column("version", String(200), nullable=False),
)
"""Versions of models that tenants stay with."""

prices = Table(
    "prices",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("model", String(200), nullable=False),
    Column("version", Integer, nullable=False),
    Column("valid_from", BigInteger, nullable=False),
    Column("input", BigInteger, nullable=False),
    Column("cached_input", BigInteger, nullable=False),
    Column("output", BigInteger, nullable=False),
    Column("long_from", Integer),
    Column("long_input", BigInteger),
    Column("long_cached_input", BigInteger),
    Column("long_output", BigInteger),
)
"""Nano-units of money a token. version: 1 for the first of its model. long_from: tokens of prompt
from which the long_* ones count; all four are null or none is. Rows are never changed."""

Index("ix_prices_model_version", prices.c.model, prices.c.version, unique=True)

audit = Table(
    "audit",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("moment", BigInteger, nullable=False),
    Column("actor", String(300), nullable=False),
    Column("action", String(40), nullable=False),
    Column("subject", Text, nullable=False),
    Column("before", Text),
    Column("after", Text),
)
"""Who changed what. before, after: JSON objects. Rows are never changed."""

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
    Column("price_id", ForeignKey("prices.id")),
    Column("cost", BigInteger),
)
"""One row a request. edge: the installation that serves it and will close the charge. ending:
null while the request is on its way. cached_tokens are part of prompt_tokens, reasoning_tokens
of completion_tokens. price_id: what the request is charged by, null if its model has no price;
cost: nano-units of money, null until it is closed."""

Index("ix_charges_tenant_id_opened_at", charges.c.tenant_id, charges.c.opened_at)
Index("ix_charges_opened_at", charges.c.opened_at)
Index(
    "ix_charges_open",
    charges.c.edge,
    sqlite_where=charges.c.ending.is_(None),
    postgresql_where=charges.c.ending.is_(None),
)

"""A tenant with a key, requests of it, and what the books say of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import select

from headrace.access.key import Key
from headrace.access.keys import StoredKey, create_key
from headrace.ledger.charge import Ending, OpenCharge
from headrace.ledger.ledger import Ledger
from headrace.store.database import Database
from headrace.store.ids import uuid7
from headrace.store.schema import charges

EDGE = UUID("01890a5d-ac96-774b-bcce-b302099a8057")
OTHER_EDGE = UUID("01890a5d-ac96-774b-bcce-b302099a8058")


def create_holder(database: Database, tenant: str = "acme") -> StoredKey:
    with database.transaction(write=True) as connection:
        return create_key(
            connection, Key.make(), b"pepper", tenant=tenant, scopes=["inference"], actor="test"
        )


@dataclass(frozen=True)
class Books:
    """What a test does with a ledger on a database."""

    database: Database
    holder: StoredKey

    def charge(self, **changes: Any) -> OpenCharge:
        values = {
            "id": uuid7(),
            "tenant_id": self.holder.tenant_id,
            "key_id": self.holder.id,
            "request_id": "req_1",
            "model": "smollm2-135m",
            "model_version": "abc123",
            "endpoint": "/v1/completions",
            "stream": True,
        }
        return OpenCharge(**{**values, **changes})

    def rows(self) -> list[dict[str, Any]]:
        with self.database.transaction() as connection:
            found = connection.execute(select(charges).order_by(charges.c.id))
            return [dict(row._mapping) for row in found]


async def close(
    ledger: Ledger, id: UUID, tokens: int = 7, cached: int = 2, ending: Ending = "stop"
) -> None:
    await ledger.close(
        id,
        prompt_tokens=5,
        completion_tokens=tokens,
        cached_tokens=cached,
        reasoning_tokens=0,
        ending=ending,
    )

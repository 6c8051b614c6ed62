"""Opens charges, closes some and says so; killed by the test at any moment.

Prints "opened ID" and "closed ID TOKENS" once the ledger has acknowledged it.
"""

from __future__ import annotations

import asyncio
import os
import sys
from uuid import UUID

import structlog
from sqlalchemy import make_url

from headrace.ledger.charge import OpenCharge
from headrace.ledger.ledger import Ledger
from headrace.store.database import Database
from headrace.store.ids import uuid7


async def serve(ledger: Ledger, tenant_id: UUID, key_id: str, number: int) -> None:
    while True:
        number += 1
        id = uuid7()
        charge = OpenCharge(
            id=id,
            tenant_id=tenant_id,
            key_id=key_id,
            request_id="req",
            model="m",
            model_version="v",
            endpoint="/v1/completions",
            stream=False,
        )
        await ledger.open(charge).committed()
        os.write(1, f"opened {id}\n".encode())
        await ledger.close(
            id,
            prompt_tokens=1,
            completion_tokens=number,
            cached_tokens=0,
            reasoning_tokens=0,
            ending="stop",
        )
        os.write(1, f"closed {id} {number}\n".encode())


async def main(url: str, edge: str, tenant_id: str, key_id: str) -> None:
    ledger = Ledger(Database.open(make_url(url)), UUID(edge))
    await ledger.start()
    callers = (serve(ledger, UUID(tenant_id), key_id, 1000 * n) for n in range(16))
    await asyncio.gather(*callers)


structlog.configure(logger_factory=structlog.WriteLoggerFactory(sys.stderr))
asyncio.run(main(*sys.argv[1:]))

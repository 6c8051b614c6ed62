"""An edge as a process: `python -m tests.conformance.edge DATABASE_URL PEPPER_HEX`.

It prints its base URL and serves until its standard input ends. Only the model is made up.
"""

from __future__ import annotations

import asyncio
import sys

import uvloop
from sqlalchemy import URL, make_url

from headrace.store.database import Database
from tests.edge.admin.conftest import headquarters_of


async def main(url: URL, pepper: bytes) -> None:
    database = Database.open(url)
    async with headquarters_of(database, pepper) as hq, hq.world.listening() as base_url:
        print(base_url, flush=True)
        await asyncio.to_thread(sys.stdin.read)
    database.close()


if __name__ == "__main__":
    uvloop.run(main(make_url(sys.argv[1]), bytes.fromhex(sys.argv[2])))

"""Readiness knows whether charges can be written down."""

from __future__ import annotations

import pytest

from headrace.store.errors import (
    DatabaseDamaged,
    DatabaseFull,
    DatabaseUnavailable,
    DiskFails,
)
from tests.edge.fakes import World


@pytest.mark.parametrize("kind", [DatabaseUnavailable, DatabaseFull, DatabaseDamaged, DiskFails])
async def test_what_cannot_be_written_is_not_ready_and_tells_no_address(
    kind: type[DatabaseUnavailable],
) -> None:
    async with World() as world:
        assert (await world.http.get("/readyz")).status_code == 200
        world.books.broken = kind("connection to server at 10.0.0.3 failed")
        answer = await world.http.get("/readyz")
        assert (answer.status_code, answer.json()["reason"]) == (503, kind.brief)
        assert "10.0.0.3" not in answer.text
        assert (await world.http.get("/healthz")).status_code == 200
        world.books.broken = None
        assert (await world.http.get("/readyz")).status_code == 200

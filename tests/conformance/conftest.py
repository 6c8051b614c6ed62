from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.edge.fakes import World


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with World() as running:
        yield running
        await running.idle()

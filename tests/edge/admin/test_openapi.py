"""The administration API is as its document says."""

from __future__ import annotations

from pathlib import Path

import msgspec

from headrace.access.limits import Limits
from headrace.api.admin.limits import LimitsChange, LimitsView
from tests.edge.admin.conftest import ROOT, Headquarters
from tests.openapi import hold_to


async def test_schemathesis_passes(hq: Headquarters, tmp_path: Path) -> None:
    """But for what may end the very key that it uses."""
    document = await hq.ask("GET", "/openapi.json")
    async with hq.world.listening() as url:
        but = "--exclude-path-regex=rotate|revoke"
        await hold_to(document, url, ROOT.text, tmp_path, but, examples=8)
    assert (await hq.ask("GET", "/status"))["object"] == "service"


def test_limits_are_those_there_are() -> None:
    known = tuple(Limits.__dataclass_fields__)
    assert LimitsChange.__struct_fields__ == LimitsView.__struct_fields__ == known
    assert msgspec.structs.asdict(LimitsChange()) == dict.fromkeys(known, msgspec.UNSET)

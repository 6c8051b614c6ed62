from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from engines.engine import Engine
from headrace.load.client import LoadError, Server
from headrace.load.workload import Workload, builtin
from measurement import measure, warm_up
from tests.load.fake_server import FakeServer, token, usage

WORKLOAD = Workload(title="", streams=2, requests=5, prompt=4, output=1)


class FakeEngine(Engine):
    name = "fake"

    def __init__(self, server: FakeServer) -> None:
        self.fake = server

    def version(self) -> str:
        return "1"

    def command(self, gguf: Path, port: int, workload: Workload) -> list[str]:
        raise NotImplementedError

    @contextmanager
    def serve(self, gguf: Path, workload: Workload) -> Iterator[Server]:
        with self.fake.running() as server:
            yield server


def test_the_warm_up_is_not_counted() -> None:
    fake = FakeServer([token("a"), usage(4, 1)])
    report = measure(FakeEngine(fake), Path("any"), WORKLOAD)
    assert report is not None
    assert (report.requests, report.output_tokens) == (5, 5)
    assert len(fake.requests) == 2 + 5


def test_what_an_engine_refuses_is_no_failure() -> None:
    fake = FakeServer([b'{"error": {"param": "response_format"}}'], status=400)
    assert measure(FakeEngine(fake), Path("any"), builtin()["W6"]) is None


def test_other_failures_are_told() -> None:
    with pytest.raises(LoadError, match="out of memory"):
        measure(FakeEngine(FakeServer([b"out of memory"], status=500)), Path("any"), WORKLOAD)


def test_the_warm_up_is_as_wide_as_the_workload_and_short() -> None:
    warm = warm_up(builtin()["W5"])
    assert (warm.streams, warm.requests, warm.prompt, warm.output) == (1, 1, 512, 8)
    assert warm_up(builtin()["W4"]).shared == builtin()["W4"].shared
    assert warm_up(builtin()["W3"]).requests == 32

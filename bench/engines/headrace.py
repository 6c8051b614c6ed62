"""This checkout, as `headrace serve` runs it."""

from __future__ import annotations

import sys
from pathlib import Path

import headrace
from engines.engine import KEY, Engine
from headrace.load.workload import Workload


class Headrace(Engine):
    name = "headrace"
    health = "/readyz"

    def version(self) -> str:
        return headrace.__version__

    def command(self, gguf: Path, port: int, workload: Workload) -> list[str]:
        program = Path(sys.executable).with_name("headrace")
        return [str(program), "serve", "--model", str(gguf), "--port", str(port)]

    def environment(self) -> dict[str, str]:
        return {"HEADRACE_BOOTSTRAP_KEY": KEY}

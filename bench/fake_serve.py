"""`headrace serve` as it is, but for its engine, which is `fake_engine`."""

from __future__ import annotations

import sys
from pathlib import Path

from headrace.cli.main import main
from headrace.fleet.supervisor import Supervisor

ENGINE = (sys.executable, str(Path(__file__).with_name("fake_engine.py")))

assert Supervisor.__init__.__kwdefaults__ is not None
Supervisor.__init__.__kwdefaults__["command"] = ENGINE
main()

"""The engines that the benchmark runs side by side, each with its best settings.

An engine is set up once (peers: in an environment of their own under bench/.peers) and
its server started anew for every measurement, alone on the machine.
"""

from __future__ import annotations

from engines.engine import Engine
from engines.headrace import Headrace
from engines.llama_cpp import LlamaCpp, LlamaCppQ4
from engines.openvino import OpenVino, OpenVinoQ4
from engines.vllm import VllmCpu

_ALL = (Headrace(), LlamaCpp(), LlamaCppQ4(), OpenVino(), OpenVinoQ4(), VllmCpu())
ENGINES: dict[str, Engine] = {engine.name: engine for engine in _ALL}

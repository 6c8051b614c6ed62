"""OpenVINO GenAI's continuous batching on the same file, behind bench/openvino_server.py."""

from __future__ import annotations

import json
from pathlib import Path

from engines.engine import PEERS, THREADS, Engine
from engines.environment import Environment
from engines.llama_cpp import requantised
from headrace.load.workload import Workload
from headrace.models.gguf import read_gguf

SERVER = Path(__file__).parents[1] / "openvino_server.py"
READABLE = {"F32", "F16", "Q4_0", "Q4_1", "Q4_K", "Q6_K", "Q8_0"}


class OpenVino(Engine):
    name = "openvino"
    patience = 300
    env = Environment(PEERS / "openvino")

    def setup(self) -> None:
        if not self.env.exists():
            self.env.create()
            self.env.install("openvino-genai")
            self.env.complete()

    def version(self) -> str:
        return self.env.version("openvino-genai")

    def prepare(self, gguf: Path) -> Path:
        """The file itself, or in Q4_0 if it has types OpenVINO refuses (Q5_0, Q5_1, Q5_K)."""
        types = {tensor.type.name for tensor in read_gguf(gguf).tensors.values()}
        return gguf if types <= READABLE else requantised(gguf)

    def command(self, gguf: Path, port: int, workload: Workload) -> list[str]:
        scheduler = {
            "cache_size": 1,
            "max_num_seqs": workload.streams,
            "max_num_batched_tokens": 4096,
            "dynamic_split_fuse": True,
            "enable_prefix_caching": workload.shared > 0,
        }
        properties = {
            "INFERENCE_NUM_THREADS": THREADS,
            "PERFORMANCE_HINT": "LATENCY",
            "KV_CACHE_PRECISION": "f16",
        }
        options = ["--scheduler", json.dumps(scheduler), "--properties", json.dumps(properties)]
        return [*self.env.python, str(SERVER), str(gguf), "--port", str(port), *options]


class OpenVinoQ4(OpenVino):
    """The same weights requantised to Q4_0, as for llama.cpp: less exact and somewhat faster."""

    name = "openvino-q4_0"

    def prepare(self, gguf: Path) -> Path:
        return requantised(gguf)

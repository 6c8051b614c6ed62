"""How each model family computes: `general.architecture` of a GGUF file -> its program.

A new family is a file here with `build(keys, tensors) -> Program` and a line below. `keys`
reads checked metadata, `tensors` tells which tensors the file has. `build` raises ValueError
naming the key that is missing, absurd or asks for what we cannot compute.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping

from headrace.models.architectures import gemma3, llama, qwen2
from headrace.models.architectures.hyperparameters import Hyperparameters
from headrace.ops.program import Program

Build = Callable[[Hyperparameters, Container[str]], Program]

ARCHITECTURES: Mapping[str, Build] = {
    "gemma3": gemma3.build,
    "llama": llama.build,
    "qwen2": qwen2.build,
}

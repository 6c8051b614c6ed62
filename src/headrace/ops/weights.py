"""Weights as a backend receives them: dense float32, or grouped affine codes.

Every quantised GGUF format we accept is one affine form per group of input columns:

    weight[n, k] = scale[n, g] * codes[n, k] + minimum[n, g],   g = k // group

with unsigned codes of 4 bits (W4) or 8 bits (W8), so one integer kernel serves all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class DenseWeight:
    """values: float32 [n, k], or [k] for norms and biases."""

    values: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class GroupedWeight:
    """codes: uint8 [n, k], one code a byte, below 2**bits; scale, minimum: float32
    [n, k // group]. k is a multiple of group.
    """

    bits: Literal[4, 8]
    group: Literal[16, 32]
    codes: NDArray[np.uint8]
    scale: NDArray[np.float32]
    minimum: NDArray[np.float32]

    def dequantise(self) -> NDArray[np.float32]:
        """float32 [n, k]: what the codes stand for."""
        n, k = self.codes.shape
        grouped = self.codes.reshape(n, -1, self.group).astype(np.float32)
        values: NDArray[np.float32] = grouped * self.scale[..., None] + self.minimum[..., None]
        return values.reshape(n, k)


Weight = DenseWeight | GroupedWeight


class WeightSource(Protocol):
    """Where a backend takes weights from, one at a time, so that only one is held twice."""

    def load(self, name: str) -> Weight:
        """The named weight. Raises KeyError if the checkpoint has none of that name."""
        ...

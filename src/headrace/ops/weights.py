"""Weights as a backend receives them: dense float32, or grouped affine codes.

Every quantised GGUF format we accept is one affine form per group of input columns:

    weight[n, k] = scale[n, g] * codes[n, k] + minimum[n, g],   g = k // group

with unsigned codes of 4, 5, 6 or 8 bits, so one integer kernel serves all. Where a format has
no minima, minimum = -zero * scale for one whole number, the code that means 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

UNIT_COLUMNS = 256
"""Columns that share the unit of `Multiples`."""


@dataclass(frozen=True, slots=True)
class DenseWeight:
    """values: float32 [n, k], or [k] for norms and biases."""

    values: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Multiples:
    """A number a group, as whole multiples of one number every 256 columns.

    unit: float16 [n, k // 256]; count: int8 [n, k // group]. K-quants are stored so. Every
    product is exact in float32.
    """

    unit: NDArray[np.float16]
    count: NDArray[np.int8]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.count.shape

    def values(self) -> NDArray[np.float32]:
        """float32 [n, k // group]."""
        n, blocks = self.unit.shape
        counts = self.count.reshape(n, blocks, -1).astype(np.float32)
        values: NDArray[np.float32] = self.unit[..., None].astype(np.float32) * counts
        return values.reshape(self.count.shape)


Numbers = NDArray[np.float32] | Multiples
"""One number a group: float32 [n, k // group], or what stands for it."""


def values_of(numbers: Numbers) -> NDArray[np.float32]:
    """float32 [n, k // group]."""
    return numbers.values() if isinstance(numbers, Multiples) else numbers


@dataclass(frozen=True, slots=True)
class GroupedWeight:
    """codes: uint8 [n, k], one code a byte, below 2**bits. k is a multiple of group, and of
    256 if numbers are multiples. scale and minimum are of the same kind; with a minimum, zero
    is 0.
    """

    bits: Literal[4, 5, 6, 8]
    group: Literal[16, 32]
    codes: NDArray[np.uint8]
    scale: Numbers
    minimum: Numbers | None = None
    zero: int = 0

    def minima(self) -> NDArray[np.float32]:
        """float32 [n, k // group]."""
        if self.minimum is None:
            return values_of(self.scale) * np.float32(-self.zero)
        return values_of(self.minimum)

    def dequantise(self) -> NDArray[np.float32]:
        """float32 [n, k]: what the codes stand for."""
        n, k = self.codes.shape
        grouped = self.codes.reshape(n, -1, self.group).astype(np.float32)
        scale, minimum = values_of(self.scale), self.minima()
        values: NDArray[np.float32] = grouped * scale[..., None] + minimum[..., None]
        return values.reshape(n, k)


Weight = DenseWeight | GroupedWeight


class WeightSource(Protocol):
    """Where a backend takes weights from, one at a time, so that only one is held twice."""

    def load(self, name: str) -> Weight:
        """The named weight. Raises KeyError if the checkpoint has none of that name."""
        ...

"""What grouped codes stand for."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

from headrace.ops.weights import GroupedWeight


@pytest.mark.parametrize("group", [16, 32])
def test_dequantise(group: Literal[16, 32]) -> None:
    codes = np.arange(128, dtype=np.uint8).reshape(2, 64)
    scale = np.arange(1, 1 + 128 // group, dtype=np.float32).reshape(2, -1)
    weight = GroupedWeight(8, group, codes, scale, -10 * scale)
    values = weight.dequantise()
    assert values.dtype == np.float32
    for n in range(2):
        for k in range(64):
            assert values[n, k] == scale[n, k // group] * (float(codes[n, k]) - 10)

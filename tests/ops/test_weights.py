"""What grouped codes stand for."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

from headrace.ops.weights import GroupedWeight, Multiples


@pytest.mark.parametrize("group", [16, 32])
def test_dequantise(group: Literal[16, 32]) -> None:
    codes = np.arange(128, dtype=np.uint8).reshape(2, 64)
    scale = np.arange(1, 1 + 128 // group, dtype=np.float32).reshape(2, -1)
    weight = GroupedWeight(8, group, codes, scale, zero=10)
    values = weight.dequantise()
    assert values.dtype == np.float32
    for n in range(2):
        for k in range(64):
            assert values[n, k] == scale[n, k // group] * (float(codes[n, k]) - 10)


def test_multiples() -> None:
    unit = np.array([[0.5, -2], [1, 0.25]], np.float16)
    count = np.arange(-16, 16, dtype=np.int8).reshape(2, 16)
    values = Multiples(unit, count).values()
    assert values.dtype == np.float32
    assert np.array_equal(values, np.repeat(unit, 8, axis=1).astype(np.float32) * count)


def test_minima() -> None:
    codes = np.full((1, 256), 3, np.uint8)
    scale = Multiples(np.array([[0.5]], np.float16), np.arange(8, dtype=np.int8)[None])
    minimum = Multiples(np.array([[-0.25]], np.float16), np.full((1, 8), 2, np.int8))
    values = GroupedWeight(4, 32, codes, scale, minimum).dequantise()
    assert np.array_equal(values[0, ::32], 1.5 * np.arange(8) - 0.5)

"""Float matrices as integer codes, made while a model is loaded.

Codes stand in groups of 32 columns: W8 as Q8_0 has them, with a scale (8.5 bits a weight), W4
as Q4_1 has them, with a scale and a minimum (5 bits). All of these are float16.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from headrace.models.gguf import Tensor, TensorType
from headrace.ops.weights import GroupedWeight, Weight, WeightSource

Quantization = Literal["w8", "w4"]

GROUP: Literal[32] = 32
MAX_CODE = 15
LARGEST = 65504.0
CHUNK = 1 << 16
"""Weights a thread works on at once: few enough to stay in its cache."""

MOST_THREADS = 8
"""Each needs memory for a chunk's candidates, and the interpreter keeps more from helping."""

STRETCHES = np.linspace(0.94, 1.14, 11, dtype=np.float32)
"""What W4's search multiplies the codes of a group's whole range with, beside 1."""

Floats = NDArray[np.float32]
Codes = NDArray[np.uint8]


class Quantised:
    """A source's weights, its matrices quantised as they are read. Vectors and the matrices
    named in `kept` stay as they are. Those in `vocabulary`, with one row a token, get 8 bits in any
    case: all else hangs on them. Of the float matrices there is one at a time.
    """

    def __init__(
        self,
        source: WeightSource,
        kind: Quantization,
        kept: Container[str] = (),
        vocabulary: Container[str] = (),
    ) -> None:
        self._source, self._convert = source, QUANTISE[kind]
        self._kept, self._vocabulary = kept, vocabulary

    def load(self, name: str) -> Weight:
        """Raises what the source raises, and ValueError on a matrix that has codes already, or
        cannot be had in groups of 32."""
        weight = self._source.load(name)
        if isinstance(weight, GroupedWeight):
            raise ValueError(f"weight {name!r} is quantised already; only float ones can be")
        if weight.values.ndim == 1 or name in self._kept:
            return weight
        try:
            convert = to_w8 if name in self._vocabulary else self._convert
            return convert(weight.values)
        except ValueError as error:
            raise ValueError(f"weight {name!r} {error}") from error


def to_w8(values: Floats) -> GroupedWeight:
    """float32 [n, k] to codes around 128, a group's greatest magnitude at 127 from it.

    Raises ValueError on a k that is no multiple of 32 and on weights beyond float16's range.
    """
    return _in_parts(values, 8, _w8_groups)


def to_w4(values: Floats) -> GroupedWeight:
    """float32 [n, k] to codes of 0 to 15, of least squared error among the candidates tried.

    A candidate rounds a group to whole steps of its range, stretched or shrunk, and then fits
    scale and minimum to these codes by least squares (as ggml's make_qkx2_quants does). The
    plain range is a candidate, so no group is worse than that. Raises as `to_w8` does.
    """
    return _in_parts(values, 4, _w4_groups)


QUANTISE: dict[Quantization, Callable[[Floats], GroupedWeight]] = {"w8": to_w8, "w4": to_w4}
TYPES = {"w8": TensorType("W8", GROUP, 34), "w4": TensorType("W4", GROUP, 20)}


def describe(
    tensors: Mapping[str, Tensor],
    kind: Quantization,
    kept: Container[str] = (),
    vocabulary: Container[str] = (),
) -> dict[str, Tensor]:
    """The tensors as `Quantised` gives them; where they lie stays the same.

    Raises ValueError naming a matrix that it would refuse.
    """
    return {
        name: tensor
        if len(tensor.shape) == 1 or name in kept
        else _described(tensor, "w8" if name in vocabulary else kind)
        for name, tensor in tensors.items()
    }


def _described(tensor: Tensor, kind: Quantization) -> Tensor:
    if tensor.type.block > 1:
        raise ValueError(
            f"tensor {tensor.name!r} is {tensor.type.name}, so it is quantised already; to {kind}"
            " only F32, F16 and BF16 can be"
        )
    if tensor.shape[-1] % GROUP:
        raise ValueError(
            f"tensor {tensor.name!r} has {tensor.shape[-1]} columns; to {kind} only a multiple of"
            f" {GROUP} can be quantised"
        )
    return replace(tensor, type=TYPES[kind])


# Below, `groups` are float32 [32, number of groups]: what goes over a group then goes over
# whole vectors.
_Part = tuple[Codes, Floats, Floats | None]


def _in_parts(
    values: Floats, bits: Literal[4, 8], quantise: Callable[[Floats], _Part]
) -> GroupedWeight:
    n, k = values.shape
    if k % GROUP:
        raise ValueError(f"has {k} columns; quantised ones need a multiple of {GROUP}")
    if max(values.max(initial=0), -values.min(initial=0)) > LARGEST:
        raise ValueError(
            f"holds weights beyond {LARGEST:g}, float16's range; they cannot be quantised"
        )
    codes = np.empty((n * k // GROUP, GROUP), np.uint8)
    scale = np.empty((n, k // GROUP), np.float32)
    minimum = np.empty_like(scale) if bits == 4 else None
    grouped = values.reshape(codes.shape)

    def fill(first: int) -> None:
        part = slice(first, first + CHUNK // GROUP)
        found, scales, minima = quantise(np.ascontiguousarray(grouped[part].T))
        codes[part], scale.reshape(-1)[part] = found.T, scales
        if minimum is not None and minima is not None:
            minimum.reshape(-1)[part] = minima

    with ThreadPoolExecutor(min(os.cpu_count() or 1, MOST_THREADS)) as threads:
        list(threads.map(fill, range(0, len(codes), CHUNK // GROUP)))
    zero = 0 if bits == 4 else 128
    return GroupedWeight(bits, GROUP, codes.reshape(n, k), scale, minimum, zero)


def _half(numbers: Floats) -> Floats:
    return numbers.astype(np.float16).astype(np.float32)


def _inverse(numbers: Floats) -> Floats:
    """0 for what is next to 0, and whose inverse could overflow."""
    return np.divide(1, numbers, out=np.zeros_like(numbers), where=numbers > np.float32(1e-30))


def _w8_groups(groups: Floats) -> _Part:
    scale = _half(np.abs(groups).max(axis=0) / np.float32(127))
    codes = np.rint(groups * _inverse(scale)) + np.float32(128)
    return np.clip(codes, 0, 255).astype(np.uint8), scale, None


def _w4_groups(groups: Floats) -> _Part:
    least = groups.min(axis=0)
    above = groups - least
    steps = MAX_CODE * _inverse(above.max(axis=0))
    scale, minimum = _half(_inverse(steps)), _half(least)
    codes, error = _nearest_codes(groups, scale, minimum)
    other, offset = (_half(numbers) for numbers in _fit(groups, _search(above, steps)))
    found, candidate = _nearest_codes(groups, other, offset)
    better = candidate < error
    codes, scale, minimum = (
        np.where(better, new, plain)
        for new, plain in ((found, codes), (other, scale), (offset, minimum))
    )
    return codes.astype(np.uint8), scale, minimum


def _search(above: Floats, steps: Floats) -> Floats:
    """Of the codes that stretched steps round to, those whose best fit explains the most."""
    best, explained = steps, np.full_like(steps, -1)
    for stretch in STRETCHES:
        stretched = steps * stretch
        covariance, variance = _moments(above, _rounded(above * stretched))
        explains = covariance * covariance * _inverse(variance)
        best = np.where(explains > explained, stretched, best)
        explained = np.maximum(explains, explained)
    return _rounded(above * best)


def _fit(groups: Floats, codes: Floats) -> tuple[Floats, Floats]:
    """Scale and minimum that bring these codes nearest to the group, by least squares."""
    covariance, variance = _moments(groups, codes)
    scale = np.maximum(covariance * _inverse(variance), 0)
    return scale, (groups.sum(axis=0) - scale * codes.sum(axis=0)) / GROUP


def _moments(groups: Floats, codes: Floats) -> tuple[Floats, Floats]:
    """Covariance and the codes' variance, both times 32 squared."""
    total = codes.sum(axis=0)
    covariance = GROUP * _dot(codes, groups) - total * groups.sum(axis=0)
    return covariance, GROUP * _dot(codes, codes) - total * total


def _dot(a: Floats, b: Floats) -> Floats:
    sums: Floats = np.einsum("ij,ij->j", a, b)
    return sums


def _nearest_codes(groups: Floats, scale: Floats, minimum: Floats) -> tuple[Floats, Floats]:
    """The best codes for these numbers, and each group's squared error."""
    codes = _rounded((groups - minimum) * _inverse(scale))
    rest = codes * scale + minimum - groups
    return codes, _dot(rest, rest)


def _rounded(codes: Floats) -> Floats:
    """In place."""
    np.rint(codes, out=codes)
    return np.clip(codes, 0, MAX_CODE, out=codes)

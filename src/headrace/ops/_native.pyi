from collections.abc import Sequence
from typing import overload

import numpy as np
from numpy.typing import NDArray

_Floats = NDArray[np.float32]
_Ints = NDArray[np.int32]

def available_isas() -> list[str]: ...
def kv_row_bytes(head_dim: int, key_bytes: int) -> int: ...

class Matrix:
    @property
    def bytes(self) -> int: ...

class Numbers:
    @overload
    def __init__(self, values: _Floats) -> None: ...
    @overload
    def __init__(self, units: NDArray[np.uint16], counts: NDArray[np.int8]) -> None: ...

class Adjustments:
    def __init__(self, row: _Ints, token: _Ints, divide: _Floats, add: _Floats) -> None: ...

class Masks:
    def __init__(self, row: _Ints, allowed: NDArray[np.uint32]) -> None: ...

class Machine:
    def __init__(self, isa: str, threads: int) -> None: ...
    def grouped(
        self,
        bits: int,
        group: int,
        codes: NDArray[np.uint8],
        scale: Numbers,
        minimum: Numbers | None,
        zero: int,
    ) -> Matrix: ...
    def dense(self, values: _Floats) -> Matrix: ...
    def bandwidth(self, bytes: int) -> float: ...
    def products(self) -> float: ...
    def peak_products(self) -> float: ...
    def peak_floats(self) -> float: ...

class Builder:
    def __init__(
        self,
        machine: Machine,
        *,
        tokens: int,
        sequences: int,
        blocks: int,
        layers: int,
        heads: int,
        kv_heads: int,
        head_dim: int,
        key_bytes: int,
        vocabulary: int,
        context: int,
        prefill_tokens: int,
        widths: Sequence[int],
    ) -> None: ...
    def embed(self, out: int, weight: Matrix, scale: float) -> None: ...
    def norm(self, out: int, x: int, weight: _Floats, eps: float, groups: int) -> None: ...
    def linear(
        self,
        x: int,
        outs: Sequence[int],
        weights: Sequence[Matrix],
        biases: Sequence[_Floats | None],
        accumulate: Sequence[bool],
    ) -> None: ...
    def rotary_kv(
        self,
        q: int,
        k: int,
        v: int,
        layer: int,
        base: float = ...,
        dims: int = ...,
        interleaved: bool = ...,
        factors: _Floats | None = ...,
        scale: float = ...,
        magnitude: float = ...,
    ) -> None: ...
    def attention(
        self, out: int, q: int, layer: int, scale: float, window: int, softcap: float
    ) -> None: ...
    def gate(self, out: int, gate: int, up: int, gelu: bool) -> None: ...
    def add(self, x: int, y: int) -> None: ...
    def route(self, out: int, x: int, used: int, normalise: bool) -> None: ...
    def experts(
        self,
        out: int,
        x: int,
        routes: int,
        gates: Sequence[Matrix],
        ups: Sequence[Matrix],
        downs: Sequence[Matrix],
        gelu: bool,
        accumulate: bool,
    ) -> None: ...
    def select_rows(self, out: int, x: int) -> None: ...
    def logits(self, x: int, weight: Matrix, softcap: float) -> None: ...
    def build(self) -> Executor: ...

class Executor:
    def begin(self, tokens: _Ints, position: int, blocks: _Ints) -> None: ...
    def launch(
        self,
        tokens: _Ints,
        positions: _Ints,
        starts: _Ints,
        tables: _Ints,
        logit_rows: _Ints,
        slice_seconds: float,
    ) -> None: ...
    def slice(self) -> tuple[int, float, float]: ...
    def wait(self) -> None: ...
    def logits(self) -> _Floats: ...
    def sample(
        self,
        temperature: _Floats,
        top_k: _Ints,
        top_p: _Floats,
        min_p: _Floats,
        draw: NDArray[np.float64],
        top_logprobs: _Ints,
        adjustments: Adjustments | None,
        masks: Masks | None,
    ) -> tuple[_Ints, _Floats, list[_Ints], list[_Floats], list[int], list[int]]: ...

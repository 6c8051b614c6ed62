"""Random numbers that are looked up, not consumed: (seed, choice, position) -> [0, 1).

A draw is a hash of its key, so neither batch mates, nor preemption, nor a move to another
worker can change it. The hash is the output function of SplitMix64 (Steele, Lea and Flood,
"Fast splittable pseudorandom number generators", OOPSLA 2014, with the constants of Stafford's
variant 13), applied once per part of the key as in a hash chain: counters in, avalanche out.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_WORD = 2**64 - 1
_GOLDEN = 0x9E3779B97F4A7C15
_FIRST, _SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_GOLDEN_64 = np.uint64(_GOLDEN)
_FIRST_64, _SECOND_64 = np.uint64(_FIRST), np.uint64(_SECOND)
_S30, _S27, _S31, _S11 = (np.uint64(shift) for shift in (30, 27, 31, 11))


def stream_key(seed: int, choice: int) -> int:
    """The 64-bit key of one generation's draws. Any integers; they count modulo 2**64."""
    return _mix(_mix(seed + _GOLDEN) ^ (choice + _GOLDEN))


def draws(keys: NDArray[np.uint64], positions: NDArray[np.uint64]) -> NDArray[np.float64]:
    """float64 [R] in [0, 1), multiples of 2**-53: the draw of each key at its position."""
    x = keys + (positions + np.uint64(1)) * _GOLDEN_64
    x = (x ^ (x >> _S30)) * _FIRST_64
    x = (x ^ (x >> _S27)) * _SECOND_64
    x ^= x >> _S31
    draw: NDArray[np.float64] = (x >> _S11) * 2.0**-53
    return draw


def _mix(x: int) -> int:
    x &= _WORD
    x = (x ^ (x >> 30)) * _FIRST & _WORD
    x = (x ^ (x >> 27)) * _SECOND & _WORD
    return x ^ (x >> 31)

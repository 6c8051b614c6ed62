"""How a token is drawn from a row of logits, written for reading.

The native sampler follows these steps to the letter. In order: adjustments, mask,
temperature, top-k, top-p over what top-k left, min-p relative to the most likely token,
then the inverse of the cumulative distribution at the given draw, candidates sorted by
probability (ties: lower id first).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headrace.ops.backend import NonFiniteLogits, Sampled, Sampling

GREEDY_BELOW = np.float32(1e-5)
"""Temperatures below this take the most likely token."""


def sample_rows(logits: NDArray[np.float32], sampling: Sampling) -> Sampled:
    """A token for each row of logits, float32 [R, vocab_size].

    Raises NonFiniteLogits, which carries the tokens of the rows that are sound, and
    ValueError if adjustments and mask leave a row no token at all.
    """
    rows = len(logits)
    tokens = np.full(rows, -1, np.int32)
    logprobs = np.full(rows, np.nan, np.float32)
    top_ids = [np.empty(0, np.int32)] * rows
    top_logprobs = [np.empty(0, np.float32)] * rows
    broken = []
    for r in range(rows):
        if not np.isfinite(logits[r]).all():
            broken.append(r)
            continue
        tokens[r] = _draw(_adjusted(logits[r], sampling, r), sampling, r)
        if sampling.top_logprobs[r] >= 0:
            raw = log_softmax(logits[r])
            top = np.lexsort((np.arange(len(raw)), -raw))[: sampling.top_logprobs[r]]
            logprobs[r] = raw[tokens[r]]
            top_ids[r] = top.astype(np.int32)
            top_logprobs[r] = raw[top]
    sampled = Sampled(tokens, logprobs, top_ids, top_logprobs)
    if broken:
        raise NonFiniteLogits(broken, sampled)
    return sampled


def log_softmax(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    shifted = logits.astype(np.float64) - logits.max()
    logprobs: NDArray[np.float32] = (shifted - np.log(np.exp(shifted).sum())).astype(np.float32)
    return logprobs


def _adjusted(logits: NDArray[np.float32], sampling: Sampling, row: int) -> NDArray[np.float32]:
    logits = logits.copy()
    changes = sampling.adjustments
    if changes is not None:
        for i in np.flatnonzero(changes.row == row):
            logit, divide = logits[changes.token[i]], changes.divide[i]
            scaled = logit / divide if logit > 0 else logit * divide
            logits[changes.token[i]] = scaled + changes.add[i]
    if sampling.masks is not None:
        ids = np.arange(len(logits))
        for mask in sampling.masks.allowed[sampling.masks.row == row]:
            allowed = (mask[ids // 32] >> (ids % 32).astype(np.uint32)) & 1
            logits[allowed == 0] = -np.inf
    return logits


def _draw(logits: NDArray[np.float32], sampling: Sampling, row: int) -> int:
    best = int(logits.argmax())
    if logits[best] == -np.inf:
        raise ValueError(f"logits row {row}: no token is allowed")
    temperature = sampling.temperature[row]
    if temperature < GREEDY_BELOW or logits[best] == np.inf:
        return best
    scaled = (logits - logits[best]).astype(np.float64) / float(temperature)
    ids = np.lexsort((np.arange(len(scaled)), -scaled))
    weights = np.exp(scaled[ids])
    ids, weights = ids[weights > 0], weights[weights > 0]
    top_k = int(sampling.top_k[row])
    if top_k > 0:
        ids, weights = ids[:top_k], weights[:top_k]
    keep = weights >= float(sampling.min_p[row])
    if sampling.top_p[row] < 1:
        # The smallest prefix that holds top_p of the mass, and never less than one token.
        before = np.cumsum(weights) - weights
        keep &= before < float(sampling.top_p[row]) * weights.sum()
    keep[0] = True
    ids, weights = ids[keep], weights[keep]
    # The likeliest token with less behind it than the draw leaves. Summed from the small end,
    # because weights that vanish beside all others still tell draws next to 1 apart.
    tail = np.cumsum(weights[::-1])[::-1]
    left = (1 - float(sampling.draw[row])) * tail[0]
    return int(ids[np.argmax(np.append(tail[1:], 0) < left)])

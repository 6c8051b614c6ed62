from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.engine.adjust import LogitAdjuster, adjuster_for
from headrace.engine.request import SamplingParams

VOCAB = 200
few = st.lists(st.integers(0, VOCAB - 1), max_size=20)
tokens = few | st.permutations(range(VOCAB))
penalties = st.sampled_from([0.0, 0.5, -1.0])


def applied(adjuster: LogitAdjuster, logits: np.ndarray) -> np.ndarray:
    out = logits.astype(np.float64)
    for ids, divide, add in adjuster.entries():
        for token, divisor, addend in zip(ids, divide, add, strict=True):
            logit = out[token]
            out[token] = (logit / divisor if logit > 0 else logit * divisor) + addend
    return out


@given(
    tokens, tokens, penalties, penalties, st.sampled_from([1.0, 1.3, 0.8]), st.integers(0, 2**32)
)
def test_penalties_are_those_of_the_definition(
    prompt: list[int],
    generated: list[int],
    presence: float,
    frequency: float,
    repetition: float,
    seed: int,
) -> None:
    params = SamplingParams(
        presence_penalty=presence, frequency_penalty=frequency, repetition_penalty=repetition
    )
    adjuster = LogitAdjuster(params, prompt, (), 0)
    for token in generated:
        adjuster.add(token)
    logits = np.random.default_rng(seed).standard_normal(VOCAB).astype(np.float32)

    expected = logits.astype(np.float64)
    for token in {*prompt, *generated}:
        logit = expected[token]
        expected[token] = logit / repetition if logit > 0 else logit * repetition
    for token, count in Counter(generated).items():
        expected[token] -= frequency * count + presence
    assert applied(adjuster, logits) == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_a_bias_is_added_and_touches_no_other_token() -> None:
    adjuster = LogitAdjuster(SamplingParams(logit_bias={5: 2.5, 7: -100.0}), [5, 7], (), 0)
    changed = applied(adjuster, np.ones(VOCAB))
    assert changed[5] == 3.5
    assert changed[7] == -99
    assert (np.delete(changed, [5, 7]) == 1).all()


def test_ending_ids_are_banned_until_min_tokens_are_generated() -> None:
    adjuster = LogitAdjuster(SamplingParams(), [], {3, 9}, 2)
    for _ in range(2):
        banned = np.flatnonzero(np.isinf(applied(adjuster, np.ones(VOCAB))))
        assert banned.tolist() == [3, 9]
        adjuster.add(1)
    assert adjuster.entries() == []


def test_a_ban_outweighs_a_bias() -> None:
    adjuster = LogitAdjuster(SamplingParams(logit_bias={3: 100.0}), [], {3}, 1)
    assert applied(adjuster, np.ones(VOCAB))[3] == -np.inf


def test_a_request_that_changes_nothing_needs_no_adjuster() -> None:
    assert adjuster_for(SamplingParams(), [1], {3}, 0) is None
    for params in (
        SamplingParams(logit_bias={1: 1.0}),
        SamplingParams(presence_penalty=1.0),
        SamplingParams(frequency_penalty=1.0),
        SamplingParams(repetition_penalty=1.1),
    ):
        assert adjuster_for(params, [1], {3}, 0) is not None
    assert adjuster_for(SamplingParams(), [1], {3}, 1) is not None


def test_entries_after_guesses_are_those_of_the_tokens_and_leave_no_trace() -> None:
    params = SamplingParams(
        presence_penalty=0.5, frequency_penalty=0.25, repetition_penalty=1.3, logit_bias={9: 2.0}
    )

    def entries(generated: list[int], after: list[int]) -> list[object]:
        adjuster = LogitAdjuster(params, [1, 2], [3], min_tokens=4)
        for token in generated:
            adjuster.add(token)
        for guesses in ([8, 8], after):
            found = adjuster.entries(guesses)
        assert repr(adjuster.entries()) == repr(entries_of(generated))
        return found

    def entries_of(generated: list[int]) -> list[object]:
        adjuster = LogitAdjuster(params, [1, 2], [3], min_tokens=4)
        for token in generated:
            adjuster.add(token)
        return adjuster.entries()

    for generated, after in (([], [5]), ([5, 1], [5, 7, 7]), ([2], [1, 2, 9])):
        assert repr(entries(generated, after)) == repr(entries_of(generated + after))

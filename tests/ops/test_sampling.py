"""Drawing tokens: the native sampler against the reference, and both against the rules."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headrace.ops.backend import (
    Adjustments,
    Backend,
    Executable,
    Limits,
    Masks,
    NonFiniteLogits,
    Sampled,
    Sampling,
)
from headrace.ops.cpu import CpuBackend, available_isas
from headrace.ops.program import Embed, Linear, Logits, Program, Projection, SelectRows
from headrace.ops.reference import ReferenceBackend
from headrace.ops.sampling import GREEDY_BELOW, _adjusted, log_softmax, sample_rows
from headrace.ops.weights import DenseWeight

from .programs import Floats, Part, Probe, Weights, blocks_for, grouped, step

VOCAB, WIDTH = 193, 216
"""Logits beyond the vocabulary are as high as can be, or NaN: they must never matter."""


def shapes_of_logits() -> Floats:
    """float32 [rows, VOCAB]: flat, peaked, tied, equal and far apart. On a grid of 1/64, so
    that unequal logits keep their order as float32 probabilities.
    """
    rng = np.random.default_rng(13)
    rows = [rng.normal(0, spread, VOCAB) for spread in (0.2, 1, 3, 3, 8, 30, 200)]
    rows += [rng.integers(0, 3, VOCAB).astype(float), np.zeros(VOCAB), np.full(VOCAB, -4.0)]
    rows += [np.where(np.arange(VOCAB) % 50 == 7, 9.0, rng.normal(0, 1, VOCAB))]
    rows += [
        np.arange(VOCAB) * 0.25,
        -np.arange(VOCAB) * 1.5,
        np.where(np.arange(VOCAB) == 190, 90, 0),
    ]
    rows += [rng.normal(0, 5, VOCAB) for _ in range(12)]  # long tails
    return (np.round(np.array(rows) * 64) / 64).astype(np.float32)


LOGITS = shapes_of_logits()
ROWS = len(LOGITS)
BROKEN = {"nan": ROWS, "inf": ROWS + 1, "-inf": ROWS + 2}
"""Tokens whose logits are not finite."""


def sampler(backend: Backend, threads: int = 1) -> Executable:
    """A program whose token t has the logits LOGITS[t]."""
    table = np.zeros((VOCAB, WIDTH), np.float32)
    table[:ROWS, :VOCAB] = LOGITS
    table[:ROWS, VOCAB] = 1  # feeds the logits beyond the vocabulary
    for name, row in BROKEN.items():
        table[row, 3] = float(name)
    output = np.eye(WIDTH, dtype=np.float32)
    output[VOCAB:] = 0
    output[VOCAB:, VOCAB] = 1e30
    output[-1, VOCAB] = np.nan
    program = Program(
        ops=(Embed("x", "table"), SelectRows("last", "x"), Logits("last", "output")),
        buffers={"x": WIDTH, "last": WIDTH},
        layers=1,
        heads=1,
        kv_heads=1,
        head_dim=16,
        vocab_size=VOCAB,
        context_length=4096,
    )
    weights = Weights({"table": DenseWeight(table), "output": DenseWeight(output)})
    return backend.load(program, weights, Limits(2048, 4, 64, threads))


@pytest.fixture(scope="module", params=available_isas())
def native(request: pytest.FixtureRequest) -> Executable:
    return sampler(CpuBackend(request.param))


@pytest.fixture(scope="module", params=["cpu", "reference"])
def executable(request: pytest.FixtureRequest) -> Executable:
    return sampler(CpuBackend() if request.param == "cpu" else ReferenceBackend())


def how(rows: int, **changes: Any) -> Sampling:
    """Greedy unless told; a number stands for all rows."""
    defaults: dict[str, tuple[Any, Any]] = {
        "temperature": (0, np.float32),
        "top_k": (0, np.int32),
        "top_p": (1, np.float32),
        "min_p": (0, np.float32),
        "draw": (0.5, np.float64),
        "top_logprobs": (-1, np.int32),
    }
    fields = {
        name: np.broadcast_to(changes.pop(name, value), rows).astype(kind)
        for name, (value, kind) in defaults.items()
    }
    return Sampling(**fields, **changes)


def adjustments(*entries: tuple[int, int, float, float]) -> Adjustments:
    rows, tokens, divide, add = zip(*entries, strict=True)
    return Adjustments(
        np.array(rows, np.int32),
        np.array(tokens, np.int32),
        np.array(divide, np.float32),
        np.array(add, np.float32),
    )


def only(rows: int, allowed: set[int]) -> Masks:
    mask = np.zeros((rows, (VOCAB + 31) // 32), np.uint32)
    for token in allowed:
        mask[:, token // 32] |= np.uint32(1 << token % 32)
    return Masks(np.arange(rows, dtype=np.int32), mask)


def draw(executable: Executable, tokens: list[int], sampling: Sampling) -> Sampled:
    step(executable, Part(tokens, 0, blocks_for(len(tokens))))
    return executable.sample(sampling)


# ---- native against reference ----


CUT = st.floats(0, 1, width=32)
CHANGE = st.tuples(
    st.just(0),
    st.integers(0, VOCAB - 1),
    st.sampled_from([1.0, 1.25, 2.0]),
    st.sampled_from([0.0, -1.5, 4.0, 100.0, -np.inf]),
)


@settings(max_examples=150, deadline=None)
@given(
    row=st.integers(0, ROWS - 1),
    temperature=st.one_of(
        st.floats(0.0625, 5, width=32), st.sampled_from([0.0, 1.0, 0.7, 1e-6, 2e-5, 0.001])
    ),
    top_k=st.one_of(st.just(0), st.integers(1, VOCAB + 5)),
    top_p=st.one_of(st.just(1.0), CUT),
    min_p=st.one_of(st.just(0.0), CUT),
    uniform=st.floats(0, 1, exclude_max=True),
    changes=st.one_of(st.none(), st.lists(CHANGE, min_size=1, max_size=12)),
    allowed=st.one_of(st.none(), st.sets(st.integers(0, VOCAB - 1), min_size=1)),
)
@example(8, 1.0, 0, 1.0, 0.0, 1 - 2**-53, None, None)
@example(5, 5.0, 0, 1.0, 0.0, 1 - 2**-53, None, None)
@example(5, 3.0, 0, 1.0, 0.0, 1 - 2**-53, [(0, 0, 1.0, 100.0)], None)
@example(5, 3.0, 180, 1.0, 0.0, 1 - 2**-53, [(0, 0, 1.0, 100.0)], None)
@example(12, 1.0, 150, 0.99, 0.0, 0.999, [(0, 0, 1.0, -np.inf)], None)
def test_the_same_token(
    native: Executable,
    row: int,
    temperature: float,
    top_k: int,
    top_p: float,
    min_p: float,
    uniform: float,
    changes: list[tuple[int, int, float, float]] | None,
    allowed: set[int] | None,
) -> None:
    sampling = how(
        1,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        draw=uniform,
        adjustments=adjustments(*changes) if changes else None,
        masks=only(1, allowed) if allowed else None,
    )
    logits = LOGITS[row : row + 1]
    try:
        expected = sample_rows(logits, sampling)
    except ValueError:  # the adjustments banned all that is allowed
        with pytest.raises(ValueError, match="logits row 0: no token is allowed"):
            draw(native, [row], sampling)
        return
    token = draw(native, [row], sampling).tokens[0]
    if token == expected.tokens[0]:
        return
    # Float32 probabilities may fall on the other side of a border, by this much at most.
    near = [int(expected.tokens[0])]
    for nudge in (-2e-5, 2e-5):
        for name in ("draw", "top_p", "min_p"):
            value = getattr(sampling, name)
            moved = value * (1 + nudge) + (nudge * 1e-3 if name == "draw" else 0)
            moved = np.clip(moved, 0, 1 - 2**-53 if name == "draw" else 1).astype(value.dtype)
            near.append(int(sample_rows(logits, replace(sampling, **{name: moved})).tokens[0]))
    likelihood = list(_adjusted(logits[0], sampling, 0))
    ranks = [(-likelihood[id], id) for id in near]
    assert min(ranks) <= (-likelihood[token], token) <= max(ranks)


@pytest.mark.parametrize("row", range(ROWS))
def test_draws_next_to_one(native: Executable, row: int) -> None:
    """A token is drawn only if it and all that is less likely make up what the draw leaves."""
    left = 2.0 ** -np.arange(32, 40)
    sampling = how(len(left), temperature=1.0, draw=1 - left)
    tokens = draw(native, [row] * len(left), sampling).tokens
    order = np.lexsort((np.arange(VOCAB), -LOGITS[row]))
    p = np.exp(log_softmax(LOGITS[row]).astype(np.float64))[order]
    tail = np.cumsum(p[::-1])[::-1]
    ranks = np.argsort(order)[tokens]
    assert (tail[ranks] >= 0.98 * left).all()


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("isa", available_isas())
def test_draws_do_not_depend_on_machine_or_company(isa: str, threads: int) -> None:
    """Every row drawn many ways in one step, and each of them alone."""
    rng = np.random.default_rng(14)
    rows = rng.integers(0, ROWS, 200)
    sampling = how(
        200,
        temperature=rng.choice([0.0, 0.3, 1.0, 2.0], 200),
        top_k=rng.choice([0, 1, 5, 40], 200),
        top_p=rng.choice([0.5, 0.95, 1.0], 200),
        min_p=rng.choice([0.0, 0.05], 200),
        draw=rng.random(200),
        top_logprobs=rng.integers(-1, 6, 200),
    )
    together = draw(sampler(CpuBackend(isa), threads), rows.tolist(), sampling)
    plain = sampler(CpuBackend("scalar"))
    names = ("temperature", "top_k", "top_p", "min_p", "draw", "top_logprobs")
    for r, row in enumerate(rows):
        parameters = {name: getattr(sampling, name)[r : r + 1] for name in names}
        alone = draw(plain, [int(row)], Sampling(**parameters))
        assert alone.tokens[0] == together.tokens[r]
        assert np.array_equal(alone.logprobs[:1], together.logprobs[r : r + 1], equal_nan=True)
        assert np.array_equal(alone.top_ids[0], together.top_ids[r])
        assert np.array_equal(alone.top_logprobs[0], together.top_logprobs[r])


# ---- the rules, for both ----


@pytest.mark.parametrize("temperature", [0.0, 5e-324, 1e-45, 1e-40, 9.9e-6])
def test_greedy_takes_the_lowest_of_ties(executable: Executable, temperature: float) -> None:
    sampling = how(ROWS, temperature=temperature, draw=1 - 2**-53)
    expected = LOGITS.argmax(axis=1)
    assert draw(executable, list(range(ROWS)), sampling).tokens.tolist() == expected.tolist()


def test_the_border_of_greedy(executable: Executable) -> None:
    """At the threshold itself ties are drawn, below it they are not."""
    just_below = np.nextafter(GREEDY_BELOW, np.float32(0))
    sampling = how(2, temperature=[just_below, GREEDY_BELOW], draw=0.999)
    assert draw(executable, [8, 8], sampling).tokens.tolist() == [0, 192]


@pytest.mark.parametrize(
    "cut", [{"top_p": 0.0}, {"top_p": -1.0}, {"top_k": 1}, {"min_p": 1.0}, {"min_p": 2.0}], ids=str
)
def test_cuts_leave_the_likeliest(executable: Executable, cut: dict[str, float]) -> None:
    row = 3
    assert (LOGITS[row] == LOGITS[row].max()).sum() == 1
    sampling = how(1, temperature=2.0, draw=0.9999, **cut)
    assert draw(executable, [row], sampling).tokens[0] == LOGITS[row].argmax()


def test_cuts_are_applied_in_order(executable: Executable) -> None:
    """Of 193 equal tokens: top-k keeps 10, top-p half of what is left; min-p none out."""
    draws = np.linspace(0, 1, 400, endpoint=False)
    sampling = how(400, temperature=1.0, top_k=10, top_p=0.5, min_p=0.99, draw=draws)
    tokens = draw(executable, [8] * 400, sampling).tokens
    assert tokens.tolist() == (draws * 5).astype(int).tolist()


def test_min_p_is_relative_to_the_likeliest(executable: Executable) -> None:
    """Row 11 falls by a quarter a token from the last: exp(-0.25 i) >= 0.3 for i <= 4."""
    draws = np.linspace(0, 1, 300, endpoint=False)
    sampling = how(300, temperature=1.0, min_p=0.3, draw=draws)
    tokens = draw(executable, [11] * 300, sampling).tokens
    assert set(tokens.tolist()) == {192, 191, 190, 189, 188}


@pytest.mark.parametrize("temperature", [0.0, 1.0, 100.0])
def test_padding_is_never_drawn(executable: Executable, temperature: float) -> None:
    draws = np.linspace(0, 1, 40 * ROWS, endpoint=False)
    sampling = how(40 * ROWS, temperature=temperature, draw=draws, top_logprobs=3)
    drawn = draw(executable, list(range(ROWS)) * 40, sampling)
    assert drawn.tokens.min() >= 0
    assert drawn.tokens.max() < VOCAB
    assert max(ids.max() for ids in drawn.top_ids) < VOCAB


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("last", [0, 31, 32, VOCAB - 1])
def test_all_tokens_but_one_are_banned(
    executable: Executable, last: int, temperature: float
) -> None:
    banned = [(0, t, 1.0, -np.inf) for t in range(VOCAB) if t != last]
    for row in range(ROWS):
        for rule in ({"adjustments": adjustments(*banned)}, {"masks": only(1, {last})}):
            drawn = draw(executable, [row], how(1, temperature=temperature, top_logprobs=0, **rule))
            assert drawn.tokens[0] == last
            assert np.isfinite(drawn.logprobs[0])
            assert drawn.logprobs[0] == pytest.approx(
                log_softmax(LOGITS[row])[last], rel=1e-5, abs=1e-5
            )


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_rows_without_a_mask_say_anything(executable: Executable, temperature: float) -> None:
    free = draw(executable, [0, 1, 2], how(3, temperature=temperature))
    allowed = only(2, {7}).allowed
    masks = Masks(np.array([2, 0], np.int32), allowed)
    masked = draw(executable, [0, 1, 2], how(3, temperature=temperature, masks=masks))
    assert masked.tokens.tolist() == [7, free.tokens[1], 7]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_no_token_is_left(executable: Executable, temperature: float) -> None:
    banned = [(1, t, 1.0, -np.inf) for t in range(VOCAB)]
    sampling = how(2, temperature=temperature, adjustments=adjustments(*banned))
    with pytest.raises(ValueError, match="logits row 1: no token is allowed"):
        draw(executable, [0, 1], sampling)
    with pytest.raises(ValueError, match="logits row 0: no token is allowed"):
        executable.sample(how(2, temperature=temperature, masks=only(2, set())))
    assert executable.sample(how(2)).tokens.tolist() == LOGITS[:2].argmax(axis=1).tolist()


def test_adjustments_are_taken_back(executable: Executable) -> None:
    """Those of one token in their order; the logits are the model's again afterwards."""
    best = int(LOGITS[2].argmax())
    changes = adjustments((0, best, 1.0, 5.0), (0, best, 2.0, 0.0), (0, best, 1.0, -np.inf))
    step(executable, Part([2], 0, [0]))
    before = executable.logits()
    second = int(np.where(np.arange(VOCAB) == best, -np.inf, LOGITS[2]).argmax())
    sampling = how(1, adjustments=changes, top_logprobs=1)
    for _ in range(2):
        drawn = executable.sample(sampling)
        assert drawn.tokens[0] == second
        assert drawn.top_ids[0][0] == best
    assert np.array_equal(executable.logits(), before, equal_nan=True)


def test_penalties_divide_or_multiply(executable: Executable) -> None:
    """Token 192 of row 11 has 48, which a penalty of 2 makes 24: that of token 96, which
    comes first of the two. In row 9 all have -4, and the one with -8 loses.
    """
    rest = [(0, t, 1.0, -np.inf) for t in range(VOCAB) if t not in (96, 192)]
    sampling = how(1, adjustments=adjustments((0, 192, 2.0, 0.0), *rest))
    assert draw(executable, [11], sampling).tokens[0] == 96
    assert draw(executable, [9], how(1, adjustments=adjustments((0, 0, 2.0, 0.0)))).tokens[0] == 1


def test_logprobs_are_of_the_raw_logits(executable: Executable) -> None:
    sampling = how(
        ROWS,
        temperature=0.3,
        top_k=2,
        top_logprobs=[*range(ROWS - 2), VOCAB, VOCAB + 9],
        adjustments=adjustments(*((r, r, 1.5, -7.0) for r in range(ROWS))),
    )
    drawn = draw(executable, list(range(ROWS)), sampling)
    for r, wanted in enumerate(sampling.top_logprobs):
        raw = log_softmax(LOGITS[r])
        order = np.lexsort((np.arange(VOCAB), -LOGITS[r]))[:wanted]
        assert drawn.top_ids[r].tolist() == order.tolist()
        assert drawn.top_ids[r].dtype == np.int32
        np.testing.assert_allclose(drawn.top_logprobs[r], raw[order], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(drawn.logprobs[r], raw[drawn.tokens[r]], rtol=1e-5, atol=1e-5)
        assert np.isfinite(drawn.top_logprobs[r]).all()
        assert (drawn.top_logprobs[r] <= 0).all()


def test_logprobs_only_where_asked_for(executable: Executable) -> None:
    drawn = draw(executable, [0, 1, 2], how(3, top_logprobs=[-1, 0, 2]))
    assert np.isnan(drawn.logprobs).tolist() == [True, False, False]
    assert [len(ids) for ids in drawn.top_ids] == [0, 0, 2]
    assert [len(values) for values in drawn.top_logprobs] == [0, 0, 2]


@pytest.mark.parametrize(
    ("row", "temperature", "top_k"),
    [(0, 1.0, 0), (1, 0.8, 0), (2, 1.3, 20), (7, 1.0, 0), (8, 1.0, 0)],
)
def test_frequencies(row: int, temperature: float, top_k: int) -> None:
    """10,000 draws come within five standard deviations of what they should."""
    draws = 10_000
    uniform = np.random.default_rng(15).random(draws)
    executable = sampler(CpuBackend())
    counts = np.zeros(VOCAB)
    for part in np.array_split(uniform, 10):
        sampling = how(len(part), temperature=temperature, top_k=top_k, draw=part)
        counts += np.bincount(draw(executable, [row] * len(part), sampling).tokens, minlength=VOCAB)
    p = np.exp(log_softmax(LOGITS[row] / np.float32(temperature)).astype(np.float64))
    if top_k:
        kept = np.lexsort((np.arange(VOCAB), -LOGITS[row]))[:top_k]
        p = np.where(np.isin(np.arange(VOCAB), kept), p, 0)
        p /= p.sum()
    assert (np.abs(counts - draws * p) <= 5 * np.sqrt(draws * p * (1 - p)) + 1).all()


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # numpy, of inf * 0
@pytest.mark.parametrize("kind", BROKEN)
def test_rows_that_are_not_finite(executable: Executable, kind: str) -> None:
    bad = BROKEN[kind]
    step(executable, Part([0, bad, 1, bad], 0, [0]))
    sampling = how(4, temperature=[0, 0, 1, 1], top_logprobs=1)
    with pytest.raises(NonFiniteLogits, match="logits are not finite in row 1, 3") as raised:
        executable.sample(sampling)
    sound = draw(executable, [0, 1], how(2, temperature=[0, 1], top_logprobs=1))
    assert raised.value.rows == [1, 3]
    sampled = raised.value.sampled
    assert sampled.tokens.tolist() == [sound.tokens[0], -1, sound.tokens[1], -1]
    assert np.isnan(sampled.logprobs).tolist() == [False, True, False, True]
    assert sampled.top_ids[2].tolist() == sound.top_ids[1].tolist()
    assert sampled.top_ids[1].tolist() == []


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("isa", available_isas())
def test_what_is_not_finite_shows_through_products(isa: str, value: float) -> None:
    """Codes of 8 bits cannot hold it, yet the row's logits must tell."""

    rng = np.random.default_rng(16)
    x = rng.normal(0, 1, (6, 96)).astype(np.float32)
    x[4, 50] = value
    weights = {"w": grouped(rng, 96, 96, bits=4, minima=True)}
    probe = Probe({"x": x}, (Linear("x", (Projection("y", "w"),)),), "y", {"y": 96}, weights)
    executable = probe.load(CpuBackend(isa))
    step(executable, Part(range(6), 0, [0]))
    with pytest.raises(NonFiniteLogits) as raised:
        executable.sample(how(6))
    assert raised.value.rows == [4]


def test_no_rows() -> None:
    executable = sampler(CpuBackend())
    assert step(executable, Part([1, 2], 0, [0]), rows=[]).shape == (0, WIDTH)
    assert executable.sample(how(0)).tokens.shape == (0,)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(-80, 80, width=32), min_size=2, max_size=40))
def test_log_softmax_is_normalised(values: list[float]) -> None:
    logprobs = log_softmax(np.array(values, np.float32)).astype(np.float64)
    assert np.exp(logprobs).sum() == pytest.approx(1, abs=1e-5)

"""The same bits, however a step is computed: any instruction set, number of threads, company
in the batch, chunks of the prompt, and place in the cache.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.ops.backend import Executable, KvCache
from headrace.ops.cpu import CpuBackend, available_isas
from headrace.ops.program import Program

from . import models
from .programs import Floats, Part, ahead, attention_probe, batch_of, blocks_for, step

LENGTH = 550
"""Tokens: borders of blocks (32) and of attention's splits (256, 512) lie within."""

TOKENS = np.random.default_rng(11).integers(0, models.VOCAB, LENGTH).tolist()

Make = Callable[[], Program]


@pytest.fixture(
    scope="module",
    params=[models.llama, models.gemma, models.mixture],
    ids=["llama", "gemma", "mixture"],
)
def make(request: pytest.FixtureRequest) -> Make:
    made: Make = request.param
    return made


@pytest.fixture(scope="module", params=[True, False], ids=["quantised", "dense"])
def quantised(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


Load = Callable[..., Executable]


@pytest.fixture(scope="module", params=["int16", "int8"])
def kv_cache(request: pytest.FixtureRequest) -> KvCache:
    kind: KvCache = request.param
    return kind


@pytest.fixture(scope="module")
def load(make: Make, quantised: bool, kv_cache: KvCache) -> Load:
    def loaded(isa: str | None = None, threads: int = 1, chunk: int = 0) -> Executable:
        return models.load(
            CpuBackend(isa),
            make(),
            quantised=quantised,
            threads=threads,
            kv_cache=kv_cache,
            chunk=chunk,
        )

    return loaded


@pytest.fixture(scope="module")
def expected(load: Load) -> Floats:
    """Logits of every token: two steps, for a step holds at most 512 tokens."""
    return in_chunks(load(), 512)


def in_chunks(executable: Executable, size: int, first_block: int = 0) -> Floats:
    blocks = blocks_for(LENGTH, first_block)
    return np.concatenate(
        [
            step(executable, Part(TOKENS[start : start + size], start, blocks))
            for start in range(0, LENGTH, size)
        ]
    )


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("isa", available_isas())
def test_instruction_sets_and_threads(load: Load, expected: Floats, isa: str, threads: int) -> None:
    assert np.isfinite(expected).all()
    assert np.array_equal(in_chunks(load(isa, threads), 400), expected)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("size", [1, 7, 32, 100, 257])
def test_chunks(load: Load, expected: Floats, size: int, threads: int) -> None:
    assert np.array_equal(in_chunks(load(threads=threads), size, first_block=5), expected)


@pytest.mark.parametrize("isa", available_isas())
def test_company(load: Load, expected: Floats, isa: str) -> None:
    """Decoding and prompts of other lengths beside it, in another order every step."""
    rng = np.random.default_rng(12)
    executable = load(isa, threads=2)
    ids = rng.permutation(64)
    tables = [ids[:18].tolist(), ids[18:36].tolist(), ids[36:46].tolist(), ids[46:64].tolist()]
    lengths = [LENGTH, LENGTH, 300, LENGTH]
    done = [0] * len(tables)
    while done != lengths:
        most = rng.choice([1, 1, 5, 33, 64, 130], len(tables))
        counts = [min(m, end - at) for m, end, at in zip(most, lengths, done, strict=True)]
        order = [int(s) for s in rng.permutation(len(tables)) if counts[s]]
        parts = [Part(TOKENS[done[s] : done[s] + counts[s]], done[s], tables[s]) for s in order]
        wanted = np.concatenate([np.arange(done[s], done[s] + counts[s]) for s in order])
        assert np.array_equal(step(executable, *parts), expected[wanted])
        for s in order:
            done[s] += counts[s]


@pytest.mark.parametrize(("chunk", "threads"), [(3, 1), (100, 2), (256, 2)])
@pytest.mark.parametrize("isa", available_isas())
def test_beside_the_steps(load: Load, expected: Floats, isa: str, chunk: int, threads: int) -> None:
    """A prompt in slices too short for anything, beside another that decodes."""
    executable = load(isa, threads, chunk)
    blocks, others = blocks_for(LENGTH), blocks_for(LENGTH, 20)
    ahead(executable, Part(TOKENS[: LENGTH - 1], 0, blocks))
    done = slices = 0
    while done < LENGTH - 1:
        at = slices % LENGTH
        executable.launch(batch_of(Part(TOKENS[at : at + 1], at, others)), 1e-9)
        assert np.array_equal(executable.logits()[0], expected[at])
        done += executable.slice().tokens
        slices += 1
        assert slices < LENGTH
    assert slices > 2
    got = step(executable, Part(TOKENS[-1:], LENGTH - 1, blocks))
    assert np.array_equal(got[0], expected[-1])


def test_rows_asked_for(load: Load, expected: Floats) -> None:
    executable = load()
    for rows in ([99], [0, 31, 32, 98], list(range(0, 100, 3)), []):
        got = step(executable, Part(TOKENS[:100], 0, blocks_for(100)), rows=rows)
        assert np.array_equal(got, expected[rows])


@pytest.mark.parametrize("context", [31, 32, 33, 255, 256, 257, 511, 512, 513])
def test_next_token_at_borders(load: Load, expected: Floats, context: int) -> None:
    """One thread takes the attention of a token whole; more split it."""
    for threads in (1, 2, 3):
        executable = load(threads=threads)
        blocks = blocks_for(LENGTH)
        for start in range(0, context, 512):
            end = min(context, start + 512)
            step(executable, Part(TOKENS[start:end], start, blocks), rows=[])
        got = step(executable, Part(TOKENS[context : context + 1], context, blocks))
        assert np.array_equal(got[0], expected[context])


@settings(max_examples=20, deadline=None)
@given(
    length=st.integers(1, 500),
    size=st.integers(1, 120),
    window=st.one_of(st.none(), st.integers(1, 40), st.integers(200, 300)),
    softcap=st.sampled_from([None, 3.0]),
    heads=st.sampled_from([(1, 1, 16), (4, 2, 32), (6, 1, 80), (40, 1, 16)]),
    isa=st.sampled_from(available_isas()),
    threads=st.integers(1, 3),
)
def test_attention_in_chunks(
    length: int,
    size: int,
    window: int | None,
    softcap: float | None,
    heads: tuple[int, int, int],
    isa: str,
    threads: int,
) -> None:
    """Any window and shape of heads, blocks from last to first."""
    probe = attention_probe(
        np.random.default_rng(23),
        length,
        heads=heads[0],
        kv_heads=heads[1],
        head_dim=heads[2],
        window=window,
        softcap=softcap,
    )
    chunked = probe.load(CpuBackend(isa), threads=threads)
    blocks = blocks_for(length)[::-1]
    steps = [
        step(chunked, Part(range(at, min(length, at + size)), at, blocks))
        for at in range(0, length, size)
    ]
    whole = probe.run(CpuBackend())
    assert np.array_equal(np.concatenate(steps)[:, : whole.shape[1]], whole)


def test_the_same_step_twice(load: Load) -> None:
    executable = load(threads=2)
    part = Part(TOKENS[:64], 0, [3, 9])
    assert np.array_equal(step(executable, part), step(executable, part))

"""The native backend's logits on real text against the float32 reference."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from bench.accuracy import (
    FORMATS,
    Comparison,
    Ids,
    Shuffled,
    cut,
    in_format,
    logits_of,
    measure,
    standard_text,
    unlike,
)
from bench.accuracy import load as load_model

from headrace.models.model import Model, open_model
from headrace.ops.cpu import available_isas
from headrace.ops.reference import ReferenceBackend
from headrace.ops.weights import DenseWeight
from headrace.text.tokenizer import Tokenizer
from tests.models.families import FAMILIES


def text_for(model: Model, positions: int, length: int) -> list[Ids]:
    return cut(standard_text(), Tokenizer.from_gguf(model.metadata), positions, length)


def test_cpu_logits_stay_with_the_reference_over_real_text(smollm2_path: Path) -> None:
    """Whichever way the cache holds keys: those of a byte cost this model little."""
    model = open_model(smollm2_path)
    cpu, bytes = measure(model, text_for(model, 2048, 512), kv_caches=("int16", "int8"))
    assert cpu.positions >= 2000
    assert cpu.mean_kl < 0.003
    assert cpu.top1 > 0.975
    assert cpu.mean_kl < bytes.mean_kl < cpu.mean_kl + 0.002


@pytest.fixture(scope="module", params=FORMATS)
def model(request: pytest.FixtureRequest, smollm2_path: Path) -> Model:
    """The real model, in each format once."""
    return in_format(open_model(smollm2_path), request.param)


def test_every_weight_format_stays_with_the_reference(model: Model) -> None:
    (cpu,) = measure(model, text_for(model, 128, 128))
    assert cpu.mean_kl < 0.003
    assert cpu.top1 > 0.95


def test_every_instruction_set_gives_the_real_model_the_same_bits(model: Model) -> None:
    assert unlike(model, np.arange(1000, 1012, dtype=np.int32), available_isas(), "int16") == []


def test_the_measure_is_the_divergence_it_claims_to_be() -> None:
    random = np.random.default_rng(5)
    expected = random.normal(size=(300, 50)).astype(np.float32)
    found = expected + random.normal(scale=0.3, size=expected.shape).astype(np.float32)
    comparison = Comparison("x")
    comparison.add(expected[:100], found[:100])
    comparison.add(expected[100:], found[100:])
    result = comparison.result()

    p, q = (np.exp(x.astype(np.float64)) for x in (expected, found))
    p, q = p / p.sum(1, keepdims=True), q / q.sum(1, keepdims=True)
    kl = (p * np.log(p / q)).sum(1)
    assert result.positions == 300
    assert result.mean_kl == pytest.approx(kl.mean(), rel=1e-3)
    assert result.p99_kl == pytest.approx(np.quantile(kl, 0.99), rel=1e-3)
    assert result.top1 == pytest.approx((p.argmax(1) == q.argmax(1)).mean())


def test_equal_logits_do_not_diverge() -> None:
    logits = np.random.default_rng(6).normal(size=(10, 50)).astype(np.float32)
    comparison = Comparison("x")
    comparison.add(logits, logits.copy())
    assert comparison.result().mean_kl == 0
    assert comparison.result().top1 == 1


def test_text_is_cut_into_sequences_of_the_wanted_length(smollm2_path: Path) -> None:
    tokenizer = Tokenizer.from_gguf(open_model(smollm2_path).metadata)
    sequences = cut(standard_text(), tokenizer, 100, 32)
    assert [len(ids) for ids in sequences] == [32] * 4
    assert len({ids.tobytes() for ids in sequences}) == 4
    with pytest.raises(ValueError, match="the text has"):
        cut("too short", tokenizer, 100, 32)


def test_a_model_with_its_channels_shuffled_is_the_same_model(tmp_path: Path) -> None:
    for name in ("qwen2", "gemma3", "phi-3"):
        folder = tmp_path / name
        FAMILIES[name].model().save_pretrained(folder)
        model = open_model(folder)
        shuffled = replace(model, weights=Shuffled(model))
        ids = np.arange(1, 60, dtype=np.int32)
        expected, found = (
            logits_of(load_model(ReferenceBackend(), one, 60, 60), ids, 60)
            for one in (model, shuffled)
        )
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)
        plain, moved = (one.weights.load("blk.0.ffn_down.weight") for one in (model, shuffled))
        assert isinstance(plain, DenseWeight)
        assert isinstance(moved, DenseWeight)
        assert not np.array_equal(moved.values, plain.values)

"""Every family's program, from GGUF and from safetensors, against Hugging Face transformers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from bench.accuracy import load, logits_of
from gguf import GGMLQuantizationType
from transformers import AutoModelForCausalLM

from headrace.models.model import Model, open_model
from headrace.ops.backend import Backend
from headrace.ops.cpu import CpuBackend
from headrace.ops.program import Experts
from headrace.ops.reference import ReferenceBackend
from headrace.text.tokenizer import Tokenizer
from tests.models.families import FAMILIES, VOCAB
from tests.models.huggingface import export, logits

TEXT = """Once there were three brothers who had fallen deeper and deeper into poverty, and at
last their need was so great that they had to endure hunger, and had nothing to eat or drink
any more. Then said they, "We cannot go on thus, we had better go into the world and seek our
fortune." They therefore set out, and had already walked over many a long road and many a blade
of grass, but had not yet met with good luck."""

EXACT = 1e-3
CPU = 4e-2
"""The CPU backend keeps keys in 16 and values in 8 bits."""


def assert_agree(
    expected: np.ndarray,
    model: Model,
    tokens: np.ndarray,
    step: int,
    backend: Backend | None = None,
    tolerance: float = EXACT,
    share: float = 1.0,
) -> None:
    """Relative to each position's logits; share: of the positions that agree."""
    executable = load(backend or ReferenceBackend(), model, len(tokens), step)
    found = logits_of(executable, tokens.astype(np.int32), step)
    difference = np.linalg.norm(found - expected, axis=1)
    assert np.quantile(difference / np.linalg.norm(expected, axis=1), share) < tolerance
    if tolerance == EXACT:
        np.testing.assert_array_equal(found.argmax(axis=1), expected.argmax(axis=1))


@pytest.fixture(scope="module")
def tokens() -> np.ndarray:
    return np.random.default_rng(3).integers(0, VOCAB, 150)


@pytest.mark.parametrize("name", FAMILIES)
def test_safetensors(tmp_path: Path, tokens: np.ndarray, name: str) -> None:
    model = FAMILIES[name].model()
    model.save_pretrained(tmp_path)
    expected, opened = logits(model, tokens), open_model(tmp_path)
    assert opened.architecture == FAMILIES[name].architecture
    assert_agree(expected, opened, tokens, step=64)
    # A cache of 8 bits tips scores that are nearly equal: such a row goes to another expert.
    share = 0.5 if any(isinstance(op, Experts) for op in opened.program.ops) else 1.0
    assert_agree(
        expected, opened, tokens, step=64, backend=CpuBackend(), tolerance=CPU, share=share
    )


@pytest.mark.parametrize("kind", [None, GGMLQuantizationType.Q8_0, GGMLQuantizationType.Q4_1])
@pytest.mark.parametrize("name", FAMILIES)
def test_gguf(
    tmp_path: Path, tokens: np.ndarray, name: str, kind: GGMLQuantizationType | None
) -> None:
    family = FAMILIES[name]
    model = family.model()
    path = export(model, family.architecture, tmp_path / "m.gguf", quantised=kind, **family.keys)
    assert_agree(logits(model, tokens), open_model(path), tokens, step=64)


def test_smollm2_from_the_same_file(smollm2_path: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(
        smollm2_path.parent, gguf_file=smollm2_path.name, dtype=torch.float32
    ).eval()
    opened = open_model(smollm2_path)
    tokens = np.array(Tokenizer.from_gguf(opened.metadata).encode(TEXT))
    assert len(tokens) >= 64
    assert_agree(logits(model, tokens), opened, tokens, step=48)

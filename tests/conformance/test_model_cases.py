"""Public cases CF-03 .. CF-05 (ropes and windows), SF-02 and SF-03 (indexes of shards) and
SF-06 (tied embeddings)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bench.accuracy import load, logits_of
from safetensors.numpy import save_file

from headrace.models.errors import ModelFileError
from headrace.models.model import open_model
from headrace.models.shards import read_shards
from headrace.ops.backend import Backend
from headrace.ops.cpu import CpuBackend, available_isas
from headrace.ops.program import Attention, Logits, RotaryKV
from headrace.ops.reference import ReferenceBackend
from headrace.ops.weights import DenseWeight
from tests.models.families import FAMILIES, VOCAB, WINDOW
from tests.models.huggingface import logits
from tests.models.tiny import write_tiny
from tests.ops.programs import Part, Probe, step

BACKENDS: list[Backend] = [ReferenceBackend(), *map(CpuBackend, available_isas())]
backends = pytest.mark.parametrize("backend", BACKENDS, ids=lambda b: f"{b.name}-{b.isa}")


def saved(folder: Path, family: str, change: Callable[[dict[str, Any]], None]) -> Path:
    FAMILIES[family].model().save_pretrained(folder)
    path = folder / "config.json"
    config = json.loads(path.read_text())
    change(config)
    path.write_text(json.dumps(config))
    return folder


def test_cf_03_rope_parameters_by_kind_of_layer(tmp_path: Path) -> None:
    def nested(config: dict[str, Any]) -> None:
        del config["rope_parameters"]
        config["rope_scaling"] = {
            "full_attention": {"rope_type": "linear", "factor": 8.0},
            "sliding_attention": {"rope_type": "default"},
        }

    program = open_model(saved(tmp_path, "gemma3", nested)).program
    windows = [op.window for op in program.ops if isinstance(op, Attention)]
    ropes = [op.rope for op in program.ops if isinstance(op, RotaryKV)]
    assert windows == [WINDOW] * 5 + [None] + [WINDOW]
    for window, rope in zip(windows, ropes, strict=True):
        assert rope is not None
        assert (rope.base, rope.scale) == ((1e6, 1 / 8) if window is None else (1e4, 1.0))


def seen(backend: Backend, length: int, steps: list[int]) -> np.ndarray:
    """bool [length, length]: which positions each query sees through a window of 4, computed in
    steps of so many tokens."""
    size = 16
    tables = {name: np.zeros((size, size), np.float32) for name in "qk"}
    tables["v"] = np.eye(size, dtype=np.float32)  # what comes out tells where it came from
    ops = (RotaryKV("q", "k", "v", 0, None), Attention("a", "q", 0, 1.0, window=4))
    executable = Probe(tables, ops, "a", {"a": size}, {}).load(backend)
    rows, start = [], 0
    for count in steps:
        rows.append(step(executable, Part(range(start, start + count), start, [1]))[:, :length])
        start += count
    return np.concatenate(rows) > 0.1


@backends
@pytest.mark.parametrize("length", [3, 4, 5, 6, 9])
def test_cf_04_a_window_holds_the_query_and_three_before_it(backend: Backend, length: int) -> None:
    distance = np.arange(length)[:, None] - np.arange(length)
    expected = (distance >= 0) & (distance < 4)
    if length == 6:
        assert expected[5].tolist() == [False, False, True, True, True, True]
    for steps in ([length], [1] * length, [2, length - 2], [length - 1, 1]):
        np.testing.assert_array_equal(seen(backend, length, steps), expected)


@pytest.mark.parametrize("family", ["mistral", "gemma2", "gemma3", "phi-3"])
def test_cf_05_a_prompt_beyond_the_window_whole_chunked_and_by_token(
    tmp_path: Path, family: str
) -> None:
    model = FAMILIES[family].model()
    model.save_pretrained(tmp_path)
    opened = open_model(tmp_path)
    tokens = np.random.default_rng(9).integers(0, VOCAB, 2 * WINDOW + 7).astype(np.int32)
    for backend in (ReferenceBackend(), CpuBackend()):
        whole, *others = (
            logits_of(load(backend, opened, len(tokens), size), tokens, size)
            for size in (len(tokens), 1, 13, WINDOW, WINDOW + 1)
        )
        expected = logits(model, tokens)
        exact = backend.name == "reference"
        difference = np.linalg.norm(whole - expected, axis=1) / np.linalg.norm(expected, axis=1)
        assert difference.max() < (1e-3 if exact else 4e-2)
        for other in others:
            np.testing.assert_array_equal(other.argmax(axis=1), whole.argmax(axis=1))
            np.testing.assert_allclose(other, whole, atol=1e-4 if exact else 0)


def test_cf_05_only_layers_that_slide_have_the_window(tmp_path: Path) -> None:
    def windows(family: str) -> list[int | None]:
        folder = tmp_path / family
        FAMILIES[family].model().save_pretrained(folder)
        return [op.window for op in open_model(folder).program.ops if isinstance(op, Attention)]

    assert windows("gemma2") == [WINDOW, None, WINDOW]
    assert windows("mistral") == [WINDOW] * 3
    assert windows("qwen3") == [None] * 3


def write_index(folder: Path, **places: str) -> None:
    index = {"weight_map": places}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def tensor(value: float) -> np.ndarray:
    return np.full(3, value, np.float32)


def test_sf_02_a_missing_shard_is_named(tmp_path: Path) -> None:
    names = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    write_index(tmp_path, **names)
    save_file({"a": tensor(1)}, tmp_path / names["a"])
    with pytest.raises(ModelFileError, match=r"model-00002-of-00002\.safetensors: cannot be open"):
        read_shards(tmp_path)


def test_sf_03_the_index_decides(tmp_path: Path) -> None:
    write_index(tmp_path, w="s2.safetensors", o="s1.safetensors")
    save_file({"w": tensor(1), "o": tensor(3)}, tmp_path / "s1.safetensors")
    save_file({"w": tensor(2)}, tmp_path / "s2.safetensors")
    weight = read_shards(tmp_path)["w"].load("w")
    assert isinstance(weight, DenseWeight)
    np.testing.assert_array_equal(weight.values, tensor(2))


def test_sf_03_a_tensor_that_is_not_where_the_index_has_it(tmp_path: Path) -> None:
    write_index(tmp_path, w="s1.safetensors", v="s1.safetensors")
    save_file({"w": tensor(1)}, tmp_path / "s1.safetensors")
    with pytest.raises(ModelFileError, match=r"s1\.safetensors: tensor 'v' is missing"):
        read_shards(tmp_path)


@pytest.mark.parametrize("name", ["../s1.safetensors", "/s1.safetensors", "", 3])
def test_an_index_cannot_lead_out_of_its_folder(tmp_path: Path, name: Any) -> None:
    write_index(tmp_path, w=name)
    with pytest.raises(ModelFileError, match="which is no file name"):
        read_shards(tmp_path)


def output_matrix(folder: Path) -> str:
    last = open_model(folder).program.ops[-1]
    assert isinstance(last, Logits)
    return last.weight


def says(tied: bool | None) -> Callable[[dict[str, Any]], None]:
    def change(config: dict[str, Any]) -> None:
        config.pop("tie_word_embeddings", None)
        if tied is not None:
            config["tie_word_embeddings"] = tied

    return change


# smollm2 here is a Llama without lm_head, gemma2 has none by its nature, llama-2 has one.
def test_sf_06_tied_as_config_says(tmp_path: Path) -> None:
    assert output_matrix(saved(tmp_path, "smollm2", says(True))) == "token_embd.weight"


def test_sf_06_tied_although_the_file_has_an_output_matrix(tmp_path: Path) -> None:
    assert output_matrix(saved(tmp_path, "llama-2", says(True))) == "token_embd.weight"


@pytest.mark.parametrize("tied", [False, None])
@pytest.mark.parametrize("family", ["smollm2", "gemma2"])
def test_sf_06_without_an_output_matrix(tmp_path: Path, family: str, tied: bool | None) -> None:
    """A family's default stands in where nothing is said."""
    folder = saved(tmp_path, family, says(tied))
    if family == "gemma2" and tied is None:
        assert output_matrix(folder) == "token_embd.weight"
        return
    with pytest.raises(ModelFileError, match=r"tensor 'lm_head\.weight' is missing"):
        open_model(folder)


def test_sf_06_an_output_matrix_is_used(tmp_path: Path) -> None:
    assert output_matrix(saved(tmp_path, "llama-2", says(None))) == "output.weight"


def test_sf_06_gguf_without_an_output_matrix_is_tied(tmp_path: Path) -> None:
    assert output_matrix(write_tiny(tmp_path / "m.gguf", "llama")) == "token_embd.weight"

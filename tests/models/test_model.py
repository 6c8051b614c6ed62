"""Opening models: what is checked before a program is trusted, and what is refused by name."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest
from structlog.testing import capture_logs

from headrace.models.errors import ModelFileError
from headrace.models.model import open_model
from headrace.ops.checks import load_weights
from headrace.ops.program import Attention, Linear, Logits, RotaryKV
from headrace.ops.weights import DenseWeight
from tests.models.raw_gguf import ARRAY, U32, array, gguf_bytes, key_value, u32
from tests.models.tiny import (
    EXPERT_WIDTH,
    EXPERTS,
    FEED_FORWARD,
    HEAD_DIM,
    VOCAB,
    WIDTH,
    write_tiny,
)

ARCHITECTURES = ["llama", "qwen2", "qwen3", "qwen3moe", "smollm3", "phi3", "gemma2", "gemma3"]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_an_opened_model_says_what_it_is(tmp_path: Path, architecture: str) -> None:
    path = write_tiny(
        tmp_path / "m.gguf", architecture, metadata={"tokenizer.chat_template": "{{ messages }}"}
    )
    with capture_logs() as logs:
        model = open_model(path)
    assert model.architecture == architecture
    assert model.context_length == model.program.context_length == 128
    assert model.chat_template == "{{ messages }}"
    assert model.program.vocab_size == VOCAB
    assert model.program.head_dim == HEAD_DIM
    assert model.metadata["tokenizer.ggml.tokens"] == [f"t{i}" for i in range(VOCAB)]
    assert not logs
    weights = dict(load_weights(model.program, model.weights))
    assert all(isinstance(weight, DenseWeight) for weight in weights.values())
    with pytest.raises(KeyError):
        model.weights.load("absent")


def test_named_chat_templates_of_a_file_are_read(tmp_path: Path) -> None:
    keys = {"": "T", ".tool_use": "U", ".rag": "R"}
    metadata = {f"tokenizer.chat_template{name}": source for name, source in keys.items()}
    model = open_model(write_tiny(tmp_path / "m.gguf", "llama", metadata=metadata))
    assert (model.chat_template, model.tool_template) == ("T", "U")
    assert model.ignored == ("chat template 'rag'",)


def test_a_model_need_not_have_a_chat_template(tmp_path: Path) -> None:
    assert open_model(write_tiny(tmp_path / "m.gguf", "llama")).chat_template is None


def test_the_real_model_opens(smollm2_path: Path) -> None:
    model = open_model(smollm2_path)
    assert model.architecture == "llama"
    assert (model.program.layers, model.program.vocab_size) == (30, 49152)
    assert model.context_length == 8192
    assert model.chat_template is not None


def test_without_an_output_matrix_the_embedding_is_tied(tmp_path: Path) -> None:
    tied = open_model(write_tiny(tmp_path / "tied.gguf", "llama")).program.ops[-1]
    assert isinstance(tied, Logits)
    assert tied.weight == "token_embd.weight"
    untied_path = write_tiny(
        tmp_path / "untied.gguf", "llama", extra={"output.weight": (VOCAB, WIDTH)}
    )
    untied = open_model(untied_path).program.ops[-1]
    assert isinstance(untied, Logits)
    assert untied.weight == "output.weight"


def test_more_rows_than_tokens_are_padding(tmp_path: Path) -> None:
    path = write_tiny(
        tmp_path / "m.gguf", "llama", extra={"token_embd.weight": (VOCAB + 24, WIDTH)}
    )
    assert open_model(path).program.vocab_size == VOCAB


def test_a_bias_in_the_file_is_never_left_out(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "m.gguf", "llama", extra={"blk.0.ffn_down.bias": (WIDTH,)})
    biases = [
        projection.bias
        for op in open_model(path).program.ops
        if isinstance(op, Linear)
        for projection in op.projections
        if projection.bias
    ]
    assert biases == ["blk.0.ffn_down.bias"]


def test_gemma_layers_alternate_between_window_and_whole(tmp_path: Path) -> None:
    path = write_tiny(
        tmp_path / "m.gguf", "gemma3", metadata={"gemma3.attention.sliding_window_pattern": 2}
    )
    ops = open_model(path).program.ops
    assert [op.window for op in ops if isinstance(op, Attention)] == [8, None]
    bases = [op.rope.base for op in ops if isinstance(op, RotaryKV) and op.rope]
    assert bases == [10000.0, 10000.0]


MISSING_KEYS = [
    "block_count",
    "context_length",
    "embedding_length",
    "feed_forward_length",
    "attention.head_count",
    "attention.layer_norm_rms_epsilon",
]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", MISSING_KEYS)
def test_a_missing_key_is_named(tmp_path: Path, architecture: str, name: str) -> None:
    key = f"{architecture}.{name}"
    path = write_tiny(tmp_path / "m.gguf", architecture, metadata={key: None})
    with pytest.raises(ModelFileError, match=f"key '{key}' is missing"):
        open_model(path)


ABSURD = {
    "general.architecture": [
        ("mamba", "architecture 'mamba' is not supported; gemma2, gemma3, llama")
    ],
    "llama.block_count": [
        (0, "1 to 1024"),
        (4_000_000_000, "1 to 1024"),
        ("2", "must be an integer, not str"),
        (True, "must be an integer, not bool"),
        (2.0, "must be an integer, not float"),
    ],
    "llama.attention.head_count": [(0, "is 0"), (6, "does not divide the width 64")],
    "llama.attention.head_count_kv": [(0, "is 0"), (3, "does not divide the 4 heads"), (8, "is 8")],
    "llama.attention.key_length": [(15, "15 values are odd"), (0, "is 0")],
    "llama.attention.value_length": [(8, "unequal lengths are not supported")],
    "llama.attention.layer_norm_rms_epsilon": [
        (float("nan"), "not a positive number"),
        (float("inf"), "not a positive number"),
        (0.0, "not a positive number"),
        (2.0, "below 1"),
        (1, "must be a float, not int"),
    ],
    "llama.context_length": [(0, "is 0")],
    "llama.feed_forward_length": [(0, "is 0")],
    "llama.rope.freq_base": [(-1.0, "not a positive number"), ("1", "must be a float")],
    "llama.rope.dimension_count": [(18, "2 to 16"), (7, "must be even")],
    "llama.rope.scaling.type": [
        ("odd", "'odd'; none, linear, yarn"),
        (3, "must be a string, not int"),
    ],
    "llama.rope.scaling.factor": [(0.0, "not a positive number")],
    "llama.rope.scaling.attn_factor": [(0.0, "not a positive number")],
    "llama.expert_count": [(8, "key 'llama.expert_used_count' is missing"), (2000, "0 to 1024")],
    "tokenizer.ggml.tokens": [
        (None, "must be a non-empty array of strings"),
        ("a", "must be a non-empty array of strings"),
        ([1, 2], "must be a non-empty array of strings"),
    ],
    "tokenizer.chat_template": [(7, "'tokenizer.chat_template' must be a string")],
}


@pytest.mark.parametrize(
    ("key", "value", "fault"),
    [(key, value, fault) for key, cases in ABSURD.items() for value, fault in cases],
)
def test_absurd_metadata_is_refused(tmp_path: Path, key: str, value: object, fault: str) -> None:
    path = write_tiny(tmp_path / "m.gguf", "llama", metadata={key: value})
    with pytest.raises(ModelFileError, match=fault) as refusal:
        open_model(path)
    assert str(path) in str(refusal.value)


@pytest.mark.parametrize(
    ("name", "value", "fault"),
    [
        ("expert_used_count", EXPERTS + 1, "1 to 4"),
        ("expert_used_count", None, "is missing"),
        ("expert_shared_count", 1, "not supported"),
        ("expert_group_count", 2, "not supported"),
        ("expert_gating_func", 2, "not supported"),
        ("expert_weights_scale", 2.5, "must be 1"),
        ("expert_weights_norm", "yes", "must be true or false"),
    ],
)
def test_mixtures_that_cannot_be_computed_are_refused(
    tmp_path: Path, name: str, value: object, fault: str
) -> None:
    key = f"qwen3moe.{name}"
    path = write_tiny(tmp_path / "m.gguf", "qwen3moe", metadata={key: value})
    with pytest.raises(ModelFileError, match=f"key '{key}'.*{fault}"):
        open_model(path)


@pytest.mark.parametrize(
    "shape",
    [(EXPERTS - 1, EXPERT_WIDTH, WIDTH), (EXPERTS, FEED_FORWARD, WIDTH), (WIDTH, WIDTH), (0, 1, 1)],
)
def test_experts_of_the_wrong_number_or_shape_are_named(
    tmp_path: Path, shape: tuple[int, ...]
) -> None:
    name = "blk.1.ffn_up_exps.weight"
    path = write_tiny(tmp_path / "m.gguf", "qwen3moe", extra={name: shape})
    missing = "blk.1.ffn_up.3.weight"  # what a matrix more would have been
    with pytest.raises(ModelFileError, match=f"tensor '({name}|{missing})'"):
        open_model(path)


def test_a_file_without_an_architecture(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf_bytes([key_value("general.architecture", ARRAY, array(U32, [u32(1)]))]))
    with pytest.raises(ModelFileError, match=r"'general\.architecture' is missing or not"):
        open_model(path)


REQUIRED = {
    "llama": ["token_embd.weight", "output_norm.weight", "blk.0.attn_v.weight"],
    "qwen2": ["blk.1.attn_q.bias", "blk.0.attn_k.bias", "blk.1.ffn_down.weight"],
    "qwen3": ["blk.0.attn_q_norm.weight", "blk.1.attn_k_norm.weight"],
    "phi3": ["blk.0.attn_qkv.weight", "blk.1.ffn_up.weight"],
    "gemma2": ["blk.0.post_attention_norm.weight"],
    "gemma3": ["blk.0.attn_q_norm.weight", "blk.1.post_ffw_norm.weight"],
}


@pytest.mark.parametrize(
    ("architecture", "name"),
    [(architecture, name) for architecture, names in REQUIRED.items() for name in names],
)
def test_a_missing_tensor_is_named(tmp_path: Path, architecture: str, name: str) -> None:
    path = write_tiny(tmp_path / "m.gguf", architecture, without=[name])
    first = name.replace("attn_qkv", "attn_q").replace("ffn_up", "ffn_gate")
    with pytest.raises(ModelFileError, match=f"tensor '{first}' is missing"):
        open_model(path)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("token_embd.weight", (VOCAB - 1, WIDTH)),
        ("token_embd.weight", (VOCAB, WIDTH // 2)),
        ("blk.0.ffn_gate.weight", (FEED_FORWARD + 1, WIDTH)),
        ("blk.0.attn_norm.weight", (WIDTH, 1)),
        ("blk.1.attn_q.weight", (WIDTH,)),
    ],
)
def test_a_tensor_of_the_wrong_shape_is_named(
    tmp_path: Path, name: str, shape: tuple[int, ...]
) -> None:
    path = write_tiny(tmp_path / "m.gguf", "llama", extra={name: shape})
    with pytest.raises(ModelFileError, match=f"tensor '{name}' has shape .* is needed"):
        open_model(path)


def test_a_quantised_vector_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "m.gguf", "llama")
    content = path.read_bytes()
    # The description of the norm: its name, one dimension of WIDTH values, then its type.
    name = b"output_norm.weight"
    at = content.index(name) + len(name) + 4 + 8
    path.write_bytes(content[:at] + u32(gguf.GGMLQuantizationType.Q8_0) + content[at + 4 :])
    with pytest.raises(ModelFileError, match=r"'output_norm\.weight' is Q8_0; a vector must be"):
        open_model(path)


def test_broken_values_are_refused_when_they_are_loaded(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "m.gguf", "llama")
    tensor = next(t for t in gguf.GGUFReader(path).tensors if t.name == "output_norm.weight")
    with path.open("r+b") as file:
        file.seek(tensor.data_offset)
        file.write(np.float32(np.nan).tobytes())
    model = open_model(path)
    with pytest.raises(ModelFileError, match=r"'output_norm\.weight' holds values that are not"):
        model.weights.load("output_norm.weight")

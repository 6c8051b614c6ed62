"""Folders as transformers saves them: what is read beside the weights, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from structlog.testing import capture_logs

from headrace.models.errors import ModelFileError
from headrace.models.huggingface import checkpoint_files
from headrace.models.model import open_model
from headrace.models.sampling import SamplingDefaults
from headrace.ops.program import Linear
from headrace.ops.weights import DenseWeight
from headrace.text.template import ChatTemplate, TemplateError
from tests.models.families import FAMILIES, VOCAB
from tests.text.test_huggingface import added, byte_level_file


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    FAMILIES["smollm2"].model().save_pretrained(tmp_path)
    return tmp_path


def edit(path: Path, **changes: Any) -> None:
    """None: take the key away."""
    data = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: v for key, v in data.items() if v is not None}))


def test_an_opened_folder_says_what_it_is(folder: Path) -> None:
    with capture_logs() as logs:
        model = open_model(folder)
    assert not logs
    assert (model.architecture, model.context_length) == ("llama", 256)
    assert model.program.vocab_size == VOCAB
    assert model.metadata["model_type"] == "llama"
    assert (model.chat_template, model.tokenizer_file) == (None, None)
    assert model.tensors["blk.0.attn_q.weight"].name == "model.layers.0.self_attn.q_proj.weight"
    with pytest.raises(KeyError):
        model.weights.load("absent")


def test_shards_hold_what_one_file_does(tmp_path: Path) -> None:
    model = FAMILIES["phi-3"].model()
    model.save_pretrained(tmp_path / "one")
    model.save_pretrained(tmp_path / "many", max_shard_size="40KB")
    assert len(list((tmp_path / "many").glob("*.safetensors"))) > 3
    one, many = open_model(tmp_path / "one"), open_model(tmp_path / "many")
    for name in one.tensors:
        weights = one.weights.load(name), many.weights.load(name)
        assert all(isinstance(weight, DenseWeight) for weight in weights)
        np.testing.assert_array_equal(weights[0].values, weights[1].values)


def test_rows_that_the_tokenizer_does_not_know_are_padding(folder: Path) -> None:
    data = byte_level_file()
    data["model"] = {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}
    data["added_tokens"] = [added("<x>", 100)]
    (folder / "tokenizer.json").write_text(json.dumps(data))
    model = open_model(folder)
    assert model.program.vocab_size == 101
    assert model.tokenizer_file == folder / "tokenizer.json"
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(ModelFileError, match=r"tokenizer\.json: is no tokenizer as we know it"):
        open_model(folder)


NAMED = [
    {"name": "tool_use", "template": "U"},
    {"name": "default", "template": "T"},
    {"name": "rag", "template": "R"},
]


@pytest.mark.parametrize(
    ("name", "template"),
    [
        ("tokenizer_config.json", "T"),
        ("tokenizer_config.json", {"default": "T"}),
        ("chat_template.json", "T"),
        ("processor_config.json", "T"),
    ],
)
def test_the_chat_template_is_in_a_config(folder: Path, name: str, template: object) -> None:
    (folder / name).write_text(json.dumps({"chat_template": template}))
    model = open_model(folder)
    assert (model.chat_template, model.tool_template, model.ignored) == ("T", None, ())


def test_of_named_chat_templates_there_is_one_for_tools(folder: Path) -> None:
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": NAMED}))
    model = open_model(folder)
    assert (model.chat_template, model.tool_template) == ("T", "U")
    assert model.ignored == ("chat template 'rag'",)


def test_named_chat_templates_may_be_files(folder: Path) -> None:
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": "old"}))
    (folder / "chat_template.jinja").write_text("T")
    (folder / "additional_chat_templates").mkdir()
    (folder / "additional_chat_templates" / "tool_use.jinja").write_text("U")
    model = open_model(folder)
    assert (model.chat_template, model.tool_template) == ("T", "U")
    assert folder / "additional_chat_templates" / "tool_use.jinja" in checkpoint_files(folder)


def test_named_chat_templates_without_a_default_refuse_to_choose(folder: Path) -> None:
    stated = {"chat_template": [NAMED[0], NAMED[2]]}
    (folder / "tokenizer_config.json").write_text(json.dumps(stated))
    model = open_model(folder)
    template = ChatTemplate(model.chat_template or "", bos_token="", eos_token="")
    with pytest.raises(TemplateError, match="none is the default: rag, tool_use"):
        template.render([{"role": "user", "content": "x"}])
    assert model.tool_template == "U"


@pytest.mark.parametrize("stated", [5, ["T"], [{"name": "default"}], {"default": 5}])
def test_a_chat_template_of_another_form_is_refused(folder: Path, stated: object) -> None:
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": stated}))
    with pytest.raises(ModelFileError, match="'chat_template' must be a string, or a list"):
        open_model(folder)


def test_a_chat_template_of_its_own_comes_first(folder: Path) -> None:
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": "T"}))
    (folder / "chat_template.jinja").write_text("own")
    assert open_model(folder).chat_template == "own"


def test_a_generation_config_sets_the_sampling_defaults(folder: Path) -> None:
    config = {"temperature": 0.6, "top_k": 20, "num_beams": 4}
    (folder / "generation_config.json").write_text(json.dumps(config))
    model = open_model(folder)
    assert model.sampling == SamplingDefaults(temperature=0.6, top_k=20)
    assert model.ignored == ("num_beams=4",)


def test_a_model_that_also_sees_is_opened_as_one_that_reads(tmp_path: Path) -> None:
    FAMILIES["gemma3"].model().save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    text = json.loads(path.read_text())
    path.write_text(json.dumps({"model_type": "gemma3", "text_config": text}))
    assert open_model(tmp_path).architecture == "gemma3"


def test_biases_that_config_promises_must_be_there(tmp_path: Path) -> None:
    FAMILIES["qwen2"].model().save_pretrained(tmp_path)
    linears = [op for op in open_model(tmp_path).program.ops if isinstance(op, Linear)]
    assert [projection.bias for projection in linears[0].projections] == [
        f"blk.0.attn_{part}.bias" for part in "qkv"
    ]


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"model_type": "mamba"}, "model type 'mamba' is not supported; gemma2, gemma3"),
    ({"model_type": None}, "'model_type' is missing"),
    ({"hidden_act": "relu"}, "'hidden_act' is 'relu'; silu, swish, gelu_pytorch_tanh"),
    ({"quantization_config": {"bits": 4}}, "'quantization_config' asks for what is not"),
    ({"num_hidden_layers": None}, "'num_hidden_layers' is missing"),
    ({"hidden_size": "64"}, "'hidden_size' must be an integer, not str"),
    ({"num_key_value_heads": 3}, "'num_key_value_heads' is 3, which does not divide"),
    ({"rms_norm_eps": 2}, "'rms_norm_eps' is 2.0; a number below 1"),
    ({"vocab_size": 0}, "'vocab_size' is 0"),
    ({"vocab_size": VOCAB + 1}, r"'model\.embed_tokens\.weight' has shape"),
    ({"intermediate_size": 90}, r"'model\.layers\.0\.mlp\.gate_proj\.weight' has shape"),
    ({"num_hidden_layers": 4}, r"'model\.layers\.3\.input_layernorm\.weight' is missing"),
    ({"tie_word_embeddings": "yes"}, "'tie_word_embeddings' must be true or false"),
    ({"sliding_window": 8, "layer_types": ["chunked_attention"] * 3}, "holds 'chunked_attention'"),
    ({"sliding_window": 8, "layer_types": ["full_attention"]}, "must be a list of 3 names"),
]


@pytest.mark.parametrize(("changes", "fault"), REFUSED)
def test_what_is_refused(folder: Path, changes: dict[str, Any], fault: str) -> None:
    edit(folder / "config.json", **changes)
    with pytest.raises(ModelFileError, match=fault) as refusal:
        open_model(folder)
    assert str(folder) in str(refusal.value)


@pytest.mark.parametrize("flags", [[1, 0], [1, 0, 2], "101"])
def test_layers_without_a_rope_must_be_told_for_all(tmp_path: Path, flags: object) -> None:
    FAMILIES["smollm3"].model().save_pretrained(tmp_path)
    edit(tmp_path / "config.json", no_rope_layers=flags)
    with pytest.raises(ModelFileError, match="'no_rope_layers' must be a list of 0 or 1"):
        open_model(tmp_path)


@pytest.mark.parametrize("content", [b"", b"[1]", b"{", b"[" * 100_000])
def test_a_config_that_is_none(folder: Path, content: bytes) -> None:
    (folder / "config.json").write_bytes(content)
    with pytest.raises(ModelFileError, match=r"config\.json: (is not JSON|must hold)"):
        open_model(folder)


def test_a_folder_without_a_config(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"config\.json: cannot be read"):
        open_model(tmp_path)


def test_a_tokenizer_with_more_ids_than_rows_is_refused(folder: Path) -> None:
    data = byte_level_file()
    data["model"] = {"type": "BPE", "vocab": {"a": 0, "b": VOCAB}, "merges": []}
    (folder / "tokenizer.json").write_text(json.dumps(data))
    named = f"tokenizer.json has tokens up to id {VOCAB}, but config.json has a 'vocab_size' of"
    with pytest.raises(ModelFileError, match=named):
        open_model(folder)
    edit(folder / "config.json", vocab_size=VOCAB + 1)
    with pytest.raises(ModelFileError, match=f"has rows for {VOCAB} ids"):
        open_model(folder)


def test_an_added_token_beyond_the_rows_is_refused_unless_text_never_becomes_it(
    folder: Path,
) -> None:
    data = byte_level_file(added("<image>", VOCAB))
    data["model"] = {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}
    (folder / "tokenizer.json").write_text(json.dumps(data))
    assert open_model(folder).program.vocab_size == VOCAB
    data["added_tokens"] = [added("<image>", VOCAB, special=False)]
    (folder / "tokenizer.json").write_text(json.dumps(data))
    with pytest.raises(ModelFileError, match=f"has tokens up to id {VOCAB}"):
        open_model(folder)


def test_sf_05_an_output_matrix_that_is_not_used_is_said_to_differ(folder: Path) -> None:
    path = folder / "model.safetensors"
    tensors = load_file(path)
    edit(folder / "config.json", tie_word_embeddings=True)
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].copy()
    save_file(tensors, path)
    assert open_model(folder).ignored == ()
    tensors["lm_head.weight"][VOCAB // 2] += 1
    save_file(tensors, path)
    model = open_model(folder)
    assert model.ignored == (
        "tensor lm_head.weight (differs from the embedding, which is used because of"
        " 'tie_word_embeddings')",
    )
    assert "output.weight" not in model.tensors


def test_tensors_that_nobody_uses_are_named_by_kind(folder: Path) -> None:
    path = folder / "model.safetensors"
    tensors = load_file(path)
    for layer in range(2):
        tensors[f"model.layers.{layer}.self_attn.sinks"] = np.zeros(4, np.float32)
        tensors[f"model.layers.{layer}.self_attn.rotary_emb.inv_freq"] = np.zeros(4, np.float32)
    tensors["vision.patch.weight"] = np.zeros(4, np.float32)
    save_file(tensors, path)
    assert open_model(folder).ignored == (
        "2 tensors model.layers.*.self_attn.sinks",
        "tensor vision.patch.weight",
    )

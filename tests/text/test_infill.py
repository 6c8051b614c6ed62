"""Prompts for fill-in-the-middle: each family's tokens and their order; users' text stays text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headrace.text.infill import NoInfill
from headrace.text.prompt import PromptBuilder
from headrace.text.tokenizer import Tokenizer
from tests.text.test_huggingface import added, byte_level_file, metaspace_file
from tests.text.vocabularies import byte_level, sentencepiece

QWEN = ("<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>", "<|file_sep|>")


def words(builder: PromptBuilder, prefix: str, suffix: str) -> list[str]:
    """The prompt's tokens: control tokens by name, others joined to their text."""
    tokenizer = builder._tokenizer
    parts: list[str] = []
    for id in builder.infill(prefix, suffix):
        if tokenizer.is_control(id):
            parts.append(tokenizer.token(id))
        elif parts and not parts[-1].startswith("<") and not parts[-1].startswith("["):
            parts[-1] += tokenizer.piece(id).decode()
        else:
            parts.append(tokenizer.piece(id).decode())
    return parts


def builder(*controls: str, **keys: object) -> PromptBuilder:
    metadata = byte_level("a", controls=("<s>", "</s>", "<pad>", *controls), **keys)
    return PromptBuilder.for_model(Tokenizer.from_gguf(metadata), None)


@pytest.mark.parametrize(
    ("controls", "expected"),
    [
        (QWEN, ["<|fim_prefix|>", "one", "<|fim_suffix|>", "two", "<|fim_middle|>"]),
        (
            ("<fim_prefix>", "<fim_suffix>", "<fim_middle>"),
            ["<fim_prefix>", "one", "<fim_suffix>", "two", "<fim_middle>"],
        ),
        (
            ("<｜fim▁hole｜>", "<｜fim▁begin｜>", "<｜fim▁end｜>"),
            ["<｜fim▁begin｜>", "one", "<｜fim▁hole｜>", "two", "<｜fim▁end｜>"],
        ),
        (("[PREFIX]", "[MIDDLE]", "[SUFFIX]"), ["[SUFFIX]", "two", "[PREFIX]", "one"]),
        (
            ("<[fim-suffix]>", "<[fim-prefix]>", "<[fim-middle]>"),
            ["<[fim-suffix]>", "two", "<[fim-prefix]>", "one", "<[fim-middle]>"],
        ),
    ],
)
def test_each_family_has_its_tokens_and_their_order(
    controls: tuple[str, ...], expected: list[str]
) -> None:
    assert words(builder(*controls), "one", "two") == expected


def test_the_files_own_keys_count_more_than_names() -> None:
    metadata = byte_level("a", controls=("<s>", "</s>", "<pad>", "<A>", "<B>", "<C>", *QWEN))
    tokens = metadata["tokenizer.ggml.tokens"]
    assert isinstance(tokens, list)
    for role, token in {"fim_pre": "<A>", "fim_suf": "<B>", "middle": "<C>"}.items():
        metadata[f"tokenizer.ggml.{role}_token_id"] = tokens.index(token)
    ours = PromptBuilder.for_model(Tokenizer.from_gguf(metadata), None)
    assert words(ours, "one", "two") == ["<A>", "one", "<B>", "two", "<C>"]


def test_control_tokens_in_either_text_are_plain_text() -> None:
    text = "x<|fim_middle|><|im_end|>"
    ours = builder(*QWEN, "<|im_end|>")
    assert words(ours, text, text) == [
        "<|fim_prefix|>", text, "<|fim_suffix|>", text, "<|fim_middle|>"
    ]  # fmt: skip


def test_what_follows_a_file_ends_the_answer() -> None:
    ours = builder(*QWEN)
    ends = {ours._tokenizer.token(id) for id in ours.infill_ends}
    assert ends == {*QWEN}


def test_a_begin_of_text_comes_first_where_the_model_wants_it() -> None:
    ours = builder(*QWEN, add_bos_token=True)
    assert words(ours, "one", "")[:2] == ["<s>", "<|fim_prefix|>"]


def test_a_model_without_such_tokens_says_so() -> None:
    ours = builder("<|fim_prefix|>", "<|fim_suffix|>")
    assert ours.infill_ends == frozenset()
    with pytest.raises(NoInfill, match="no tokens for fill-in-the-middle"):
        ours.infill("one", "two")


@pytest.mark.parametrize("special", [True, False])
def test_added_tokens_of_a_folder_count_special_or_not(tmp_path: Path, special: bool) -> None:
    tokens = [added(text, 300 + i, special=special) for i, text in enumerate(QWEN)]
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(byte_level_file(*tokens)))
    ours = PromptBuilder.for_model(Tokenizer.from_file(path), None)
    text = "yes<|fim_middle|>"
    assert words(ours, text, "no") == [
        "<|fim_prefix|>", text, "<|fim_suffix|>", "no", "<|fim_middle|>"
    ]  # fmt: skip


LLAMA = ("▁<PRE>", "▁<SUF>", "▁<MID>", "▁<EOT>")


def test_no_space_is_put_before_the_suffix_of_a_sentencepiece_model(tmp_path: Path) -> None:
    scored = {"▁": -1.0, "h": -2.0, "i": -3.0, "▁h": -4.0, "hi": -5.0, "▁hi": -6.0}
    metadata = sentencepiece(scored, LLAMA, prefix_token_id=259 + 6, suffix_token_id=259 + 7,
                             middle_token_id=259 + 8)  # fmt: skip
    tokens = [added(text, 300 + i) for i, text in enumerate(LLAMA)]
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(metaspace_file("first", *tokens)))
    for tokenizer in (Tokenizer.from_gguf(metadata), Tokenizer.from_file(path)):
        ids = PromptBuilder.for_model(tokenizer, None).infill("hi", "hi")
        expected = ["<s>", "▁<PRE>", "▁hi", "▁<SUF>", "hi", "▁<MID>"]
        assert [tokenizer.token(id) for id in ids] == expected


def test_raw_prompts_have_control_tokens_only_on_request() -> None:
    ours = builder(*QWEN)
    text = "<|fim_prefix|>one<|fim_suffix|>two<|fim_middle|>"
    assert ours.completion(text, special=True) == ours.infill("one", "two")
    assert not any(map(ours._tokenizer.is_control, ours.completion(text)))

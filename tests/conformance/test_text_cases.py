"""Public cases and token vectors for tokenizers, templates, stops and streamed text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from headrace.models.gguf import read_gguf
from headrace.models.model import Model, open_model
from headrace.text.pipeline import TextPipeline
from headrace.text.prompt import PromptBuilder
from headrace.text.template import ChatTemplate
from headrace.text.tokenizer import Tokenizer, TokenizerError
from tests.text.test_huggingface import added, both, byte_level_file, metaspace_file
from tests.text.vocabularies import byte_level

VOCABULARIES = [
    "deepseek-coder",
    "deepseek-llm",
    "falcon",
    "gpt-2",
    "llama-bpe",
    "llama-spm",
    "phi-3",
    "qwen2",
    "starcoder",
]


@pytest.mark.parametrize("name", VOCABULARIES)
def test_public_token_vectors(suites: Path, name: str) -> None:
    path = suites / "gguf-vocab" / f"ggml-vocab-{name}.gguf"
    tokenizer = Tokenizer.from_gguf(read_gguf(path).metadata)
    texts = Path(f"{path}.inp").read_bytes().decode().split("\n__ggml_vocab_test__\n")
    lines = Path(f"{path}.out").read_text().split("\n")
    vectors = dict(zip(texts, lines, strict=True))
    assert len(vectors) > 40
    for text, ids in vectors.items():
        assert tokenizer.encode(text) == [int(i) for i in ids.split()], repr(text)


def test_cf_06_flags_of_added_tokens(tmp_path: Path) -> None:
    data = byte_level_file(
        added("<x>", 259, lstrip=True),
        added("yes", 257, special=False, single_word=True, normalized=True),
    )
    data["model"]["merges"] = [["h", "e"]]  # so that only the added token makes a "yes"
    ours, theirs = both(tmp_path, data)
    for text in ("a  <x> b", "yes yesterday YES"):
        ids = ours.encode(text, special=True)
        assert ids == theirs.encode(text, add_special_tokens=False).ids
    assert [ours.token(i) for i in ours.encode("a  <x> b", special=True)] == ["a", "<x>", "Ġ", "b"]
    assert ours.encode("yes yesterday YES").count(257) == 1


def test_cf_07_incremental_text_is_the_full_text_and_gaps_are_silent(tmp_path: Path) -> None:
    data = metaspace_file("first", added("<a>", 270), added("<b>", 280, special=False))
    ours, theirs = both(tmp_path, data)
    prompt = ours.encode("hi")
    generated = [262, 259, *(3 + byte for byte in "é日".encode()), 275, 280, 10**9, 259, 263]
    pipeline = TextPipeline(ours)
    text = ""
    for end, token in enumerate(generated, 1):
        text += pipeline.feed(token)
        if not pipeline.held:
            assert ours.decode(prompt + generated[:end]) == ours.decode(prompt) + text
    assert text == " hi é日<b> hi"
    known = [i for i in prompt + generated if i < 270]
    assert ours.decode(known) == theirs.decode(known)
    assert ours.decode([275]) == ours.decode([10**9]) == ""


def test_gg_08_an_unknown_pre_tokenizer_is_refused_by_name() -> None:
    with pytest.raises(TokenizerError, match=r"tokenizer\.ggml\.pre is 'never-heard-of-it'"):
        Tokenizer.from_gguf(byte_level("hello", pre="never-heard-of-it"))


GG_12 = "Hello world! Café déjà vu — 123 😊\t  x\n\n\n 日本"


def test_gg_12_both_loaders_of_one_vocabulary_agree(smollm2: Model, tmp_path: Path) -> None:
    """The checkpoint's tokenizer.json is made from the same vocabulary and merges, cut into
    words as the checkpoint's own says: digits apart, then GPT-2's words."""
    tokens = smollm2.metadata["tokenizer.ggml.tokens"]
    merges = smollm2.metadata["tokenizer.ggml.merges"]
    types = smollm2.metadata["tokenizer.ggml.token_type"]
    data = byte_level_file(
        *[added(token, i) for i, token in enumerate(tokens) if types[i] == 3],
        model={
            "type": "BPE",
            "vocab": {token: i for i, token in enumerate(tokens)},
            "merges": [merge.split(" ") for merge in merges],
        },
    )
    digits = {"type": "Digits", "individual_digits": True}
    data["pre_tokenizer"] = {
        "type": "Sequence",
        "pretokenizers": [digits, data["pre_tokenizer"]],
    }
    from_json, theirs = both(tmp_path, data)
    from_gguf = Tokenizer.from_gguf(smollm2.metadata)
    assert from_gguf.vocab_size == from_json.vocab_size
    ids = from_gguf.encode(GG_12)
    assert ids == from_json.encode(GG_12) == theirs.encode(GG_12).ids
    assert from_gguf.decode(ids) == from_json.decode(ids) == GG_12


def test_ms_03_text_parts_become_one_string() -> None:
    source = "{% for m in messages %}<{{ m.role }}>{{ m.content }}</>{% endfor %}"
    template = ChatTemplate(source, bos_token="", eos_token="")
    parts = [{"type": "text", "text": "ab"}, {"type": "text", "text": "cd"}]
    assert template.render([{"role": "user", "content": parts}]) == "<user>abcd</>"
    one = template.render([{"role": "user", "content": parts[:1]}])
    assert one == template.render([{"role": "user", "content": "ab"}])


def test_ms_11_slices_namespaces_filters_and_white_space_control() -> None:
    source = """
    {%- if messages[0].role == 'system' -%}
      S:{{ messages[0]['content'] }}|{%- set turns = messages[1:] -%}
    {%- else -%}
      {%- set turns = messages -%}
    {%- endif -%}
    {%- set seen = namespace(count=0) -%}
    {%- for turn in turns -%}
      {%- if (turn['role'] == 'user') != (seen.count % 2 == 0) -%}
        {{ raise_exception('turns must alternate') }}
      {%- endif -%}
      {%- set seen.count = seen.count + 1 -%}
      {{ turn['role'][0] }}:{{ turn['content'] | trim }}|
    {%- endfor -%}
    {%- if add_generation_prompt -%}a:{%- endif -%}
    """
    messages = [
        {"role": "system", "content": "sys"},
        {"role": "user", "content": " hi "},
        {"role": "assistant", "content": "yo"},
        {"role": "user", "content": "ok"},
    ]
    template = ChatTemplate(source, bos_token="", eos_token="")
    assert template.render(messages) == "S:sys|u:hi|a:yo|u:ok|a:"


class TestForcedText:
    """What a generation shows when the model says just this, cut in every way there is."""

    tokenizer = Tokenizer.from_gguf(byte_level("alpha", "beta", "Ġgamma", "DEF", "TRE"))

    def streams(self, text: str, stop: str) -> set[tuple[str, str | None]]:
        """(joined text, matched) of the text as tokens and as single bytes."""
        single = [i for byte in text.encode() for i in self.by_byte(byte)]
        return {self.stream(ids, stop) for ids in (self.tokenizer.encode(text), single)}

    def by_byte(self, byte: int) -> list[int]:
        return [i for i in range(256) if self.tokenizer.piece(i) == bytes([byte])]

    def stream(self, ids: list[int], stop: str) -> tuple[str, str | None]:
        pipeline = TextPipeline(self.tokenizer, [stop])
        text = ""
        for token in ids:
            text += pipeline.feed(token)
            if pipeline.matched is not None:
                break
        return text + pipeline.finish(), pipeline.matched

    def test_st_01_no_piece_of_the_stop_is_sent(self) -> None:
        assert self.streams("ABC DEFGHIJ KLM", "DEFGHIJ") == {("ABC ", "DEFGHIJ")}

    def test_st_02_what_was_held_is_sent_at_the_end(self) -> None:
        assert self.streams("UNO DUE TRE", "TRE\nZZZZ") == {("UNO DUE TRE", None)}

    def test_st_03_a_stop_over_a_token_border_matches(self) -> None:
        text = "alpha beta gamma delta"
        assert self.streams(text, "beta gamma") == {("alpha ", "beta gamma")}

    def test_st_05_an_empty_stop_is_refused(self) -> None:
        with pytest.raises(ValueError, match="must not be empty"):
            TextPipeline(self.tokenizer, [""])

    def test_st_06_the_stop_is_not_in_the_text(self) -> None:
        assert self.streams("1, 2, 3, 4, 5, 6, 7, 8", "7") == {("1, 2, 3, 4, 5, 6, ", "7")}

    def test_tx_01_characters_are_whole(self) -> None:
        text = "a👨‍👩‍👧bé你"
        pipeline = TextPipeline(self.tokenizer)
        deltas = [pipeline.feed(i) for byte in text.encode() for i in self.by_byte(byte)] + [
            pipeline.finish()
        ]
        assert not any("\ufffd" in delta for delta in deltas)
        assert "".join(deltas) == text
        assert [json.loads(json.dumps(delta)) for delta in deltas] == deltas

    def test_tx_03_a_cut_character_is_flushed_once(self) -> None:
        pipeline = TextPipeline(self.tokenizer)
        ids = [i for byte in bytes.fromhex("e4bd") for i in self.by_byte(byte)]
        assert [pipeline.feed(i) for i in ids] == ["", ""]
        assert (pipeline.finish(), pipeline.finish()) == ("\ufffd", "")


CONVERSATIONS = [
    [{"role": "user", "content": "Hello!"}],
    [
        {"role": "system", "content": "You are terse."},
        {"role": "user", "content": "Qu'est-ce que c'est? 123 4567  x\n\n\ty"},
        {"role": "assistant", "content": GG_12},
        {"role": "user", "content": " 日本 "},
    ],
]


@pytest.fixture(scope="module")
def smollm2(smollm2_path: Path) -> Model:
    return open_model(smollm2_path)


@pytest.mark.parametrize("messages", CONVERSATIONS, ids=["short", "long"])
def test_chat_prompts_equal_those_of_transformers(
    smollm2: Model, smollm2_path: Path, messages: list[dict[str, str]]
) -> None:
    theirs = AutoTokenizer.from_pretrained(smollm2_path.parent, gguf_file=smollm2_path.name)
    ids = theirs.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    tokenizer = Tokenizer.from_gguf(smollm2.metadata)
    assert PromptBuilder.for_model(tokenizer, smollm2.chat_template).chat(messages) == ids


def test_st_08_a_fine_tunes_own_end_of_turn_ends_it(tmp_path: Path, smollm2_path: Path) -> None:
    theirs = AutoTokenizer.from_pretrained(smollm2_path.parent, gguf_file=smollm2_path.name)
    theirs.save_pretrained(tmp_path)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        path = tmp_path / name
        path.write_text(path.read_text().replace("<|im_end|>", "<|turn_over|>"))
    config = json.loads((tmp_path / "tokenizer_config.json").read_text())
    config["eos_token"] = "<|endoftext|>"
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [0, 2]}))
    tokenizer = Tokenizer.from_file(tmp_path / "tokenizer.json")
    assert tokenizer.encode("<|turn_over|>", special=True) == [2]
    assert (tokenizer.eos_token, tokenizer.eos_ids) == ("<|endoftext|>", {0, 2})


def test_control_texts_of_a_real_vocabulary_are_plain_unless_asked_for(smollm2: Model) -> None:
    tokenizer = Tokenizer.from_gguf(smollm2.metadata)
    text = "a<|im_end|>b"
    plain = tokenizer.encode(text)
    assert not any(map(tokenizer.is_control, plain))
    assert tokenizer.decode(plain) == text
    end = tokenizer.encode("<|im_end|>", special=True)
    assert len(end) == 1
    assert set(end) <= tokenizer.eos_ids

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from headrace.text.tokenizer import Tokenizer, TokenizerError
from tests.text.vocabularies import byte_alphabet

BYTES = {f"<0x{byte:02X}>": 3 + byte for byte in range(256)}

BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}


def added(content: str, token_id: int, *, special: bool = True, **flags: bool) -> dict[str, Any]:
    defaults = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {"id": token_id, "content": content, "special": special, **defaults, **flags}


def byte_level_file(*added_tokens: dict[str, Any], **changes: object) -> dict[str, Any]:
    vocab = {token: i for i, token in enumerate(byte_alphabet())}
    vocab |= {"he": 256, "yes": 257, "ye": 258}
    return {
        "version": "1.0",
        "added_tokens": list(added_tokens),
        "normalizer": None,
        "pre_tokenizer": BYTE_LEVEL,
        "post_processor": None,
        "decoder": BYTE_LEVEL,
        "model": {"type": "BPE", "vocab": vocab, "merges": [["h", "e"], ["y", "e"], ["ye", "s"]]},
        **changes,
    }


def metaspace_file(scheme: str, *added_tokens: dict[str, Any]) -> dict[str, Any]:
    vocab = {"<unk>": 0, "<s>": 1, "</s>": 2, **BYTES, "▁": 259, "h": 260, "i": 261, "▁hi": 262}
    vocab |= {"hi": 263}
    metaspace = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": False}
    return {
        "version": "1.0",
        "added_tokens": [
            added("<unk>", 0), added("<s>", 1), added("</s>", 2), *added_tokens
        ],
        "normalizer": None,
        "pre_tokenizer": metaspace,
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [
                {"SpecialToken": {"id": "<s>", "type_id": 0}},
                {"Sequence": {"id": "A", "type_id": 0}},
            ],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}},
        },
        "decoder": {
            "type": "Sequence",
            "decoders": [
                {"type": "ByteFallback"},
                metaspace,
                {"type": "Fuse"},
                {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
            ],
        },
        "model": {
            "type": "BPE",
            "unk_token": "<unk>",
            "byte_fallback": True,
            "vocab": vocab,
            "merges": [["h", "i"], ["▁", "hi"]],
        },
    }  # fmt: skip


def both(folder: Path, data: dict[str, Any]) -> tuple[Tokenizer, tokenizers.Tokenizer]:
    """Our tokenizer and the library's own, from the same file."""
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(data))
    return Tokenizer.from_file(path), tokenizers.Tokenizer.from_file(str(path))


texts = st.lists(
    st.sampled_from(["yes", "yesterday", "YES", "<x>", " ", "\t", "he", "é", "<s>", "</s>", "<t>"])
    | st.text(max_size=3),
    max_size=8,
).map("".join)

FLAGGED = byte_level_file(
    added("<x>", 259, lstrip=True),
    added("<t>", 260, rstrip=True),
    added("yes", 257, special=False, single_word=True, normalized=True),
)


@pytest.fixture(scope="module")
def flagged(tmp_path_factory: pytest.TempPathFactory) -> tuple[Tokenizer, tokenizers.Tokenizer]:
    return both(tmp_path_factory.mktemp("flagged"), FLAGGED)


@given(text=texts)
def test_flags_of_added_tokens_act_as_the_library_has_them(
    flagged: tuple[Tokenizer, tokenizers.Tokenizer], text: str
) -> None:
    ours, theirs = flagged
    assert ours.encode(text, special=True) == theirs.encode(text, add_special_tokens=False).ids


@pytest.mark.parametrize("scheme", ["first", "always", "never"])
@pytest.mark.parametrize("text", ["hi", "hi</s>hi", "</s>hi hi", " hi", "é\n</s>", "", "</s>"])
def test_the_space_before_text_is_put_where_the_library_puts_it(
    tmp_path: Path, scheme: str, text: str
) -> None:
    ours, theirs = both(tmp_path, metaspace_file(scheme))
    expected = theirs.encode(text, add_special_tokens=False).ids
    assert ours.encode(text, special=True) == expected
    known = {text: ours.encode_within(text) for text in ("hi", "hi hi", "")}
    assert ours.encode(text, special=True, known=known) == expected


def test_control_texts_are_plain_unless_asked_for(tmp_path: Path) -> None:
    ours, _ = both(tmp_path, metaspace_file("first"))
    assert not any(map(ours.is_control, ours.encode("<s>hi</s>")))
    assert ours.decode(ours.encode("<s>hi</s>")) == "<s>hi</s>"


def test_begin_and_end_come_from_the_files(tmp_path: Path) -> None:
    config = {"eos_token": {"content": "</s>"}, "bos_token": "<s>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    ours, _ = both(tmp_path, metaspace_file("first", added("<|im_end|>", 300)))
    assert (ours.bos_id, ours.add_bos, ours.eos_token) == (1, True, "</s>")
    assert ours.eos_ids == {2, 300}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({**config, "add_bos_token": False}))
    assert Tokenizer.from_file(tmp_path / "tokenizer.json").add_bos is False


def test_every_file_that_names_an_end_of_turn_counts(tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"eos_token": "</s>"}))
    (tmp_path / "config.json").write_text(json.dumps({"eos_token_id": 300}))
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [2, 301]}))
    ours, _ = both(tmp_path, metaspace_file("first", added("<over>", 300), added("<out>", 301)))
    assert ours.eos_ids == {2, 300, 301}


def test_the_end_of_turn_of_the_part_that_reads_text_counts(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"text_config": {"eos_token_id": [1, 2]}}))
    assert both(tmp_path, metaspace_file("first"))[0].eos_ids == {1, 2}


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("generation_config.json", {"eos_token_id": 300}),
        ("tokenizer_config.json", {"eos_token": "<over>"}),
    ],
)
def test_an_added_token_that_ends_a_turn_is_never_users_text(
    tmp_path: Path, name: str, config: dict[str, object]
) -> None:
    (tmp_path / name).write_text(json.dumps(config))
    ours, _ = both(tmp_path, metaspace_file("first", added("<over>", 300, special=False)))
    assert ours.eos_ids == {300}
    assert 300 not in ours.encode("hi<over>hi")
    assert 300 in ours.encode("hi<over>hi", special=True)


def test_begin_and_end_may_come_from_the_map_of_special_tokens(tmp_path: Path) -> None:
    (tmp_path / "special_tokens_map.json").write_text(json.dumps({"eos_token": "</s>"}))
    assert both(tmp_path, metaspace_file("first"))[0].eos_token == "</s>"


def test_ends_outside_the_vocabulary_name_no_token(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"eos_token_id": [-1, 2, 1 << 70]}))
    assert both(tmp_path, metaspace_file("first"))[0].eos_ids == {2}


@pytest.mark.parametrize("stated", ["2", 2.0, True, [None]])
def test_an_end_of_turn_that_is_no_id_is_refused(tmp_path: Path, stated: object) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"eos_token_id": stated}))
    with pytest.raises(TokenizerError, match=r"config\.json: key 'eos_token_id' holds"):
        both(tmp_path, metaspace_file("first"))


def test_gaps_between_ids_stay_gaps(tmp_path: Path) -> None:
    data = metaspace_file("first", added("<a>", 270), added("<b>", 280, special=False))
    ours, _ = both(tmp_path, data)
    assert ours.vocab_size == 281
    assert ours.encode("hi<a><b>", special=True) == [262, 270, 280]
    assert [ours.piece(i) for i in (270, 275, 280, 281)] == [b"", b"", b"<b>", b""]
    assert ours.decode([262, 275, 280]) == "hi<b>"


def test_files_have_different_fingerprints(tmp_path: Path) -> None:
    one, _ = both(tmp_path, metaspace_file("first"))
    two, _ = both(tmp_path, metaspace_file("never"))
    assert one.fingerprint != two.fingerprint


REGEX_STEP = {"type": "Replace", "pattern": {"Regex": "x+"}, "content": ""}


@pytest.mark.parametrize(
    ("data", "named"),
    [
        ({}, "model"),
        ([], "must hold an object"),
        (byte_level_file(model={"type": "Unigram", "vocab": []}), "'Unigram'; only 'BPE'"),
        (byte_level_file(decoder=None), "not a tokenizer.json as we know it"),
        (byte_level_file(decoder=REGEX_STEP), "decoder step .*Regex.* is not supported"),
        (byte_level_file(added("<x>", -1)), "'<x>' has the id -1"),
        (byte_level_file(added("<x>", 1 << 40)), "'<x>' has the id 1099511627776"),
        (byte_level_file(added("<x>", 3)), "share id 3"),
        (byte_level_file(pre_tokenizer={"type": "Nonsense"}), "tokenizer.json"),
    ],
)
def test_what_is_not_understood_is_refused(tmp_path: Path, data: object, named: str) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(data))
    with pytest.raises(TokenizerError, match=named):
        Tokenizer.from_file(path)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"{", b"[" * 100_000])
def test_what_is_not_json_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(content)
    with pytest.raises(TokenizerError, match="not JSON"):
        Tokenizer.from_file(path)

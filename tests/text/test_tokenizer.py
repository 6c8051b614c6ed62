from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from headrace.text.tokenizer import Tokenizer, TokenizerError
from tests.text import vocabularies
from tests.text.vocabularies import CONTROL, NORMAL, UNUSED, USER_DEFINED, byte_level, sentencepiece


class TestByteLevel:
    tokenizer = Tokenizer.from_gguf(
        byte_level("hello", "Ġworld", "im", "Ġim", user_defined=("<tool>", "é!"))
    )

    @given(st.text())
    def test_every_text_comes_back(self, text: str) -> None:
        ids = self.tokenizer.encode(text)
        assert self.tokenizer.decode(ids) == text
        assert b"".join(map(self.tokenizer.piece, ids)) == text.encode()

    @given(st.lists(st.sampled_from(["<|im_end|>", "<|start|>", "<|", "im", "|>", " ", "x"])))
    def test_plain_text_never_becomes_a_control_token(self, parts: list[str]) -> None:
        ids = self.tokenizer.encode("".join(parts))
        assert not any(map(self.tokenizer.is_control, ids))

    def test_control_tokens_are_recognised_when_asked(self) -> None:
        ids = self.tokenizer.encode("hello<|im_end|> world", special=True)
        assert [self.tokenizer.token(i) for i in ids] == ["hello", "<|im_end|>", "Ġworld"]
        assert [self.tokenizer.is_control(i) for i in ids] == [False, True, False]
        assert self.tokenizer.decode(ids) == "hello world"

    def test_a_character_can_be_taken_out_after_control_tokens_are_found(self) -> None:
        text = "<|im#_end|>#<|im_end|>"
        ids = self.tokenizer.encode(text, special=True, without="#")
        assert ids == [
            *self.tokenizer.encode("<|im_end|>"),
            *self.tokenizer.encode("<|im_end|>", special=True),
        ]

    @given(st.lists(st.sampled_from(["<|im_end|>", "#", "im", " im", "hello", "\n"])))
    def test_texts_that_are_known_need_no_encoder(self, parts: list[str]) -> None:
        known = {text: self.tokenizer.encode_within(text) for text in ("im", " im", "\n", "")}
        text = "".join(parts)
        fast = self.tokenizer.encode(text, special=True, without="#", known=known)
        assert fast == self.tokenizer.encode(text, special=True, without="#")

    def test_user_defined_tokens_are_taken_whole_and_are_text(self) -> None:
        ids = self.tokenizer.encode("x<tool>é!")
        assert [self.tokenizer.token(i) for i in ids] == ["x", "<tool>", "é!"]
        assert self.tokenizer.decode(ids) == "x<tool>é!"

    def test_what_is_no_id_is_no_text(self) -> None:
        size = self.tokenizer.vocab_size
        assert [self.tokenizer.piece(i) for i in (-1, size, 10**12)] == [b"", b"", b""]
        assert self.tokenizer.token(size) == ""
        assert not self.tokenizer.is_control(size)

    def test_lone_surrogates_are_refused(self) -> None:
        with pytest.raises(ValueError, match="surrogates"):
            self.tokenizer.encode("\ud800")

    def test_begin_and_end_tokens(self) -> None:
        tokenizer = Tokenizer.from_gguf(
            byte_level("a", controls=("<s>", "</s>", "<pad>", "<|im_end|>", "<|eot_id|>"))
        )
        assert (tokenizer.bos_token, tokenizer.eos_token) == ("<s>", "</s>")
        ends = {tokenizer.token(i) for i in tokenizer.eos_ids}
        assert ends == {"</s>", "<|im_end|>", "<|eot_id|>"}
        assert tokenizer.add_bos is False
        assert Tokenizer.from_gguf(byte_level("a", add_bos_token=True)).add_bos is True
        assert Tokenizer.from_gguf(byte_level("a", pre="llama-bpe")).add_bos is True

    def test_names_of_turn_ends_count_only_as_control_tokens(self) -> None:
        tokenizer = Tokenizer.from_gguf(byte_level("a", user_defined=("<|eot_id|>",)))
        assert {tokenizer.token(i) for i in tokenizer.eos_ids} == {"<|im_end|>"}

    def test_a_declared_end_is_a_control_token_even_if_typed_as_user_defined(self) -> None:
        metadata = byte_level("a", user_defined=("</end>",))
        end = metadata["tokenizer.ggml.tokens"].index("</end>")  # type: ignore[attr-defined]
        tokenizer = Tokenizer.from_gguf(metadata | {"tokenizer.ggml.eos_token_id": end})
        assert tokenizer.is_control(end)
        assert end not in tokenizer.encode("</end>")

    def test_unused_tokens_are_neither_text_nor_encoded(self) -> None:
        metadata = byte_level("a", controls=("<s>", "</s>", "[PAD1]"))
        metadata["tokenizer.ggml.token_type"][-1] = UNUSED  # type: ignore[index]
        tokenizer = Tokenizer.from_gguf(metadata)
        assert tokenizer.piece(tokenizer.vocab_size - 1) == b""
        assert tokenizer.decode(tokenizer.encode("[PAD1]")) == "[PAD1]"


_JOINED = "▁t he ▁the ab ▁a ba aba ▁▁ ▁▁▁▁ aa aaa aab cab"
SCORED = {piece: -float(rank) for rank, piece in enumerate([*_JOINED.split(), *"▁abcteh<>s/"])}


class TestSentencePiece:
    tokenizer = Tokenizer.from_gguf(sentencepiece(SCORED, user_defined=("\n\n", "<b>")))

    @given(st.text())
    @settings(max_examples=300)
    def test_every_text_comes_back(self, text: str) -> None:
        text = text.replace("▁", " ")  # which the vocabulary cannot tell from a space
        assume("\n\n" not in text)  # a token of its own, behind which a space is put
        assert self.tokenizer.decode(self.tokenizer.encode(text)) == text

    @given(st.text("ab cthe", max_size=40))
    @settings(max_examples=500)
    def test_merges_as_sentencepiece_does(self, text: str) -> None:
        tokens = [self.tokenizer.token(i) for i in self.tokenizer.encode(text)]
        assert tokens == merge_by_score(text, SCORED)

    def test_control_texts_stay_text(self) -> None:
        ids = self.tokenizer.encode("</s>")
        assert [self.tokenizer.token(i) for i in ids] == ["▁", "<", "/", "s", ">"]

    def test_unknown_characters_become_their_bytes(self) -> None:
        tokens = [self.tokenizer.token(i) for i in self.tokenizer.encode("é")]
        assert tokens == ["▁", "<0xC3>", "<0xA9>"]

    def test_a_typed_byte_token_stays_text(self) -> None:
        ids = self.tokenizer.encode("<0x41>")
        assert self.tokenizer.decode(ids) == "<0x41>"

    def test_the_space_before_text(self) -> None:
        first, after = self.tokenizer.encode("the<s>the", special=True)[0::2]
        assert self.tokenizer.token(first) == self.tokenizer.token(after) == "▁the"
        bare = Tokenizer.from_gguf(sentencepiece(SCORED, add_space_prefix=False))
        assert [bare.token(i) for i in bare.encode("the")] == ["t", "he"]
        assert bare.decode(bare.encode(" a")) == " a"

    def test_bos_is_wanted_unless_the_file_says_otherwise(self) -> None:
        assert self.tokenizer.add_bos is True
        assert Tokenizer.from_gguf(sentencepiece({}, add_bos_token=False)).add_bos is False

    def test_all_bytes_must_be_there(self) -> None:
        metadata = sentencepiece(SCORED)
        metadata["tokenizer.ggml.tokens"][3 + 0x41] = "other"  # type: ignore[index]
        with pytest.raises(TokenizerError, match="lacks 1 byte tokens, <0x41> first"):
            Tokenizer.from_gguf(metadata)


def merge_by_score(text: str, scores: dict[str, float]) -> list[str]:
    """SentencePiece's BPE, said plainly: join the neighbours of highest score, leftmost first."""
    symbols = list("▁" + text.replace(" ", "▁")) if text else []
    while True:
        joins = [
            (-scores[joined], i)
            for i in range(len(symbols) - 1)
            if (joined := symbols[i] + symbols[i + 1]) in scores
        ]
        if not joins:
            return symbols
        i = min(joins)[1]
        symbols[i : i + 2] = [symbols[i] + symbols[i + 1]]


@given(
    st.lists(st.text("ab▁", min_size=2, max_size=5), unique=True, max_size=12),
    st.text("ab ", max_size=25),
)
@settings(max_examples=500, deadline=None)
def test_any_scores_merge_as_sentencepiece_does(longer: list[str], text: str) -> None:
    scores = {piece: -float(rank) for rank, piece in enumerate([*longer, "a", "b", "▁"])}
    tokenizer = Tokenizer.from_gguf(sentencepiece(scores))
    tokens = [tokenizer.token(i) for i in tokenizer.encode(text)]
    assert tokens == merge_by_score(text, scores)


class TestFingerprint:
    base = byte_level("hello", "world")

    def test_is_of_the_contents(self) -> None:
        one, two = Tokenizer.from_gguf(self.base), Tokenizer.from_gguf(dict(self.base))
        assert one.fingerprint == two.fingerprint
        assert len(bytes.fromhex(one.fingerprint)) == 32

    @pytest.mark.parametrize(
        "change",
        [
            {"tokenizer.ggml.pre": "smollm"},
            {"tokenizer.ggml.add_bos_token": True},
            {"tokenizer.ggml.eos_token_id": 0},
            {"tokenizer.ggml.merges": base["tokenizer.ggml.merges"][::-1]},  # type: ignore[index]
            {"tokenizer.ggml.token_type": [NORMAL] * len(base["tokenizer.ggml.tokens"])},  # type: ignore[arg-type]
        ],
        ids=lambda change: next(iter(change)),
    )
    def test_tells_any_change(self, change: dict[str, object]) -> None:
        changed = Tokenizer.from_gguf(self.base | change)
        assert changed.fingerprint != Tokenizer.from_gguf(self.base).fingerprint


def _without(key: str) -> Callable[[dict[str, object]], object]:
    return lambda metadata: metadata.pop(key)


def _with(key: str, value: object) -> Callable[[dict[str, object]], object]:
    return lambda metadata: metadata.update({key: value})


@pytest.mark.parametrize(
    ("fault", "named"),
    [
        (_without("tokenizer.ggml.model"), "tokenizer.ggml.model is missing"),
        (_with("tokenizer.ggml.model", 7), "tokenizer.ggml.model is 7"),
        (_with("tokenizer.ggml.model", "bert"), "tokenizer.ggml.model is 'bert'"),
        (_without("tokenizer.ggml.pre"), "tokenizer.ggml.pre is missing"),
        (_with("tokenizer.ggml.pre", "default"), "'default', an unknown pre-tokenizer"),
        (_without("tokenizer.ggml.tokens"), "tokenizer.ggml.tokens is missing"),
        (_with("tokenizer.ggml.tokens", []), "tokenizer.ggml.tokens is an empty list"),
        (_with("tokenizer.ggml.tokens", ["a", 1]), "tokenizer.ggml.tokens"),
        (_with("tokenizer.ggml.tokens", "abc"), "tokenizer.ggml.tokens"),
        (_with("tokenizer.ggml.tokens", ["a", "b", "a"]), "holds 'a' twice"),
        (_with("tokenizer.ggml.token_type", [1, 1]), "token_type has 2 entries"),
        (_with("tokenizer.ggml.token_type", ["x"]), "token_type is a list"),
        (_with("tokenizer.ggml.token_type", [[1], [1, 2]]), "token_type is not a flat list"),
        (_with("tokenizer.ggml.token_type", 3), "token_type is 3"),
        (_with("tokenizer.ggml.merges", ["a nosuchpiece"]), "tokenizer.ggml.merges: .*nosuchpiece"),
        (_with("tokenizer.ggml.merges", ["ab"]), "tokenizer.ggml.merges"),
        (_without("tokenizer.ggml.merges"), "tokenizer.ggml.merges is missing"),
        (_with("tokenizer.ggml.bos_token_id", 10**6), "bos_token_id is 1000000, outside"),
        (_with("tokenizer.ggml.eos_token_id", -1), "eos_token_id is -1, outside"),
        (_with("tokenizer.ggml.eos_token_id", "</s>"), "eos_token_id is '</s>'"),
        (_with("tokenizer.ggml.eos_token_id", True), "eos_token_id is True"),
        (_with("tokenizer.ggml.add_bos_token", "yes"), "add_bos_token is 'yes'"),
    ],
)
def test_faulty_metadata_is_refused_naming_the_key(
    fault: Callable[[dict[str, object]], object], named: str
) -> None:
    metadata = byte_level("hello")
    fault(metadata)
    with pytest.raises(TokenizerError, match=named):
        Tokenizer.from_gguf(metadata)


@pytest.mark.parametrize(
    ("key", "value", "named"),
    [
        ("scores", None, "scores is missing"),
        ("scores", [0.0], "scores has 1 entries"),
        ("scores", [float("nan")] * 260, "scores holds a value that is not finite"),
        ("token_type", [9] * 260, "token_type holds 9, which is no token type"),
    ],
)
def test_faulty_scores_and_types_are_refused(key: str, value: object, named: str) -> None:
    with pytest.raises(TokenizerError, match=named):
        Tokenizer.from_gguf(sentencepiece({"a": 0.0}, **{key: value}))


def test_a_merge_of_a_control_token_is_refused() -> None:
    metadata = byte_level("ab")
    metadata["tokenizer.ggml.token_type"][256] = CONTROL  # type: ignore[index]
    with pytest.raises(TokenizerError, match=r"tokenizer\.ggml\.merges"):
        Tokenizer.from_gguf(metadata)


def test_types_may_be_absent_or_arrays() -> None:
    import numpy as np

    metadata = byte_level("hello")
    types = metadata.pop("tokenizer.ggml.token_type")
    assert Tokenizer.from_gguf(metadata).decode([256]) == "he"
    metadata["tokenizer.ggml.token_type"] = np.array(types, np.int32)
    assert Tokenizer.from_gguf(metadata).is_control(metadata["tokenizer.ggml.eos_token_id"])  # type: ignore[arg-type]
    assert vocabularies.NORMAL == 1 and USER_DEFINED == 4

"""Codec of a GGUF file's vocabulary."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import tokenizers
from tokenizers import AddedToken, normalizers
from tokenizers.models import BPE

from headrace.text import pieces
from headrace.text.codec import TURN_ENDS, Codec, TokenizerError
from headrace.text.controls import Control
from headrace.text.infill import infill_of, infill_texts
from headrace.text.pretokenizers import PreTokenizerSpec, pre_tokenizer
from headrace.text.vocabulary import TokenType, Vocabulary


def gguf_codec(metadata: Mapping[str, object]) -> Codec:
    """Build the encoder and tables from a GGUF file's key-values.

    Raises TokenizerError naming the key that is missing or faulty.
    """
    vocabulary = Vocabulary.from_gguf(metadata)
    controls = _controls(vocabulary)
    if vocabulary.model == "gpt2":
        spec = pre_tokenizer(vocabulary.pre)
        encoder, to_bytes = _byte_level_encoder(vocabulary, controls, spec), pieces.byte_level
        adds_bos, leading_space = spec.adds_bos, False
        composes = spec.normalizer is not None
    else:
        leading_space = vocabulary.space_prefix is not False
        encoder = _sentencepiece_encoder(vocabulary, controls, leading_space)
        to_bytes, adds_bos, composes = pieces.sentencepiece, True, False
    return Codec(
        start=encoder,
        middle=encoder,
        tokens=vocabulary.tokens,
        piece=_piece_maker(vocabulary, controls, to_bytes),
        controls={text: Control(token_id) for text, token_id in controls.items()},
        bos_id=vocabulary.special.get("bos"),
        eos_id=vocabulary.special.get("eos"),
        eos_ids=_eos_ids(vocabulary, controls),
        add_bos=adds_bos if vocabulary.add_bos is None else vocabulary.add_bos,
        leading_space=leading_space,
        contents=vocabulary.contents(),
        known_rules=True,
        composes=composes,
        infill=infill_of(controls, vocabulary.infill),
    )


def _controls(vocabulary: Vocabulary) -> dict[str, int]:
    """Control tokens, and those that have a role in starting or ending a text, or in filling in
    the middle."""
    tokens, types = vocabulary.tokens, vocabulary.types
    controls = {tokens[i]: i for i in vocabulary.ids(TokenType.CONTROL)}
    controls |= {tokens[i]: i for i in vocabulary.infill.values()}
    user_defined = {tokens[i]: i for i in vocabulary.ids(TokenType.USER_DEFINED)}
    infill = infill_texts(controls.keys() | user_defined.keys())
    controls |= {text: user_defined[text] for text in infill & user_defined.keys()}
    for role in ("bos", "eos", "eot", "eom"):
        token_id = vocabulary.special.get(role)
        if token_id is not None and types[token_id] == TokenType.USER_DEFINED:
            controls[tokens[token_id]] = token_id
    return controls


def _eos_ids(vocabulary: Vocabulary, controls: Mapping[str, int]) -> frozenset[int]:
    declared = (vocabulary.special.get(role) for role in ("eos", "eot", "eom"))
    known = (controls.get(text) for text in TURN_ENDS)
    return frozenset(i for i in (*declared, *known) if i is not None)


def _piece_maker(
    vocabulary: Vocabulary, controls: Mapping[str, int], to_bytes: Callable[[str], bytes]
) -> Callable[[int], bytes]:
    tokens, types = vocabulary.tokens, vocabulary.types.tolist()

    def piece(token_id: int) -> bytes:
        token, kind = tokens[token_id], types[token_id]
        if token in controls:
            return b""
        if kind == TokenType.USER_DEFINED:
            return token.encode()
        return to_bytes(token) if kind in (TokenType.NORMAL, TokenType.BYTE) else b""

    return piece


def _plain(vocabulary: Vocabulary, controls: Mapping[str, int]) -> dict[str, int]:
    """Tokens that plain text may become."""
    tokens = vocabulary.tokens
    plain = dict(zip(tokens, range(len(tokens)), strict=True))
    for token_id in vocabulary.ids(TokenType.UNKNOWN) + vocabulary.ids(TokenType.UNUSED):
        del plain[tokens[token_id]]
    for control in controls:
        del plain[control]
    return plain


def _add_user_defined(
    encoder: tokenizers.Tokenizer, vocabulary: Vocabulary, controls: Mapping[str, int]
) -> None:
    """User-defined tokens are matched whole, before anything else sees the text."""
    tokens = [vocabulary.tokens[i] for i in vocabulary.ids(TokenType.USER_DEFINED)]
    encoder.add_tokens(
        [AddedToken(token, normalized=False) for token in tokens if token and token not in controls]
    )


def _byte_level_encoder(
    vocabulary: Vocabulary, controls: Mapping[str, int], spec: PreTokenizerSpec
) -> tokenizers.Tokenizer:
    merges = [tuple(merge.split(" ", 1)) for merge in vocabulary.merges]
    vocab = _plain(vocabulary, controls)
    try:
        model = BPE(vocab, merges, ignore_merges=spec.whole_words)  # type: ignore[arg-type]
    except Exception as error:  # tokenizers raises nothing narrower
        raise TokenizerError(f"tokenizer.ggml.merges: {error}") from error
    encoder = tokenizers.Tokenizer(model)
    encoder.pre_tokenizer = spec.cut()
    if spec.normalizer is not None:
        encoder.normalizer = spec.normalizer()
    _add_user_defined(encoder, vocabulary, controls)
    return encoder


def _sentencepiece_encoder(
    vocabulary: Vocabulary, controls: Mapping[str, int], leading_space: bool
) -> tokenizers.Tokenizer:
    vocab = _plain(vocabulary, controls)
    if missing := [name for byte in range(256) if (name := f"<0x{byte:02X}>") not in vocab]:
        raise TokenizerError(
            f"tokenizer.ggml.tokens lacks {len(missing)} byte tokens, {missing[0]} first;"
            " a 'llama' tokenizer needs all 256"
        )
    model = BPE(vocab, _merges_by_score(vocabulary, controls), byte_fallback=True)
    encoder = tokenizers.Tokenizer(model)
    spaces = normalizers.Replace(" ", pieces.SPACE)
    encoder.normalizer = (
        normalizers.Sequence([normalizers.Prepend(pieces.SPACE), spaces])
        if leading_space
        else spaces
    )
    _add_user_defined(encoder, vocabulary, controls)
    return encoder


def _merges_by_score(vocabulary: Vocabulary, controls: Mapping[str, int]) -> list[tuple[str, str]]:
    """SentencePiece's BPE as ranked merges (Kudo and Richardson, arXiv:1808.06226).

    It joins whichever neighbours form the token of highest score; so every way to cut a
    token into two tokens is a merge, ranked by the score of the whole.
    """
    ids = [i for i in vocabulary.ids(TokenType.NORMAL) if vocabulary.tokens[i] not in controls]
    ids.sort(key=vocabulary.scores.tolist().__getitem__, reverse=True)
    ranked = [vocabulary.tokens[i] for i in ids]
    normal = set(ranked)
    return [
        (left, right)
        for token in ranked
        for cut in range(1, len(token))
        if (left := token[:cut]) in normal and (right := token[cut:]) in normal
    ]

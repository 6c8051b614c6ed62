"""A tokenizer's vocabulary as llguidance wants it."""

from __future__ import annotations

from llguidance import LLTokenizer, TokenizerWrapper

from headrace.grammar.spelling import Spelling
from headrace.text.tokenizer import Tokenizer


class _Tokens:
    """What llguidance asks of a tokenizer. Control tokens are special: they have a name, which a
    grammar may ask for, and no bytes. Ids beyond the tokenizer's have neither."""

    bos_token_id = None
    eos_token_id = None  # adds a token at the end that stands for the end of the document

    def __init__(self, tokenizer: Tokenizer, vocab_size: int) -> None:
        controls = [i for i in range(vocab_size) if tokenizer.is_control(i)]
        self.tokens = [tokenizer.piece(i) for i in range(vocab_size)]
        for i in controls:
            self.tokens[i] = tokenizer.token(i).encode()
        self.special_token_ids = controls
        self._spell = Spelling(tokenizer)

    def __call__(self, text: bytes) -> list[int]:
        return self._spell(text.decode())


def vocabulary(tokenizer: Tokenizer, vocab_size: int) -> LLTokenizer:
    """Ids as the model has them, vocab_size many, and one more: the end of the document.

    vocab_size: the model's, at least the tokenizer's. Takes a second or so for a large one.
    """
    return LLTokenizer(TokenizerWrapper(_Tokens(tokenizer, vocab_size)))

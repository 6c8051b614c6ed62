"""Small vocabularies for tests, as a GGUF file's key-values."""

from __future__ import annotations

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)


def byte_alphabet() -> list[str]:
    """The printable stand-in of each byte, by byte."""
    shown = {*range(33, 127), *range(161, 173), *range(174, 256)}
    hidden = [byte for byte in range(256) if byte not in shown]
    return [chr(byte if byte in shown else 256 + hidden.index(byte)) for byte in range(256)]


def byte_level(
    *words: str,
    controls: tuple[str, ...] = ("<|start|>", "<|im_end|>", "<|pad|>"),
    user_defined: tuple[str, ...] = (),
    pre: str = "gpt-2",
    **keys: object,
) -> dict[str, object]:
    """Byte-level BPE: all bytes, then what merging makes on the way to each word (left to
    right), then user-defined and control tokens."""
    tokens = byte_alphabet()
    merges: list[str] = []
    for word in words:
        for end in range(2, len(word) + 1):
            if word[:end] not in tokens:
                tokens.append(word[:end])
                merges.append(f"{word[: end - 1]} {word[end - 1]}")
    types = [NORMAL] * len(tokens) + [USER_DEFINED] * len(user_defined) + [CONTROL] * len(controls)
    tokens += [*user_defined, *controls]
    metadata: dict[str, object] = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.merges": merges or [f"{tokens[0]} {tokens[1]}"],
    }
    if not merges:
        tokens.insert(256, tokens[0] + tokens[1])
        types.insert(256, NORMAL)
    for role, token in zip(("bos", "eos", "padding"), controls, strict=False):
        metadata[f"tokenizer.ggml.{role}_token_id"] = tokens.index(token)
    return metadata | {f"tokenizer.ggml.{key}": value for key, value in keys.items()}


def sentencepiece(
    scored: dict[str, float], user_defined: tuple[str, ...] = (), **keys: object
) -> dict[str, object]:
    """SentencePiece BPE: <unk>, <s>, </s>, all bytes, then pieces with their scores."""
    head = ["<unk>", "<s>", "</s>"]
    single = [f"<0x{byte:02X}>" for byte in range(256)]
    rest = len(scored)
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": [*head, *single, *scored, *user_defined],
        "tokenizer.ggml.token_type": [UNKNOWN, CONTROL, CONTROL]
        + [BYTE] * 256
        + [NORMAL] * rest
        + [USER_DEFINED] * len(user_defined),
        "tokenizer.ggml.scores": [0.0] * 259 + [*scored.values()] + [-1000.0] * len(user_defined),
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
    } | {f"tokenizer.ggml.{key}": value for key, value in keys.items()}

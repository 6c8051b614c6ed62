"""Codec of a Hugging Face `tokenizer.json`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tokenizers

from headrace.text import pieces
from headrace.text.codec import TURN_ENDS, Codec, TokenizerError
from headrace.text.controls import Control
from headrace.text.infill import infill_of, infill_texts

_MAX_ID = 1 << 24  # an id beyond is a mistake, not a vocabulary; tables are as long as the largest

_STATE_ENDS = ("config.json", "generation_config.json")

_Json = dict[str, Any]  # checked as it is read


def huggingface_codec(path: Path) -> Codec:
    """Build the encoders and tables from the file and those beside it: `tokenizer_config.json`,
    `special_tokens_map.json`, and `generation_config.json` and `config.json` for the ids that end
    a turn.

    Special added tokens are control tokens, and so are added tokens that end a turn or are for
    filling in the middle. Ids are those that the file states, gaps and all. Raises TokenizerError
    naming the file and what is faulty or not supported.
    """
    ends = frozenset[int]().union(*(_stated_ends(path.with_name(name)) for name in _STATE_ENDS))
    try:
        names = _config(path.with_name("special_tokens_map.json"))
        config = names | _config(path.with_name("tokenizer_config.json"))
        return _codec(_read(path), config, ends)
    except (KeyError, TypeError, AttributeError) as error:
        raise TokenizerError(f"{path}: not a tokenizer.json as we know it: {error!r}") from error
    except TokenizerError as error:
        raise TokenizerError(f"{path}: {error}") from error


def _codec(data: _Json, config: _Json, stated_ends: frozenset[int]) -> Codec:
    """stated_ends: ids that end a turn, as the files beside the tokenizer have them."""
    model = data["model"]
    if model.get("type", "BPE") != "BPE":
        raise TokenizerError(f"model.type is {model['type']!r}; only 'BPE' is supported")
    eos_id = _id_of(_content(config.get("eos_token")), data)
    stated_ends = stated_ends if eos_id is None else stated_ends | {eos_id}
    added = _with_special(data.get("added_tokens", []), stated_ends)
    data = {**data, "added_tokens": added}
    controls: dict[str, int] = {
        token["content"]: token["id"] for token in added if token["special"]
    }
    bos = _begin(data.get("post_processor"))
    add_bos = config.get("add_bos_token", bos is not None)
    bos_id = controls.get(bos or _content(config.get("bos_token")) or "")
    decoder = _Decoder.read(data["decoder"])
    tokens = _tokens(model["vocab"], added)
    ends = {*map(controls.get, TURN_ENDS), *(stated_ends & frozenset(range(len(tokens))))}
    start = _encoder(data, controls)
    return Codec(
        start=start,
        middle=_continuing(data, controls) or start,
        tokens=tokens,
        piece=_piece_maker(tokens, frozenset(controls.values()), decoder.bytes_of),
        controls={token["content"]: _control(token) for token in added if token["special"]},
        bos_id=bos_id,
        eos_id=eos_id,
        eos_ids=frozenset(i for i in ends if i is not None),
        add_bos=bool(add_bos) and bos_id is not None,
        leading_space=decoder.strips_space,
        contents=(json.dumps(data, sort_keys=True), bos_id, add_bos),
        known_rules=_known_rules(data),
        composes='"NFC"' in json.dumps(data.get("normalizer")),
        infill=infill_of(controls, {}),
    )


def _id_of(token: str | None, data: _Json) -> int | None:
    """Id of a token by its text, added or not."""
    added: dict[str, int] = {
        token["content"]: token["id"] for token in data.get("added_tokens", [])
    }
    vocab: Mapping[str, int] = data["model"]["vocab"]
    return None if token is None else added.get(token, vocab.get(token))


def _with_special(added: list[_Json], ends: frozenset[int]) -> list[_Json]:
    """Tokens that end the model's turn, and those for filling in the middle, must not come out of
    users' text."""
    infill = infill_texts(token["content"] for token in added)
    return [
        token | {"special": True} if token["id"] in ends or token["content"] in infill else token
        for token in added
    ]


def _stated_ends(path: Path) -> frozenset[int]:
    """`eos_token_id`, an id or a list of ids, of the file or of its part that reads text."""
    try:
        config = _config(path)
    except TokenizerError as error:
        raise TokenizerError(f"{path}: {error}") from error
    nested = config.get("text_config")
    ends: set[int] = set()
    for part in (config, nested if isinstance(nested, dict) else {}):
        stated = part.get("eos_token_id")
        ids = stated if isinstance(stated, list) else [] if stated is None else [stated]
        for id in ids:
            if type(id) is not int:
                raise TokenizerError(f"{path}: key 'eos_token_id' holds {id!r}, which is no id")
        ends.update(ids)
    return frozenset(ends)


def _read(path: Path) -> _Json:
    try:
        data = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise TokenizerError(f"not JSON: {error}") from error
    if not isinstance(data, dict):
        raise TokenizerError("must hold an object")
    return data


def _config(path: Path) -> _Json:
    return _read(path) if path.is_file() else {}


def _tokens(vocab: Mapping[str, int], added: list[_Json]) -> list[str]:
    ids = dict(vocab)
    ids.update({token["content"]: token["id"] for token in added})
    for token, token_id in ids.items():
        if type(token_id) is not int or not 0 <= token_id < _MAX_ID:
            raise TokenizerError(f"token {token!r} has the id {token_id!r}")
    tokens = [""] * (max(ids.values(), default=-1) + 1)
    for token, token_id in ids.items():
        if tokens[token_id]:
            raise TokenizerError(f"tokens {tokens[token_id]!r} and {token!r} share id {token_id}")
        tokens[token_id] = token
    return tokens


def _piece_maker(
    tokens: list[str], controls: frozenset[int], bytes_of: Callable[[str], bytes]
) -> Callable[[int], bytes]:
    def piece(token_id: int) -> bytes:
        return b"" if token_id in controls else bytes_of(tokens[token_id])

    return piece


def _control(token: _Json) -> Control:
    flags = {flag: bool(token.get(flag)) for flag in ("lstrip", "rstrip", "single_word")}
    return Control(token["id"], **flags)


_SPACES_TO_MARKS = {"type": "Replace", "pattern": {"String": " "}, "content": pieces.SPACE}


def _known_rules(data: _Json) -> bool:
    """Whether text is only normalised and cut in ways of which `Codec.known_rules` speaks: no
    character is dropped, and none is looked back at."""
    added = [token for token in data.get("added_tokens", []) if not token["special"]]
    if any(token.get(flag) for token in added for flag in ("lstrip", "rstrip", "single_word")):
        return False
    for step in _steps(data.get("normalizer"), "normalizers"):
        if step["type"] not in ("NFC", "Prepend") and step != _SPACES_TO_MARKS:
            return False
    for step in _steps(data.get("pre_tokenizer"), "pretokenizers"):
        if step["type"] not in ("ByteLevel", "Digits", "Metaspace", "Punctuation", "Split"):
            return False
        if step.get("behavior") == "Removed" or "(?<" in json.dumps(step.get("pattern")):
            return False
    return True


def _steps(spec: _Json | None, parts: str) -> list[_Json]:
    if spec is None:
        return []
    if spec["type"] == "Sequence":
        return [step for part in spec[parts] for step in _steps(part, parts)]
    return [spec]


def _encoder(data: _Json, controls: Mapping[str, int]) -> tokenizers.Tokenizer:
    """The tokenizer without its control tokens.

    The library numbers added tokens one after another whatever the file says, unless their
    model knows them; so the others go into the model's vocabulary with the ids they have.
    """
    model, plain = data["model"], [t for t in data.get("added_tokens", []) if not t["special"]]
    unknown = model.get("unk_token")
    vocab = {t: i for t, i in model["vocab"].items() if t not in controls or t == unknown}
    vocab |= {token["content"]: token["id"] for token in plain}
    if unknown in controls:
        vocab[unknown] = controls[unknown]
    parts = {"model": {**model, "vocab": vocab}, "added_tokens": plain}
    unused = {"post_processor": None, "truncation": None, "padding": None}
    try:
        return tokenizers.Tokenizer.from_str(json.dumps({**data, **parts, **unused}))
    except Exception as error:  # tokenizers raises nothing narrower
        raise TokenizerError(str(error)) from error


def _continuing(data: _Json, controls: Mapping[str, int]) -> tokenizers.Tokenizer | None:
    """An encoder for text after a control token, if that is encoded in another way: a
    Metaspace of scheme "first" puts its space only before the first word of all."""
    spec = json.dumps(data.get("pre_tokenizer"))
    if '"prepend_scheme": "first"' not in spec:
        return None
    spec = spec.replace('"prepend_scheme": "first"', '"prepend_scheme": "never"')
    return _encoder({**data, "pre_tokenizer": json.loads(spec)}, controls)


def _begin(post_processor: _Json | None) -> str | None:
    """The special token that the post-processor puts before a text."""
    if post_processor is None:
        return None
    for processor in post_processor.get("processors", [post_processor]):
        if processor["type"] == "TemplateProcessing" and processor["single"]:
            return str(processor["single"][0].get("SpecialToken", {}).get("id", "")) or None
    return None


def _content(token: str | _Json | None) -> str | None:
    """Text of a token in `tokenizer_config.json`, written plainly or as an object."""
    return str(token["content"]) if isinstance(token, dict) else token


@dataclass
class _Decoder:
    """A decoder's steps as far as they can be taken one token at a time."""

    byte_level: bool = False
    byte_fallback: bool = False
    strips_space: bool = False
    replacements: list[tuple[str, str]] = field(default_factory=list)

    @classmethod
    def read(cls, spec: _Json) -> _Decoder:
        decoder, fused = cls(), False
        for step in spec.get("decoders", [spec]):
            match step:
                case {"type": "ByteLevel"}:
                    decoder.byte_level = True
                case {"type": "ByteFallback"}:
                    decoder.byte_fallback = True
                case {"type": "Fuse"}:
                    fused = True
                case {"type": "Metaspace", "replacement": str(mark)}:
                    decoder.replacements.append((mark, " "))
                    decoder.strips_space |= step.get("prepend_scheme", "always") != "never"
                case {"type": "Replace", "pattern": {"String": str(old)}, "content": str(new)} if (
                    len(old) == 1 or not fused
                ):
                    decoder.replacements.append((old, new))
                case {"type": "Strip", "content": " ", "start": (0 | 1) as start, "stop": 0}:
                    decoder.strips_space |= bool(start)
                case _:
                    raise TokenizerError(f"decoder step {json.dumps(step)[:200]} is not supported")
        return decoder

    def bytes_of(self, token: str) -> bytes:
        if self.byte_level:
            return pieces.byte_level(token)
        if self.byte_fallback and (byte := pieces.byte_fallback(token)) is not None:
            return byte
        for old, new in self.replacements:
            token = token.replace(old, new)
        return token.encode()

"""Lengths, patterns, formats and contents of strings."""

from __future__ import annotations

from headrace.grammar import formats
from headrace.grammar.errors import GrammarError
from headrace.grammar.pattern import search_pattern
from headrace.grammar.schemas.node import Node, Rewriter
from headrace.grammar.schemas.uncounted import WORD
from headrace.grammar.schemas.values import count

MAX_LENGTH = 16_384
"""Up to which the grammar counts. Longer lengths are held beside it (`uncounted`)."""


def anchored(node: Node, key: str, pattern: object) -> str:
    """A pattern to match from end to end. Raises GrammarError."""
    if not isinstance(pattern, str):
        raise node.fault(key, "A pattern is a string.")
    try:
        return f"^(?:{search_pattern(pattern)})$"
    except GrammarError as error:
        raise node.fault(key, error.reason) from None


def _least_length(node: Node, value: object) -> None:
    least = count(value, node.at("minLength"))
    if least > MAX_LENGTH:
        raise node.fault("minLength", f"Lengths are supported up to {MAX_LENGTH}.")
    node.out["minLength"] = least


def _most_length(node: Node, value: object) -> None:
    most = count(value, node.at("maxLength"))
    node.out["maxLength" if most <= MAX_LENGTH else WORD] = most


def _pattern(node: Node, pattern: object) -> None:
    node.out["pattern"] = anchored(node, "pattern", pattern)


def _format(node: Node, name: object) -> None:
    """A format that is not known is an annotation. Of a known one not all spellings are written."""
    if not isinstance(name, str):
        raise node.fault("format", "A format is a string.")
    if name in formats.FORMATS:
        node.parts.append({"pattern": anchored(node, "format", f"^(?:{formats.FORMATS[name]})$")})
    elif name in formats.INTEGERS:
        low, high = formats.INTEGERS[name]
        # Marked, since what it excludes satisfies the schema by the standard all the same.
        node.parts.append({"minimum": low, "maximum": high, "x-narrowed": True})


def _content_encoding(node: Node, encoding: object) -> None:
    """Draft 7 lets it be enforced; later drafts only tell."""
    if node.document.draft != 7 or encoding in ("7bit", "8bit", "binary"):
        return
    if encoding != "base64":
        raise node.fault("contentEncoding", "In draft 7 only base64 is supported.")
    node.parts.append({"pattern": anchored(node, "contentEncoding", f"^(?:{formats.BASE64})$")})


def _content_type(node: Node, media_type: object) -> None:
    if node.document.draft == 7 and str(media_type).partition(";")[0].endswith("json"):
        raise node.fault("contentMediaType", "In draft 7 it could be enforced, and is not.")


REWRITERS: dict[str, Rewriter] = {
    "minLength": _least_length,
    "maxLength": _most_length,
    "pattern": _pattern,
    "format": _format,
    "contentEncoding": _content_encoding,
    "contentMediaType": _content_type,
}

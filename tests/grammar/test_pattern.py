from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.grammar.errors import GrammarError
from headrace.grammar.forms import json_schema, regex
from headrace.grammar.pattern import MAX_LENGTH, literal_pattern, search_pattern, whole_pattern
from tests.grammar.following import accepts


@pytest.mark.parametrize(
    ("pattern", "texts", "others"),
    [
        ("b", ["b", "abc"], ["", "ac"]),
        ("^b", ["b", "bc"], ["ab"]),
        ("b$", ["b", "ab"], ["bc", "b\n"]),
        ("^a|b$", ["a", "ax", "b", "xb"], ["xa", "bx"]),
        ("(^a|b)c", ["ac", "acx", "xbcx"], ["xac", "a"]),
        ("^(a|b(c$|d))", ["a", "bc", "bdx"], ["bcx", "xa"]),
        (r"^\d\w\s$", ["1_ ", "9a\n"], ["aa ", "1- ", "1é "]),
        (r"^[^\w]$", ["-", "é"], ["a", "_"]),
        (r"^\W\D\S$", ["-é-"], ["a--", "-1-", "-- "]),
        (r"^.$", ["a", "😀"], ["\n", "\r", "\u2028", ""]),
        (r"^[^]$", ["a", "\n"], ["", "ab"]),
        (r"^a{2}b{1,}c{0,2}$", ["aab", "aabbcc"], ["ab", "aabccc"]),
        (r"^(?:ab)+?$", ["ab", "abab"], ["aba"]),
        (r"^(?<n>a)(?P<m>b)$", ["ab"], ["a"]),
        (r"^\u0041\x42\u{43}\ud83d\ude00\/$", ["ABC😀/"], ["ABC"]),
        (r"^a{x}$", ["a{x}"], ["a"]),
        (r"^[a\-z.\]]$", ["-", ".", "]"], ["b", "\\"]),
        (r"^\p{Lu}\P{L}[\p{Nd}_]$", ["É1_", "A-1"], ["é1_", "Aa1"]),
        ("", ["", "x"], []),
    ],
)
def test_a_pattern_means_what_the_standard_says(
    pattern: str, texts: list[str], others: list[str]
) -> None:
    import json

    grammar = json_schema({"type": "string", "pattern": pattern})
    for text in texts:
        assert accepts(grammar, json.dumps(text, ensure_ascii=False)), text
    for text in others:
        assert not accepts(grammar, json.dumps(text, ensure_ascii=False)), text


@pytest.mark.parametrize(
    "pattern",
    [
        "^(ab$",
        "a)",
        "[a",
        "*",
        "a**",
        "a{2,1}",
        "a{,3}",
        "a^b",
        "(a$)*",
        "a(b^)",
        r"\bx",
        "(?=a)",
        "(?!a)",
        "(?<=a)",
        "(?i)a",
        r"(a)\1",
        r"\k<n>",
        r"\A",
        r"\Z",
        r"\p{Foo}",
        "[]",
        r"\u0001",
        r"[\d-z]",
        "[z-a]",
        "\\",
        "(" * 65 + "a" + ")" * 65,
        "a" * (MAX_LENGTH + 1),
        "((a{1000}){1000}){1000}",
        "a{99999999999}",
    ],
)
def test_what_has_no_plain_meaning_is_refused(pattern: str) -> None:
    with pytest.raises(GrammarError):
        search_pattern(pattern)


def test_whole_patterns_are_matched_from_end_to_end() -> None:
    grammar = regex("a|b{2}/")
    assert accepts(grammar, "a")
    assert accepts(grammar, "bb/")
    assert not accepts(grammar, "xa")
    assert whole_pattern("^a$") == "a"


_SAFE = st.recursive(
    st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\d"]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda two: f"(?:{two[0]}|{two[1]})"),
        inner.map(lambda one: f"(?:{one})*"),
        inner.map(lambda one: f"(?:{one}){{1,2}}"),
    ),
    max_leaves=6,
)


@given(_SAFE, st.text("ab1c", max_size=5), st.sampled_from(["", "^"]), st.sampled_from(["", "$"]))
def test_as_python_finds_them(inner: str, text: str, before: str, behind: str) -> None:
    found = re.search(f"{before}(?:{inner}){behind}", text) is not None
    grammar = json_schema({"type": "string", "pattern": f"{before}(?:{inner}){behind}"})
    assert accepts(grammar, f'"{text}"') == found


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=5))
def test_a_literal_is_itself(text: str) -> None:
    assert re.fullmatch(re.sub(r"\\x\{([0-9a-f]+)\}", _python, literal_pattern(text)), text)


def _python(match: re.Match[str]) -> str:
    return f"\\U{int(match[1], 16):08x}"

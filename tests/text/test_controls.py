from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.text import controls as controls_module
from headrace.text.controls import Control, ControlScanner


def scan(text: str, *texts: str, **flags: bool) -> list[str]:
    controls = {name: Control(i, **flags) for i, name in enumerate(texts)}
    return [text[start:stop] for start, stop, _ in ControlScanner(controls).scan(text)]


def naive(text: str, texts: set[str]) -> list[tuple[int, str]]:
    found, at = [], 0
    while at < len(text):
        here = [name for name in texts if text.startswith(name, at)]
        if here:
            longest = max(here, key=len)
            found.append((at, longest))
            at += len(longest)
        else:
            at += 1
    return found


@given(st.sets(st.text("ab<|", min_size=1, max_size=5), max_size=8), st.text("ab<|", max_size=30))
def test_finds_the_leftmost_and_there_the_longest(texts: set[str], text: str) -> None:
    names = sorted(texts)
    scanner = ControlScanner({name: Control(i) for i, name in enumerate(names)})
    found = [(start, names[i]) for start, _, i in scanner.scan(text)]
    assert found == naive(text, texts)


@given(st.sets(st.text("ab<|", min_size=1, max_size=5), max_size=8), st.text("ab<|", max_size=8))
def test_parts_at_the_ends_of_a_text(texts: set[str], text: str) -> None:
    scanner = ControlScanner({name: Control(i) for i, name in enumerate(sorted(texts))})
    cuts = [(name[:n], name[n:]) for name in texts for n in range(1, len(name))]
    assert scanner.begins_within(text) == any(text.startswith(end) for _, end in cuts)
    assert scanner.ends_within(text) == any(text.endswith(beginning) for beginning, _ in cuts)


@given(st.sets(st.text("ab<|", min_size=1, max_size=5), max_size=8), st.text("ab<|", max_size=30))
def test_what_stands_around_them(texts: set[str], text: str) -> None:
    scanner = ControlScanner({name: Control(i) for i, name in enumerate(sorted(texts))})
    found = [text[start:stop] for start, stop, _ in scanner.scan(text)]
    first, *rest = scanner.split(text)
    assert first + "".join(a + b for a, b in zip(found, rest, strict=True)) == text


def test_beginnings_nested_deeper_than_any_real_vocabulary() -> None:
    texts = ["a" * n for n in range(1, 3 * controls_module._MAX_DEPTH)]
    assert scan("a" * 500, *texts) == ["a" * 149] * 3 + ["a" * 53]


def test_patterns_are_taken_literally() -> None:
    assert scan("x.*y <|a|> [b]", ".*", "<|a|>", "[b]") == [".*", "<|a|>", "[b]"]


def test_no_controls_find_nothing() -> None:
    assert scan("text") == []
    assert scan("text", "") == []


def test_strip_flags_take_in_white_space() -> None:
    assert scan("a  <x>\t b", "<x>", lstrip=True) == ["  <x>"]
    assert scan("a  <x>\t b", "<x>", rstrip=True) == ["<x>\t "]
    assert scan("<x>  <x>", "<x>", lstrip=True, rstrip=True) == ["<x>  ", "<x>"]


def test_single_word_does_not_match_inside_a_word() -> None:
    text = "yes yesterday oyes (yes)"
    scanner = ControlScanner({"yes": Control(0, single_word=True)})
    assert [start for start, _, _ in scanner.scan(text)] == [0, 20]

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.text.stops import StopMatcher


def run(stops: list[str], pieces: list[str]) -> tuple[str, str | None]:
    matcher = StopMatcher(stops)
    text = "".join(matcher.feed(piece) for piece in pieces)
    return text + matcher.finish(), matcher.matched


def naive(stops: list[str], text: str) -> tuple[str, str | None]:
    """The first place where the text so far ends with a stop; the longest such stop."""
    for end in range(1, len(text) + 1):
        ending = [stop for stop in stops if text[:end].endswith(stop)]
        if ending:
            stop = max(ending, key=len)
            return text[: end - len(stop)], stop
    return text, None


letters = st.text("abc", max_size=30)
stop_lists = st.lists(st.text("abc", min_size=1, max_size=5), max_size=5)


@given(stop_lists, st.lists(st.text("abc", max_size=6), max_size=12))
@example(["abcd", "bc"], ["abc", "d"])
@example(["aab"], ["a", "a", "a", "b"])
def test_any_cut_gives_what_a_search_of_the_whole_gives(
    stops: list[str], pieces: list[str]
) -> None:
    assert run(stops, pieces) == naive(stops, "".join(pieces))


@given(stop_lists, letters)
def test_holds_back_exactly_the_longest_beginning_of_a_stop(stops: list[str], text: str) -> None:
    matcher = StopMatcher(stops)
    sent = ""
    for end, character in enumerate(text, 1):
        sent += matcher.feed(character)
        if matcher.matched is not None:
            assert matcher.held == ""
            return
        beginnings = {stop[:n] for stop in stops for n in range(1, len(stop))}
        longest = max((b for b in beginnings if text[:end].endswith(b)), key=len, default="")
        assert matcher.held == longest
        assert sent + matcher.held == text[:end]


def test_nothing_passes_after_a_match() -> None:
    matcher = StopMatcher(["stop"])
    assert matcher.feed("go stop go") == "go "
    assert (matcher.feed("more"), matcher.finish(), matcher.matched) == ("", "", "stop")


def test_skipped_text_passes_at_once_and_no_stop_reaches_across_it() -> None:
    matcher = StopMatcher(["abc"])
    assert matcher.feed("xab") == "x"
    assert matcher.skip("abc") == "ababc"
    assert matcher.feed("cab") == "c"
    assert matcher.finish() == "ab"
    assert matcher.matched is None


def test_of_stops_complete_at_the_same_character_the_longest_is_reported() -> None:
    assert run(["lo", "hello", "o"], ["say hello"]) == ("say ", "hello")


def test_an_empty_stop_is_refused() -> None:
    with pytest.raises(ValueError, match="empty"):
        StopMatcher(["ok", ""])


def test_many_near_misses_take_linear_time() -> None:
    stop = "a" * 2000 + "b"
    matcher = StopMatcher([stop])
    sent = "".join(matcher.feed("aaaaa") for _ in range(20_000))
    assert len(sent) == 100_000 - 2000
    assert matcher.feed("b") == ""
    assert matcher.matched == stop

"""Thoughts are told from the answer the same way however the text is cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.text.pipeline import TextPipeline
from headrace.text.reasoning import MARKERS, MAX_LEAD, ReasoningSplitter, Thinking

THINK = Thinking("<think>", "</think>")
BEGUN = Thinking("<think>", "</think>", begun=True)

texts = st.lists(
    st.sampled_from(
        ["<think>", "</think>", "<", "</", "think>", "\n", "\n\n", " ", "a", "é", "<th"]
    ),
    max_size=12,
).map("".join)
cuts = st.lists(st.integers(0, 80), max_size=20)


def split(thinking: Thinking, pieces: list[str]) -> tuple[str, str, int]:
    splitter = ReasoningSplitter(thinking)
    parts = [*map(splitter.feed, pieces), splitter.finish()]
    return "".join(p[0] for p in parts), "".join(p[1] for p in parts), splitter.tokens


def expected(text: str, begun: bool) -> tuple[str, str]:
    """The definition, of the whole text at once."""
    if not begun:
        rest = text.lstrip()
        if not rest.startswith("<think>") or len(text) - len(rest) > MAX_LEAD:
            return "", text
        text = rest.removeprefix("<think>")
    thought, closing, answer = text.partition("</think>")
    return thought.strip("\n"), answer.lstrip("\n") if closing else ""


@given(text=texts, begun=st.booleans(), at=cuts)
def test_any_cut_gives_the_definition(text: str, begun: bool, at: list[int]) -> None:
    edges = [0, *sorted(min(cut, len(text)) for cut in at), len(text)]
    pieces = [text[start:end] for start, end in pairwise(edges)]
    assert split(BEGUN if begun else THINK, pieces)[:2] == expected(text, begun)


@given(text=texts, begun=st.booleans())
def test_no_more_is_held_back_than_may_belong_to_a_marker(text: str, begun: bool) -> None:
    splitter = ReasoningSplitter(BEGUN if begun else THINK)
    thoughts = answer = ""
    for end, character in enumerate(text, 1):
        thought, more = splitter.feed(character)
        thoughts, answer = thoughts + thought, answer + more
        outcome = expected(text[:end], begun)
        assert outcome[0].startswith(thoughts)
        assert outcome[1].startswith(answer)
        assert len(outcome[0][len(thoughts) :].lstrip("\n")) < len("</think>")
        assert len(outcome[1]) - len(answer) < MAX_LEAD + len("<think>")


@pytest.mark.parametrize("marker", MARKERS)
@pytest.mark.parametrize("begun", [False, True])
def test_every_known_pair(marker: tuple[str, str], begun: bool) -> None:
    opening, closing = marker
    text = f"{'' if begun else opening}\nI wonder.\n{closing}\n\nYes. {closing}"
    found = split(Thinking(opening, closing, begun), list(text))
    assert found[:2] == ("I wonder.", f"Yes. {closing}")


@pytest.mark.parametrize(
    ("pieces", "thinking", "tokens"),
    [
        (["<think>", "a", "b", "</think>", "\n\n", "c"], THINK, 4),
        (["<th", "ink>", "a</thi", "nk>c", "d"], THINK, 4),
        (["a", "</think>", "c"], BEGUN, 2),
        (["<think>a</think>b", "c"], THINK, 1),
        ([" ", "<think>", "a"], THINK, 3),
        (["<th", "e", "end"], THINK, 0),
        ([" ", "\n", "a"], THINK, 0),
        (["a", "b"], BEGUN, 2),
        (["a", "<think>", "b"], THINK, 0),
    ],
)
def test_tokens_of_thoughts_are_counted_with_their_markers(
    pieces: list[str], thinking: Thinking, tokens: int
) -> None:
    assert split(thinking, pieces)[2] == tokens


def test_a_flood_of_line_breaks_is_linear_work() -> None:
    thoughts, answer, tokens = split(BEGUN, ["\n"] * 200_000 + ["a", "\n"])
    assert (thoughts, answer, tokens) == ("a", "", 200_002)


class Pieces:
    """A vocabulary of the given texts; a token is its index."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = pieces

    def piece(self, token_id: int) -> bytes:
        return self._pieces[token_id]


def run(pipeline: TextPipeline, tokens: int) -> tuple[str, str]:
    thoughts = text = ""
    for token in range(tokens):
        text += pipeline.feed(token)
        thoughts += pipeline.take_reasoning()
        if pipeline.matched is not None:
            break
    text += pipeline.finish()
    return thoughts + pipeline.take_reasoning(), text


def test_stops_are_looked_for_in_the_answer_only() -> None:
    pieces = Pieces(b"so STOP here</thi", b"nk>", b"\nyes ST", b"OP no")
    pipeline = TextPipeline(pieces, ["STOP", "</think>"], BEGUN)
    assert run(pipeline, 4) == ("so STOP here", "yes ")
    assert (pipeline.matched, pipeline.reasoning_tokens) == ("STOP", 2)


def test_no_stop_reaches_from_the_thoughts_into_the_answer() -> None:
    pipeline = TextPipeline(Pieces(b"aST</think>", b"OP"), ["STOP"], BEGUN)
    assert run(pipeline, 2) == ("aST", "OP")


def test_characters_cut_by_tokens_are_whole_in_thoughts_and_answer() -> None:
    pieces = Pieces(b"\xc3", b"\xa9</think>\xe4", b"\xbd\xa0", b"\xe4")
    assert run(TextPipeline(pieces, (), BEGUN), 4) == ("é", "你\ufffd")
    assert run(TextPipeline(Pieces(b"a\xe4"), (), BEGUN), 1) == ("a\ufffd", "")


def test_markers_that_are_control_tokens_count_as_their_texts() -> None:
    thinking = Thinking("[THINK]", "[/THINK]", controls={0: "[THINK]", 2: "[/THINK]"})
    pipeline = TextPipeline(Pieces(b"", b"hm", b"", b"ok"), (), thinking)
    assert run(pipeline, 4) == ("hm", "ok")
    assert pipeline.reasoning_tokens == 3


def test_without_thinking_a_marker_is_text() -> None:
    pipeline = TextPipeline(Pieces(b"<think>a</think>"))
    assert run(pipeline, 1) == ("", "<think>a</think>")
    assert pipeline.reasoning_tokens == 0

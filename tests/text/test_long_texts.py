"""Long and hostile texts take time in proportion to their length, step by step."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.models.gguf import read_gguf
from headrace.text import pretokenizers
from headrace.text.cuts import LONGEST_PART, PART, Unbroken
from headrace.text.tokenizer import TextTooLong, Tokenizer
from headrace.turns.threads import at_once
from tests.text.vocabularies import byte_level

HOSTILE = {
    "letters": "a",
    "digits": "1",
    "new lines": "\n",
    "spaces before a mark": " ",
    "marks": "=",
    "combining marks": "\u0301",
    "capitals": "A",
    "apostrophes": "'s",
}


@pytest.fixture(scope="module")
def smollm2(smollm2_path: Path) -> Tokenizer:
    return Tokenizer.from_gguf(read_gguf(smollm2_path).metadata)


def seconds(work: Callable[[], object]) -> float:
    """Of the thread's processor time; the least of three."""
    least = float("inf")
    for _ in range(3):
        began = time.thread_time()
        work()
        least = min(least, time.thread_time() - began)
    return least


@pytest.mark.parametrize("unit", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("pre", pretokenizers._SPECS)
def test_no_pre_tokenizer_takes_quadratic_time(pre: str, unit: str) -> None:
    tokenizer = Tokenizer.from_gguf(byte_level("aa", "aaaa", "11", "==", "ĠĠ", pre=pre))
    short, long = (
        seconds(lambda n=n: tokenizer.encode_within(unit * n + "\u0300")) for n in (2_000, 32_000)
    )
    assert long < 0.05 + 64 * short


def test_a_prompt_far_too_long_is_refused_without_being_tokenised(smollm2: Tokenizer) -> None:
    smollm2.prepare()
    for text in ("1" * 3_000_000, "a" * 5_000_000, "\n" * 1_000_000, "word, " * 500_000):
        steps = smollm2.encoding(text, most=8192)
        with pytest.raises(TextTooLong) as refusal:
            next(steps)
        assert refusal.value.at_least > 8192


def test_tokenising_stops_when_the_room_is_passed(smollm2: Tokenizer) -> None:
    text = " ".join(random.Random(1).choices(["lorem", "ipsum", "dolor", "42", "amet,"], k=80_000))
    steps = smollm2.encoding(text, most=20_000)
    done = 0
    with pytest.raises(TextTooLong) as refusal:
        for _ in steps:
            done += 1
    assert refusal.value.at_least < 20_000 + PART
    assert done < 10  # of some thirty


def test_parts_of_a_real_vocabulary_have_the_tokens_of_the_whole(smollm2: Tokenizer) -> None:
    rng = random.Random(2)
    alphabet = [
        "word",
        " word",
        "Wort",
        "12",
        "3.14",
        "\n",
        "\n\n",
        "  ",
        "中文，",
        "。",
        "é",
        "'s",
        "{",
    ]
    text = "".join(rng.choices(alphabet, k=60_000))
    assert len(text) > 4 * PART
    assert smollm2.encode(text) == smollm2.encode_within(text)


def test_one_long_word_is_tokenised_as_one_and_a_longer_one_refused(smollm2: Tokenizer) -> None:
    word = "".join(random.Random(3).choices("abcdefgh", k=100_000))
    assert smollm2.encode(word) == smollm2.encode_within(word)
    with pytest.raises(Unbroken):
        at_once(smollm2.encoding("x" * (LONGEST_PART + 2)))

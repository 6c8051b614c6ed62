from __future__ import annotations

from array import array

from hypothesis import given
from hypothesis import strategies as st

from headrace.dispatch.prefixes import STRIDE, Prefixes, names_of


@given(st.integers(0, 4 * STRIDE), st.integers(0, 4 * STRIDE), st.integers(0, 4 * STRIDE))
def test_names_are_equal_as_far_as_prompts_are(common: int, one: int, other: int) -> None:
    begin = list(range(common))
    first = names_of(array("i", [*begin, *[7] * one]), "a")
    second = names_of([*begin, *[8] * other], "a")
    shared = sum(a == b for a, b in zip(first, second, strict=False))
    assert shared == common // STRIDE or not (one and other)
    assert len(first) == (common + one) // STRIDE


def test_nobody_meets_in_another_namespace() -> None:
    prompt = [1] * STRIDE
    assert names_of(prompt, "a") != names_of(prompt, "b")
    assert names_of(prompt, "a") == names_of(array("i", prompt), "a")


def test_what_was_dispatched_is_known_but_for_the_last_token() -> None:
    prefixes = Prefixes()
    prefixes.resize(10 * STRIDE)
    names = names_of([1] * 2 * STRIDE, "")
    assert prefixes.known(names, 2 * STRIDE) == 0
    prefixes.note(names)
    assert prefixes.known(names, 2 * STRIDE) == 2 * STRIDE - 1
    assert prefixes.known(names, 3 * STRIDE) == 2 * STRIDE
    prefixes.resize(10 * STRIDE)  # a new worker
    assert prefixes.known(names, 3 * STRIDE) == 0


def test_ends_are_forgotten_before_beginnings_and_the_oldest_first() -> None:
    prefixes = Prefixes()
    prefixes.resize(3 * STRIDE)
    old, new = names_of([1] * 2 * STRIDE, ""), names_of([2] * 2 * STRIDE, "")
    prefixes.note(old)
    prefixes.note(new)
    assert prefixes.known(old, 1000) == STRIDE
    assert prefixes.known(new, 1000) == 2 * STRIDE

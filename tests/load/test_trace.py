from __future__ import annotations

import random
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.load.trace import Line, arrivals, read_trace

IDS = range(100, 900)


def line(at: float, length: int, *hashes: int, output: int = 512) -> Line:
    return Line(timestamp=at, input_length=length, output_length=output, hash_ids=list(hashes))


def test_only_the_first_lines_are_read(tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    good = b'{"timestamp": 5, "input_length": 600, "output_length": 3, "hash_ids": [0, 7]}\n'
    file.write_bytes(good * 2 + b"{}\n")
    assert read_trace(file, 2) == [line(5, 600, 0, 7, output=3)] * 2
    with pytest.raises(msgspec.ValidationError, match="timestamp"):
        read_trace(file, 3)


def test_prompts_begin_alike_where_their_hashes_do() -> None:
    lines = [line(1000, 1536, 0, 1, 2), line(3500, 1400, 0, 1, 3), line(4000, 512, 4)]
    first, second, third = arrivals(lines, 32, IDS, seed=1)
    a, b, c = (list(each.request.prompt) for each in (first, second, third))
    assert (len(a), len(b), len(c)) == (96, 87, 32)
    assert a[:64] == b[:64] and a[64:87] != b[64:] and c != a[:32]
    assert [each.at for each in (first, second, third)] == [0, 2.5, 3]
    assert [each.known for each in (first, second, third)] == [0, 64, 0]


def test_lengths_shrink_but_never_to_nothing() -> None:
    [arrival] = arrivals([line(0, 3, 9, output=1)], 32, IDS, seed=1)
    assert (len(arrival.request.prompt), arrival.request.output) == (1, 1)


def test_another_seed_is_another_text() -> None:
    one, other = (arrivals([line(0, 512, 0)], 32, IDS, seed)[0].request.prompt for seed in (1, 2))
    assert one != other


@given(st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=6), max_size=12), st.data())
def test_known_is_the_longest_beginning_that_an_earlier_prompt_had(
    hashes: list[list[int]], data: st.DataObject
) -> None:
    # A hash stands for all the text up to its end: after equal hashes come equal ones before.
    chains = [[hash((*each[: i + 1],)) for i in range(len(each))] for each in hashes]
    lines = [
        line(i, 512 * len(chain) - data.draw(st.integers(0, 511)), *chain)
        for i, chain in enumerate(chains)
    ]
    found = arrivals(lines, 4, IDS, seed=3)
    full = [
        [t for h in chain for t in random.Random(f"3 {h}").choices(IDS, k=4)] for chain in chains
    ]
    for i, arrival in enumerate(found):
        prompt = list(arrival.request.prompt)
        assert prompt == full[i][: len(prompt)]
        shared = max((_common(prompt, earlier) for earlier in full[:i]), default=0)
        assert arrival.known == (shared if shared == len(prompt) else shared // 4 * 4)


def _common(a: list[int], b: list[int]) -> int:
    return next(
        (i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b))
    )

"""Tokenizers of `tokenizer.json` files, encoding in parts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.text import cuts
from headrace.text.cuts import Cuts, Whole
from headrace.text.tokenizer import Tokenizer
from headrace.turns.threads import at_once
from tests.text.test_huggingface import BYTE_LEVEL, added, byte_level_file, metaspace_file

PREFIXED = {**BYTE_LEVEL, "add_prefix_space": True}
UNITS = ["hi", " hi", "he", "yes", " ", "  ", ",", "1", "22", "é", "\n", "▁", "h", "<b>", "x"]
FILES = {
    "bytes": byte_level_file(),
    "bytes with a space before": byte_level_file(pre_tokenizer=PREFIXED),
    "bytes with an added token": byte_level_file(added("<b>", 300, special=False)),
    "composed": byte_level_file(normalizer={"type": "NFC"}),
    "first": metaspace_file("first"),
    "always": metaspace_file("always", added("<b>", 300, special=False)),
    "never": metaspace_file("never"),
}


@pytest.fixture(autouse=True, scope="module")
def short_parts() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cuts, "PART", 3)
        patch.setattr("headrace.text.tokenizer.PART", 3)
        patch.setattr(cuts, "LONGEST_PART", 10_000)
        yield


def opened(folder: Path, data: dict[str, Any]) -> Tokenizer:
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(data))
    return Tokenizer.from_file(path)


@pytest.fixture(params=FILES, scope="module")
def tokenizer(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Tokenizer:
    return opened(tmp_path_factory.mktemp("file"), FILES[request.param])


@given(text=st.lists(st.sampled_from(UNITS), max_size=30).map("".join))
def test_parts_have_the_tokens_of_the_whole(tokenizer: Tokenizer, text: str) -> None:
    assert list(at_once(tokenizer.encoding(text))) == tokenizer._plain(text, first=True)
    parts = tokenizer._cuts.parts(text)
    joined = [id for part in parts for id in tokenizer._plain(part, first=False)]
    assert joined == tokenizer._plain(text, first=False)
    assert tokenizer._fewest.of([text.replace("▁", "")]) <= len(tokenizer.encode(text))


@pytest.mark.parametrize(
    ("changes", "cut"),
    [
        ({}, True),
        ({"normalizer": {"type": "Strip", "strip_left": True, "strip_right": True}}, False),
        ({"pre_tokenizer": {"type": "Sequence", "pretokenizers": [BYTE_LEVEL]}}, True),
        (
            {
                "pre_tokenizer": {
                    "type": "Split",
                    "pattern": {"Regex": "(?<!a)b"},
                    "behavior": "Isolated",
                    "invert": False,
                }
            },
            False,
        ),
        (
            {
                "pre_tokenizer": {
                    "type": "Split",
                    "pattern": {"String": " "},
                    "behavior": "Removed",
                    "invert": False,
                }
            },
            False,
        ),
    ],
)
def test_texts_are_only_cut_where_the_rules_are_known(
    tmp_path: Path, changes: dict[str, Any], cut: bool
) -> None:
    assert isinstance(opened(tmp_path, byte_level_file(**changes))._cuts, Cuts if cut else Whole)


def test_an_added_token_that_looks_beside_it_forbids_cuts(tmp_path: Path) -> None:
    token = added("<b>", 300, special=False, single_word=True)
    assert isinstance(opened(tmp_path, byte_level_file(token))._cuts, Whole)

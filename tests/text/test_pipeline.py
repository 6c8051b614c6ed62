from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from headrace.text.pipeline import TextPipeline
from headrace.text.tokenizer import Tokenizer
from tests.text.vocabularies import byte_level


class Bytes:
    """A vocabulary whose token i is the i-th of these byte strings."""

    def __init__(self, pieces: list[bytes]) -> None:
        self.pieces = pieces

    def piece(self, token_id: int) -> bytes:
        return self.pieces[token_id]


def run(pieces: list[bytes], stop: tuple[str, ...] = ()) -> tuple[list[str], str | None]:
    pipeline = TextPipeline(Bytes(pieces), stop)
    texts = [pipeline.feed(i) for i in range(len(pieces))]
    return [*texts, pipeline.finish()], pipeline.matched


@given(st.lists(st.binary(max_size=4), max_size=12))
def test_any_cut_of_any_bytes_gives_what_decoding_the_whole_gives(pieces: list[bytes]) -> None:
    texts, _ = run(pieces)
    assert "".join(texts) == b"".join(pieces).decode("utf-8", errors="replace")


@given(st.text(max_size=20), st.data())
def test_valid_text_never_shows_a_replacement_on_the_way(text: str, data: st.DataObject) -> None:
    encoded = text.replace("\ufffd", "").encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(encoded)), max_size=8)))
    bounds = [0, *cuts, len(encoded)]
    texts, _ = run([encoded[a:b] for a, b in pairwise(bounds)])
    assert "\ufffd" not in "".join(texts)
    assert "".join(texts).encode() == encoded


@given(
    st.lists(st.text("aé😀", min_size=1, max_size=3), min_size=1, max_size=3),
    st.lists(st.sampled_from([*"aé😀".encode()]), max_size=30),
)
def test_stops_are_found_in_text_not_in_bytes(stops: list[str], stream: list[int]) -> None:
    whole = bytes(stream).decode("utf-8", errors="replace")
    by_byte, matched = run([bytes([byte]) for byte in stream], tuple(stops))
    at_once, matched_at_once = run([bytes(stream)], tuple(stops))
    assert ("".join(by_byte), matched) == ("".join(at_once), matched_at_once)
    assert whole.startswith("".join(by_byte))
    if matched is None:
        assert "".join(by_byte) == whole
    else:
        assert whole.startswith("".join(by_byte) + matched)


def test_tells_how_much_is_held_back() -> None:
    pipeline = TextPipeline(Bytes([b"so T", b"R", b"\xe4\xbd", b"\xa0"]), ["TRX"])
    held = []
    for token in range(4):
        pipeline.feed(token)
        held.append(pipeline.held)
    assert held == [1, 2, 3, 0]


def test_stops_may_be_ignored_for_some_tokens() -> None:
    pipeline = TextPipeline(Bytes([b"a", b"STOP", b"b"]), ["STOP"])
    texts = [pipeline.feed(0, stops=False), pipeline.feed(1, stops=False), pipeline.feed(2)]
    assert texts == ["a", "STOP", "b"]
    assert pipeline.feed(1) == ""
    assert pipeline.matched == "STOP"


def test_control_tokens_and_ids_that_do_not_exist_add_no_text() -> None:
    tokenizer = Tokenizer.from_gguf(byte_level("hi"))
    control = tokenizer.encode("<|im_end|>", special=True)
    assert len(control) == 1
    pipeline = TextPipeline(tokenizer)
    ids = [*tokenizer.encode("hi"), *control, 10**9, -1, *tokenizer.encode("!")]
    assert "".join(pipeline.feed(i) for i in ids) + pipeline.finish() == "hi!"


def test_control_tokens_that_mark_something_are_text() -> None:
    tokenizer = Tokenizer.from_gguf(byte_level("hi", controls=("<|im_end|>", "[CALL]")))
    call, end = tokenizer.encode("[CALL]<|im_end|>", special=True)
    stream = TextPipeline(tokenizer, controls={call: "[CALL]"})
    said = [stream.feed(token) for token in (*tokenizer.encode("hi"), call, end)]
    assert "".join([*said, stream.finish()]) == "hi[CALL]"

"""Compressed bodies: whole, cut, hostile."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from typing import Any

import pytest

from headrace.api.openai.errors import ApiError
from headrace.edge.body import read_body
from tests.edge.fakes import MODEL, World, error_of
from tests.edge.test_small_parts import feed, part, scope

TEXT = b'{"a": "' + b"hello " * 1000 + b'"}'
LIMIT = 100_000


def read(data: bytes, coding: str, pieces: int = 1, limit: int = LIMIT) -> bytes:
    size = max(1, -(-len(data) // pieces))
    parts = [part(data[at : at + size]) for at in range(0, len(data), size)]
    receive = feed(*parts, part(b"", more=False))
    return asyncio.run(read_body(scope(content_encoding=coding), receive, limit))


def refused(data: bytes, coding: str, limit: int = LIMIT) -> ApiError:
    with pytest.raises(ApiError) as caught:
        read(data, coding, limit=limit)
    return caught.value


@pytest.mark.parametrize("pieces", [1, 3, 10_000])
def test_a_compressed_body_is_inflated(pieces: int) -> None:
    assert read(gzip.compress(TEXT), "gzip", pieces) == TEXT
    assert read(gzip.compress(TEXT), " X-GZIP", pieces) == TEXT
    assert read(zlib.compress(TEXT), "deflate", pieces) == TEXT
    assert read(gzip.compress(b""), "gzip", pieces) == b""
    assert read(TEXT, "identity", pieces) == TEXT


def test_a_bomb_is_a_413_and_is_not_inflated() -> None:
    bomb = gzip.compress(b"\0" * (50 << 20))
    assert len(bomb) < LIMIT
    assert refused(bomb, "gzip").status == 413


def test_what_is_larger_than_the_limit_as_it_is_sent_is_a_413() -> None:
    assert refused(gzip.compress(TEXT, 0), "gzip", limit=1000).status == 413


@pytest.mark.parametrize(
    "data",
    [TEXT, gzip.compress(TEXT)[:-1], gzip.compress(TEXT)[:20], b"", gzip.compress(TEXT) + b"more"],
    ids=["plain", "without its last byte", "its beginning", "nothing", "with more behind it"],
)
def test_what_is_not_gzip_is_a_400(data: bytes) -> None:
    assert refused(data, "gzip").status == 400


@pytest.mark.parametrize("coding", ["br", "zstd", "gzip, gzip", "", "nonsense"])
def test_an_unknown_coding_is_a_415_that_names_the_known_ones(coding: str) -> None:
    error = refused(TEXT, coding)
    assert error.status == 415
    assert "gzip" in error.detail.message
    assert error.headers["accept-encoding"] == "gzip, x-gzip, deflate"


async def test_a_chat_may_be_compressed() -> None:
    async with World() as world:
        body: Any = gzip.compress(
            b'{"model": "%b", "prompt": "a", "max_tokens": 1}' % MODEL.encode()
        )
        headers = {"content-encoding": "gzip", "content-type": "application/json"}
        answer = await world.http.post("/v1/completions", content=body, headers=headers)
        assert answer.status_code == 200
        answer = await world.http.post(
            "/v1/completions", content=body, headers=headers | {"content-encoding": "br"}
        )
        assert error_of(answer, 415)["code"] == "unsupported_content_encoding"

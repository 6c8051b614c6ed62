"""A streaming completion over a bare socket, timed at the arrival of each event.

The client shares the cores with the server it measures, so it parses no more than it must:
response headers once, then the byte stream split at event borders.
"""

from __future__ import annotations

import asyncio
import time
from urllib.parse import urlsplit

import msgspec


class LoadError(Exception):
    """The server refused or broke a request; the message quotes its answer."""


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """One request as the client saw it; times in seconds of a monotonic clock.

    arrivals: one per event that carried text. tokens: completion tokens by the server's
    own usage, else the number of events.
    """

    start: float
    arrivals: list[float]
    end: float
    prompt_tokens: int
    tokens: int


class _Usage(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class _Chunk(msgspec.Struct):
    choices: list[msgspec.Raw] = []
    usage: _Usage | None = None
    error: msgspec.Raw = msgspec.Raw()


_decode_chunk = msgspec.json.Decoder(_Chunk).decode


class Server(msgspec.Struct, frozen=True):
    """Where to send completions: base URL (…/v1), model name, bearer key."""

    url: str
    model: str
    key: str = ""

    def request(self, prompt: list[int], output: int) -> bytes:
        """A whole HTTP/1.1 request for `output` tokens, streamed, whatever the model says."""
        parts = urlsplit(self.url)
        body = msgspec.json.encode(
            {
                "model": self.model,
                "prompt": prompt,
                "max_tokens": output,
                "temperature": 0,
                "ignore_eos": True,
                "stream": True,
                "stream_options": {"include_usage": True},
            }
        )
        head = (
            f"POST {parts.path.rstrip('/')}/completions HTTP/1.1\r\nhost: {parts.netloc}\r\n"
            f"authorization: Bearer {self.key}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        return head.encode() + body


async def complete(server: Server, prompt: list[int], output: int) -> Timing:
    """Send one completion and read it to its end.

    Raises LoadError on any answer but a whole stream.
    """
    parts = urlsplit(server.url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port or 80, limit=2**20)
    try:
        start = time.perf_counter()
        writer.write(server.request(prompt, output))
        status = await reader.readline()
        while (await reader.readline()).strip():
            pass
        if b" 200 " not in status:
            raise LoadError(f"{status.decode().strip()}: {(await reader.read(2000)).decode()}")
        return await _read_events(reader, start)
    finally:
        writer.close()


async def _read_events(reader: asyncio.StreamReader, start: float) -> Timing:
    arrivals: list[float] = []
    usage = _Usage()
    async for line in reader:
        if not line.startswith(b"data: "):
            continue
        if line.startswith(b"data: [DONE]"):
            tokens = usage.completion_tokens or len(arrivals)
            return Timing(
                start=start,
                arrivals=arrivals,
                end=time.perf_counter(),
                prompt_tokens=usage.prompt_tokens,
                tokens=tokens,
            )
        now = time.perf_counter()
        chunk = _decode_chunk(line[6:])
        if chunk.error:
            raise LoadError(bytes(chunk.error).decode())
        if chunk.usage is not None:
            usage = chunk.usage
        if chunk.choices:
            arrivals.append(now)
    raise LoadError("the stream ended without [DONE]")

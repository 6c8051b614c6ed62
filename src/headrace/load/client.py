"""A streaming completion over a bare socket, timed at the arrival of each event.

The client shares the cores with the server it measures, so it parses no more than it must:
response headers once, then the byte stream split at event borders.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import msgspec


class LoadError(Exception):
    """The server refused or broke a request; the message quotes its answer."""


class Refused(LoadError):
    """The server answered with a client error: it does not do what was asked of it."""


class Overloaded(LoadError):
    """The server has too much work just now (529)."""


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """One request as the client saw it; times in seconds of a monotonic clock.

    arrivals: one per event that carried text. tokens: completion tokens by the server's
    own usage, else the number of those events. cached_tokens: of the prompt, by the same usage.
    """

    start: float
    arrivals: list[float]
    end: float
    prompt_tokens: int
    tokens: int
    text: str = ""
    cached_tokens: int = 0


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt of token ids is completed with exactly `output` tokens, whatever the model
    says; a prompt of text is a chat's message, its answer at most `output` tokens long and,
    if asked, JSON that follows `schema`."""

    prompt: list[int] | str
    output: int
    schema: dict[str, Any] | None = None

    @property
    def endpoint(self) -> str:
        return "chat/completions" if isinstance(self.prompt, str) else "completions"

    def body(self, model: str) -> bytes:
        """The request as JSON: streamed, greedy, with the server's count of tokens."""
        fields: dict[str, Any] = {
            "model": model,
            "max_tokens": self.output,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if isinstance(self.prompt, str):
            fields["messages"] = [{"role": "user", "content": self.prompt}]
        else:
            fields |= {"prompt": self.prompt, "ignore_eos": True}
        if self.schema is not None:
            form = {"name": "answer", "strict": True, "schema": self.schema}
            fields["response_format"] = {"type": "json_schema", "json_schema": form}
        return msgspec.json.encode(fields)


class Server(msgspec.Struct, frozen=True):
    """Where to send completions: base URL (…/v1), model name, bearer key."""

    url: str
    model: str
    key: str = ""

    def message(self, request: Request) -> bytes:
        """A whole HTTP/1.1 request."""
        parts = urlsplit(self.url)
        body = request.body(self.model)
        head = (
            f"POST {parts.path.rstrip('/')}/{request.endpoint} HTTP/1.1\r\nhost: {parts.netloc}\r\n"
            f"authorization: Bearer {self.key}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        return head.encode() + body

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        parts = urlsplit(self.url)
        secure = parts.scheme == "https"
        port = parts.port or (443 if secure else 80)
        return await asyncio.open_connection(
            parts.hostname, port, limit=2**20, ssl=True if secure else None
        )


class _PromptDetails(msgspec.Struct):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    prompt_tokens_details: _PromptDetails | None = None

    @property
    def cached_tokens(self) -> int:
        return (self.prompt_tokens_details and self.prompt_tokens_details.cached_tokens) or 0


class _Delta(msgspec.Struct):
    content: str | None = None
    reasoning_content: str | None = None


class _Choice(msgspec.Struct):
    text: str | None = None
    delta: _Delta | None = None

    @property
    def said(self) -> str:
        """Text, thoughts included."""
        if self.delta is None:
            return self.text or ""
        return (self.delta.reasoning_content or "") + (self.delta.content or "")


class _Chunk(msgspec.Struct):
    choices: list[_Choice] = []
    usage: _Usage | None = None
    error: msgspec.Raw = msgspec.Raw()


_decode_chunk = msgspec.json.Decoder(_Chunk).decode


async def complete(server: Server, request: Request) -> Timing:
    """Send one request and read its stream to the end.

    Raises Refused on a status of 400 to 499, Overloaded on 529, LoadError on any other answer
    that isn't a whole stream.
    """
    reader, writer = await server.connect()
    try:
        start = time.perf_counter()
        writer.write(server.message(request))
        status = (await reader.readline()).decode().strip()
        chunked = False
        while header := (await reader.readline()).strip():
            chunked |= header.lower().replace(b" ", b"") == b"transfer-encoding:chunked"
        code = status.partition(" ")[2][:3]
        if code != "200":
            kind = Refused if code.startswith("4") else LoadError
            raise (Overloaded if code == "529" else kind)(
                f"{status}: {(await reader.read(2000)).decode(errors='replace')}"
            )
        return await _read_events(_unchunked(reader) if chunked else reader, start)
    except (asyncio.IncompleteReadError, ValueError, msgspec.MsgspecError) as error:
        raise LoadError(f"the stream broke: {error}") from error
    finally:
        writer.close()


async def _unchunked(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """The lines of a body in chunked encoding (RFC 9112, section 7.1)."""
    rest = b""
    while size := int((await reader.readline()).partition(b";")[0], 16):
        rest += (await reader.readexactly(size + 2))[:-2]
        *lines, rest = rest.split(b"\n")
        for line in lines:
            yield line


async def _read_events(lines: AsyncIterator[bytes], start: float) -> Timing:
    arrivals: list[float] = []
    pieces: list[str] = []
    usage = _Usage()
    async for line in lines:
        if not line.startswith(b"data:"):
            continue
        now = time.perf_counter()
        data = line[5:].strip()
        if data == b"[DONE]":
            return Timing(
                start=start,
                arrivals=arrivals,
                end=now,
                prompt_tokens=usage.prompt_tokens,
                tokens=usage.completion_tokens or len(arrivals),
                text="".join(pieces),
                cached_tokens=usage.cached_tokens,
            )
        chunk = _decode_chunk(data)
        if chunk.error:
            raise LoadError(bytes(chunk.error).decode())
        if chunk.usage is not None:
            usage = chunk.usage
        if piece := "".join(choice.said for choice in chunk.choices):
            arrivals.append(now)
            pieces.append(piece)
    raise LoadError("the stream ended without [DONE]")

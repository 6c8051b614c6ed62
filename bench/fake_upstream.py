"""An OpenAI server that answers at once, for gateways to stand before: fake_upstream.py PORT."""

from __future__ import annotations

import asyncio
import json
import sys

import uvloop

WORD = " word"


def _chunk(delta: dict[str, str], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    fields = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "fake"}
    event = b"data: " + json.dumps({**fields, "choices": [choice]}).encode() + b"\n\n"
    return b"%x\r\n%b\r\n" % (len(event), event)


def _whole(tokens: int) -> bytes:
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": WORD * tokens},
        "finish_reason": "length",
    }
    usage = {"prompt_tokens": 30, "completion_tokens": tokens, "total_tokens": 30 + tokens}
    fields = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "fake"}
    body = json.dumps({**fields, "choices": [choice], "usage": usage}).encode()
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    return head % len(body) + body


def _stream(tokens: int) -> bytes:
    head = (
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    )
    done = b"data: [DONE]\n\n"
    middle = _chunk({"content": WORD}) * tokens
    end = _chunk({}, "length") + b"%x\r\n%b\r\n0\r\n\r\n" % (len(done), done)
    return head + _chunk({"role": "assistant", "content": ""}) + middle + end


class Upstream(asyncio.Protocol):
    """Keeps connections alive; a request is whole when its content-length is there."""

    def __init__(self) -> None:
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head = self._buffer[:end].lower()
            _, _, rest = head.partition(b"content-length:")
            size = int(rest.partition(b"\r\n")[0] or 0)
            if len(self._buffer) < end + 4 + size:
                return
            body = self._buffer[end + 4 : end + 4 + size]
            self._buffer = self._buffer[end + 4 + size :]
            request = json.loads(body or b"{}")
            tokens = int(request.get("max_tokens") or 1)
            self._transport.write(_stream(tokens) if request.get("stream") else _whole(tokens))


async def serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Upstream, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))

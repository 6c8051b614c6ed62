"""An OpenAI-compatible server of one answer, on loopback."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from headrace.load.client import Server


def event(**fields: Any) -> bytes:
    return f"data: {json.dumps(fields)}\n\n".encode()


def token(text: str) -> bytes:
    return event(choices=[{"index": 0, "text": text}])


def usage(prompt: int, completion: int) -> bytes:
    counts = {"prompt_tokens": prompt, "completion_tokens": completion}
    return event(choices=[], usage=counts) + b"data: [DONE]\n\n"


class FakeServer:
    """Answers every POST with `answer`, one write (or HTTP chunk) a part."""

    def __init__(self, answer: list[bytes], *, status: int = 200, chunked: bool = False) -> None:
        self.answer, self.status, self.chunked = answer, status, chunked
        self.requests: list[tuple[str, dict[str, str], Any]] = []

    @contextmanager
    def running(self) -> Iterator[Server]:
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                fake.requests.append((self.path, dict(self.headers), json.loads(body)))
                self.send_response(fake.status)
                self.send_header("connection", "close")
                if fake.chunked:
                    self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                with suppress(ConnectionError):  # the client may leave a broken stream
                    for part in fake.answer:
                        framed = b"%x\r\n%s\r\n" % (len(part), part) if fake.chunked else part
                        self.wfile.write(framed)
                    if fake.chunked:
                        self.wfile.write(b"0\r\n\r\n")

            def log_message(self, *_: object) -> None:
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
            thread = threading.Thread(target=http.serve_forever, args=(0.01,))
            thread.start()
            try:
                url = f"http://127.0.0.1:{http.server_port}/v1"
                yield Server(url=url, model="some-model", key="some-key")
            finally:
                http.shutdown()
                thread.join()

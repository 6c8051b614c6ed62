"""A service on loopback that speaks enough of the API for `headrace chat` and `doctor`."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "hr-test_key"


@dataclass
class FakeService:
    """Answers each message with its words, backwards. `requests` are the bodies it got.

    The message "long" is cut off at its longest length after some reasoning.
    The message "forever" is answered by "and on" until the client leaves; "fail" breaks off with
    an error event; "refuse" is a 400.
    """

    port: int = 0
    name: str = "headrace"
    requests: list[dict[str, Any]] = field(default_factory=list)
    streaming: threading.Event = field(default_factory=threading.Event)
    abandoned: threading.Event = field(default_factory=threading.Event)
    stopping: threading.Event = field(default_factory=threading.Event)
    readiness: dict[str, Any] = field(default_factory=lambda: {"status": "ready"})

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


class _Handler(BaseHTTPRequestHandler):
    server: _HttpServer

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        answers = {
            "/": {"service": self.server.state.name},
            "/readyz": self.server.state.readiness,
            "/v1/models": {"object": "list", "data": [{"id": "backwards"}]},
        }
        if self.path.startswith("/v1/") and not self.authorised():
            return
        self.reply(200, answers[self.path])

    def do_POST(self) -> None:
        state = self.server.state
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        state.requests.append(body)
        if not self.authorised():
            return
        message = body["messages"][-1]["content"]
        if message == "refuse":
            self.reply(400, {"error": {"message": "temperature: too hot"}})
            return
        self.send_response(200)
        self.end_headers()
        if message == "forever":
            self.answer_forever()
        elif message == "fail":
            self.delta("half an")
            self.event({"error": {"message": "the worker died"}})
        elif message == "long":
            self.event({"choices": [{"index": 0, "delta": {"reasoning_content": "hmm"}}]})
            self.delta("a line\u2028and half")
            self.event({"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]})
            self.wfile.write(b"data: [DONE]\n\n")
        else:
            words = message.split()[::-1]
            for number, word in enumerate(words):
                self.delta(word if number == 0 else f" {word}")
            self.event({"choices": [], "usage": {"completion_tokens": len(words)}})
            self.wfile.write(b"data: [DONE]\n\n")

    def authorised(self) -> bool:
        if self.headers["authorization"] == f"Bearer {KEY}":
            return True
        self.reply(401, {"error": {"message": "no"}})
        return False

    def answer_forever(self) -> None:
        state = self.server.state
        try:
            while not state.stopping.wait(0.01):
                self.delta("and on ")
                state.streaming.set()
        except (BrokenPipeError, ConnectionResetError):
            state.abandoned.set()

    def delta(self, text: str) -> None:
        self.event({"choices": [{"index": 0, "delta": {"content": text}}]})

    def event(self, data: dict[str, Any]) -> None:
        self.wfile.write(f": comment\n\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode())
        self.wfile.flush()

    def reply(self, status: int, data: dict[str, Any]) -> None:
        body = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class _HttpServer(ThreadingHTTPServer):
    daemon_threads = True
    state: FakeService


@contextmanager
def fake_service() -> Iterator[FakeService]:
    with _HttpServer(("127.0.0.1", 0), _Handler) as http:
        http.state = FakeService(http.server_address[1])
        thread = threading.Thread(target=http.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield http.state
        finally:
            http.state.stopping.set()
            http.shutdown()
            thread.join()

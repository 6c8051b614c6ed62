"""A thin OpenAI-compatible server before OpenVINO GenAI, which ships none.

    python openvino_server.py MODEL.gguf --port 8000 --streams 8 --threads 2

It runs in the peer's own environment and is kept as lean as can be, so that the peer is
measured and not this file: one thread takes requests, another steps the pipeline and writes
ready-made events straight into the sockets.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import queue
import socket
import threading
from typing import Any, BinaryIO

import numpy as np
import openvino
import openvino_genai as genai

Request = tuple[socket.socket, dict[str, Any]]


class Refused(Exception):
    """A request that cannot be served as asked; the message says why."""


class Stream:
    """One live request and the socket its tokens go to."""

    def __init__(self, connection: socket.socket, handle: Any, prompt_tokens: int) -> None:
        self.connection, self.handle = connection, handle
        self.prompt_tokens, self.tokens = prompt_tokens, 0

    def forward(self, events: list[bytes]) -> bool:
        """Send the tokens there are; whether the request goes on."""
        while self.handle.can_read():
            for output in self.handle.read().values():
                self.tokens += len(output.generated_ids)
                self._send(b"".join([events[token] for token in output.generated_ids]))
        if self.handle.get_status() == genai.GenerationStatus.RUNNING:
            return True
        usage = {"prompt_tokens": self.prompt_tokens, "completion_tokens": self.tokens}
        last = json.dumps({"choices": [], "usage": usage})
        self._send(f"data: {last}\n\ndata: [DONE]\n\n".encode())
        self.connection.close()
        return False

    def _send(self, data: bytes) -> None:
        try:
            self.connection.sendall(data)
        except OSError:
            self.handle.cancel()


class Engine:
    """The pipeline, and the loop that steps it while there is work."""

    def __init__(self, pipeline: genai.ContinuousBatchingPipeline) -> None:
        self.requests: queue.SimpleQueue[Request] = queue.SimpleQueue()
        self._pipeline = pipeline
        self._ids = itertools.count()
        self._tokenizer = pipeline.get_tokenizer()
        tokens = range(max(self._tokenizer.get_vocab().values()) + 1)
        pieces = self._tokenizer.decode([[token] for token in tokens], skip_special_tokens=False)
        self._events = [_event(piece) for piece in pieces]

    def run(self) -> None:
        live: list[Stream] = []
        while True:
            while not live or not self.requests.empty():
                self._admit(*self.requests.get(), live)
            self._pipeline.step()
            live = [stream for stream in live if stream.forward(self._events)]

    def _admit(self, connection: socket.socket, body: dict[str, Any], live: list[Stream]) -> None:
        try:
            ids = self._prompt(body)
            handle = self._pipeline.add_request(next(self._ids), ids, _configuration(body))
        except (Refused, KeyError, RuntimeError) as error:
            _answer(connection, "400 Bad Request", {"error": {"message": str(error)}})
            return
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
        live.append(Stream(connection, handle, ids.shape[1]))

    def _prompt(self, body: dict[str, Any]) -> openvino.Tensor:
        if "messages" in body:
            text = self._tokenizer.apply_chat_template(body["messages"], True)
            return self._tokenizer.encode(text, add_special_tokens=False).input_ids
        return openvino.Tensor(np.array([body["prompt"]], np.int64))


def _event(piece: str) -> bytes:
    choice = {"index": 0, "text": piece, "delta": {"content": piece}}
    return f"data: {json.dumps({'choices': [choice]})}\n\n".encode()


def _configuration(body: dict[str, Any]) -> genai.GenerationConfig:
    if body.get("temperature") != 0 or not body.get("stream"):
        raise Refused("only greedy streams are served")
    config = genai.GenerationConfig()
    config.do_sample = False
    config.max_new_tokens = body["max_tokens"]
    config.ignore_eos = body.get("ignore_eos", False)
    if (form := body.get("response_format")) is not None:
        schema = json.dumps(form["json_schema"]["schema"])
        config.structured_output_config = genai.StructuredOutputConfig(json_schema=schema)
    return config


def _answer(connection: socket.socket, status: str, body: dict[str, Any]) -> None:
    data = json.dumps(body).encode()
    head = f"HTTP/1.1 {status}\r\ncontent-length: {len(data)}\r\nconnection: close\r\n\r\n"
    connection.sendall(head.encode() + data)
    connection.close()


def _read(stream: BinaryIO) -> tuple[str, bytes]:
    """Method and body of one HTTP request."""
    method = stream.readline().split(b" ")[0].decode()
    headers = http.client.parse_headers(stream)
    return method, stream.read(int(headers.get("content-length", 0)))


def accept(listener: socket.socket, requests: queue.SimpleQueue[Request]) -> None:
    while True:
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection.makefile("rb") as stream:
            method, body = _read(stream)
        if method == "POST":
            requests.put((connection, json.loads(body)))
        else:
            _answer(connection, "200 OK", {"status": "ok"})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("model")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--scheduler", type=json.loads, default={}, help="SchedulerConfig as JSON")
    parser.add_argument("--properties", type=json.loads, default={}, help="of the device, as JSON")
    args = parser.parse_args()
    scheduler = genai.SchedulerConfig()
    for name, value in args.scheduler.items():
        setattr(scheduler, name, value)
    engine = Engine(genai.ContinuousBatchingPipeline(args.model, scheduler, "CPU", args.properties))
    listener = socket.create_server(("127.0.0.1", args.port), backlog=128)
    threading.Thread(target=accept, args=(listener, engine.requests), daemon=True).start()
    engine.run()


if __name__ == "__main__":
    main()

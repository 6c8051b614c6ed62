"""llama.cpp's own server, built natively from the source that llama-cpp-python ships."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

from engines.engine import PEERS, THREADS, Engine, cache_name
from headrace.load.workload import Workload

ROOT = PEERS / "llama.cpp"
BIN = ROOT / "build" / "bin"


class LlamaCpp(Engine):
    """The same file as Headrace."""

    name = "llama.cpp"

    def setup(self) -> None:
        if not (BIN / "llama-quantize").exists():
            _build(_source())

    def version(self) -> str:
        command = [str(BIN / "llama-server"), "--version"]
        output = subprocess.run(command, check=True, capture_output=True, text=True)
        lines = (output.stdout + output.stderr).splitlines()
        return next(line for line in lines if line.startswith("version")).split(":")[1].strip()

    def command(self, gguf: Path, port: int, workload: Workload) -> list[str]:
        slot = workload.shared + workload.prompt + workload.output + 64
        place = ["--host", "127.0.0.1", "--port", str(port), "-t", str(THREADS)]
        place += ["-tb", str(THREADS), "--no-webui"]
        slots = ["-np", str(workload.streams), "-c", str(workload.streams * slot)]
        batch = ["-b", "2048", "-ub", "512", "-fa", "on"]
        return [str(BIN / "llama-server"), "-m", str(gguf), *place, *slots, *batch]


class LlamaCppQ4(LlamaCpp):
    """The same weights requantised to Q4_0, the format llama.cpp is fastest at on CPUs: less
    exact, and what it can do at best."""

    name = "llama.cpp-q4_0"

    def prepare(self, gguf: Path) -> Path:
        return requantised(gguf)


def requantised(gguf: Path) -> Path:
    """The model with every matrix in Q4_0; made the first time."""
    LlamaCpp().setup()
    file = ROOT / "models" / f"{cache_name(gguf)}-q4_0.gguf"
    if not file.exists():
        file.parent.mkdir(exist_ok=True)
        partial = file.with_suffix(".partial")
        options = ["--allow-requantize", "--pure", str(gguf), str(partial), "Q4_0"]
        subprocess.run([str(BIN / "llama-quantize"), *options], check=True, capture_output=True)
        partial.rename(file)
    return file


def _source() -> Path:
    ROOT.mkdir(parents=True, exist_ok=True)
    pip = [sys.executable, "-m", "pip"]
    tools = ["cmake", "ninja", "scikit-build-core"]
    subprocess.run([*pip, "install", "--quiet", *tools], check=True)
    package = "llama-cpp-python"
    download = ["download", "--quiet", "--no-deps", "--no-build-isolation", "--no-binary"]
    subprocess.run([*pip, *download, package, package], cwd=ROOT, check=True)
    archive = next(ROOT.glob("llama_cpp_python-*.tar.gz"))
    with tarfile.open(archive) as tar:
        tar.extractall(ROOT, filter="data")
    return next(ROOT.glob("llama_cpp_python-*/vendor/llama.cpp"))


def _build(source: Path) -> None:
    cmake = str(Path(sys.executable).with_name("cmake"))
    off = ["CURL", "OPENSSL", "BUILD_TESTS", "BUILD_EXAMPLES", "BUILD_HTML", "BUILD_APP"]
    options = ["-DCMAKE_BUILD_TYPE=Release", "-DGGML_NATIVE=ON"]
    options += [f"-DLLAMA_{name}=OFF" for name in off]
    build = str(ROOT / "build")
    configure = [cmake, "-S", str(source), "-B", build, "-G", "Ninja", *options]
    subprocess.run(configure, check=True)
    targets = ["--target", "llama-server", "llama-quantize"]
    subprocess.run([cmake, "--build", build, *targets], check=True)

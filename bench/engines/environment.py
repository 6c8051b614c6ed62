"""A peer's own Python environment, so that its requirements never meet ours."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


class Environment:
    """A virtual environment in `root`, made on first use."""

    def __init__(self, root: Path) -> None:
        self.root = root
        # -P: a script's own folder stays off the path, or what lies in bench/ would be found
        # where a peer looks for a package (Transformers for `kernels`).
        self.python = [str(root / "bin" / "python"), "-P"]

    def exists(self) -> bool:
        return (self.root / ".complete").exists()

    def create(self) -> None:
        subprocess.run([sys.executable, "-m", "venv", str(self.root)], check=True)

    def install(self, *requirements: str) -> None:
        self.run("-m", "pip", "install", "--quiet", *requirements)

    def complete(self) -> None:
        """Called last: what was interrupted before is set up again."""
        (self.root / ".complete").touch()

    def run(self, *arguments: str) -> str:
        """What Python printed; raises CalledProcessError if it fails."""
        command = [*self.python, *arguments]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout

    def version(self, package: str) -> str:
        code = f"from importlib.metadata import version; print(version({package!r}))"
        return self.run("-c", code).strip()

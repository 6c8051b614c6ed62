"""The README's first steps, as they stand there."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import Service, start, stop

README = (Path(__file__).parents[2] / "README.md").read_text()
FIRST_STEPS = README.partition("## A first request")[2].partition("\n## ")[0]


@pytest.fixture(scope="module")
def default(smollm2_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """With the default model under its own name, as `make serve` has it."""
    running = start(None, tmp_path_factory.mktemp("readme"))
    yield running
    stop(running)


def here(text: str, service: Service) -> str:
    """The same for the service under test, which has another port."""
    return text.replace("http://127.0.0.1:8080", service.url)


def test_the_first_requests_answer_as_pasted(default: Service) -> None:
    blocks = re.findall(r"^    curl (?:.*\\\n)*.*", FIRST_STEPS, re.MULTILINE)
    assert len(blocks) == 2
    answers = [
        json.loads(
            subprocess.run(
                [
                    "bash",
                    "-c",
                    f"export HEADRACE_API_KEY={default.key}\n{here(block, default)} -sS",
                ],
                capture_output=True,
                check=True,
                text=True,
            ).stdout
        )
        for block in blocks
    ]
    assert "hello" in answers[0]["choices"][0]["message"]["content"].lower()
    assert answers[1]["content"][0]["text"]


def test_the_first_program_prints_an_answer(default: Service) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", FIRST_STEPS, re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-c", here(program, default)],
        env={"HEADRACE_API_KEY": default.key, "PATH": ""},
        capture_output=True,
        check=False,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()

"""The package and the Makefile: what they promise, and what a machine lacks said in a sentence."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib import metadata, resources
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SENTENCES = {
    "python": "Headrace needs Python 3.11 or newer",
    "compiler": "Headrace needs a C++20 compiler",
}


def test_the_package_is_typed_and_classified() -> None:
    assert (resources.files("headrace") / "py.typed").is_file()
    classifiers = metadata.metadata("headrace").get_all("Classifier") or []
    assert "Typing :: Typed" in classifiers
    assert "Programming Language :: Python :: 3.11" in classifiers


@pytest.mark.parametrize("needed", ["pip", "huggingface_hub"])
def test_what_a_pull_runs_is_a_dependency(needed: str) -> None:
    required = [name for name in metadata.requires("headrace") or [] if "extra ==" not in name]
    assert any(name.startswith(needed) for name in required)


def test_no_text_installs_an_extra_from_an_index_that_has_no_headrace() -> None:
    texts = [ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("src/**/*.py")]
    wrong = "install 'headrace["
    assert [path.name for path in texts if wrong in path.read_text()] == []


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A folder of programs for PATH: what make needs, and no Python and no compiler."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("sh", "find", "rm", "make", "mkdir", "touch"):
        found = shutil.which(name)
        if found is None:
            pytest.fail(f"these tests need {name}")
        (programs / name).symlink_to(found)
    return programs


def program(path: Path, says: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{says}\n")
    path.chmod(0o755)


def make(machine: Path, venv: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["make", "--no-print-directory", "-C", str(ROOT), f"VENV={venv}", *arguments]
    return subprocess.run(
        command, env={"PATH": str(machine), "CXX": ""}, capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize("given", [False, True])
def test_make_with_an_old_python_is_a_sentence_and_makes_no_environment(
    machine: Path, tmp_path: Path, given: bool
) -> None:
    old = machine / "python3"
    program(old, 'test "$1" != -c')  # what it is asked about its version is not so
    done = make(machine, tmp_path / "venv", "setup", *([f"PYTHON={old}"] if given else []))
    assert done.returncode
    assert SENTENCES["python"] in done.stderr
    assert not (tmp_path / "venv").exists()


def test_an_environment_of_an_old_python_is_made_again(machine: Path, tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    program(venv / "bin/python", "echo False")
    (venv / "pyvenv.cfg").touch()
    done = make(machine, venv, "setup")
    assert SENTENCES["python"] in done.stderr  # this machine has none to make it with
    assert not venv.exists()


def test_make_without_a_compiler_is_a_sentence(machine: Path, tmp_path: Path) -> None:
    done = make(machine, tmp_path / "venv", "setup", f"PYTHON={sys.executable}")
    assert done.returncode
    assert SENTENCES["compiler"] in done.stderr
    assert not (tmp_path / "venv").exists()


def test_the_build_without_a_compiler_is_a_sentence(machine: Path, tmp_path: Path) -> None:
    cmake = shutil.which("cmake", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert cmake, "the test extra has cmake"
    done = subprocess.run(
        [cmake, "-G", "Unix Makefiles", "-S", str(ROOT / "native"), "-B", str(tmp_path / "build")],
        env={"PATH": str(machine)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode
    assert SENTENCES["compiler"] in done.stderr

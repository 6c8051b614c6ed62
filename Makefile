# Two commands do everything on a fresh machine: `make serve` and `make test`.
# They need Python 3.11+, make and a C++20 compiler; all else comes from the package index.

# The first Python on the path that is new enough. PYTHON=… names another.
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)
VENV   ?= .venv
BIN    := $(VENV)/bin
NATIVE := $(shell find native -name '*.[ch]pp' -o -name CMakeLists.txt)

# A room's tests mostly need one processor: two files at a time. The whole service's tests need all
# of them, and some of those say how long somebody may wait.
ROOMS := $(BIN)/python -m pytest --ignore tests/e2e -n 2 --dist loadfile --no-loadscope-reorder
WHOLE := $(BIN)/python -m pytest tests/e2e

.DEFAULT_GOAL := help
.PHONY: help setup serve test test-all lint format bench bench-peers bench-plots sanitize arm clean

help:  ## what there is to make
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 13

# An environment of an older Python, or one whose Python is gone, is made again.
ifneq ($(wildcard $(VENV)/pyvenv.cfg),)
  ifneq ($(shell $(BIN)/python -c 'import sys; print(sys.version_info >= (3, 11))' 2>/dev/null),True)
    $(shell rm -rf $(VENV))
  endif
endif

$(BIN)/python:
	@test -n "$(PYTHON)" && $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Headrace needs Python 3.11 or newer; name one: make PYTHON=/path/to/python3.11 …" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null \
		|| { echo "$(PYTHON) has no venv module (Debian, Ubuntu: apt install python3-venv)" >&2; exit 1; }
	@for compiler in $(CXX) c++ g++ clang++; do command -v $$compiler >/dev/null && exit 0; done; \
		echo "Headrace needs a C++20 compiler (Debian, Ubuntu: apt install g++)" >&2; exit 1
	$(PYTHON) -m venv $(VENV)

$(VENV)/.serve: $(BIN)/python pyproject.toml $(NATIVE)
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/.test: $(BIN)/python pyproject.toml $(NATIVE)
	$(BIN)/python -m pip install --quiet --no-compile --editable '.[test]'
	@touch $(VENV)/.serve $@

setup: $(VENV)/.serve  ## install Headrace and build its kernels into .venv

serve: setup  ## fetch the default model if need be, and serve it
	$(BIN)/headrace serve

test: $(VENV)/.test lint  ## lint, type-check and run every test but those of minutes
	$(ROOMS) -m "not heavy"
	$(WHOLE) -m "not heavy"

test-all: $(VENV)/.test lint  ## lint, type-check and run every test
	$(ROOMS)
	$(WHOLE)

lint: $(VENV)/.test  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.test  ## let ruff rewrite what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup  ## serve the default model and run every workload against it
	$(BIN)/python bench/run.py

bench-peers: setup  ## set the peers up and run every workload against all of them
	$(BIN)/python bench/run.py --peers

bench-plots: setup  ## throughput and latency against concurrency, drawn into docs/
	$(BIN)/python -m pip install --quiet --editable '.[bench]'
	$(BIN)/python bench/concurrency.py --engines headrace openvino llama.cpp-q4_0

sanitize: $(VENV)/.test  ## native code and its tests under address and undefined-behaviour sanitizers
	native/sanitize.sh

arm:  ## native code for 64-bit Arm and its tests, cross-compiled and emulated
	native/arm.sh

clean:  ## remove the environment and all build outputs
	rm -rf $(VENV) build src/headrace/ops/*.so

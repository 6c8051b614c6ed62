"""`headrace bench` against a server that isn't ours."""

from __future__ import annotations

import json
from pathlib import Path

from tests.load.fake_server import FakeServer, token, usage

from .conftest import Headrace, complaint


def test_figures_are_shown_and_written(headrace: Headrace, tmp_path: Path) -> None:
    fake = FakeServer([token("a"), token("b"), usage(128, 128)])
    with fake.running() as server:
        target = ["--url", server.url, "--model", "theirs", "--runs", "2"]
        result = headrace("bench", "W1", *target, "--output", "out.json", HEADRACE_API_KEY="k")
    assert result.returncode == 0, result.stderr
    assert "W1: 1 stream" in result.stdout
    runs = json.loads((tmp_path / "out.json").read_text())["W1"]
    assert len(runs) == 2
    assert {run["output_tokens"] for run in runs} == {4 * 128}
    figures = {"output_rate", "total_rate", "ttft_p50", "ttft_p99", "itl_p50", "itl_p99"}
    assert figures <= runs[0].keys()
    assert {body["model"] for _, _, body in fake.requests} == {"theirs"}
    assert len({str(body["prompt"]) for _, _, body in fake.requests}) == 8


def test_a_server_without_schemas_is_no_failure(headrace: Headrace) -> None:
    with FakeServer([b"no schemas"], status=400).running() as server:
        result = headrace("bench", "W6", "--url", server.url, "--model", "m", "--runs", "1")
    assert result.returncode == 0, result.stderr
    assert "not supported yet" in result.stdout


def test_any_other_refusal_is_an_error(headrace: Headrace) -> None:
    with FakeServer([b"no such key"], status=401).running() as server:
        result = headrace("bench", "W1", "--url", server.url, "--model", "m")
    assert result.returncode == 1
    assert "no such key" in result.stderr


def test_a_failing_server_is_an_error(headrace: Headrace) -> None:
    with FakeServer([b"out of memory"], status=500).running() as server:
        result = headrace("bench", "W1", "--url", server.url, "--model", "m")
    assert result.returncode == 1
    assert "out of memory" in result.stderr


def test_an_unknown_workload_is_named(headrace: Headrace) -> None:
    result = headrace("bench", "W99")
    assert result.returncode == 2
    assert "W99" in result.stderr


def test_a_server_that_cannot_be_reached_is_one_line(headrace: Headrace) -> None:
    line = complaint(headrace("bench", "W1", "--model", "m", HEADRACE_PORT="1"))
    assert line == "no service answers at http://127.0.0.1:1/v1"


def test_port_and_key_come_from_the_settings_and_runs_are_printed_as_json(
    headrace: Headrace,
) -> None:
    fake = FakeServer([token("a"), token("b"), usage(128, 128)])
    with fake.running() as server:
        port = server.url.removesuffix("/v1").rpartition(":")[2]
        result = headrace(
            "bench",
            "W1",
            "--model",
            "m",
            "--runs",
            "1",
            "--json",
            HEADRACE_PORT=port,
            HEADRACE_BOOTSTRAP_KEY="hr-a_b",
        )
    assert result.returncode == 0, result.stderr
    assert len(json.loads(result.stdout)["W1"]) == 1
    assert {headers["authorization"] for _, headers, _ in fake.requests} == {"Bearer hr-a_b"}

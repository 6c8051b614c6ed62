from __future__ import annotations

from pathlib import Path

import pytest

from floor import ModelCost, decode_seconds, fastest, floor, model_cost, prefill_seconds
from headrace.load.workload import Workload, builtin
from headrace.ops.cpu import MachineSpeed
from tests.models import tiny


def machine_of(bandwidth: float, products: float) -> MachineSpeed:
    return MachineSpeed(
        isa="any",
        threads=1,
        bytes_per_second=bandwidth,
        products_per_second=products,
        kernel_products_per_second=products / 2,
        floats_per_second=products / 4,
    )


MACHINE = machine_of(1000.0, 1e6)
"""A byte costs as much as a thousand products."""
MODEL = ModelCost(
    products=10_000,
    bytes=5_000,
    output_products=2_000,
    output_bytes=1_000,
    heads=4,
    kv_heads=2,
    head_dim=8,
    attention=(None, 16),
)


def test_a_model_is_read_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    tiny.write_tiny(path, "llama")
    cost = model_cost(path)
    queries, keys = tiny.HEADS * tiny.HEAD_DIM, tiny.KV_HEADS * tiny.HEAD_DIM
    layer = tiny.WIDTH * (2 * queries + 2 * keys + 3 * tiny.FEED_FORWARD)
    assert cost.products == tiny.LAYERS * layer
    assert cost.bytes == 4 * cost.products
    assert cost.output_products == tiny.VOCAB * tiny.WIDTH
    assert cost.output_bytes == 4 * cost.output_products
    assert cost.attention == (None,) * tiny.LAYERS


def test_a_window_bounds_what_attention_sees(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    tiny.write_tiny(path, "gemma3")
    assert 8 in model_cost(path).attention
    # Key and value, two heads of eight values of two bytes: 64 bytes a layer and token.
    assert MODEL.kv_bytes(10) == 64 * (10 + 10)
    assert MODEL.kv_bytes(100) == 64 * (100 + 16)
    assert MODEL.attention_products(100) == 128 * (100 + 16)


def test_one_stream_is_bound_by_memory() -> None:
    assert decode_seconds(MODEL, MACHINE, 1, 10) == (6_000 + 64 * 20) / 1000


def test_many_streams_are_bound_by_products() -> None:
    machine = machine_of(1e6, 1e6)
    one = 12_000 + 128 * 20
    assert decode_seconds(MODEL, machine, 32, 10) == 32 * one / 1e6


def test_a_shared_prefix_is_read_once_for_all_streams() -> None:
    apart = decode_seconds(MODEL, MACHINE, 4, 30)
    shared = decode_seconds(MODEL, MACHINE, 4, 30, shared=10)
    assert apart - shared == pytest.approx(3 * MODEL.kv_bytes(10) / 1000)


def test_a_prompt_pays_for_the_logits_of_one_row() -> None:
    machine = machine_of(1e9, 1e6)
    seen = 100 * (128 * 50.5 + 128 * 16)
    assert prefill_seconds(MODEL, machine, 100) == pytest.approx(
        (100 * 10_000 + seen + 2_000) / 1e6
    )


def test_a_workload_is_its_prompts_and_its_steps() -> None:
    workload = Workload(title="", streams=2, requests=6, prompt=10, output=5)
    best = floor(MODEL, MACHINE, workload)
    prefill, step = prefill_seconds(MODEL, MACHINE, 10), decode_seconds(MODEL, MACHINE, 2, 12.5)
    assert best.output_rate == pytest.approx(6 * 5 / (6 * prefill + 3 * 4 * step))
    assert best.ttft_p50 == pytest.approx(1000 * prefill)
    assert best.itl_p50 == pytest.approx(1000 * step)


def test_a_shared_prefix_is_computed_once() -> None:
    apart = Workload(title="", streams=2, requests=6, prompt=30, output=5)
    shared = Workload(title="", streams=2, requests=6, prompt=10, shared=20, output=5)
    machine = machine_of(1e9, 1e6)
    assert floor(MODEL, machine, shared).output_rate > floor(MODEL, machine, apart).output_rate


def test_the_machine_is_as_fast_as_its_best_measurement() -> None:
    best = fastest(machine_of(5.0, 2.0), machine_of(4.0, 3.0))
    assert best == machine_of(5.0, 3.0)


def test_a_chat_has_no_floor() -> None:
    with pytest.raises(ValueError, match="chat"):
        floor(MODEL, MACHINE, builtin()["W6"])

"""What a program's steps read and multiply, and that they can be measured."""

from __future__ import annotations

import pytest

from headrace.ops.cpu import MachineSpeed, available_isas, measure_speed
from headrace.ops.pace import SHORT, measure_pace, stack


def test_a_stack_of_matrices_has_the_pace_of_its_size() -> None:
    program, weights = stack(layers=3, width=64, vocabulary=128)
    pace = measure_pace(program, weights, threads=1)
    matrices = (3 * 64 + 128) * 64
    assert matrices // 2 < pace.decode_bytes <= matrices * 0.75  # codes, scales, minima
    assert pace.prefill_tokens == 512
    assert pace.prefill_products == 512 * 3 * 64 * 64 + 128 * 64
    assert pace.decode_seconds > 0
    assert pace.prefill_seconds > 0


def test_a_slow_machine_is_measured_with_fewer_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.ops.pace.best_of", lambda body, most: 1.0)
    program, weights = stack(layers=1, width=64, vocabulary=128)
    assert measure_pace(program, weights, threads=1).prefill_tokens == SHORT


@pytest.mark.parametrize("isa", available_isas())
def test_the_ceilings_of_every_instruction_set(isa: str) -> None:
    speed = measure_speed(1, isa, stream_bytes=1 << 20)
    assert isinstance(speed, MachineSpeed)
    rates = (
        speed.bytes_per_second,
        speed.products_per_second,
        speed.kernel_products_per_second,
        speed.floats_per_second,
    )
    assert min(rates) > 0

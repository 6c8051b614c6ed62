"""Tenants and classes on the real engine, over HTTP: who is served how much, and when.

Bounds are those of docs/architecture.md, "How fair", and as far as can be in what was served
meanwhile: seconds are the machine's. What waits is enough for a client that stands still a while.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.load.client import Overloaded, Request, Server, Timing, complete

from .conftest import Service, start, stop

PLACES = 8
SLACK = 1000
LONG_FROM = 600
CLASSES = {"interactive": {"deadline": 4}, "default": {"deadline": 1e5}, "batch": {"deadline": 10}}


@pytest.fixture(scope="module")
def service(smollm2_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    flags = ["--max-sequences", str(PLACES), "--long-from", str(LONG_FROM)]
    flags += ["--classes", json.dumps(CLASSES)]
    running = start(smollm2_path, tmp_path_factory.mktemp("fairness"), *flags)
    yield running
    stop(running)


@pytest.fixture
def tenant(service: Service) -> Callable[..., Server]:
    """Makes a tenant; how to send its requests."""

    def make(**fields: Any) -> Server:
        name = f"tenant-{random.getrandbits(40)}"
        with service.http() as http:
            http.post("/admin/v1/tenants", json={"name": name, **fields}).raise_for_status()
            made = http.post("/admin/v1/keys", json={"tenant": name}).raise_for_status()
        return Server(url=f"{service.url}/v1", model=service.model, key=made.json()["key"])

    return make


class Streams:
    """So many requests of a tenant at a time, again and again."""

    def __init__(self, server: Server, count: int, prompt: int, output: int) -> None:
        self.timings: list[Timing] = []
        self._server, self._prompt, self._output = server, prompt, output
        self.tasks = [asyncio.create_task(self._go_on()) for _ in range(count)]

    async def _go_on(self) -> None:
        while True:
            prompt = random.choices(range(1000, 40000), k=self._prompt)
            request = Request(prompt=prompt, output=self._output)
            self.timings.append(await complete(self._server, request))

    @property
    def cost(self) -> float:
        """Of what was answered."""
        return len(self.timings) * (self._prompt + 2 * self._output)

    def service(self) -> list[tuple[float, float]]:
        """When how much was served: a prompt with the first token, as far as it was answered."""
        events = []
        for timing in self.timings:
            events.append((timing.arrivals[0], float(self._prompt)))
            events += [(at, 2 * self._output / len(timing.arrivals)) for at in timing.arrivals]
        return events


async def run(enough: Callable[[], bool], *streams: Streams) -> None:
    """Until it is enough; then all of them leave, wherever they are."""
    tasks = [task for each in streams for task in each.tasks]
    async with asyncio.timeout(120):
        while not enough():
            await asyncio.sleep(0.05)
            for task in tasks:
                if task.done():
                    task.result()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def furthest_apart(one: Streams, other: Streams) -> float:
    events = [(at, cost) for at, cost in one.service()]
    events += [(at, -cost) for at, cost in other.service()]
    apart = most = 0.0
    for _, cost in sorted(events):
        apart += cost
        most = max(most, abs(apart))
    return most


async def test_ten_times_as_many_requests_earn_no_more(
    service: Service, tenant: Callable[..., Server]
) -> None:
    prompt, output = 16, 16
    modest = Streams(tenant(), 4 * PLACES, prompt, output)
    greedy = Streams(tenant(), 40 * PLACES, prompt, output)
    await run(lambda: modest.cost + greedy.cost > 5000, modest, greedy)
    bound = SLACK + PLACES * (prompt + 2 * output)
    unseen = PLACES * (prompt + 2 * output)  # what still ran at the end is in no timing
    assert furthest_apart(modest, greedy) <= bound + unseen
    assert 0.7 < greedy.cost / modest.cost < 1.4
    service.await_idle()


async def test_weights_one_and_three_give_one_and_three(
    service: Service, tenant: Callable[..., Server]
) -> None:
    light, heavy = (Streams(tenant(weight=w), 8 * PLACES, 8, 8) for w in (1, 3))
    await run(lambda: light.cost + heavy.cost > 3000, light, heavy)
    assert 2 < heavy.cost / light.cost < 4
    service.await_idle()


async def test_long_prompts_do_not_starve_short_ones(
    service: Service, tenant: Callable[..., Server]
) -> None:
    """A dozen long prompts wait all the time. Whoever came after them would wait for as many; a
    short one is through before a third of them are."""
    count = 12
    long = Streams(tenant(), count, 2 * LONG_FROM, 4)
    while not long.timings:  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    short = Streams(tenant(), 1, 16, 4)
    await run(lambda: len(long.timings) >= 5 and len(short.timings) >= 3, long, short)
    meanwhile = sorted(
        sum(one.start < other.arrivals[0] < one.end for other in long.timings)
        for one in short.timings
    )
    assert meanwhile[len(meanwhile) // 2] < count / 3
    service.await_idle(60)


async def test_a_spike_is_a_wait_for_some_and_a_quick_529_for_the_rest(
    service: Service, tenant: Callable[..., Server]
) -> None:
    """Far more than can be served, for five seconds, and then it is over."""
    servers = {name: tenant(service_class=name) for name in ("interactive", "batch")}
    warm = Streams(tenant(), 2 * PLACES, 32, 32)
    await run(lambda: len(warm.timings) > 3 * PLACES, warm)
    answered: dict[str, list[float]] = {name: [] for name in servers}
    refused: list[float] = []

    async def send(name: str) -> None:
        began = time.perf_counter()
        prompt = random.choices(range(1000, 40000), k=32)
        try:
            timing = await complete(servers[name], Request(prompt=prompt, output=32))
        except Overloaded as refusal:
            assert "(would_be_late)" in str(refusal) or "(waited_too_long)" in str(refusal)
            refused.append(time.perf_counter() - began)
        else:
            answered[name].append(timing.arrivals[0] - timing.start)

    sent = []
    for _ in range(250):
        sent += [asyncio.create_task(send(name)) for name in servers]
        await asyncio.sleep(0.02)
    spike_over = time.monotonic()
    await asyncio.gather(*sent)
    assert len(refused) > 100
    assert sorted(refused)[len(refused) // 2] < 0.5
    assert answered["interactive"]
    assert answered["batch"]
    assert max(answered["interactive"]) < CLASSES["interactive"]["deadline"] + 2
    service.await_idle()
    assert time.monotonic() - spike_over < CLASSES["batch"]["deadline"] + 10
    await complete(servers["interactive"], Request(prompt=[1000] * 8, output=2))

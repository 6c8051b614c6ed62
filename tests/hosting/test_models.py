from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from headrace.dispatch.errors import Overloaded, Unavailable
from headrace.edge.services import UnknownModel, Use
from headrace.fleet.errors import DoesNotFit, WorkerFailed
from headrace.hosting.models import HostedModels
from tests.edge.fakes import until
from tests.hosting.fakes import Garage, pinned, spec

Open = Callable[..., Any]


@pytest.fixture
def garage() -> Garage:
    return Garage()


@pytest.fixture
async def opened(garage: Garage) -> AsyncIterator[Open]:
    """Models that are open and, those for the start, loaded."""
    made: list[HostedModels] = []

    async def open(*specs: Any, **more: Any) -> HostedModels:
        models = garage.models(*specs, **more)
        made.append(models)
        await models.open()
        await models.started()
        return models

    yield open
    for models in made:
        await models.stop(0.0)
        assert {status.state for status in models.status()} <= {"unloaded"}


def states(models: HostedModels) -> dict[str, str]:
    return {f"{s.model.name}@{s.model.version}": s.state for s in models.status()}


async def use(models: HostedModels, name: str) -> Use:
    model = models.menu.current(name)
    assert model is not None
    return await models.use(model)


async def test_what_is_for_the_start_is_loaded_then_and_the_rest_when_it_is_asked_for(
    opened: Open, garage: Garage
) -> None:
    models = await opened(spec("a"), spec("b", load="demand"))
    assert states(models) == {"a@v1": "ready", "b@v1": "unloaded"}
    with await use(models, "b") as deployment:
        assert deployment.model.name == "b"
        assert [status.users for status in models.status()] == [0, 1]
    assert garage.starts == ["a@v1", "b@v1"]
    assert states(models)["b@v1"] == "ready"


async def test_requests_wait_for_one_load_and_no_more_than_may_queue(
    opened: Open, garage: Garage
) -> None:
    models = await opened(spec("a"), spec("b", load="demand", max_queue=3))
    garage.hold("b")
    waiting = [asyncio.create_task(use(models, "b")) for _ in range(3)]
    await until(lambda: "b@v1" in garage.starts)
    with pytest.raises(Overloaded):
        await use(models, "b")
    waiting[0].cancel()  # leaves the load to the others
    await asyncio.sleep(0)
    garage.release("b")
    await asyncio.gather(*waiting[1:])
    assert garage.starts == ["a@v1", "b@v1"]
    assert models.status()[1].users == 2


async def test_a_load_that_takes_too_long_and_one_that_fails(opened: Open, garage: Garage) -> None:
    models = await opened(spec("a"), spec("b", load="demand"), patience=0.01)
    garage.hold("b")
    with pytest.raises(Unavailable) as late:
        await use(models, "b")
    assert late.value.reason == "loading"
    patient = garage.models(spec("b", load="demand"))
    await patient.open()
    (model,) = patient.menu
    with pytest.raises(Unavailable):
        await patient.use(model, deadline=time.time() + 0.01)
    patient.drain()
    await patient.stop(0.0)
    garage.starts.remove("b@v1")
    garage.stops.clear()
    garage.faults["b"] = WorkerFailed("no such file: /secret/place")
    garage.release("b")
    await until(lambda: garage.stops == ["b@v1"])
    for _ in range(3):  # nobody tries again for a while
        with pytest.raises(Unavailable) as failed:
            await use(models, "b")
        assert failed.value.reason == "load_failed"
        assert "secret" not in str(failed.value)
    assert garage.starts.count("b@v1") == 1
    assert models.status()[1].error == "no such file: /secret/place"
    assert garage.stops == ["b@v1"]


async def test_a_start_that_fails_says_why(garage: Garage) -> None:
    garage.faults["a"] = WorkerFailed("no such file")
    models = garage.models(spec("a"))
    await models.open()
    with pytest.raises(WorkerFailed, match="no such file"):
        await models.started()
    await models.stop(0.0)


async def test_the_one_used_longest_ago_makes_room_and_none_that_is_in_use(
    opened: Open, garage: Garage
) -> None:
    demand = [spec(name, load="demand") for name in ("b", "c")]
    models = await opened(spec("a", "v0"), *demand, memory=450)
    with await use(models, "b"), pytest.raises(Unavailable) as refused:
        await use(models, "c")
    assert refused.value.reason == "no_memory"
    assert "300" not in str(refused.value)  # bytes come in MiB, and others have no names
    assert garage.stops == []
    with await use(models, "c"):
        assert states(models) == {"a@v0": "ready", "b@v1": "unloaded", "c@v1": "ready"}
    assert garage.stops == ["b@v1"]
    held = await use(models, "b")
    assert states(models)["c@v1"] == "unloaded"
    held.give_back()


async def test_what_is_to_be_loaded_for_a_crowd_is_not_unloaded_for_another(
    opened: Open, garage: Garage
) -> None:
    models = await opened(spec("b", load="demand"), spec("c", load="demand"), memory=400)
    garage.hold("b")
    first = asyncio.create_task(use(models, "b"))
    await until(lambda: garage.starts == ["b@v1"])
    with pytest.raises(Unavailable):
        await use(models, "c")
    garage.release("b")
    (await first).give_back()
    (await use(models, "c")).give_back()
    assert garage.starts == ["b@v1", "c@v1"]


async def test_models_that_never_fit_are_refused_at_once(garage: Garage) -> None:
    models = garage.models(spec("a"), spec("b"), spec("c", load="demand"), memory=599)
    with pytest.raises(DoesNotFit, match=r"a@v1 .*, b@v1 .*, c@v1 .* on demand"):
        await models.open()
    assert garage.starts == []
    await models.stop(0.0)


async def test_an_idle_model_is_unloaded_and_a_used_one_is_not(
    opened: Open, garage: Garage
) -> None:
    models = await opened(spec("a", idle_unload=0.05), spec("b", load="demand"))
    held = await use(models, "a")
    await asyncio.sleep(0.1)
    assert states(models)["a@v1"] == "ready"
    held.give_back()
    await until(lambda: states(models)["a@v1"] == "unloaded")
    (await use(models, "a")).give_back()
    assert garage.starts == ["a@v1", "a@v1"]


async def test_an_unload_waits_for_those_who_hold_it_and_new_ones_load_it_again(
    opened: Open, garage: Garage
) -> None:
    models = await opened(spec("a"))
    held = await use(models, "a")
    unloading = asyncio.create_task(models.unload("a"))
    await until(lambda: states(models) == {"a@v1": "draining"})
    again = asyncio.create_task(use(models, "a"))
    await asyncio.sleep(0.01)
    assert garage.stops == []
    held.give_back()
    assert (await unloading).state in ("unloaded", "loading", "ready")
    (await again).give_back()
    assert (garage.starts, garage.stops) == (["a@v1", "a@v1"], ["a@v1"])


async def test_an_unload_ends_after_its_grace(opened: Open, garage: Garage) -> None:
    models = await opened(spec("a"))
    held = await use(models, "a")
    assert (await models.unload("a", grace=0.01)).state == "unloaded"
    held.give_back()
    assert models.status()[0].users == 0


async def test_a_closed_model_refuses_until_it_is_loaded_by_hand(
    opened: Open, garage: Garage
) -> None:
    models = await opened(spec("a"))
    assert (await models.close("a@v1")).closed
    with pytest.raises(Unavailable):
        await use(models, "a")
    status = await models.load("a")
    assert (status.state, status.closed) == ("ready", False)
    (await use(models, "a")).give_back()
    for name in ("z", "a@v9", "@", ""):
        with pytest.raises(UnknownModel):
            await models.load(name)


async def test_a_pinned_version_is_there_until_the_pin_goes(opened: Open, garage: Garage) -> None:
    models = await opened(spec("a", "v2"))
    await models.keep([pinned(spec("a"), "v1")])
    current, old = models.menu.current("a"), models.menu.version("a", "v1")
    assert current is not None and current.version == "v2"
    assert old is not None
    held = await models.use(old)
    assert states(models) == {"a@v2": "ready", "a@v1": "ready"}
    await models.keep([pinned(spec("a"), "v1"), pinned(spec("a"), "v0")])
    assert garage.starts == ["a@v2", "a@v1"]
    await models.keep([])
    assert models.menu.version("a", "v1") is None
    assert garage.stops == []  # somebody is still at it
    held.give_back()
    await until(lambda: garage.stops == ["a@v1"])
    assert states(models) == {"a@v2": "ready"}


async def test_who_waits_for_a_version_whose_last_pin_goes_is_refused(
    opened: Open, garage: Garage
) -> None:
    models = await opened(spec("b", "v2"))
    await models.keep([pinned(spec("b"), "v1")])
    old = models.menu.version("b", "v1")
    assert old is not None
    garage.hold("b")
    waiting = asyncio.create_task(models.use(old))
    await until(lambda: "b@v1" in garage.starts)
    await models.keep([])
    garage.release("b")
    with pytest.raises(Unavailable):
        await waiting
    await until(lambda: garage.stops == ["b@v1"])


async def test_a_model_that_fails_to_stop_counts_as_gone(opened: Open, garage: Garage) -> None:
    models = await opened(spec("a"))
    garage.unstoppable.add("a")
    assert (await models.unload("a")).state == "unloaded"
    garage.unstoppable.clear()
    (await use(models, "a")).give_back()


async def test_the_end_refuses_who_waits_and_stops_everything(garage: Garage) -> None:
    models = garage.models(spec("a"), spec("b", load="demand"))
    await models.open()
    await models.started()
    garage.hold("b")
    waiting = asyncio.create_task(use(models, "b"))
    await until(lambda: "b@v1" in garage.starts)
    models.drain()
    with pytest.raises(Unavailable) as refused:
        await waiting
    assert refused.value.reason == "draining"
    with pytest.raises(Unavailable):
        await use(models, "a")
    await models.stop(0.0)
    await models.stop(0.0)
    assert states(models) == {"a@v1": "unloaded", "b@v1": "unloaded"}
    assert sorted(garage.stops) == ["a@v1", "b@v1"]


async def test_a_signal_during_the_start_ends_it(garage: Garage) -> None:
    garage.hold("a")
    models = garage.models(spec("a"))
    await models.open()
    starting = asyncio.create_task(models.started())
    await until(lambda: garage.starts == ["a@v1"])
    models.drain()
    with pytest.raises(Unavailable):
        await starting
    await models.stop(0.0)
    assert states(models) == {"a@v1": "unloaded"}

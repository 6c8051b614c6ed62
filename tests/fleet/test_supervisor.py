"""The supervisor over real child processes."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from array import array
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from headrace.engine.output import Output
from headrace.fleet.config import WorkerConfig
from headrace.fleet.errors import WorkerFailed, WorkerUnavailable
from headrace.fleet.frames import frame
from headrace.fleet.mailbox import Mailbox
from headrace.fleet.probation import CLEARING_OUTPUTS, LIVES
from headrace.fleet.supervisor import Patience, Supervisor

from .conftest import PATIENCE, MakeSupervisor, read_all, request, until
from .fake_worker import CRASH, DIE, DIE_LATE, HANG


def pid_of(supervisor: Supervisor) -> int:
    ready = supervisor.status().ready
    assert ready is not None
    return ready.pid


def is_gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def text_of(outputs: list[Output]) -> str:
    return "".join(output.text for output in outputs)


async def test_outputs_come_in_order_and_end_once(make_supervisor: MakeSupervisor) -> None:
    supervisor = make_supervisor()
    await supervisor.start()
    mailboxes = [supervisor.submit(request(f"r{n}", max_tokens=n + 1)) for n in range(8)]
    assert supervisor.live == 8
    for n, outputs in enumerate(await asyncio.gather(*map(read_all, mailboxes))):
        assert text_of(outputs) == "".join(f"t{i} " for i in range(n + 1))
        finish = outputs[-1].finish
        assert finish is not None
        assert (finish.reason, finish.completion_tokens) == ("length", n + 1)
    assert supervisor.live == 0


async def test_status_tells_what_the_worker_is(make_supervisor: MakeSupervisor) -> None:
    supervisor = make_supervisor(max_sequences=3)
    assert supervisor.status().state == "stopped"
    assert supervisor.capacity == 0
    await supervisor.start()
    status = supervisor.status()
    assert (status.state, status.starts, status.failures) == ("ready", 1, 0)
    assert status.ready is not None
    assert status.ready.model == "toy"
    assert supervisor.capacity == 3
    pid = pid_of(supervisor)
    await supervisor.stop()
    assert supervisor.status().state == "stopped"
    assert is_gone(pid)


async def test_cancel_ends_with_the_engines_counts(make_supervisor: MakeSupervisor) -> None:
    supervisor = make_supervisor()
    await supervisor.start()
    mailbox = supervisor.submit(request("r", max_tokens=100_000))
    first = await mailbox.get()
    assert first is not None
    supervisor.cancel("r")
    supervisor.cancel("r")
    outputs = [first, *await read_all(mailbox)]
    finish = outputs[-1].finish
    assert finish is not None
    assert finish.reason == "cancelled"
    assert finish.completion_tokens == sum(len(output.tokens) for output in outputs)
    supervisor.cancel("r")
    supervisor.cancel("never seen")


async def test_two_live_requests_may_not_share_an_id(make_supervisor: MakeSupervisor) -> None:
    supervisor = make_supervisor()
    await supervisor.start()
    mailbox = supervisor.submit(request("r", max_tokens=100_000))
    with pytest.raises(ValueError, match="r is live"):
        supervisor.submit(request("r"))
    supervisor.cancel("r")
    await read_all(mailbox)
    assert await read_all(supervisor.submit(request("r")))


async def test_two_hundred_opened_and_dropped_leave_nothing(
    make_supervisor: MakeSupervisor,
) -> None:
    supervisor = make_supervisor(max_sequences=200)
    await supervisor.start()
    for n in range(200):
        supervisor.submit(request(f"r{n}", max_tokens=100_000))
    for n in range(200):
        supervisor.cancel(f"r{n}")
    await until(lambda: supervisor.live == 0, supervisor)
    status = await supervisor.probe(10)
    assert status.running == 0
    assert status.blocks_free == status.blocks_total


async def test_a_worker_that_takes_nothing_holds_up_nobody(make_supervisor: MakeSupervisor) -> None:
    supervisor = make_supervisor(max_sequences=60, patience=replace(PATIENCE, silent_beats=100))
    await supervisor.start()
    pid = pid_of(supervisor)
    os.kill(pid, signal.SIGSTOP)
    mailboxes = []
    for n in range(60):  # each in a message of its own: together more than a socket holds
        prompt = array("i", range(1, 20_000))
        wanted = request(f"r{n}", max_tokens=10 if n % 2 else 100_000)
        mailboxes.append(supervisor.submit(msgspec.structs.replace(wanted, prompt=prompt)))
        await asyncio.sleep(0)
    for n in range(0, 60, 2):
        supervisor.cancel(f"r{n}")
    probing = asyncio.create_task(supervisor.probe(60))
    await asyncio.sleep(0)
    os.kill(pid, signal.SIGCONT)
    for n, outputs in enumerate(await asyncio.gather(*map(read_all, mailboxes))):
        assert outputs[-1].finish is not None
        assert outputs[-1].finish.reason == ("length" if n % 2 else "cancelled")
    await probing
    assert supervisor.status().starts == 1


async def test_the_requests_of_a_killed_worker_go_on_in_the_next(
    make_supervisor: MakeSupervisor,
) -> None:
    supervisor = make_supervisor()
    await supervisor.start()
    mailboxes = [supervisor.submit(request(f"r{n}", max_tokens=3000)) for n in range(3)]
    firsts = [await mailbox.get() for mailbox in mailboxes]
    os.kill(pid_of(supervisor), signal.SIGKILL)
    for first, mailbox in zip(firsts, mailboxes, strict=True):
        assert first is not None
        outputs = [first, *await read_all(mailbox)]
        assert text_of(outputs) == "".join(f"t{i} " for i in range(3000))
        finish = outputs[-1].finish
        assert finish is not None
        assert (finish.reason, finish.completion_tokens) == ("length", 3000)
    assert supervisor.status().starts == 2
    assert supervisor.live == 0


async def test_a_request_that_lost_four_workers_fails_and_the_next_is_served(
    make_supervisor: MakeSupervisor,
) -> None:
    supervisor = make_supervisor()
    await supervisor.start()
    mailbox = supervisor.submit(request("r", max_tokens=100_000))
    outputs = []
    for _ in range(LIVES):
        for _ in range(2 * CLEARING_OUTPUTS):
            output = await mailbox.get()
            assert output is not None
            outputs.append(output)
        os.kill(pid_of(supervisor), signal.SIGKILL)
        await until(lambda: supervisor.capacity == 0, supervisor)
        await until(lambda: supervisor.capacity > 0, supervisor)
        while mailbox.pending:
            outputs.append(await mailbox.get())
    outputs += await read_all(mailbox)
    finish = outputs[-1].finish
    assert finish is not None
    assert finish.reason == "error"
    assert finish.error is not None
    assert "engine" in finish.error
    assert "SIGKILL" in finish.error
    assert finish.prompt_tokens == 3
    tokens = [token for output in outputs for token in output.tokens]
    assert tokens == list(range(finish.completion_tokens))
    assert supervisor.status().starts == 1 + LIVES
    assert len(text_of(await read_all(supervisor.submit(request("again"))))) > 0


@pytest.mark.parametrize(
    "poisons", [[DIE], [DIE_LATE], [DIE, DIE, DIE_LATE]], ids=["at once", "late", "several"]
)
async def test_only_what_kills_workers_ends_and_the_others_are_complete(
    make_supervisor: MakeSupervisor, poisons: list[int]
) -> None:
    supervisor = make_supervisor()
    await supervisor.start()
    others = [supervisor.submit(request(f"r{n}", max_tokens=400)) for n in range(4)]
    killers = [
        supervisor.submit(request(f"p{n}", 400, first_token=token))
        for n, token in enumerate(poisons)
    ]
    for outputs in await asyncio.gather(*map(read_all, killers)):
        finish = outputs[-1].finish
        assert finish is not None
        assert (finish.reason, "exited with status 9" in (finish.error or "")) == ("error", True)
    for outputs in await asyncio.gather(*map(read_all, others)):
        assert text_of(outputs) == "".join(f"t{i} " for i in range(400))
        finish = outputs[-1].finish
        assert finish is not None
        assert (finish.reason, finish.completion_tokens) == ("length", 400)
    assert supervisor.status().starts <= 1 + 4 * len(poisons)


async def test_requests_that_come_while_suspects_are_tried_are_answered(
    make_supervisor: MakeSupervisor,
) -> None:
    supervisor = make_supervisor()
    await supervisor.start()
    others = [supervisor.submit(request(f"r{n}", max_tokens=400)) for n in range(3)]
    killer = asyncio.create_task(read_all(supervisor.submit(request("p", 9, first_token=DIE))))
    await until(lambda: supervisor.status().starts == 2 and supervisor.capacity > 0, supervisor)
    others.append(supervisor.submit(request("new", max_tokens=400)))
    gone = supervisor.submit(request("gone", max_tokens=400))
    supervisor.cancel("gone")
    for outputs in await asyncio.gather(*map(read_all, others)):
        assert text_of(outputs) == "".join(f"t{i} " for i in range(400))
    assert (await read_all(gone))[-1].finish.reason == "cancelled"  # type: ignore[union-attr]
    assert (await killer)[-1].finish.reason == "error"  # type: ignore[union-attr]
    assert supervisor.live == 0


async def test_resumed_requests_and_lost_ones_keep_their_counts(
    make_supervisor: MakeSupervisor,
) -> None:
    supervisor = make_supervisor()
    await supervisor.start()
    mailbox = supervisor.submit(request("r", max_tokens=100_000))
    await mailbox.get()
    await supervisor.stop()
    finish = (await read_all(mailbox))[-1].finish
    assert finish is not None
    assert (finish.prompt_tokens, finish.cached_tokens, finish.reasoning_tokens) == (3, 2, 1)


async def test_who_leaves_while_there_is_no_worker_is_let_go(
    make_supervisor: MakeSupervisor,
) -> None:
    supervisor = make_supervisor()
    await supervisor.start()
    mailbox = supervisor.submit(request("r", max_tokens=100_000))
    await mailbox.get()
    os.kill(pid_of(supervisor), signal.SIGKILL)
    await until(lambda: supervisor.capacity == 0, supervisor)
    assert supervisor.live == 1
    supervisor.cancel("r")
    assert supervisor.live == 0
    outputs = await read_all(mailbox)
    assert outputs[-1].finish is not None
    assert outputs[-1].finish.reason == "cancelled"


async def test_where_no_next_worker_starts_requests_fail(
    make_supervisor: MakeSupervisor, tmp_path: Path
) -> None:
    supervisor = make_supervisor(str(tmp_path / "model.once"))
    await supervisor.start()
    mailbox = supervisor.submit(request("r", max_tokens=100_000))
    await mailbox.get()
    os.kill(pid_of(supervisor), signal.SIGKILL)
    outputs = await read_all(mailbox)
    assert outputs[-1].finish is not None
    error = outputs[-1].finish.error or ""
    assert error == "the engine is gone, and the next one could not be started"
    assert supervisor.live == 0


@pytest.mark.parametrize(
    ("fault", "words"),
    [(CRASH, "a fault in the engine (RuntimeError)"), (DIE, "exited with status 9")],
)
async def test_a_crash_is_told_to_the_caller(
    make_supervisor: MakeSupervisor, fault: int, words: str
) -> None:
    supervisor = make_supervisor()
    await supervisor.start()
    outputs = await read_all(supervisor.submit(request("r", first_token=fault)))
    finish = outputs[-1].finish
    assert finish is not None
    assert finish.error is not None
    assert words in finish.error
    last_error = supervisor.status().last_error
    assert last_error is not None
    assert words in last_error
    await until(lambda: supervisor.capacity > 0, supervisor)


async def test_a_crash_logs_no_prompt(
    make_supervisor: MakeSupervisor, capfd: pytest.CaptureFixture[str]
) -> None:
    supervisor = make_supervisor()
    await supervisor.start()
    wanted = request("r", first_token=CRASH)
    secret = msgspec.structs.replace(wanted, prompt=[CRASH, 987654321], namespace="of-a-tenant")
    await read_all(supervisor.submit(secret))
    logged = capfd.readouterr().err
    assert "a kernel went wrong" in logged
    assert "987654321" not in logged
    assert "of-a-tenant" not in logged


async def test_a_hung_engine_is_killed_and_started_again(make_supervisor: MakeSupervisor) -> None:
    supervisor = make_supervisor(patience=replace(PATIENCE, silent_beats=10))
    await supervisor.start()
    pid = pid_of(supervisor)
    mailbox = supervisor.submit(request("r", first_token=HANG))
    with pytest.raises(TimeoutError):
        while True:  # The first may be answered before the step that hangs.
            await supervisor.probe(0.1)
    outputs = await read_all(mailbox)
    assert outputs[-1].finish is not None
    assert "sign of life" in (outputs[-1].finish.error or "")
    await until(lambda: supervisor.capacity > 0, supervisor)
    assert is_gone(pid)


async def test_a_probe_fails_at_once_when_the_worker_dies(make_supervisor: MakeSupervisor) -> None:
    supervisor = make_supervisor()
    with pytest.raises(WorkerUnavailable):
        await supervisor.probe(1)
    await supervisor.start()
    os.kill(pid_of(supervisor), signal.SIGSTOP)
    probing = asyncio.create_task(supervisor.probe(60))
    await asyncio.sleep(0)
    os.kill(pid_of(supervisor), signal.SIGKILL)
    with pytest.raises(WorkerUnavailable, match="SIGKILL"):
        await probing


async def test_a_model_that_cannot_be_opened_is_a_sentence(
    make_supervisor: MakeSupervisor,
) -> None:
    supervisor = make_supervisor("broken")
    with pytest.raises(WorkerFailed, match="tensor 'output' ends beyond the file"):
        await supervisor.start()
    assert supervisor.status().state == "stopped"
    await supervisor.stop()


async def test_a_command_that_does_not_exist_is_a_sentence() -> None:
    config = WorkerConfig(path="x", model="m", version="1")
    supervisor = Supervisor(config, command=("/nowhere/python",))
    with pytest.raises(WorkerFailed, match="/nowhere/python"):
        await supervisor.start()


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("pass", "exited with status 0"),
        ("import os; os.close(0); os.abort()", "killed by SIGABRT"),
        ("raise SystemExit(3)", "exited with status 3"),
        (r"import os; os.write(0, b'\0\0\0\x09half')", "exited with status 0"),
    ],
)
async def test_a_worker_that_ends_without_a_word_is_described(program: str, words: str) -> None:
    config = WorkerConfig(path="x", model="m", version="1")
    supervisor = Supervisor(config, command=(sys.executable, "-c", program))
    with pytest.raises(WorkerFailed, match=words):
        await supervisor.start()


LAST_WORDS = """
import os, msgspec
from headrace.fleet.frames import frame
from headrace.fleet.messages import Failed
os.write(0, frame(msgspec.msgpack.encode(Failed("out of luck"))))
os._exit(9)
"""


async def test_last_words_are_heard_however_fast_the_end_comes() -> None:
    config = WorkerConfig(path="x", model="m", version="1")
    supervisor = Supervisor(config, command=(sys.executable, "-c", LAST_WORDS))
    with pytest.raises(WorkerFailed, match="out of luck"):
        await supervisor.start()


SPEAKS_GARBAGE = """
import os, sys
os.write(0, {garbage!r})
while os.read(0, 4096):
    pass
"""


@pytest.mark.parametrize(
    "garbage", [b"\xc1 not a frame", b"Traceback (most recent", frame(b"\xc1"), frame(b"")]
)
async def test_a_worker_that_speaks_garbage_is_replaced_not_obeyed(garbage: bytes) -> None:
    config = WorkerConfig(path="x", model="m", version="1")
    program = SPEAKS_GARBAGE.format(garbage=garbage)
    supervisor = Supervisor(config, command=(sys.executable, "-c", program))
    with pytest.raises(WorkerFailed, match="cannot be read"):
        await supervisor.start()


async def test_a_worker_that_never_gets_ready_is_given_up(make_supervisor: MakeSupervisor) -> None:
    supervisor = make_supervisor("silent", Patience(start=0.5, beat=0.1))
    with pytest.raises(WorkerFailed, match=r"not ready after 0\.5 s"):
        await supervisor.start()


async def test_a_worker_that_hangs_up_and_lives_is_given_up() -> None:
    config = WorkerConfig(path="x", model="m", version="1")
    program = "import os, time; os.close(0); time.sleep(3600)"
    patience = Patience(start=0.5, beat=0.1)
    supervisor = Supervisor(config, command=(sys.executable, "-c", program), patience=patience)
    with pytest.raises(WorkerFailed, match=r"not ready after 0\.5 s"):
        await supervisor.start()


async def test_a_crash_loop_is_reported_and_never_given_up(
    make_supervisor: MakeSupervisor, tmp_path: Path
) -> None:
    marker = tmp_path / "model.once"
    supervisor = make_supervisor(str(marker))
    await supervisor.start()
    os.kill(pid_of(supervisor), signal.SIGKILL)
    await until(lambda: supervisor.status().failures >= 3, supervisor)
    status = supervisor.status()
    assert status.last_error == "the model file has vanished"
    assert status.state in ("starting", "backing_off")
    with pytest.raises(WorkerUnavailable):
        supervisor.submit(request("r"))
    marker.unlink()
    await until(lambda: supervisor.capacity > 0, supervisor)
    assert len(await read_all(supervisor.submit(request("r")))) > 0


async def test_stop_ends_live_requests_with_an_error(make_supervisor: MakeSupervisor) -> None:
    supervisor = make_supervisor()
    await supervisor.start()
    mailbox = supervisor.submit(request("r", max_tokens=100_000))
    await mailbox.get()
    await supervisor.stop()
    outputs = await read_all(mailbox)
    assert outputs[-1].finish is not None
    assert outputs[-1].finish.reason == "error"
    assert "shutting down" in (outputs[-1].finish.error or "")
    await supervisor.stop()


async def test_stop_ends_those_who_wait_for_the_next_worker(
    make_supervisor: MakeSupervisor,
) -> None:
    patience = replace(PATIENCE, backoff_first=60, backoff_most=60)
    supervisor = make_supervisor(patience=patience)
    await supervisor.start()
    os.kill(pid_of(supervisor), signal.SIGKILL)
    await until(lambda: supervisor.status().starts == 2 and supervisor.capacity > 0, supervisor)
    mailbox = supervisor.submit(request("r", max_tokens=100_000))
    await mailbox.get()
    os.kill(pid_of(supervisor), signal.SIGKILL)
    await until(lambda: supervisor.status().state == "backing_off", supervisor)
    assert supervisor.live == 1
    await supervisor.stop()
    assert supervisor.live == 0
    outputs = await read_all(mailbox)
    assert outputs[-1].finish is not None
    assert "shutting down" in (outputs[-1].finish.error or "")


async def test_stop_does_not_wait_for_a_hung_worker(make_supervisor: MakeSupervisor) -> None:
    supervisor = make_supervisor(patience=Patience(stop=0.1))
    await supervisor.start()
    pid = pid_of(supervisor)
    mailbox = supervisor.submit(request("r", first_token=HANG))
    await supervisor.stop()
    assert mailbox.finish is not None
    assert is_gone(pid)


async def test_stop_while_starting_leaves_no_process(make_supervisor: MakeSupervisor) -> None:
    supervisor = make_supervisor("silent")
    starting = asyncio.create_task(supervisor.start())
    await asyncio.sleep(0.05)
    await supervisor.stop()
    with pytest.raises(WorkerFailed, match="shutting down"):
        await starting


async def drive(supervisor: Supervisor, seed: int) -> list[tuple[Mailbox, list[Output]]]:
    """Submit, cancel and kill at random moments for a while."""
    dice = random.Random(seed)
    readers: list[tuple[Mailbox, asyncio.Task[list[Output]]]] = []
    kills = 0
    for n in range(300):
        if supervisor.capacity == 0:
            await until(lambda: supervisor.capacity > 0, supervisor)
        max_tokens = dice.choice([1, 3, 20, 100_000])
        mailbox = supervisor.submit(request(f"r{n}", max_tokens))
        readers.append((mailbox, asyncio.create_task(read_all(mailbox))))
        for _ in range(dice.randrange(3)):
            supervisor.cancel(f"r{dice.randrange(n + 1)}")
        if dice.random() < 0.3:
            await asyncio.sleep(dice.random() * 0.004)
        if dice.random() < 0.02 and kills < 6:
            kills += 1
            os.kill(pid_of(supervisor), signal.SIGKILL)
    for mailbox, _ in readers:
        supervisor.cancel(mailbox.id)
    async with asyncio.timeout(60):
        return [(mailbox, await reader) for mailbox, reader in readers]


@pytest.mark.parametrize("seed", [1, 2])
async def test_exactly_one_ending_whatever_happens(
    make_supervisor: MakeSupervisor, seed: int
) -> None:
    supervisor = make_supervisor(max_sequences=300)
    await supervisor.start()
    for mailbox, outputs in await drive(supervisor, seed):
        assert [o.finish is not None for o in outputs] == [False] * (len(outputs) - 1) + [True]
        finish = outputs[-1].finish
        assert finish is not None
        tokens = [token for output in outputs for token in output.tokens]
        assert tokens == list(range(len(tokens)))
        assert finish.completion_tokens == len(tokens), mailbox.id
        assert all(output.id == mailbox.id for output in outputs)
    assert supervisor.live == 0
    assert supervisor.status().starts > 1


async def test_a_fault_of_the_start_itself_is_raised() -> None:
    supervisor = Supervisor(object())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="object"):
        await asyncio.wait_for(supervisor.start(), 10)

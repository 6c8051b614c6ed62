from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from headrace.engine.output import Finish, Output, Prefilled, TokenLogprob
from headrace.fleet.mailbox import MOST_UNREAD, Mailbox

from .conftest import read_all, request


def piece(token: int, logprobs: bool = False) -> Output:
    said = [TokenLogprob(token, -0.5, b"x", [])] if logprobs else None
    return Output(id="r", text=f"{token},", tokens=[token], logprobs=said)


def ending(reason: str = "stop") -> Output:
    finish = Finish(reason=reason, prompt_tokens=3, completion_tokens=1)
    return Output(id="r", finish=finish)


@given(st.lists(st.booleans(), max_size=3 * MOST_UNREAD), st.booleans())
def test_any_pace_of_reading_gives_the_same_generation(reads: list[bool], logprobs: bool) -> None:
    async def scenario() -> list[Output]:
        mailbox = Mailbox(request("r"))
        read = []
        for token, reader_comes in enumerate(reads):
            mailbox.put(piece(token, logprobs))
            if reader_comes:
                read.append(await mailbox.get())
        mailbox.put(ending())
        return read + await read_all(mailbox)

    outputs = asyncio.run(scenario())
    count = len(reads)
    assert "".join(o.text for o in outputs) == "".join(f"{t}," for t in range(count))
    assert [t for o in outputs for t in o.tokens] == list(range(count))
    said = [entry.token for o in outputs for entry in o.logprobs or []]
    assert said == (list(range(count)) if logprobs else [])
    assert [o.finish is not None for o in outputs] == [False] * (len(outputs) - 1) + [True]


async def test_a_reader_that_never_comes_leaves_few_outputs_and_the_rest_in_one() -> None:
    mailbox = Mailbox(request("r"))
    for token in range(1000):
        mailbox.put(piece(token))
    mailbox.put(ending())
    outputs = await read_all(mailbox)
    assert len(outputs) == MOST_UNREAD + 1
    assert [token for output in outputs for token in output.tokens] == list(range(1000))


async def test_a_waiting_reader_is_woken() -> None:
    mailbox = Mailbox(request("r"))
    reader = asyncio.create_task(mailbox.get())
    await asyncio.sleep(0)
    assert not reader.done()
    mailbox.put(piece(7))
    output = await reader
    assert output is not None
    assert output.tokens == [7]


async def test_only_the_first_ending_counts() -> None:
    mailbox = Mailbox(request("r"))
    assert mailbox.put(ending("cancelled"))
    assert not mailbox.put(ending("stop"))
    assert not mailbox.put(piece(1))
    assert not mailbox.end("error", "too late")
    (output,) = await read_all(mailbox)
    assert output.finish is not None
    assert output.finish.reason == "cancelled"
    assert output.tokens == []
    assert await mailbox.get() is None


async def test_an_ending_from_outside_has_the_counts_known_so_far() -> None:
    mailbox = Mailbox(request("r"))
    mailbox.put(replace(piece(1), prefilled=Prefilled(3, 2)))
    await mailbox.get()
    mailbox.put(replace(piece(2), reasoning_tokens=1))
    mailbox.end("error", "the engine is gone")
    said, output = await read_all(mailbox)
    assert said.tokens == [2]
    assert output.finish == Finish(
        reason="error",
        prompt_tokens=3,
        completion_tokens=2,
        cached_tokens=2,
        reasoning_tokens=1,
        error="the engine is gone",
    )


async def test_progress_of_a_prompt_is_kept_and_not_read() -> None:
    mailbox = Mailbox(request("r"))
    told: list[Output] = []
    mailbox.watcher = told.append
    mailbox.put(Output(id="r", prefilled=Prefilled(2, 1)))
    assert not mailbox.pending
    assert mailbox.rest == replace(request("r"), prefilled=Prefilled(2, 1))
    mailbox.end("error", "the engine is gone")
    (output,) = await read_all(mailbox)
    assert told == [output]
    assert output.finish is not None
    assert (output.finish.prompt_tokens, output.finish.cached_tokens) == (2, 1)

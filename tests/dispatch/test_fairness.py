from __future__ import annotations

import random
from uuid import UUID

from hypothesis import example, given, settings
from hypothesis import strategies as st

from headrace.dispatch.cost import OUTPUT, PROMPT
from headrace.dispatch.fairness import Account, VirtualTime
from headrace.dispatch.queue import SLACK

from .play import A, B, Play, entry, policies

MOST_PROMPT, MOST_OUTPUT = 60, 20
DEAREST = PROMPT * MOST_PROMPT + OUTPUT * MOST_OUTPUT

weights = st.sampled_from([1, 2, 3, 7])


class Flood:
    """Keeps so many requests of a tenant waiting, of random size."""

    def __init__(self, play: Play, dice: random.Random, tenant: UUID, weight: int, depth: int):
        self.play, self.dice = play, dice
        self.tenant, self.weight, self.depth = tenant, weight, depth
        self.most_prompt, self.most_output = MOST_PROMPT, MOST_OUTPUT

    def fill(self) -> None:
        parties = self.play.arbiter.queues["default"].parties
        while self.tenant not in parties or parties[self.tenant].waiting < self.depth:
            self.play.add(
                entry(
                    self.tenant,
                    weight=self.weight,
                    prompt=self.dice.randint(1, self.most_prompt),
                    max_tokens=self.dice.randint(1, self.most_output),
                )
            )


def unlimited() -> Play:
    return Play(policies=policies(10_000, deadline=1e9, age=1e9))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 6), weights, weights, st.integers(7, 20))
def test_service_stays_within_the_bound_at_every_moment(
    seed: int, places: int, one: int, other: int, depth: int
) -> None:
    """docs/architecture.md, "How fair": from a fresh start, and over any interval in which both
    wait, whoever else comes and goes. Answers are shorter than may be expected, and caches hold
    what they hold."""
    dice = random.Random(seed)
    play = unlimited()
    play.arbiter.resize(places)
    play.tokens = lambda e: dice.randint(0, e.max_tokens)
    play.cached = lambda e: dice.randrange(e.prompt)
    floods = [Flood(play, dice, A, one, depth), Flood(play, dice, B, other, 10 * depth)]
    room = places * DEAREST / min(one, other)
    ahead = []
    for _ in range(1200):
        for flood in floods:
            flood.fill()
        if dice.random() < 0.1:
            play.add(entry(UUID(int=dice.randint(10, 14)), prompt=dice.randint(1, MOST_PROMPT)))
        play.step()
        ahead.append(play.served[A] / one - play.served[B] / other)
    assert max(map(abs, ahead)) <= SLACK + room
    assert max(ahead) - min(ahead) <= 2 * SLACK + 4 * room


def played(one: Flood, other: Flood, steps: int = 4000) -> float:
    """How much more the second was served than the first."""
    for _ in range(steps):
        one.fill()
        other.fill()
        one.play.step()
    return one.play.served[other.tenant] / one.play.served[one.tenant]


def test_ten_times_as_many_requests_earn_no_more() -> None:
    play, dice = unlimited(), random.Random(1)
    ratio = played(Flood(play, dice, A, 1, 3), Flood(play, dice, B, 1, 30))
    assert 0.95 < ratio < 1.05


def test_weights_one_and_three_give_one_and_three() -> None:
    play, dice = unlimited(), random.Random(2)
    ratio = played(Flood(play, dice, A, 1, 20), Flood(play, dice, B, 3, 20))
    assert 2.85 < ratio < 3.15


def test_long_prompts_earn_no_more_than_short_ones() -> None:
    play, dice = unlimited(), random.Random(3)
    short, long = Flood(play, dice, A, 1, 10), Flood(play, dice, B, 1, 10)
    long.most_prompt *= 50
    short.most_output = long.most_output = 4
    assert 0.9 < played(short, long) < 1.1


def test_idleness_earns_no_credit() -> None:
    """Whoever comes back after an hour shares from then on."""
    play, dice = unlimited(), random.Random(4)
    busy, back = Flood(play, dice, A, 1, 10), Flood(play, dice, B, 1, 10)
    for _ in range(3000):
        busy.fill()
        play.step()
    before = play.served[A]
    for _ in range(1500):
        busy.fill()
        back.fill()
        play.step()
    assert abs((play.served[A] - before) - play.served[B]) <= 2 * SLACK + 16 * DEAREST


def test_an_account_that_gets_all_back_is_where_it_was() -> None:
    account = Account(3)
    account.lift(0.1)
    account.charge(7)
    assert account.time > 0.1
    account.charge(-7)
    assert account.time == 0.1


def test_a_new_weight_changes_nothing_that_was() -> None:
    account = Account(1)
    account.charge(12)
    account.reweigh(3)
    assert account.time == 12
    account.charge(3)
    assert account.time == 13


@given(st.lists(st.tuples(weights, st.integers(0, 100), st.integers(0, 100)), min_size=1))
@example([(1, 7, 0), (1, 0, 7)])
def test_work_before_is_what_turns_come_to(parties: list[tuple[int, int, int]]) -> None:
    """Against serving one unit at a time, always to the smallest counter."""
    time = VirtualTime()
    accounts = []
    for weight, charged, _ in parties:
        accounts.append(Account(weight))
        accounts[-1].charge(charged)
    time.stand(accounts, [])
    backlogs = [backlog for _, _, backlog in parties]
    own, *others = accounts
    end = time.end(own, backlogs[0])
    claimed = backlogs[0] + sum(
        time.work_before(end, other, backlog)
        for other, backlog in zip(others, backlogs[1:], strict=True)
    )
    served = 0
    left = dict(zip(accounts, backlogs, strict=True))
    while True:
        least = min((a for a in accounts if left[a] or a is own), key=lambda a: a.time)
        if not left[least]:
            break  # its turn, and nothing of its own is before the newcomer
        left[least] -= 1
        least.charge(1)
        served += 1
    assert abs(claimed - served) <= sum(weight for weight, _, _ in parties) * 2 + len(parties)

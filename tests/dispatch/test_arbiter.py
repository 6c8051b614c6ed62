from __future__ import annotations

import math
import random
import sys
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.access.tenant import SERVICE_CLASSES
from headrace.dispatch.entry import Entry
from headrace.dispatch.policy import usual_policies
from headrace.dispatch.prefixes import STRIDE
from headrace.dispatch.room import IN_USE, LONG_SHARE
from headrace.dispatch.siblings import Siblings

from .play import A, B, C, Play, entry, policies


def started(play: Play) -> list[Entry]:
    """The order in which places were given, until nobody waits."""
    list(play.order())
    return play.placed


def busy(play: Play) -> Entry:
    """Whoever takes the only place."""
    blocker = entry(C, service_class="batch", max_tokens=1000)
    play.add(blocker)
    assert list(play.running) == [blocker]
    return blocker


# Order.


def test_within_a_tenant_the_earliest_deadline_is_first() -> None:
    play = Play(1)
    blocker = busy(play)
    late, soon, none = entry(asked=9), entry(asked=5), entry()
    play.add(none, late, soon)
    assert started(play) == [blocker, soon, late, none]


def test_one_over_age_goes_before_earlier_deadlines_of_its_tenant() -> None:
    play = Play(1, policies(age=3))
    blocker = busy(play)
    old = entry()
    play.add(old)
    play.now = 3
    soon = entry(asked=5)
    play.add(soon)
    assert started(play) == [blocker, old, soon]


def test_tenants_take_turns_whoever_came_first() -> None:
    play = Play(1)
    blocker = busy(play)
    ones = [entry(A, prompt=2000) for _ in range(3)]
    others = [entry(B, prompt=2000) for _ in range(3)]
    play.add(*ones, *others)
    order = [blocker, ones[0], others[0], ones[1], others[1], ones[2], others[2]]
    assert started(play) == order


def test_among_tenants_that_are_level_the_longest_cached_prefix_is_first() -> None:
    play = Play(1, tokens=100_000)
    names = tuple(bytes([n]) for n in range(4))
    play.add(entry(C, prompt=4 * STRIDE, prefixes=names, max_tokens=1))
    unknown = entry(A, prompt=4 * STRIDE, prefixes=(b"else",))
    known = entry(B, prompt=4 * STRIDE, prefixes=names)
    play.add(unknown, known)
    assert started(play)[1:] == [known, unknown]
    assert known.cached == 4 * STRIDE - 1


def test_classes_share_by_their_shares() -> None:
    """Eight to four to one, within a request or two."""
    play = Play(1, policies(floor=0, deadline=math.inf, age=math.inf))
    for name in SERVICE_CLASSES:
        play.add(*(entry(service_class=name, max_tokens=1) for _ in range(300)))
    for _ in range(260):
        play.step()
    counts = [sum(e.service_class == name for e in play.placed) for name in SERVICE_CLASSES]
    assert counts == pytest.approx([160, 80, 20], abs=3)


def test_a_class_that_waits_is_served_once_an_age() -> None:
    usual = policies(floor=0, deadline=math.inf, age=2, share=1)
    play = Play(1, {**usual, "batch": replace(usual["batch"], share=1e-9)})
    play.add(*(entry(service_class="interactive", max_tokens=1) for _ in range(900)))
    play.add(*(entry(service_class="batch", max_tokens=1) for _ in range(9)))
    play.add(entry(service_class="batch", max_tokens=1))
    turns = []
    for _ in range(900):
        play.step()
        if play.placed[-1].service_class == "batch" and (not turns or play.now - turns[-1] > 0.1):
            turns.append(play.now)
    assert 3 <= len(turns) <= 5
    assert all(b - a >= 2 for a, b in pairwise(turns))


def test_a_floor_is_left_free_while_its_class_is_in_use() -> None:
    play = Play(8)
    play.add(entry(service_class="interactive", max_tokens=1))
    play.step()
    assert not play.running
    play.add(*(entry(service_class="batch", max_tokens=10**6) for _ in range(20)))
    assert len(play.running) == 8 - 2  # a quarter is interactive's; default was never seen
    quick = entry(service_class="interactive")
    play.add(quick)
    assert quick in play.running
    play.now += IN_USE + 60
    for run in play.running:
        run.deadline = math.inf
    play.finish(quick)
    play.now += IN_USE
    play.advance()
    assert len(play.running) == 8


# Long requests.


def test_long_requests_have_few_places_and_pass_nobody_out() -> None:
    play = Play(16)
    play.add(*(entry(A, long=True, prompt=5000) for _ in range(50)))
    assert len(play.running) == 16 // LONG_SHARE
    short = [entry(B) for _ in range(14)]
    play.add(*short)
    assert all(e in play.running for e in short)


def test_short_requests_of_the_same_tenant_pass_its_long_ones() -> None:
    play = Play(8)
    long = [entry(long=True, asked=5) for _ in range(3)]
    short = entry(asked=9)
    play.add(*long, short)
    assert play.placed == [long[0], short]


def test_each_kind_has_half_of_the_cache_to_itself() -> None:
    play = Play(64, tokens=10_000)
    play.add(entry(A, long=True, prompt=3000, max_tokens=100))
    play.add(entry(A, long=True, prompt=3000, max_tokens=100))
    assert len(play.running) == 1
    play.add(*(entry(B, prompt=900, max_tokens=100) for _ in range(20)))
    assert len(play.running) == 1 + 5
    list(play.order())
    play.assert_nothing_left()


def test_a_long_request_that_waited_too_long_for_a_gap_gets_one() -> None:
    """Short ones stand back then, until it fits."""
    play = Play(64, policies(age=1), tokens=10_000)
    play.add(*(entry(B, prompt=900, max_tokens=100) for _ in range(9)))
    long = entry(A, long=True, prompt=8000, max_tokens=100)
    play.add(long)
    for _ in range(1000):
        play.add(entry(B, prompt=900, max_tokens=100))
        play.step()
        if long in play.running:
            break
    assert long in play.running
    assert play.now < 4


def test_no_more_prompts_are_sent_than_keep_the_worker_busy() -> None:
    play = Play(64, tokens=10**6, ahead=1000)
    play.add(*(entry(prompt=400, max_tokens=5) for _ in range(20)))
    assert len(play.running) == 3
    play.step()
    assert len(play.running) == 6


# Turning away.


def test_a_full_queue_turns_away_the_last_of_the_greediest() -> None:
    play = Play(1, policies(3))
    busy(play)
    flood = [entry(A) for _ in range(3)]
    play.add(*flood)
    shed = play.add(entry(A))
    assert shed is not None
    assert shed.reason == "queue_full"
    modest = entry(B)
    assert play.add(modest) is None
    ((victim, reason),) = play.shed
    assert victim is flood[-1]
    assert reason.reason == "queue_full"
    assert play.arbiter.sheds["default", "queue_full"] == 2
    assert modest in started(play)


def test_a_queue_of_none_still_hands_out_free_places() -> None:
    play = Play(2, policies(0))
    assert play.add(entry()) is None
    assert play.add(entry()) is None
    assert len(play.running) == 2
    play.add(entry())
    assert play.arbiter.waiting == 0


def saturated(seconds: float = 3, **options: Any) -> Play:
    """Measured at full load: four places, a token each 10 ms: 8,000 of cost a second, less what
    prompts of 10 tokens take."""
    play = Play(4, policies(**options))
    while play.now < seconds:
        while play.arbiter.waiting < 4:
            play.add(entry(B))
        play.step()
    return play


def test_who_would_be_late_for_certain_is_turned_away_at_once() -> None:
    play = saturated(deadline=60)
    assert play.add(entry(A, asked=play.now + 0.5)) is None  # A has its turn soon
    shed = play.add(*(entry(A, prompt=1000, asked=play.now + 2) for _ in range(9)))
    assert shed is not None
    assert shed.reason == "would_be_late"
    assert 0 < shed.wait < 60
    assert play.add(entry(C, prompt=1000, asked=play.now + 2)) is None, "its turn comes before"


def test_a_deadline_that_has_passed_is_late() -> None:
    play = Play(4)
    shed = play.add(entry(asked=-1))
    assert shed is not None
    assert shed.reason == "would_be_late"


def test_who_waited_in_vain_is_turned_away_at_the_deadline() -> None:
    play = Play(1, policies(deadline=7))
    busy(play)
    late, class_late = entry(asked=5), entry()
    play.add(late, class_late)
    assert play.arbiter.next_deadline == 5
    play.now = 5
    play.advance()
    assert [(e, s.reason) for e, s in play.shed] == [(late, "waited_too_long")]
    assert play.arbiter.next_deadline == 7
    play.now = 7
    play.advance()
    assert play.shed[1][0] is class_late
    assert play.arbiter.next_deadline == math.inf


def test_estimates_hold_under_overload() -> None:
    """Many times what can be served, of all classes and from modest and greedy tenants: whoever
    is let in begins in time, once a rate is known nearly all who aren't are told at once, and
    shares hold."""
    usual = usual_policies(1000)
    patience = {"interactive": (2.0, 1.0), "default": (15.0, 7.0), "batch": (1e6, 1e6)}
    changed = {
        name: replace(policy, deadline=patience[name][0], age=patience[name][1])
        for name, policy in usual.items()
    }
    play, dice = Play(16, changed), random.Random(5)
    kinds = {
        (A, "interactive"): 10,
        (B, "interactive"): 30,
        (A, "default"): 4,
        (B, "default"): 40,
        (C, "batch"): 16,
    }
    let_in: list[Entry] = []
    refused = 0
    while play.now < 40:
        for tenant, name in dice.choices(list(kinds), kinds.values(), k=dice.randint(0, 4)):
            newcomer = entry(tenant, service_class=name, prompt=16, max_tokens=40)
            if play.add(newcomer) is None:
                let_in.append(newcomer)
            else:
                refused += 1
        play.step()
    assert refused > 3000
    assert sum(e.arrived > 5 for e, _ in play.shed) < refused / 100
    begun = [(e, e.placed) for e in let_in if e.placed is not None]
    assert all(placed <= e.deadline for e, placed in begun)
    served = Counter(e.service_class for e, placed in begun if placed > 20)
    total = served.total()
    assert served["interactive"] / total == pytest.approx(8 / 13, abs=0.05)
    assert served["default"] / total == pytest.approx(4 / 13, abs=0.05)


# Nothing is left behind.


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 10), st.sampled_from([0, 5, 1000]))
def test_whatever_happens_nothing_is_left(seed: int, places: int, cap: int) -> None:
    dice = random.Random(seed)
    play = Play(places, policies(cap), tokens=3000, ahead=200)
    play.tokens = lambda e: dice.randint(0, e.max_tokens)
    play.cached = lambda e: dice.randrange(e.prompt)
    waiting: list[Entry] = []
    for _ in range(300):
        for _ in range(dice.randrange(3)):
            newcomer = entry(
                UUID(int=dice.randrange(5)),
                service_class=dice.choice(SERVICE_CLASSES),
                weight=dice.randint(1, 3),
                prompt=dice.randint(1, 400),
                max_tokens=dice.randint(0, 30),
                long=dice.random() < 0.2,
                asked=play.now + dice.choice([0.5, 2, math.inf]),
                prefixes=tuple(dice.choice([b"a", b"b"]) for _ in range(dice.randrange(3))),
            )
            play.add(newcomer)
            waiting.append(newcomer)
        if waiting and dice.random() < 0.3:
            leaver = dice.choice(waiting)
            play.arbiter.withdraw(leaver, play.now)
            assert not play.arbiter.withdraw(leaver, play.now)
        if dice.random() < 0.02:  # the worker dies
            for run in list(play.running):
                play.running.pop(run)
                play.arbiter.end(run, play.now, cached=None, answered=False)
            play.arbiter.resize(0)
            play.advance()
            play.arbiter.resize(places, tokens=3000, ahead=200)
        play.step(dice.choice([0.01, 0.3]))
    play.now += 10_000
    play.advance()
    while play.running:
        play.step()
    play.assert_nothing_left()


def test_ten_thousand_aborts_leave_nothing_and_cost_nothing() -> None:
    play = Play(2, usual_policies(20_000))
    dice = random.Random(6)
    play.add(entry(C, max_tokens=100), entry(C, max_tokens=100))
    waiting = [entry(UUID(int=dice.randrange(500)), prompt=50) for _ in range(10_000)]
    play.add(*waiting)
    dice.shuffle(waiting)
    for leaver in waiting:
        assert play.arbiter.withdraw(leaver, play.now)
    while play.running:
        play.step()
    play.assert_nothing_left()
    queue = play.arbiter.queues["default"]
    assert set(queue.parties) <= {C}
    assert play.arbiter.sheds.total() == 0


def test_who_was_never_let_in_is_not_remembered() -> None:
    play = Play(1, policies(0))
    busy(play)
    for number in range(1000):
        play.add(entry(UUID(int=number)))
    assert not play.arbiter.queues["default"].parties


def test_a_place_that_could_not_be_used_costs_nothing() -> None:
    play = Play(1)
    placed = entry()
    play.add(placed)
    play.running.clear()
    play.arbiter.undo(placed, play.now)
    play.assert_nothing_left()
    assert play.arbiter.queues["default"].account.time == 0


def test_tenants_are_told_of_as_they_are() -> None:
    play = Play(1)
    play.add(entry(A))
    play.now = 2
    play.add(entry(B), entry(B, service_class="batch"))
    play.now = 5
    told = {(t.tenant, t.service_class): t for t in play.arbiter.tenants(play.now)}
    assert (told[A, "default"].queued, told[A, "default"].running) == (0, 1)
    assert (told[B, "default"].queued, told[B, "default"].oldest) == (1, 3)
    assert told[B, "batch"].running == 0


# Cost.


def test_tenants_that_came_once_are_forgotten_though_nobody_ever_waits() -> None:
    play = Play(64)
    for number in range(5000):
        play.add(entry(UUID(int=number), max_tokens=1 + number % 5))
        play.step()
    while play.running:
        play.step()
    assert len(play.arbiter.queues["default"].parties) < 100


def test_tenants_that_came_once_are_forgotten_while_others_wait() -> None:
    play = Play(4, policies(deadline=math.inf, age=math.inf))
    for number in range(2000):
        play.add(entry(UUID(int=number), max_tokens=1), entry(A, max_tokens=1))
        while play.arbiter.waiting > 50:
            play.step()
    assert len(play.arbiter.queues["default"].parties) < 200


class Counted(dict[Any, Any]):
    """Notices when it is walked through."""

    walks = 0

    def values(self) -> Any:
        Counted.walks += 1
        return super().values()

    def __iter__(self) -> Any:
        Counted.walks += 1
        return super().__iter__()


@pytest.mark.parametrize("known", [10, 20_000])
def test_no_request_walks_through_the_tenants(known: int) -> None:
    """The work of 100 requests in calls of Python functions, whatever is known or waits."""
    play = Play(8, policies(10**6, deadline=math.inf, age=math.inf))
    queue = play.arbiter.queues["default"]
    queue.parties = Counted()
    for number in range(known):
        play.add(entry(UUID(int=number), max_tokens=1))
    Counted.walks = 0
    calls = 0

    def count(frame: object, event: str, arg: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        for number in range(100):
            play.add(entry(UUID(int=number), max_tokens=1))
            play.finish(next(iter(play.running)))
    finally:
        sys.setprofile(None)
    assert Counted.walks == 0
    assert calls < 100 * 400


# Answers of several generations.


def test_siblings_of_one_that_has_begun_go_first_and_are_never_turned_away() -> None:
    play = Play(1, policies(4, deadline=5))
    siblings = Siblings()
    first, other = entry(siblings=siblings), entry()
    parts = [entry(siblings=siblings) for _ in range(2)]
    play.add(first, other, *parts)
    assert play.placed == [first]
    late = entry(siblings=siblings)
    assert play.add(late) is None, "whatever waits"
    play.now = 6
    play.advance()
    assert [e for e, _ in play.shed] == [other]
    assert started(play) == [first, *parts, late]
    play.assert_nothing_left()
    assert not siblings.waiting


def test_siblings_of_which_none_has_begun_are_treated_as_any_other() -> None:
    play = Play(1, policies(1, deadline=5))
    busy(play)
    siblings = Siblings()
    parts = [entry(siblings=siblings) for _ in range(2)]
    shed = play.add(*parts)
    assert shed is not None
    assert shed.reason == "queue_full"
    play.now = 5
    play.advance()
    assert [e for e, _ in play.shed] == parts[:1]


# Questions, and what did not come to pass.


def test_to_ask_changes_nothing() -> None:
    play = Play(8)
    play.add(entry(service_class="batch"))
    assert play.arbiter.ask(entry(service_class="interactive"), play.now) is None
    play.add(*(entry(service_class="batch", max_tokens=10**6) for _ in range(20)))
    assert len(play.running) == 8, "no floor is kept for a class that nobody came of"


def test_what_was_withdrawn_did_not_come() -> None:
    play = Play(1)
    busy(play)
    stays = entry(A)
    play.add(stays)
    queue = play.arbiter.queues["default"]
    before = queue.inflow[False].value(play.now), queue.parties[A].inflow[False].value(play.now)
    for _ in range(100):
        leaver = entry(A, prompt=5000)
        play.add(leaver)
        play.now += 0.01
        play.arbiter.withdraw(leaver, play.now)
    after = queue.inflow[False].value(play.now), queue.parties[A].inflow[False].value(play.now)
    assert after == pytest.approx([value * math.exp(-1 / 5) for value in before], abs=1e-6)


def test_a_prompt_that_was_given_up_is_not_taken_for_cached() -> None:
    play = Play(4, tokens=100_000)
    names = tuple(bytes([n]) for n in range(4))
    given_up = entry(A, prompt=4 * STRIDE, prefixes=names)
    play.add(given_up)
    play.running.pop(given_up)
    play.arbiter.end(given_up, play.now, cached=None, answered=False)
    again = entry(A, prompt=4 * STRIDE, prefixes=names)
    play.add(again)
    assert again.cached == 0

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterable
from pathlib import Path

import pytest

from headrace.engine.constraint import Constraint
from headrace.fleet.constraining import REPLAYED, Constraining
from headrace.grammar.grammar import Grammar
from tests.engine.fakes import Form

ROOT = Path(__file__).parents[2]


class Watched:
    """A compiler that notes where it runs."""

    def __init__(self) -> None:
        self.prepared = threading.Event()
        self.threads: set[int] = set()
        self.priorities: set[int] = set()

    def prepare(self) -> None:
        self.threads.add(threading.get_native_id())
        self.prepared.set()

    def compile(self, grammar: Grammar, ending_ids: Iterable[int]) -> Constraint:
        thread = threading.get_native_id()
        self.threads.add(thread)
        self.priorities.add(os.getpriority(os.PRIO_PROCESS, thread))
        if not grammar.text:
            raise ValueError("it is empty")
        return Form(grammar.text, ending_ids)


def test_grammars_are_compiled_on_threads_that_give_way() -> None:
    compiler = Watched()
    made = Constraining(compiler)(Grammar("ab"), frozenset({3}), (), "a").result(10)
    assert made.forced() == [ord("a"), ord("b")]
    assert threading.get_native_id() not in compiler.threads
    if sys.platform == "linux":
        assert compiler.priorities == {min(os.getpriority(os.PRIO_PROCESS, 0) + 10, 19)}


COMPILED = """
import os
from headrace.fleet.constraining import Constraining
from headrace.grammar.grammar import Grammar
from tests.fleet.test_constraining import Watched

compiler = Watched()
Constraining(compiler)(Grammar("ab"), frozenset(), (), 'a').result(60)
print(os.getpriority(os.PRIO_PROCESS, 0), *compiler.priorities)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="threads have no niceness of their own")
@pytest.mark.parametrize("niceness", ["5", "10", "19"])
def test_in_a_nice_process_grammar_threads_are_nicer_still(niceness: str) -> None:
    command = ["nice", "-n", niceness, sys.executable, "-c", COMPILED]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    process, thread = map(int, done.stdout.split())
    assert process >= int(niceness)
    assert thread == min(process + 10, 19)


def test_what_every_grammar_needs_is_made_aside_before_the_first() -> None:
    compiler = Watched()
    Constraining(compiler).open()
    assert compiler.prepared.wait(10)
    assert threading.get_native_id() not in compiler.threads


def test_what_cannot_be_compiled_comes_out_where_it_is_asked_for() -> None:
    with pytest.raises(ValueError, match="it is empty"):
        Constraining(Watched())(Grammar(""), frozenset(), (), "a").result(10)


def test_what_was_taken_before_is_given_again() -> None:
    constraining = Constraining(Watched())
    made = constraining(Grammar("abc"), frozenset({3}), [ord("a"), ord("b")], "a").result(10)
    assert made.forced() == [ord("c")]
    with pytest.raises(ValueError, match="not allowed"):
        constraining(Grammar("abc"), frozenset({3}), [ord("b")], "a").result(10)


class Held(Watched):
    """A compiler that waits for leave, and notes in which order it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.leave = threading.Event()
        self.begun: queue.Queue[str] = queue.Queue()

    def compile(self, grammar: Grammar, ending_ids: Iterable[int]) -> Constraint:
        self.begun.put(grammar.text)
        assert self.leave.wait(60)
        return super().compile(grammar, ending_ids)


def test_a_grammar_does_not_wait_for_many_of_another_owner() -> None:
    compiler = Held()
    constraining = Constraining(compiler)
    many = [constraining(Grammar(f"m{n}"), frozenset(), (), "many") for n in range(20)]
    assert compiler.begun.get(timeout=60) == "m0"
    one = constraining(Grammar("one"), frozenset(), (), "one")
    assert compiler.begun.get(timeout=60) == "one"
    compiler.leave.set()
    assert one.result(60).forced()
    assert all(made.result(60).forced() for made in many)


def test_a_grammar_that_nobody_wants_any_more_is_not_compiled() -> None:
    compiler = Held()
    constraining = Constraining(compiler)
    first = constraining(Grammar("first"), frozenset(), (), "a")
    assert compiler.begun.get(timeout=60) == "first"
    dropped = constraining(Grammar("dropped"), frozenset(), (), "a")
    last = constraining(Grammar("last"), frozenset(), (), "a")
    assert dropped.cancel()
    compiler.leave.set()
    assert last.result(60).forced()
    assert first.result(60).forced()
    assert compiler.begun.get(timeout=60) == "last"


class Taking(Form):
    """Counts what it accepts, and tells when it is told more than one part."""

    def __init__(self, grammar: str, ending_ids: Iterable[int]) -> None:
        super().__init__(grammar, ending_ids)
        self.taken = 0
        self.first, self.leave = threading.Event(), threading.Event()

    def accept(self, token: int) -> None:
        self.taken += 1
        if self.taken == 1:
            self.first.set()
            assert self.leave.wait(60)
        super().accept(token)


def test_a_replay_that_nobody_wants_any_more_ends_early() -> None:
    text = "x" * (20 * REPLAYED)
    form = Taking(text, ())

    class Given(Watched):
        def compile(self, grammar: Grammar, ending_ids: Iterable[int]) -> Constraint:
            return form if grammar.text else super().compile(Grammar("y"), ending_ids)

    constraining = Constraining(Given())
    replay = constraining(Grammar(text), frozenset(), [ord("x")] * len(text), "a")
    assert form.first.wait(60)
    assert replay.cancel()
    form.leave.set()
    assert constraining(Grammar(""), frozenset(), (), "a").result(60).forced()
    assert form.taken == REPLAYED

"""Speculative decoding: tokens are guessed, and one step of the model checks several.

After Leviathan, Kalman and Matias, "Fast Inference from Transformers via Speculative Decoding"
(2023), made simpler and exact by what this engine has anyway. A draw is a function of seed and
position (`engine.draws`), and a row's logits do not depend on what is computed beside it. So
the step computes the last token and its guesses together, a token is drawn after each with the
number of its own position, and a guess that is equal to the token drawn makes the next one's
row the very row that plain decoding would have computed. The first token that differs is the
one to keep, and what lies behind it is dropped. Output is that of plain decoding, bit for bit,
greedy or sampled, whatever was guessed; only time depends on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Items
from dataclasses import dataclass

import structlog

from headrace.engine.costs import StepCosts
from headrace.engine.guess import Guess, Proposer
from headrace.engine.sequence import Sequence

log = structlog.get_logger(__name__)

HOPE = 0.9
"""Chance of a guess about which nothing is known: high, so that it is tried under load too."""

TRUST = 4.0
"""How many guesses' worth that is."""

MARGIN = 1.25
"""How much more a guess must promise than it costs by the measurement at the start, which knows
nothing of long contexts."""

MEMORY, HOUSE_MEMORY = 0.95, 0.998
"""What a guess more leaves of the weight of those before it, of one sequence and of all."""

REPORT_EVERY = 4096
"""Guesses between two lines in the log."""


class Odds:
    """How often guesses of each grade were right; older ones count ever less."""

    __slots__ = ("_memory", "_right", "_tried", "any")

    def __init__(self, grades: int, memory: float) -> None:
        self.any = grades  # one grade more, which counts all guesses
        self._memory = memory
        self._right = [0.0] * (grades + 1)
        self._tried = [0.0] * (grades + 1)

    def chance(self, grade: int, prior: float) -> float:
        return (self._right[grade] + TRUST * prior) / (self._tried[grade] + TRUST)

    def learn(self, grade: int, right: bool) -> None:
        self.fade(grade)
        for each in (grade, self.any):
            self._right[each] += right
            self._tried[each] += 1

    def fade(self, grade: int) -> None:
        """So that a grade that isn't tried any more is tried again one day."""
        for each in {grade, self.any}:
            self._right[each] *= self._memory
            self._tried[each] *= self._memory


@dataclass(slots=True)
class _Line:
    """Guesses of one sequence. chance: that all of them are right."""

    sequence: Sequence
    most: int
    guesses: list[Guess]
    chance: float = 1.0


class Speculator:
    """Decides how many tokens are guessed for each sequence of a step.

    A guess is worth its chance to be right, and costs what one more token adds to the step. It
    is taken if that lifts the tokens a second of the whole step; so much is guessed for one
    stream, where a step waits for memory, little for many, where it is busy with products, and
    nothing for a text that is never guessed right. proposed, accepted: guesses so far, and those
    that were right.
    """

    def __init__(self, proposer: Proposer, costs: StepCosts, *, most: int) -> None:
        """costs: of the model's steps. most: guesses of a sequence in a step."""
        self.most = most
        self.proposed = 0
        self.accepted = 0
        self._proposer = proposer
        self._costs = costs
        self._house = Odds(proposer.grades, HOUSE_MEMORY)
        self._odds: dict[str, Odds] = {}
        self._reported = (0, 0)

    def propose(self, limits: Mapping[Sequence, int], most: int) -> dict[Sequence, list[Guess]]:
        """Guesses for sequences that are a token away from their next, by sequence.

        limits: how many each may have. most: how many all of them may have.
        """
        lines = [_Line(sequence, limit, []) for sequence, limit in limits.items() if limit > 0]
        tokens, expected, seconds = len(limits), float(len(limits)), self._costs(len(limits))
        if not self._pays(lines, tokens, expected, seconds):
            return {}  # a proposer need not even be ready
        able = set(self._proposer.prepare([line.sequence for line in lines]))
        open_lines = lines = [line for line in lines if line.sequence in able]
        while tokens < len(limits) + most and self._pays(open_lines, tokens, expected, seconds):
            seconds += self._proposer.round_seconds(len(open_lines))
            guesses = self._proposer.guess([(line.sequence, line.guesses) for line in open_lines])
            going_on = []
            for line, guess in zip(open_lines, guesses, strict=True):
                chance = line.chance * self._chance(line.sequence, guess.grade)
                extra = MARGIN * (self._costs(tokens + 1) - self._costs(tokens))
                if chance * seconds <= extra * expected or tokens == len(limits) + most:
                    self._fade(line.sequence, guess.grade)
                    continue
                line.guesses.append(guess)
                line.chance = chance
                tokens, expected, seconds = tokens + 1, expected + chance, seconds + extra
                if len(line.guesses) < line.most:
                    going_on.append(line)
            open_lines = going_on
        return {line.sequence: line.guesses for line in lines if line.guesses}

    def learn(self, sequence: Sequence, guesses: Items[Guess], right: int) -> None:
        """The first `right` of these guesses were."""
        learners = [self._house] if sequence.ended else [self._house, self._own(sequence)]
        for i, guess in enumerate(guesses[: right + 1]):
            for odds in learners:
                odds.learn(guess.grade, i < right)
        self.proposed += len(guesses)
        self.accepted += right
        self._report()

    def forget(self, sequence: Sequence) -> None:
        """It has left the engine."""
        self._odds.pop(sequence.request.id, None)
        self._proposer.forget(sequence)

    def _own(self, sequence: Sequence) -> Odds:
        return self._odds.setdefault(sequence.request.id, Odds(self._proposer.grades, MEMORY))

    def _chance(self, sequence: Sequence, grade: int) -> float:
        return self._own(sequence).chance(grade, self._house.chance(grade, HOPE))

    def _pays(self, lines: Items[_Line], tokens: int, expected: float, seconds: float) -> bool:
        """Whether it pays to ask for one guess more for each of these."""
        effort = self._proposer.round_seconds(len(lines)) if lines else 0.0
        if not effort:
            return bool(lines)
        grade = self._house.any
        hoped = sum(line.chance * self._chance(line.sequence, grade) for line in lines)
        extra = effort + MARGIN * (self._costs(tokens + len(lines)) - self._costs(tokens))
        if hoped * seconds > extra * expected:
            return True
        for line in lines:
            if not line.guesses:
                self._fade(line.sequence, grade)
        return False

    def _fade(self, sequence: Sequence, grade: int) -> None:
        self._own(sequence).fade(grade)
        self._house.fade(grade)

    def _report(self) -> None:
        proposed, accepted = self._reported
        if self.proposed - proposed >= REPORT_EVERY:
            log.info(
                "speculation",
                proposed=self.proposed - proposed,
                accepted=self.accepted - accepted,
                acceptance=round((self.accepted - accepted) / (self.proposed - proposed), 3),
            )
            self._reported = (self.proposed, self.accepted)

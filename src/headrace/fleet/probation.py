"""Which requests a new worker gets after one has died, so that one request can't end the others."""

from __future__ import annotations

from collections import deque

GROUPS = 8
"""Suspects are divided into at most so many groups, which go to the worker one after another."""

CLEARING_OUTPUTS = 3
"""A request that a worker has answered so often is cleared. More than one, since a worker computes
a step ahead of what it has told."""

LIVES = 4
"""A request ends with the death of so many workers of which nobody knows what killed them."""


class Probation:
    """Finds the request that kills workers, and lets the others go on.

    After a death everyone who was in the worker is a suspect. Suspects go to the next worker in
    groups, those first that the dead one had answered least, and the next group only once all of
    the last are cleared or have ended. If a worker dies meanwhile, those of the group that weren't
    cleared are divided again. A single one that is left is tried alone: it ends if that worker dies
    too; if it is cleared, the others that were with it are the suspects. New requests wait until no
    suspect is left.

    So a request ends only if it was alone in a worker that died, or if LIVES workers died with it
    and none of the deaths could be explained. This class does no work and knows no worker: it is
    told what happens, and says who is to be sent.
    """

    def __init__(self) -> None:
        self._aboard: dict[str, int] = {}  # in the worker -> how often it was answered there
        self._suspects: set[str] = set()  # of these, in a group and not yet cleared
        self._groups: deque[list[str]] = deque()  # of suspects that wait
        self._trial: list[str] = []  # the one that is to be tried alone
        self._company: list[str] = []  # who waits meanwhile
        self._cleared: list[str] = []  # were in a worker that is gone, and are no suspects
        self._new: list[str] = []
        self._deaths: dict[str, int] = {}  # unexplained, that a live request has seen

    def __contains__(self, id: str) -> bool:
        """Whether the worker has it."""
        return id in self._aboard

    def open(self, id: str) -> None:
        """A new request waits to be sent."""
        self._new.append(id)

    def note(self, id: str) -> None:
        """The worker has answered it with tokens."""
        if id in self._aboard:
            self._aboard[id] += 1
            if self._aboard[id] >= CLEARING_OUTPUTS:
                self._suspects.discard(id)

    def end(self, id: str) -> None:
        """It has ended, wherever it was."""
        self._deaths.pop(id, None)
        self._suspects.discard(id)
        if self._aboard.pop(id, None) is not None:
            return
        for waiting in (self._cleared, self._trial, self._company, self._new, *self._groups):
            if id in waiting:
                waiting.remove(id)

    def due(self) -> list[str]:
        """Who is to be sent now to the worker that runs; they count as sent."""
        sent: list[str] = []
        if self._trial:
            sent, self._trial = self._trial, []
            self._suspects.update(sent)
        elif not (self._company and self._suspects):
            company, self._company = self._company, []
            self._groups.extendleft(reversed(_divided(company)))
            sent, self._cleared = self._cleared, []
            while self._groups and not self._suspects:
                group = self._groups.popleft()
                self._suspects.update(group)
                sent += group
            if not self._suspects:
                sent += self._new
                self._new = []
        for id in sent:
            self._aboard[id] = 0
        return sent

    def lose(self) -> list[str]:
        """The worker is gone. Who is not to go on."""
        aboard, self._aboard = self._aboard, {}
        suspects = sorted(self._suspects, key=lambda id: (aboard[id], id))
        others = sorted(aboard.keys() - self._suspects, key=lambda id: (aboard[id], id))
        self._suspects = set()
        if len(suspects) > 1:
            self._cleared += others
            self._groups.extendleft(reversed(_divided(suspects)))
            return []
        if suspects and not others:
            return self._convict(suspects)
        for id in others:
            self._deaths[id] = self._deaths.get(id, 0) + 1
        spent = [id for id in others if self._deaths[id] >= LIVES]
        left = [id for id in others if self._deaths[id] < LIVES]
        if suspects:
            self._trial, self._company = suspects, left
        else:
            self._groups.extendleft(reversed(_divided(left)))
        return spent

    def _convict(self, alone: list[str]) -> list[str]:
        """It was alone in the worker. It may explain all deaths until now."""
        self._cleared += self._company
        self._company = []
        self._deaths.clear()
        return alone


def _divided(ids: list[str]) -> list[list[str]]:
    size = max(-(-len(ids) // GROUPS), 1)
    return [ids[first : first + size] for first in range(0, len(ids), size)]

"""Which requests a new worker gets after one has died, so that one request can't end others."""

from __future__ import annotations

from collections import deque

GROUPS = 8
"""Suspects are divided into at most so many groups, which go to the worker one after another."""

CLEARING_OUTPUTS = 3
"""A request is cleared when a worker has sent so many outputs of it. More than one is needed, since
a worker computes a step ahead of its outputs."""

LIVES = 4
"""A request ends when so many workers have died with it and no cause was found."""


class Probation:
    """Finds the request that kills workers, and lets the others go on.

    After a death all requests that were in the worker are suspects. Suspects go to the next worker
    in groups. Those with the fewest outputs in the dead worker go first. The next group follows
    when all of the last are cleared or have ended. If a worker dies meanwhile, the suspects of its
    group are divided again. A single suspect that is left is tried alone. It ends if that worker
    dies too. If it is cleared, the requests that were with it become the suspects. New requests
    wait until no suspect is left.

    So a request ends only if it was alone in a worker that died, or if LIVES workers died with it
    and none of the deaths could be explained. This class does no work and knows no worker: it is
    told what happens, and says which requests are to be sent.
    """

    def __init__(self) -> None:
        self._aboard: dict[str, int] = {}  # in the worker -> outputs that it sent
        self._suspects: set[str] = set()  # of these, in a group and not yet cleared
        self._groups: deque[list[str]] = deque()  # of suspects that wait
        self._trial: list[str] = []  # the one that is to be tried alone
        self._company: list[str] = []  # were with it, and wait meanwhile
        self._cleared: list[str] = []  # were in a dead worker, and are no suspects
        self._new: list[str] = []
        self._deaths: dict[str, int] = {}  # unexplained, that a live request has seen

    def __contains__(self, id: str) -> bool:
        """Whether the worker has it."""
        return id in self._aboard

    def open(self, id: str) -> None:
        """A new request waits to be sent."""
        self._new.append(id)

    def note(self, id: str) -> None:
        """The worker has sent an output of it with tokens."""
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
        """The requests to send now to the worker that runs. They count as sent."""
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
        """The worker is gone. Returns the requests that must end."""
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
        """It was alone in the worker, so it may have caused all deaths until now."""
        self._cleared += self._company
        self._company = []
        self._deaths.clear()
        return alone


def _divided(ids: list[str]) -> list[list[str]]:
    size = max(-(-len(ids) // GROUPS), 1)
    return [ids[first : first + size] for first in range(0, len(ids), size)]

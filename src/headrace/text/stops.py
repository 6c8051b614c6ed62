"""Stop texts found in a stream, without sending any of their characters."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable


class StopMatcher:
    """Passes text on until a stop is complete; holds back only what may still become one.

    The stop whose last character comes first wins; of several complete at the same character
    the longest. The text before it is all that is passed on. What is held back is the longest
    tail that is a proper prefix of some stop, so a stream never waits longer than it must. The
    outcome does not depend on how the text is cut into pieces. Linear in the text and in the
    stops: a goto automaton with failure links (Aho and Corasick, CACM 18(6), 1975).

    matched: the stop that was found, None until then; no text is passed on after it.
    """

    def __init__(self, stops: Iterable[str]) -> None:
        """Raises ValueError for an empty stop, which would match everywhere."""
        self.matched: str | None = None
        self._goto: list[dict[str, int]] = [{}]
        self._depth = [0]  # characters a node stands for; at the state this is what is held
        self._found: list[str | None] = [None]  # longest stop that ends at a node
        self._state = 0
        self._held = ""
        for stop in stops:
            self._insert(stop)
        self._fail = self._links()

    @property
    def held(self) -> str:
        """Text that is held back."""
        return self._held

    def feed(self, text: str) -> str:
        """Take text, return what is certain not to be part of a stop."""
        if self.matched is not None:
            return ""
        goto, fail, found, state = self._goto, self._fail, self._found, self._state
        for end, character in enumerate(text, len(self._held) + 1):
            while state and character not in goto[state]:
                state = fail[state]
            state = goto[state].get(character, 0)
            stop = found[state]
            if stop is not None:
                self.matched = stop
                before = (self._held + text)[: end - len(stop)]
                self._held = ""
                return before
        self._state = state
        text = self._held + text
        certain = len(text) - self._depth[state]
        self._held = text[certain:]
        return text[:certain]

    def skip(self, text: str) -> str:
        """Pass text on unsearched, after what was held; no stop reaches across it."""
        return self.finish() + text

    def finish(self) -> str:
        """The text that was held back, now that no more follows it."""
        held, self._held, self._state = self._held, "", 0
        return held

    def _insert(self, stop: str) -> None:
        if not stop:
            raise ValueError("a stop text must not be empty")
        node = 0
        for depth, character in enumerate(stop, 1):
            child = self._goto[node].get(character)
            if child is None:
                child = self._goto[node][character] = len(self._goto)
                self._goto.append({})
                self._depth.append(depth)
                self._found.append(None)
            node = child
        self._found[node] = stop

    def _links(self) -> list[int]:
        """For each node the node of its longest proper suffix; completes `_found` by them."""
        goto, fail = self._goto, [0] * len(self._goto)
        queue = deque(goto[0].values())
        while queue:
            node = queue.popleft()
            for character, child in goto[node].items():
                suffix = fail[node]
                while suffix and character not in goto[suffix]:
                    suffix = fail[suffix]
                fail[child] = goto[suffix].get(character, 0)
                if self._found[child] is None:
                    self._found[child] = self._found[fail[child]]
                queue.append(child)
        return fail

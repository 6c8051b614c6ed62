"""Generated tokens to text that may be sent."""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Protocol

from headrace.text.reasoning import ReasoningSplitter, Thinking
from headrace.text.stops import StopMatcher

_Utf8Decoder = getincrementaldecoder("utf-8")


class Pieces(Protocol):
    """What the pipeline asks of a tokenizer (`text.tokenizer.Tokenizer`)."""

    def piece(self, token_id: int) -> bytes: ...


class TextPipeline:
    """One stream's way from token ids to text: bytes, whole characters, thoughts, stop texts.

    Bytes of a character are held until it is complete; bytes that can't be UTF-8 become
    U+FFFD, as `bytes.decode(errors="replace")` of the whole would give. Control tokens add no
    text, unless they are markers that something looks for. The first token's leading space is
    text: a generation continues its prompt.

    Thoughts are set apart and never searched for stops.
    """

    __slots__ = ("_controls", "_decoder", "_matcher", "_pieces", "_splitter", "_thoughts")

    def __init__(
        self,
        tokenizer: Pieces,
        stop: Iterable[str] = (),
        thinking: Thinking | None = None,
        controls: Mapping[int, str] = MappingProxyType({}),
    ) -> None:
        """thinking: None for a text without thoughts. controls: control tokens that do add text.
        Raises ValueError for an empty stop."""
        self._pieces = tokenizer
        self._splitter = None if thinking is None else ReasoningSplitter(thinking)
        self._controls = {**controls, **({} if thinking is None else thinking.controls)}
        self._thoughts: list[str] = []
        self._decoder = _Utf8Decoder(errors="replace")
        self._matcher = StopMatcher(stop)

    @property
    def matched(self) -> str | None:
        """The stop that ended the text, None while there is none."""
        return self._matcher.matched

    @property
    def held(self) -> int:
        """Characters that are held back, an unfinished one included."""
        unfinished = self._decoder.getstate()[0]
        return len(self._matcher.held) + bool(unfinished)

    @property
    def reasoning_tokens(self) -> int:
        """Tokens that were spent on thoughts."""
        return 0 if self._splitter is None else self._splitter.tokens

    def take_reasoning(self) -> str:
        """Thoughts that became certain since the last call."""
        taken = "".join(self._thoughts)
        self._thoughts.clear()
        return taken

    def feed(self, token_id: int, *, stops: bool = True) -> str:
        """The text that this token made certain; "" once a stop has matched.

        stops False: stops are not looked for in this token's text or across it.
        """
        text = self._decoder.decode(self._piece(token_id))
        if self._splitter is not None:
            text = self._apart(self._splitter.feed(text))
        return self._matcher.feed(text) if stops else self._matcher.skip(text)

    def finish(self) -> str:
        """End of the tokens: what was held back, an unfinished character as U+FFFD.

        "" after a match. A stop that only this U+FFFD completes counts as a match.
        """
        if self.matched is not None:
            return ""
        text = self._decoder.decode(b"", final=True)
        if self._splitter is not None:
            text = self._apart(self._splitter.finish(text))
        return self._matcher.feed(text) + self._matcher.finish()

    def _apart(self, parts: tuple[str, str]) -> str:
        """Keep the thoughts, pass on the answer."""
        thought, text = parts
        if thought:
            self._thoughts.append(thought)
        return text

    def _piece(self, token_id: int) -> bytes:
        control = self._controls.get(token_id)
        return self._pieces.piece(token_id) if control is None else control.encode()

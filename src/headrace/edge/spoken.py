"""What one choice says: its text, and the calls in it."""

from __future__ import annotations

from headrace.engine.output import Output
from headrace.text.tools.parser import CallParser, Parsed


class Spoken:
    """Tells calls from content as outputs come. parser: None where there are no calls. must: the
    answer is calls, and what is none is the beginning of one that was cut off. named: the caller
    chose the function, which OpenAI answers as any other text that ended."""

    def __init__(
        self, parser: CallParser | None, *, must: bool = False, named: bool = False
    ) -> None:
        self._parser = parser
        self._must = must
        self._named = named

    def take(self, output: Output) -> Parsed:
        """What became certain; all that is left with the last output."""
        if self._parser is None:
            return Parsed(output.text)
        parsed = self._parser.feed(output.text)
        if output.finish is not None:
            finish = output.finish
            cut = finish.reason != "stop" or isinstance(finish.matched, str)
            parsed.add(self._parser.finish(cut=cut))
        if self._must:
            parsed.content = ""
        return parsed

    def finish_reason(self, reason: str) -> str:
        """Of the answer, from why its text ended."""
        parser = self._parser
        called = parser is not None and parser.calls > 0 and not parser.unfinished
        return "tool_calls" if called and reason == "stop" and not self._named else reason

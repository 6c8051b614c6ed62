"""The grammar of an answer that may hold function calls, in llguidance's Lark dialect."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from headrace.text.reasoning import MAX_LEAD, Thinking
from headrace.text.tools.format import MAX_WHITE, Shape, ToolFormat

MAX_CALLS = 16
"""Of one answer. Small models that must call tend to go on calling for as long as they may."""

Marker = Callable[[str], int | None]
"""The text of a marker -> its id, if it is a control token of the vocabulary."""

_TERMINALS = f"""
TEXT: /(?s:.*)/
WHITE: /[ \\t\\r\\n]{{0,{MAX_WHITE}}}/
LINE: /(?s:(.*\\n)?)[ \\t\\r;,]{{0,{MAX_WHITE}}}/
"""


def thoughts_rules(thinking: Thinking) -> str:
    """Rules of `thoughts`: all up to the marker that closes them, and that too."""
    ids = {text: id for id, text in thinking.controls.items()}
    closing = ids.get(thinking.closing)
    rules = f"THOUGHTS: /(?s:.*)/ {_quoted(thinking.closing)}\nthoughts_end[lazy]: THOUGHTS\n"
    if closing is not None:
        rules = f"thoughts_end: /(?s:.*)/ <[{closing}]>\n"
    if thinking.begun:
        return f"{rules}thoughts: thoughts_end\n"
    opening = _marker(thinking.opening, ids.get)
    return f"{rules}LEAD: /\\n{{1,2}}/\nthoughts: LEAD? {opening} thoughts_end\n"


def text_behind_thoughts(thinking: Thinking) -> str:
    """A grammar of thoughts, where there are any, and of any text behind them."""
    optional = "" if thinking.begun else "?"
    return f"start: thoughts{optional} TEXT\nTEXT: /(?s:.*)/\n{thoughts_rules(thinking)}"


def answer_behind_thoughts(thinking: Thinking) -> str:
    """A grammar of thoughts, where there are any, and of `@answer`, what is behind them."""
    optional = "" if thinking.begun else "?"
    breaks = "BREAKS: /\\n{1,2}/\n"
    return f"start: (thoughts BREAKS?){optional} @answer\n{breaks}{thoughts_rules(thinking)}"


def calls_grammar(
    format: ToolFormat,
    arguments: Mapping[str, str],
    *,
    must: bool,
    several: bool,
    control: Marker,
    thinking: Thinking | None = None,
    answer: bool = False,
) -> str:
    """A grammar of calls, in Lark.

    arguments: by function, what stands in a rule for its arguments (`%json {...}`). must: the
    answer is calls and nothing else, one to MAX_CALLS, or exactly one if not several. Else it is
    text in which calls may stand, or, with answer, either calls or `@answer`.
    """
    rules = _Rules(format, arguments, several, control)
    body = rules.only_calls() if must or answer else rules.calls_in_text(thinking)
    if answer:
        body = body.replace("start: calls\n", "start: calls | @answer\n", 1)
    if thinking is None or not (must or answer):
        return body
    optional = "" if thinking.begun else "?"
    start, _, rest = body.partition("\n")
    return (
        f"start: (thoughts BREAKS?){optional} rest\nBREAKS: /\\n{{1,2}}/\n"
        f"{thoughts_rules(thinking)}rest: {start.removeprefix('start: ')}\n{rest}"
    )


class _Rules:
    """The parts of such a grammar."""

    def __init__(
        self, format: ToolFormat, arguments: Mapping[str, str], several: bool, control: Marker
    ) -> None:
        self._format = format
        self._names = list(arguments)
        self._several = several
        self._control = control
        self._arguments = "".join(
            f"arguments_{place}: {rule}\n" for place, rule in enumerate(arguments.values())
        )

    def only_calls(self) -> str:
        shape, between = self._format.shapes[0], _quoted(self._format.between)
        call = f"{self._opening(shape)} body_0"
        more = (
            f"({between} call){{0,{MAX_CALLS - 1}}}" if self._several and not shape.listed else ""
        )
        return (
            f"start: calls\ncalls: call {more}\ncall: {call}\n{self._body(0, shape)}"
            f"{_TERMINALS}{self._arguments}"
        )

    def calls_in_text(self, thinking: Thinking | None) -> str:
        """Where thoughts may or may not come first, the text without them is told apart by its
        beginning, so that no call begins within thoughts."""
        may_think = thinking is not None and not thinking.begun
        rest = _in_text(MAX_CALLS if self._several else 1)
        rules = [self._calls("call", "TEXT", "TEXT")]
        start = rest if thinking is None else f"thoughts {rest}"
        if may_think and thinking is not None:
            lead = f"/\\s{{0,{MAX_LEAD}}}/ {_quoted(thinking.opening)} /(?s:.*)/"
            rules += [
                f"THINKS: {lead}\nPLAIN: TEXT & ~THINKS\nplain_tail: PLAIN\n",
                self._calls("plain_call", "PLAIN", "PLAIN"),
            ]
            more = _in_text(MAX_CALLS - 1) if self._several else ""
            start += f" | plain_tail | plain_call {more}"
        thoughts = "" if thinking is None else thoughts_rules(thinking)
        bodies = "".join(
            self._body(place, shape)
            for place, shape in enumerate(self._format.shapes)
            if shape.sure
        )
        return (
            f"start: {start}\ntail: TEXT\n{''.join(rules)}{bodies}{thoughts}"
            f"{_TERMINALS}{self._arguments}"
        )

    def _calls(self, rule: str, text: str, within: str) -> str:
        """A rule of text that ends with a call. text: the terminal of text before a marker;
        within: what the text must also be that ends with the beginning of a call."""
        options: list[str] = []
        rules: list[str] = []
        for place, shape in enumerate(self._format.shapes):
            if shape.sure:
                head = f"{rule}_{place}"
                options.append(f"{head} body_{place}")
                rules.append(self._sure_head(head, shape, text))
                continue
            for index, name in enumerate(self._names):
                head = f"{rule}_{place}_{index}"
                options.append(f'{head} " "? arguments_{index} {self._loose_end(shape)}')
                rules.append(self._loose_head(head, shape, name, within))
        return f"{rule}: {' | '.join(options)}\n{''.join(rules)}"

    def _sure_head(self, head: str, shape: Shape, text: str) -> str:
        """Text up to and with an opening, be it a control token or written out."""
        written = f"{head.upper()}: {text} {_quoted(shape.opening)}\n"
        written += f"{head}_written[lazy]: {head.upper()}\n"
        id = self._control(shape.opening)
        options = f"{head}_written" if id is None else f"{head}_written | {text} <[{id}]>"
        return f"{written}{head}: {options}\n"

    def _loose_head(self, head: str, shape: Shape, name: str, within: str) -> str:
        """Text up to a known function's arguments."""
        opening = f"{_quoted(shape.opening)} WHITE " if shape.opening else ""
        words = ['"name"', ":", json.dumps(name), ",", json.dumps(shape.key), ":"]
        parts = " WHITE ".join(map(_quoted, ["{", *words]))
        terminal = head.upper()
        limits = "" if within == "TEXT" else f"{terminal}_ANY & {within}"
        any_text = f"{terminal}{'_ANY' if limits else ''}: LINE {opening}{parts}\n"
        return f"{any_text}{f'{terminal}: {limits}' if limits else ''}\n{head}[lazy]: {terminal}\n"

    def _loose_end(self, shape: Shape) -> str:
        closing = f" WHITE {_quoted(shape.closing)}" if shape.closing else ""
        return f'WHITE "}}"{closing}'

    def _opening(self, shape: Shape) -> str:
        return _marker(shape.opening, self._control) if shape.opening else ""

    def _body(self, place: int, shape: Shape) -> str:
        """A rule of what follows an opening."""
        closing = _marker(shape.closing, self._control) if shape.closing else ""
        pad = f"{_quoted(shape.pad)} " if shape.pad else ""
        one = f"one_{place}"
        if shape.infix:
            infix = _marker(shape.infix, self._control)
            options = [f"{_quoted(n)} {infix} arguments_{i}" for i, n in enumerate(self._names)]
            return f"body_{place}: {one} {closing}\n{one}: {' | '.join(options)}\n"
        calls = one
        if shape.listed:
            more = f' (", " {one}){{0,{MAX_CALLS - 1}}}' if self._several else ""
            calls = f'"[" {one}{more} "]"'
        options = [
            f"{_quoted(f'{json.dumps(name)}, {json.dumps(shape.key)}: ')} arguments_{index}"
            for index, name in enumerate(self._names)
        ]
        return (
            f"body_{place}: {pad}{calls} {pad}{closing}\n"
            f"""{one}: {_quoted('{"name": ')} ({" | ".join(options)}) "}}"\n"""
        )


def _in_text(most: int) -> str:
    """Text that holds up to so many calls, and ends with the last of them."""
    return f"(call{{0,{most - 1}}} (tail | call))" if most > 1 else "(tail | call)"


def _marker(text: str, control: Marker) -> str:
    id = control(text)
    return _quoted(text) if id is None else f"<[{id}]>"


def _quoted(text: str) -> str:
    return json.dumps(text) if text else ""

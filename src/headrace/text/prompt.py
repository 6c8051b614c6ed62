"""Conversations and texts to the token ids a model is given."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from itertools import cycle, islice, product
from types import MappingProxyType
from typing import Any

from headrace.text.continued import until_end, with_end
from headrace.text.infill import NoInfill
from headrace.text.reasoning import MARKERS, Thinking
from headrace.text.template import DEFAULT_TEMPLATE, ChatTemplate, Message, TemplateError
from headrace.text.tokenizer import Known, Tokenizer
from headrace.text.tools.format import FORMATS, ToolFormat, format_of
from headrace.text.tools.plain import in_words
from headrace.turns.threads import Steps, at_once

# A noncharacter (Unicode 23.7: for internal use, never in interchanged text). It breaks up the
# texts of control tokens while a template is rendered and is gone before text is encoded.
_BREAK = "\ufdd0"

_SAMPLES: tuple[list[Message], ...] = (
    [{"role": "user", "content": "some text"}],
    [
        {"role": "system", "content": "some text"},
        {"role": "user", "content": "more"},
        {"role": "assistant", "content": "and more"},
        {"role": "user", "content": "the rest"},
    ],
)
"""Conversations that show what a template writes around the messages."""

_A_TOOL = ({"type": "function", "function": {"name": "f", "description": "", "parameters": {}}},)

_ROLES = ("system", "user", "assistant")
_FEW = 8
"""Messages of a conversation that shows what one more adds."""


class PromptBuilder:
    """Builds prompts in which users' text is only ever text.

    Texts of control tokens inside what users sent are broken up before the template sees
    them; in the rendered prompt only unbroken ones, which the template wrote, become control
    tokens. A template that writes one around a user's words ("<|" + role + "|>") still does.
    U+FDD0 is removed from users' text. Safe to use from many threads.

    with_tools: the template for conversations with tools, None for the same.
    tool_format: how the model writes calls, by its template's word or the operator's.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        template: ChatTemplate,
        tool_format: ToolFormat | None = None,
        with_tools: ChatTemplate | None = None,
    ) -> None:
        self._tokenizer = tokenizer
        self._controls = tokenizer.controls
        self._template = template
        self._with_tools = with_tools or template
        self._templates = (template,) if with_tools is None else (template, with_tools)
        sources = "".join(each.source for each in self._templates)
        self._markers = next((pair for pair in MARKERS if pair[1] in sources), None)
        self.tool_format = tool_format or format_of(
            self._with_tools.source, knows_tools=_knows_tools(self._with_tools)
        )

    @classmethod
    def for_model(
        cls,
        tokenizer: Tokenizer,
        template: str | None,
        tool_format: str | None = None,
        tool_template: str | None = None,
    ) -> PromptBuilder:
        """With the sources of the model's own templates, or plain turns if it has none.
        tool_format: a name of `FORMATS`; None for the one that the template speaks of.

        Raises TemplateError if the source is no template.
        """
        of_source = partial(
            ChatTemplate, bos_token=tokenizer.bos_token, eos_token=tokenizer.eos_token
        )
        format = FORMATS[tool_format] if tool_format else None
        with_tools = None if tool_template is None else of_source(tool_template)
        return cls(tokenizer, of_source(template or DEFAULT_TEMPLATE), format, with_tools)

    def chat(
        self,
        messages: Sequence[Message],
        *,
        add_generation_prompt: bool = True,
        continue_final: bool = False,
        tools: Sequence[Mapping[str, Any]] | None = None,
        variables: Mapping[str, object] = MappingProxyType({}),
    ) -> list[int]:
        """Prompt of a conversation, with a BOS where the model wants one. variables: what else
        the template is to look up. Tools are described in words where the template knows of none.
        continue_final: the prompt ends where the last message's content does; else
        add_generation_prompt tells whether it ends with the beginning of the assistant's next.

        A call's arguments may be a text, where they are no JSON. A template that can't write a
        text in their place is given an object that has it as `arguments`.

        Raises TemplateError if the template refuses the messages, and Unbroken.
        """
        steps = self.conversation(
            messages,
            add_generation_prompt=add_generation_prompt,
            continue_final=continue_final,
            tools=tools,
            variables=variables,
        )
        return list(at_once(steps))

    def conversation(
        self,
        messages: Sequence[Message],
        *,
        add_generation_prompt: bool = True,
        continue_final: bool = False,
        tools: Sequence[Mapping[str, Any]] | None = None,
        variables: Mapping[str, object] = MappingProxyType({}),
        most: int | None = None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> Steps[array[int]]:
        """The prompt of `chat` in steps: to render it, then to tokenise its parts. most: raises
        TextTooLong for more tokens than that, as soon as it is sure. stopped: whether nobody
        waits for it any more (`ChatTemplate.rendering`)."""
        if any(map(_has_text_arguments, messages)) and not self._takes_text_arguments:
            messages = [_with_object_arguments(message) for message in messages]
        template = self._with_tools if tools else self._template
        if not _knows_tools(template):
            takes_system = template.takes_system
            messages = in_words(messages, tools or (), self.tool_format, takes_system=takes_system)
            tools = None
        elif self.tool_format.short_ids:
            messages = [_with_short_ids(message) for message in messages]
        broken: list[Message] = self._broken(messages)
        rendered = yield from template.rendering(
            with_end(broken) if continue_final else broken,
            {
                "add_generation_prompt": add_generation_prompt and not continue_final,
                "tools": self._broken(tools),
                **self._broken(variables),
            },
            stopped,
        )
        if continue_final:
            rendered = until_end(rendered, broken[-1]["content"])
        yield None
        ids = yield from self._tokenizer.encoding(
            rendered, special=True, without=_BREAK, known=self._own, most=most
        )
        return self._with_bos(ids)

    @property
    def variables(self) -> frozenset[str]:
        """What the templates look up (`ChatTemplate.variables`)."""
        return frozenset[str]().union(*(each.variables for each in self._templates))

    def compared(self, variable: str) -> frozenset[str]:
        """The texts they compare a variable to (`ChatTemplate.compared`)."""
        return frozenset[str]().union(*(each.compared(variable) for each in self._templates))

    @cached_property
    def least_a_message(self) -> int:
        """Tokens that a message of a system, a user or an assistant adds to a prompt at least,
        whatever its text: the least of conversations in which two roles take turns, or one is
        alone. So it is known without rendering that too many messages are too long."""
        added = [
            longer - shorter
            for template in self._templates
            for roles in product(_ROLES, repeat=2)
            for content in ("", "x")
            if (shorter := self._length(template, roles, content, _FEW)) is not None
            and (longer := self._length(template, roles, content, 2 * _FEW)) is not None
        ]
        return max(1, min(added, default=0) // _FEW)

    def _length(
        self, template: ChatTemplate, roles: Sequence[str], content: str, count: int
    ) -> int | None:
        """Tokens of a conversation of so many messages; None if the template refuses it."""
        messages = [{"role": role, "content": content} for role in islice(cycle(roles), count)]
        text = template.probe(messages)
        return None if text is None else len(self._tokenizer.encode(text, special=True))

    @cached_property
    def several_calls(self) -> bool:
        """Whether the template takes an assistant's message with more than one call."""
        calls = [
            {"id": id, "type": "function", "function": {"name": "f", "arguments": {}}}
            for id in ("aaaaaaaaa", "bbbbbbbbb")
        ]
        results = [
            {"role": "tool", "name": "f", "content": "1", "tool_call_id": call["id"]}
            for call in calls
        ]
        asked = {"role": "user", "content": "some text"}
        called = {"role": "assistant", "content": "", "tool_calls": calls}
        try:
            self.chat([asked, called, *results], tools=_A_TOOL if self._templates[1:] else None)
        except TemplateError:
            return False
        return True

    @cached_property
    def _takes_text_arguments(self) -> bool:
        """Whether the template shows arguments of a call that are a text."""
        if not _knows_tools(self._with_tools):
            return True
        text = "some arguments"
        function = {"name": "f", "arguments": text}
        calls = [{"id": "aaaaaaaaa", "type": "function", "function": function}]
        asked = {"role": "user", "content": "some text"}
        called = {"role": "assistant", "content": "", "tool_calls": calls}
        return text in (self._with_tools.probe([asked, called]) or "")

    @cached_property
    def _own(self) -> Known:
        """What the template itself writes between control tokens, and its ids: it is the same in
        every prompt. Of what users sent there is nothing in it."""
        texts: set[str] = set()
        for template, messages in product(self._templates, _SAMPLES):
            texts.update(self._controls.split(template.probe(messages) or ""))
        return {text: self._tokenizer.encode_within(text) for text in texts}

    def control(self, text: str) -> int | None:
        """The id of the control token that a text is the whole of, if it is one."""
        found = self._controls.scan(text)
        spans = [id for start, stop, id in found if (start, stop) == (0, len(text))]
        return spans[0] if spans else None

    def thinking(self, prompt: Sequence[int]) -> Thinking | None:
        """How the answer to a prompt of `chat` tells its thoughts apart; None if the model's
        template knows of no thoughts, or if the prompt ends behind them already."""
        if self._markers is None:
            return None
        opening, closing = self._markers
        controls = self._marker_ids
        # The marker and a line break or two, each of at most so many tokens.
        tail = prompt[-max(len(opening.encode()), len(closing.encode())) - 4 :]
        piece = self._tokenizer.piece
        end = b"".join(controls[id].encode() if id in controls else piece(id) for id in tail)
        if end.rstrip().endswith(closing.encode()):
            return None
        begun = end.rstrip().endswith(opening.encode())
        return Thinking(opening, closing, begun, controls)

    @cached_property
    def _marker_ids(self) -> dict[int, str]:
        """Those markers of thoughts that are control tokens."""
        ids = {self.control(marker): marker for marker in self._markers or ()}
        return {id: marker for id, marker in ids.items() if id is not None}

    def completion(self, text: str, *, special: bool = False) -> list[int]:
        """Prompt of a bare text, with a BOS where the model wants one. special: texts of control
        tokens become control tokens; else all of it is plain."""
        return list(at_once(self.text(text, special=special)))

    def text(
        self, text: str, *, special: bool = False, most: int | None = None
    ) -> Steps[array[int]]:
        """The prompt of `completion` in steps. most: raises TextTooLong for more tokens than that,
        as soon as it is sure."""
        encoding = self._tokenizer.encoding(text, special=special, most=most)
        return self._with_bos((yield from encoding))

    def infill(self, prefix: str, suffix: str) -> list[int]:
        """Prompt that asks for what stands between two texts, all of them plain, with a BOS where
        the model wants one. Raises NoInfill for a model that was not trained for it."""
        return list(at_once(self.gap(prefix, suffix)))

    def gap(self, prefix: str, suffix: str, *, most: int | None = None) -> Steps[array[int]]:
        """The prompt of `infill` in steps. most: raises TextTooLong for more tokens than that in
        one of the texts, as soon as it is sure."""
        infill = self._tokenizer.infill
        if infill is None:
            raise NoInfill(
                "the model has no tokens for fill-in-the-middle, so it takes no 'suffix'"
            )
        before = yield from self._tokenizer.encoding(prefix, most=most)
        after = yield from self._tokenizer.encoding_onwards(suffix, most=most)
        return self._with_bos(array("i", infill.prompt(before, after)))

    @property
    def infill_ends(self) -> frozenset[int]:
        """Ids that end the answer to a prompt of `infill`, beside those that end a turn."""
        infill = self._tokenizer.infill
        return frozenset() if infill is None else infill.ends

    def prepare(self) -> None:
        """Make what prompts need: what long ones do (`Tokenizer.prepare`), and what the templates
        are like, so that no request waits for it."""
        for template in self._templates:
            template.prepare()
        _ = self._own, self._takes_text_arguments, self.several_calls, self.least_a_message
        self._tokenizer.prepare()

    def _with_bos(self, ids: array[int]) -> array[int]:
        bos = self._tokenizer.bos_id
        if not self._tokenizer.add_bos or bos is None or (len(ids) > 0 and ids[0] == bos):
            return ids
        return array("i", [bos]) + ids

    def _broken(self, value: Any) -> Any:
        """The same JSON value with every text in it broken up."""
        if isinstance(value, str):
            return self._broken_ends(self._broken_inside(value))
        if isinstance(value, dict | Mapping):  # a dict is told sooner
            return {self._broken_inside(key): self._field(key, value[key]) for key in value}
        if isinstance(value, list | tuple):
            return [self._broken(item) for item in value]
        return value

    def _field(self, key: str, value: Any) -> Any:
        """Templates compare names of fields and roles, so their ends are left alone."""
        if key == "role" and isinstance(value, str):
            return self._broken_inside(value)
        return self._broken(value)

    def _broken_inside(self, text: str) -> str:
        """Breaks after every character of a control token, so that none that overlaps it
        stays whole either."""
        text = text.replace(_BREAK, "")
        found = self._controls.scan(text)
        if not found:
            return text
        parts, end = [], 0
        for start, stop, _ in found:
            parts += [text[end:start], _BREAK.join(text[start:stop]), _BREAK]
            end = stop
        return "".join([*parts, text[end:]])

    def _broken_ends(self, text: str) -> str:
        """Breaks at ends that together with the template's text could make a control token.
        Inside the white space there, since templates trim."""
        core = text.strip()
        first = _BREAK if self._controls.begins_within(core) else ""
        last = _BREAK if self._controls.ends_within(core) else ""
        return text.replace(core, f"{first}{core}{last}", 1) if first or last else text


def _has_text_arguments(message: Message) -> bool:
    calls = message.get("tool_calls") or ()
    return any(isinstance(call["function"]["arguments"], str) for call in calls)


def _with_object_arguments(message: Message) -> Message:
    """The message with objects in place of arguments that are texts."""
    if not _has_text_arguments(message):
        return message
    calls = []
    for call in message["tool_calls"]:
        function, arguments = call["function"], call["function"]["arguments"]
        if isinstance(arguments, str):
            function = {**function, "arguments": {"arguments": arguments}}
        calls.append({**call, "function": function})
    return {**message, "tool_calls": calls}


def _knows_tools(template: ChatTemplate) -> bool:
    return "tools" in template.variables


def _with_short_ids(message: Message) -> Message:
    """The message with ids of calls that a template for nine letters and digits takes."""
    changed = dict(message)
    if "tool_call_id" in message:
        changed["tool_call_id"] = _short_id(message["tool_call_id"])
    if "tool_calls" in message:
        changed["tool_calls"] = [
            {**call, "id": _short_id(call["id"])} for call in message["tool_calls"]
        ]
    return changed


def _short_id(id: str) -> str:
    return hashlib.sha256(id.encode()).hexdigest()[:9]

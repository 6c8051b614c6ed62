"""Conversations and texts to the token ids a model is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from headrace.text.reasoning import MARKERS, Thinking
from headrace.text.template import DEFAULT_TEMPLATE, ChatTemplate, Message
from headrace.text.tokenizer import Tokenizer

# A noncharacter (Unicode 23.7: for internal use, never in interchanged text). It breaks up the
# texts of control tokens while a template is rendered and is gone before text is encoded.
_BREAK = "\ufdd0"


class PromptBuilder:
    """Builds prompts in which users' text is only ever text.

    Texts of control tokens inside what users sent are broken up before the template sees
    them; in the rendered prompt only unbroken ones, which the template wrote, become control
    tokens. A template that writes one around a user's words ("<|" + role + "|>") still does.
    U+FDD0 is removed from users' text. Safe to use from many threads.
    """

    def __init__(self, tokenizer: Tokenizer, template: ChatTemplate) -> None:
        self._tokenizer = tokenizer
        self._template = template
        self._markers = next((pair for pair in MARKERS if pair[1] in template.source), None)

    @classmethod
    def for_model(cls, tokenizer: Tokenizer, template: str | None) -> PromptBuilder:
        """With the model's own template source, or plain turns if it has none.

        Raises TemplateError if the source is no template.
        """
        special = {"bos_token": tokenizer.bos_token, "eos_token": tokenizer.eos_token}
        return cls(tokenizer, ChatTemplate(template or DEFAULT_TEMPLATE, **special))

    def chat(
        self,
        messages: Sequence[Message],
        *,
        add_generation_prompt: bool = True,
        tools: Sequence[Mapping[str, Any]] | None = None,
        variables: Mapping[str, object] = MappingProxyType({}),
    ) -> list[int]:
        """Prompt of a conversation, with a BOS where the model wants one. variables: what else
        the template is to look up.

        Raises TemplateError if the template refuses the messages.
        """
        rendered = self._template.render(
            self._broken(messages),
            add_generation_prompt=add_generation_prompt,
            tools=self._broken(tools),
            **self._broken(variables),
        )
        return self._with_bos(self._tokenizer.encode(rendered, special=True, without=_BREAK))

    @property
    def variables(self) -> frozenset[str]:
        """What the template looks up (`ChatTemplate.variables`)."""
        return self._template.variables

    def compared(self, variable: str) -> frozenset[str]:
        """The texts it compares a variable to (`ChatTemplate.compared`)."""
        return self._template.compared(variable)

    def thinking(self, prompt: Sequence[int]) -> Thinking | None:
        """How the answer to a prompt of `chat` tells its thoughts apart; None if the model's
        template knows of no thoughts."""
        if self._markers is None:
            return None
        opening, closing = self._markers
        controls = {
            id: marker
            for marker in self._markers
            for start, stop, id in self._tokenizer.controls.scan(marker)
            if (start, stop) == (0, len(marker))
        }
        # The marker and a line break or two, each of at most so many tokens.
        tail = prompt[-len(opening.encode()) - 4 :]
        piece = self._tokenizer.piece
        end = b"".join(controls[id].encode() if id in controls else piece(id) for id in tail)
        begun = end.rstrip().endswith(opening.encode())
        return Thinking(opening, closing, begun, controls)

    def completion(self, text: str) -> list[int]:
        """Prompt of a bare text, all of it plain, with a BOS where the model wants one."""
        return self._with_bos(self._tokenizer.encode(text))

    def _with_bos(self, ids: list[int]) -> list[int]:
        bos = self._tokenizer.bos_id
        if not self._tokenizer.add_bos or bos is None or ids[:1] == [bos]:
            return ids
        return [bos, *ids]

    def _broken(self, value: Any) -> Any:
        """The same JSON value with every text in it broken up."""
        if isinstance(value, str):
            return self._broken_ends(self._broken_inside(value))
        if isinstance(value, Mapping):
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
        parts, end = [], 0
        for start, stop, _ in self._tokenizer.controls.scan(text):
            parts += [text[end:start], _BREAK.join(text[start:stop]), _BREAK]
            end = stop
        return "".join([*parts, text[end:]])

    def _broken_ends(self, text: str) -> str:
        """Breaks at ends that together with the template's text could make a control token.
        Inside the white space there, since templates trim."""
        core = text.strip()
        first = _BREAK if self._tokenizer.controls.begins_within(core) else ""
        last = _BREAK if self._tokenizer.controls.ends_within(core) else ""
        return text.replace(core, f"{first}{core}{last}", 1) if first or last else text

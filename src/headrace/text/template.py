"""Chat templates: messages to the prompt text a model was trained on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import cached_property
from itertools import islice
from typing import Any

import jinja2
from jinja2 import meta, nodes

from headrace.text.metered.context import MeteredContext
from headrace.text.metered.environment import MeteredEnvironment
from headrace.text.metered.meter import BASE_WORK, GivenUp, Meter, OutOfWork
from headrace.text.metered.values import MAX_CHARACTERS
from headrace.turns.threads import ASIDE, Steps, at_once

# For models that come without one: plain turns, which a base model can follow.
DEFAULT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ message['role'] | capitalize }}: {{ message['content'] }}{{ '\\n\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}Assistant:{% endif %}"
)

PLAIN_TURNS = "User: ... Assistant: ..."
"""What that looks like, for logs."""

MAX_SOURCE = 1 << 16
"""Characters of a template; real ones have up to 30,000."""

SMALL_WORK = 1 << 19
"""Units of a render that may be done on the event loop: some 10 ms of processor time at most. Real
templates take less for a short conversation."""

SHORT = 64
"""Messages of a conversation that may be rendered with so little."""

BATCH = 256
"""Pieces of text between two looks at whether a turn is over."""

Message = Mapping[str, Any]


class TemplateError(ValueError):
    """A template that cannot be compiled, or that refuses what it was given."""


class ChatTemplate:
    """A Jinja template run as the ecosystem runs it (Hugging Face's chat templates), sandboxed.

    What a render may do is bounded by the size of what it is given (`text.metered`); all renders
    that only find out what the template is like share one such bound. Content given as parts
    becomes one string, the text parts joined by nothing, unless the template only understands
    parts. The role "developer" becomes "system" if the template's source doesn't mention it. Safe
    to use from many threads.
    """

    def __init__(
        self,
        source: str,
        *,
        bos_token: str,
        eos_token: str,
        now: Callable[[], datetime] = datetime.now,
    ) -> None:
        """now: the moment that templates ask for by `strftime_now`.

        Raises TemplateError if the source is not a template.
        """
        if len(source) > MAX_SOURCE:
            raise TemplateError(
                f"the chat template has {len(source)} characters; up to {MAX_SOURCE} are accepted"
            )
        self.source = source
        self._knows_developer = "developer" in source
        self._probing = Meter(BASE_WORK)
        environment = MeteredEnvironment(now)
        try:
            self._tree = environment.parse(source)
            self._template = environment.from_string(self._tree)
        except jinja2.TemplateSyntaxError as error:
            raise TemplateError(f"chat template, line {error.lineno}: {error.message}") from error
        except (RecursionError, MemoryError, SyntaxError) as error:
            raise TemplateError("the chat template nests too deeply") from error
        except ValueError as error:
            raise TemplateError(f"the chat template cannot be compiled: {error}") from error
        self._constants = {**environment.globals, "bos_token": bos_token, "eos_token": eos_token}

    @cached_property
    def variables(self) -> frozenset[str]:
        """Names that the template looks up in what it is rendered with."""
        names = meta.find_undeclared_variables(self._tree)
        return frozenset(names) - self._template.environment.globals.keys()

    def compared(self, variable: str) -> frozenset[str]:
        """The texts that the template compares a variable to."""
        found: set[str] = set()
        for comparison in self._tree.find_all(nodes.Compare):
            sides = [comparison.expr, *(operand.expr for operand in comparison.ops)]
            if any(isinstance(side, nodes.Name) and side.name == variable for side in sides):
                constants = [const for side in sides for const in _constants(side)]
                found.update(value for value in constants if isinstance(value, str))
        return frozenset(found)

    def render(
        self,
        messages: Sequence[Message],
        *,
        add_generation_prompt: bool = True,
        tools: Sequence[Mapping[str, Any]] | None = None,
        **variables: object,
    ) -> str:
        """The prompt text of a conversation. Fields of a message that are None count as absent.

        Raises TemplateError with the template's own words if it refuses the messages, else with
        what went wrong: a part that is not text, a limit, an error in the template.
        """
        names = {"add_generation_prompt": add_generation_prompt, "tools": tools, **variables}
        return at_once(self.rendering(messages, names))

    def rendering(
        self,
        messages: Sequence[Message],
        variables: Mapping[str, object],
        stopped: Callable[[], bool] = lambda: False,
    ) -> Steps[str]:
        """What `render` does, in steps. The first is short: where the template needs more, the
        work goes aside and begins again. Steps of a long render end between two texts that the
        template puts out. variables: all that the template is given beside the messages.
        stopped: whether nobody waits for the text any more, which is asked within steps too.

        Raises TemplateError, and GivenUp once `stopped`.
        """
        given = (messages, *variables.values())
        adapted = self._adapted(messages)
        if len(messages) <= SHORT and self._is_cheap:
            meter = Meter(SMALL_WORK, given, most=SMALL_WORK)
            with suppress(_NeedsMore), _refusals():
                return _joined(self._pieces(meter, adapted, variables))
        yield ASIDE
        meter = Meter(BASE_WORK, given, stopped=stopped)
        texts: list[str] = []
        pieces, slices = self._pieces(meter, adapted, variables), meter.slices
        with _refusals():
            while batch := list(islice(pieces, BATCH)):
                texts += batch
                if meter.slices != slices:
                    slices = meter.slices
                    yield None
        return _joined(texts)

    def prepare(self) -> None:
        """Find out what the template is like, so that no request waits for it."""
        _ = self._is_cheap, self.takes_system, self._wants_parts, self.variables

    @cached_property
    def _is_cheap(self) -> bool:
        """Whether the shortest conversation takes little work."""
        meter = Meter(SMALL_WORK // 4)
        message: Message = {"role": "user", "content": "some text"}
        names = {"add_generation_prompt": True, "tools": None}
        try:
            self._run(meter, self._adapted([message]), **names)
        except _NeedsMore:
            return False
        except TemplateError:
            return True
        return True

    def probe(self, messages: Sequence[Message], **variables: object) -> str | None:
        """What `render` makes of a short conversation, to see what the template does; None where it
        fails. All such renders together may take what one other may."""
        try:
            names = {"add_generation_prompt": True, "tools": None, **variables}
            return self._run(self._probing, self._adapted(messages), **names)
        except TemplateError:
            return None

    @cached_property
    def takes_system(self) -> bool:
        """Whether the words of a system's message show up."""
        text = "some text"
        messages = [{"role": "system", "content": text}, {"role": "user", "content": "more"}]
        return text in (self.probe(messages) or "")

    def _adapted(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        return [self._adapt(index, message) for index, message in enumerate(messages)]

    def _adapt(self, index: int, message: Message) -> dict[str, Any]:
        adapted = {key: value for key, value in message.items() if value is not None}
        if "content" in adapted:
            texts = _texts(adapted["content"], f"messages[{index}].content")
            parts = [{"type": "text", "text": text} for text in texts]
            adapted["content"] = parts if self._wants_parts else "".join(texts)
        if adapted.get("role") == "developer" and not self._knows_developer:
            adapted["role"] = "system"
        return adapted

    @cached_property
    def _wants_parts(self) -> bool:
        """Whether text shows up when given as a part but not when given as a string."""
        text = "some text"
        return not self._shows(text, text) and self._shows([{"type": "text", "text": text}], text)

    def _shows(self, content: object, text: str) -> bool:
        message = {"role": "user", "content": content}
        try:
            return text in self._run(self._probing, [message], tools=None)
        except TemplateError:
            return False

    def _run(self, meter: Meter, messages: list[dict[str, Any]], **variables: object) -> str:
        with _refusals():
            return _joined(self._pieces(meter, messages, variables))

    def _pieces(
        self, meter: Meter, messages: list[dict[str, Any]], variables: Mapping[str, object]
    ) -> Iterator[str]:
        """The texts that the template puts out, within `_refusals`."""
        # As `new_context` makes it, which looks up every global for every render.
        names = {**self._constants, "messages": messages, **variables}
        context = MeteredContext(self._template.environment, names, None, self._template.blocks)
        context.meter = meter
        pieces: Iterator[str] = self._template.root_render_func(context)
        return pieces


@contextmanager
def _refusals() -> Iterator[None]:
    """Raises TemplateError for what goes wrong while a template runs."""
    try:
        yield
    except (GivenUp, TemplateError):
        raise
    except OutOfWork as error:
        raise _NeedsMore(error.message) from error
    except jinja2.TemplateError as error:
        raise TemplateError(error.message or "the chat template failed") from error
    except Exception as error:  # a template can raise whatever Python can
        raise TemplateError(f"the chat template failed: {error}") from error


class _NeedsMore(TemplateError):
    """The template wants more work than its meter has."""


def _joined(texts: Iterable[str]) -> str:
    text = "".join(texts)
    if len(text) > MAX_CHARACTERS:
        raise TemplateError(f"the chat template made more than {MAX_CHARACTERS} characters")
    return text


def _constants(node: nodes.Expr) -> list[object]:
    """The values of a constant, or of a list or tuple of them."""
    if isinstance(node, nodes.Const):  # jinja2 folds a list of constants into one
        return list(node.value) if isinstance(node.value, list | tuple) else [node.value]
    items = node.items if isinstance(node, nodes.List | nodes.Tuple) else []
    return [item.value for item in items if isinstance(item, nodes.Const)]


def _texts(content: object, place: str) -> list[str]:
    """Texts of a message's content, given as a string or as parts of type text."""
    if isinstance(content, str):
        return [content]
    if not isinstance(content, list | tuple):
        raise TemplateError(f"{place} must be a string or a list of parts")
    for index, part in enumerate(content):
        if not isinstance(part, Mapping) or part.get("type") != "text":
            raise TemplateError(f"{place}[{index}] is not a part of type 'text'")
        if not isinstance(part.get("text"), str):
            raise TemplateError(f"{place}[{index}].text must be a string")
    return [part["text"] for part in content]

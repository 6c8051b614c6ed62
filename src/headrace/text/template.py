"""Chat templates: messages to the prompt text a model was trained on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from time import monotonic
from typing import Any, NoReturn

import jinja2
from jinja2 import meta, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

# For models that come without one: plain turns, which a base model can follow.
DEFAULT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ message['role'] | capitalize }}: {{ message['content'] }}{{ '\\n\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}Assistant:{% endif %}"
)

MAX_CHARACTERS = 32 << 20  # of a rendered prompt, and of any string that `*` makes on the way
MAX_SECONDS = 10.0

Message = Mapping[str, Any]


class TemplateError(ValueError):
    """A template that cannot be compiled, or that refuses what it was given."""


class ChatTemplate:
    """A Jinja template run as the ecosystem runs it (Hugging Face's chat templates), sandboxed.

    Bounded in output, in the size of products and in time; the time is looked at on every call
    and piece of output. Content given as parts becomes one string, the text parts joined by
    nothing, unless the template only understands parts. The role "developer" becomes "system"
    if the template's source doesn't mention it. Safe to use from many threads.
    """

    def __init__(self, source: str, *, bos_token: str, eos_token: str) -> None:
        """Raises TemplateError if the source is not a template."""
        self.source = source
        self._knows_developer = "developer" in source
        environment = _Environment()
        try:
            self._tree = environment.parse(source)
            self._template = environment.from_string(self._tree)
        except jinja2.TemplateSyntaxError as error:
            raise TemplateError(f"chat template, line {error.lineno}: {error.message}") from error
        except RecursionError as error:
            raise TemplateError("the chat template nests too deeply") from error
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
        adapted = [self._adapt(i, message) for i, message in enumerate(messages)]
        return self._run(
            adapted, add_generation_prompt=add_generation_prompt, tools=tools, **variables
        )

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
        try:
            return text in self._run([{"role": "user", "content": content}], tools=None)
        except TemplateError:
            return False

    def _run(self, messages: list[dict[str, Any]], **variables: object) -> str:
        # As `new_context` makes it, which looks up every global for every render.
        names = {**self._constants, "messages": messages, **variables}
        context = _Context(self._template.environment, names, None, self._template.blocks)
        pieces: list[str] = []
        size = 0
        try:
            for piece in self._template.root_render_func(context):
                _check_time(context)
                size += len(piece)
                _check_size(size)
                pieces.append(piece)
        except jinja2.TemplateError as error:
            raise TemplateError(error.message or "the chat template failed") from error
        except Exception as error:  # a template can raise whatever Python can
            raise TemplateError(f"the chat template failed: {error}") from error
        return "".join(pieces)


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


class _Context(Context):
    """A render's variables, and when it has to be done (monotonic seconds)."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.deadline = monotonic() + MAX_SECONDS


class _Environment(ImmutableSandboxedEnvironment):
    """What the ecosystem's templates expect to find, and limits on what they may use up."""

    context_class = _Context
    intercepted_binops = frozenset({"*", "**"})

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[_GenerationTag, "jinja2.ext.loopcontrols"],
        )
        self.filters["tojson"] = _to_json
        self.globals["raise_exception"] = _raise_exception
        self.globals["strftime_now"] = _strftime_now

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Refuses what a small template could make huge; called for `*` and `**`."""
        if operator == "**":
            raise jinja2.TemplateRuntimeError("'**' is not available in chat templates")
        for sequence, times in ((left, right), (right, left)):
            if isinstance(sequence, str | list | tuple) and isinstance(times, int):
                _check_size(len(sequence) * times)
        return super().call_binop(context, operator, left, right)

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        _check_time(__context)
        return super().call(__context, __obj, *args, **kwargs)


class _GenerationTag(Extension):
    """`{% generation %}` marks what an assistant wrote, for training; here it is only a block."""

    tags = {"generation"}  # noqa: RUF012 (as the base class declares it)

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)


def _check_time(context: Context) -> None:
    if isinstance(context, _Context) and monotonic() > context.deadline:
        raise jinja2.TemplateRuntimeError(f"the chat template ran longer than {MAX_SECONDS} s")


def _check_size(characters: int) -> None:
    if characters > MAX_CHARACTERS:
        raise jinja2.TemplateRuntimeError(
            f"the chat template made more than {MAX_CHARACTERS} characters"
        )


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _strftime_now(pattern: str) -> str:
    return datetime.now().strftime(pattern)


def _to_json(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON without the escapes for HTML that Jinja's own filter makes."""
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )

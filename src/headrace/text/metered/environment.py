"""The environment that templates run in."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import jinja2
from jinja2 import nodes, pass_context
from jinja2.runtime import BlockReference, Context, LoopContext, Macro, TemplateReference
from jinja2.sandbox import ImmutableSandboxedEnvironment, SandboxedFormatter
from jinja2.utils import Cycler, Namespace

from headrace.text.metered.context import MeteredContext
from headrace.text.metered.filters import BODY, LOOP, all_filters
from headrace.text.metered.functions import raise_exception, strftime_of
from headrace.text.metered.generator import MeteredGenerator
from headrace.text.metered.meter import Meter
from headrace.text.metered.operations import (
    bound_of_method,
    formatted,
    product,
    spend_for_fields,
    work_of_digits,
)
from headrace.text.metered.passes import counted
from headrace.text.metered.prices import ABSENT, CALL, LOOKUP, STEP, work_of
from headrace.text.metered.sizes import COUNTED, PART, SLOT, length_of
from headrace.text.metered.tag import GenerationTag
from headrace.text.metered.tests import all_tests
from headrace.text.metered.values import (
    MAX_CHARACTERS,
    as_text,
    check_length,
    checked,
    spend_for_text,
    unmarked,
)

_CALLERS = ("_loop_vars", "_block_vars")  # what generated code adds to a call

_STRING_METHODS = frozenset(
    {
        "capitalize", "casefold", "center", "count", "endswith", "find", "format", "index",
        "isalnum", "isalpha", "isascii", "isdecimal", "isdigit", "islower", "isnumeric", "isspace",
        "istitle", "isupper", "join", "ljust", "lower", "lstrip", "partition", "removeprefix",
        "removesuffix", "replace", "rfind", "rindex", "rjust", "rpartition", "rsplit", "rstrip",
        "split", "splitlines", "startswith", "strip", "swapcase", "title", "upper", "zfill",
    }
)  # fmt: skip
_DICT_METHODS = frozenset({"copy", "get", "items", "keys", "values"})
_OWN_OBJECTS = (BlockReference, Cycler, LoopContext, Macro, Namespace, TemplateReference)

_PLAIN = (dict, list, tuple, str)
_fields_of = object.__getattribute__


class MeteredEnvironment(ImmutableSandboxedEnvironment):
    """What the ecosystem's templates expect to find, as far as its cost can be bounded."""

    code_generator_class = MeteredGenerator
    context_class = MeteredContext
    intercepted_binops = frozenset({"-", "*", "%", "**", "//"})

    def __init__(self, now: Callable[[], datetime]) -> None:
        """now: what `strftime_now` tells."""
        self._whole = 0
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            optimized=False,  # it would compute constants when it compiles, without a meter
            extensions=[GenerationTag, "jinja2.ext.loopcontrols"],
        )
        self.filters = all_filters()
        self.tests = all_tests()  # type: ignore[assignment]
        del self.globals["lipsum"]
        self.globals["raise_exception"] = raise_exception
        self.globals["strftime_now"] = strftime_of(now)

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = super()._parse(source, name, filename)
        if tree.find(nodes.EvalContextModifier):
            raise jinja2.TemplateSyntaxError("'autoescape' is not available in chat templates", 1)
        for loop in list(tree.find_all(nodes.For)):
            parts = [*loop.body] if loop.test is None else [loop.test, *loop.body]
            paid = STEP + sum(map(work_of, parts))
            loop.iter = _charged(loop.iter, LOOP, paid, loop.lineno)
        for block in _bodies(tree):
            paid = sum(map(work_of, [*getattr(block, "defaults", ()), *block.body]))
            charge = _charged(nodes.Const(None), BODY, paid, block.lineno)
            block.body.insert(0, nodes.ExprStmt(charge, lineno=block.lineno))
        tree.set_environment(self)
        self._whole = work_of(tree)
        return tree

    # What the generated code calls

    def text(self, context: MeteredContext, value: Any) -> str:
        """The value as text, as it is put out."""
        meter = context.meter
        text = value if type(value) is str else as_text(meter, value)
        meter.left -= len(text) + SLOT
        if meter.left < 0:
            meter.refill()
        return text

    def sum(self, context: MeteredContext, value: Any) -> str:
        """What `added` gave, as it is put out."""
        return value if type(value) is str else self.text(context, value)

    def joined(self, context: MeteredContext, values: tuple[Any, ...]) -> str:
        """`~` of all."""
        texts = [self.text(context, value) for value in values]
        check_length(sum(map(len, texts)))
        return "".join(texts)

    def added(self, context: MeteredContext, values: tuple[Any, ...]) -> Any:
        """`+` of all, from the left."""
        meter = context.meter
        try:
            size = sum(map(len, values))
            meter.left -= size + SLOT
            if meter.left < 0:
                meter.refill()
            if size > MAX_CHARACTERS:
                check_length(size)
            return "".join(values)
        except TypeError:  # not all are texts
            meter.spend(STEP)
        total = values[0]
        for value in values[1:]:
            meter.spend(length_of(total) + length_of(value) + SLOT)
            total = checked(unmarked(total + value))
            if isinstance(total, str):
                check_length(len(total))
        return total

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        assert isinstance(context, MeteredContext)
        if operator == "**":
            raise jinja2.TemplateRuntimeError("'**' is not available in chat templates")
        if operator == "*":
            return product(context.meter, left, right)
        if operator == "%" and isinstance(left, str):
            return formatted(context.meter, left, right)
        if not isinstance(left, int | float) or not isinstance(right, int | float):
            raise TypeError(f"'{operator}' takes numbers in chat templates")
        if isinstance(left, int) and isinstance(right, int):
            context.meter.spend(work_of_digits(left, right))
        return checked(super().call_binop(context, operator, left, right))

    def read(self, context: MeteredContext, value: Any) -> Any:
        """The value, which is read whole, as to be compared."""
        meter = context.meter
        if isinstance(value, str):
            meter.spend(len(value))
        elif isinstance(value, COUNTED):
            meter.spend_on(value, PART)
        return value

    def searched(self, context: MeteredContext, value: Any) -> Any:
        """The value, in which a constant is looked for."""
        if not isinstance(value, dict):
            context.meter.spend(length_of(value))
        return value

    def made(self, context: MeteredContext, value: Any) -> Any:
        """The value, which is new, and no larger than what it was made of."""
        context.meter.spend(length_of(value) + SLOT)
        return unmarked(value)

    def field(self, context: MeteredContext, obj: Any, attribute: str) -> Any:
        """`obj.attribute`."""
        if type(obj) is dict and attribute not in _DICT_METHODS:
            fields = obj
        elif type(obj) is Namespace and not attribute.startswith("_"):
            fields = _fields_of(obj, "_Namespace__attrs")
        else:
            context.meter.spend(LOOKUP)
            return self.getattr(obj, attribute)
        try:
            return fields[attribute]
        except KeyError:
            context.meter.spend(ABSENT)
            return self.undefined(obj=obj, name=attribute)

    def item(self, context: MeteredContext, obj: Any, key: Any) -> Any:
        """`obj[key]`."""
        kind = type(obj)
        if kind is Namespace and type(key) is str:
            return self.field(context, obj, key)
        if kind in _PLAIN:
            try:
                return obj[key]
            except (TypeError, LookupError):
                pass
        context.meter.spend(LOOKUP)
        return self.getitem(obj, key)

    def getattr(self, obj: Any, attribute: str) -> Any:
        if type(obj) is dict and attribute not in _DICT_METHODS:
            try:
                return obj[attribute]
            except KeyError:
                return self.undefined(obj=obj, name=attribute)
        return super().getattr(obj, attribute)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        if isinstance(obj, str):
            return attr in _STRING_METHODS
        if isinstance(obj, dict):
            return attr in _DICT_METHODS
        if isinstance(obj, list | tuple):
            return attr in ("count", "index")
        return isinstance(obj, _OWN_OBJECTS) and super().is_safe_attribute(obj, attr, value)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        owner = getattr(value, "__self__", None)
        if not isinstance(owner, str) or value.__name__ != "format":
            return None
        format = str(owner)

        def run(context: MeteredContext, *args: Any, **kwargs: Any) -> str:
            spend_for_fields(context.meter, format, (args, kwargs))
            return SandboxedFormatter(self).vformat(format, args, kwargs)

        return pass_context(run)

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        assert isinstance(__context, MeteredContext)
        meter = __context.meter
        meter.spend(STEP)
        owner = getattr(__obj, "__self__", None)
        if isinstance(owner, str | dict):
            for ours in _CALLERS:
                kwargs.pop(ours, None)
        if isinstance(owner, str):
            name = __obj.__name__
            if name == "join" and args:
                args = (list(counted(meter, args[0], STEP)),)
            spend_for_text(meter, bound_of_method(name, owner, args))
            return __self.made(__context, __obj(*args, **kwargs))
        if isinstance(owner, dict):
            return __self.taken(meter, __obj(*args, **kwargs))
        if isinstance(owner, list | tuple | LoopContext) or isinstance(__obj, LoopContext):
            meter.spend_on((owner, args, kwargs), PART)
        else:
            meter.spend(CALL + sum(map(length_of, args)))
        if isinstance(__obj, LoopContext):  # a pass of a recursive loop costs all there is
            args = tuple(counted(meter, each, __self._whole) for each in args)
        result = super().call(__context, __obj, *args, **kwargs)
        meter.spend(length_of(result))
        return result

    @staticmethod
    def taken(meter: Meter, value: Any) -> Any:
        """The value, which is a dictionary's, or a view or a copy of one."""
        if not isinstance(value, str):
            meter.spend(length_of(value))
        return value


def _charged(node: nodes.Node, filter: str, work: int, line: int) -> nodes.Filter:
    return nodes.Filter(node, filter, [nodes.Const(work)], [], None, None, lineno=line)


def _bodies(tree: nodes.Template) -> list[nodes.Macro | nodes.CallBlock | nodes.Block]:
    """What is run when it is called."""
    return [
        *tree.find_all(nodes.Macro),
        *tree.find_all(nodes.CallBlock),
        *tree.find_all(nodes.Block),
    ]

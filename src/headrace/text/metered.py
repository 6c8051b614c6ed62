"""A Jinja sandbox whose templates can spend a bounded amount of work, and nothing more.

Templates come with model files, and what they are rendered with comes from callers; both may be
hostile. So all that a template does is charged to the render's `Meter` in units of work: loops in
advance, by the size of their bodies; whatever makes or reads a text or a list, by its length.
What can make more than it is given (`*`, `%`, `replace`, `join`, `tojson`, ...) is charged for its
result before it runs. Filters and methods that are not listed here do not exist.
"""

from __future__ import annotations

import json
import re
from collections.abc import (
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
)
from datetime import datetime
from itertools import chain
from string import Formatter
from typing import Any, NoReturn

import jinja2
from jinja2 import nodes, pass_context
from jinja2.compiler import CodeGenerator, Frame
from jinja2.ext import Extension
from jinja2.filters import FILTERS, make_attrgetter
from jinja2.parser import Parser
from jinja2.runtime import BlockReference, Context, LoopContext, Macro, TemplateReference
from jinja2.sandbox import ImmutableSandboxedEnvironment, SandboxedFormatter
from jinja2.tests import TESTS
from jinja2.utils import Cycler, Namespace, _PassArg
from markupsafe import Markup

BASE_WORK = 16 << 20
"""Units that every render may take: about 0.3 s, and at most 16 million characters."""

WORK_FOR_CHARACTER, VALUE = 64, 64
"""Units more for each character that a template is given; a value counts as so many characters
beside its own."""

MAX_WORK = 512 << 20
"""Units that no render may pass. A character that is made takes one, so this bounds memory too."""

MAX_CHARACTERS = 32 << 20  # of one text
MAX_BITS = 16_384  # of an integer
MAX_PADDING = 100_000  # items
MAX_PRECISION = 100  # digits
MAX_INDENT = 16  # characters
MAX_PATTERN = 1000  # characters of strftime's
MAX_REFUSAL = 4000  # characters of a template's own words

_STEP = 64  # units of a call, and of a loop's pass
_MACRO = 256  # of a call of a macro
_NODE = 4  # of each part of a loop's body
_SLOT = 8  # of an item in a list
_NUMBER = 400  # characters of the longest float
_PART = 32  # of a part of a value that is read whole
_LOOP = "__loop__"
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


class Meter:
    """What is left of a render's work. given: what it is rendered with, whose size adds to it
    once the rest is spent."""

    __slots__ = ("_extended", "_given", "_known", "left")

    def __init__(self, work: int, given: tuple[object, ...] = ()) -> None:
        self.left = work
        self._given = given
        self._extended = False
        self._known: frozenset[int] | None = None

    def was_given(self, value: object) -> bool:
        """Whether the value is known to have come with the input, where nothing is shared: of the
        tools, and of the messages' calls."""
        if self._known is None:
            self._known = frozenset(map(id, _parts_of_functions(self._given)))
        return id(value) in self._known

    def spend(self, units: int) -> None:
        """Raises jinja2.TemplateRuntimeError where that is more than is left."""
        self.left -= units
        if self.left < 0:
            self.refill()

    def spend_on(self, value: object, each: int, times: int = 1) -> None:
        """For so many readings of a value as text, with so many units for each part of it."""
        size = _size(value, each, self.left)
        if size > self.left:
            self._add()
            size = _size(value, each, self.left)
        self.spend(times * size)

    def refill(self) -> None:
        """Go on with what the input's size adds. Raises jinja2.TemplateRuntimeError where that
        is not enough."""
        self._add()
        if self.left < 0:
            raise jinja2.TemplateRuntimeError(
                "the chat template takes more work or makes more text than is allowed for what it"
                " was given"
            )

    def _add(self) -> None:
        if not self._extended:
            self._extended = True
            self.left += _work_for(self._given)


def _work_for(given: tuple[object, ...]) -> int:
    most = MAX_WORK - BASE_WORK
    return min(WORK_FOR_CHARACTER * _size(given, VALUE, most // WORK_FOR_CHARACTER), most)


def _parts_of_functions(given: tuple[object, ...]) -> Iterator[object]:
    """Of lists of tools, and of lists of messages with calls."""
    for values in given:
        for value in values if isinstance(values, list | tuple) else ():
            if not isinstance(value, dict):
                continue
            for tool in (value, *(value.get("tool_calls") or ())):
                function = tool.get("function")
                yield from (tool, function)
                if isinstance(function, dict):
                    yield from (function.get("parameters"), function.get("arguments"))


class MeteredContext(Context):
    """A render's variables and its meter."""

    meter: Meter

    def derived(self, locals: dict[str, Any] | None = None) -> MeteredContext:
        context = super().derived(locals)
        assert isinstance(context, MeteredContext)
        context.meter = self.meter
        return context


class _Generator(CodeGenerator):
    """Has the environment do what native operations would do without a bound, and computes
    nothing when it compiles."""

    def visit_Add(self, node: nodes.BinExpr, frame: Frame) -> None:
        terms = [node.right]
        left = node.left
        while isinstance(left, nodes.Add):
            terms.append(left.right)
            left = left.left
        self._call("added", [left, *reversed(terms)], frame)

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:
        self._call("joined", node.nodes, frame)

    def visit_Compare(self, node: nodes.Compare, frame: Frame) -> None:
        operands = [node.expr, *(operand.expr for operand in node.ops)]
        # With a constant it costs no more than the constant's length.
        cheap = sum(map(_is_constant, operands)) >= len(operands) - 1
        self.write("(")
        self._weigh("read", node.expr, frame, cheap)
        for operand in node.ops:
            self.write({"in": " in ", "notin": " not in "}.get(operand.op) or _SIGNS[operand.op])
            if operand.op in ("in", "notin"):
                method = "searched" if cheap else "read"
                self._weigh(method, operand.expr, frame, _is_constant(operand.expr))
            else:
                self._weigh("read", operand.expr, frame, cheap)
        self.write(")")

    def visit_Getitem(self, node: nodes.Getitem, frame: Frame) -> None:
        if isinstance(node.arg, nodes.Slice):
            self.write("environment.made(context, ")
            super().visit_Getitem(node, frame)
            self.write(")")
        else:
            super().visit_Getitem(node, frame)

    def visit_Tuple(self, node: nodes.Tuple, frame: Frame) -> None:
        # A tuple may be a key, which is read whole.
        made = node.ctx == "load" and not _is_constant(node)
        self.write("environment.read(context, " if made else "")
        super().visit_Tuple(node, frame)
        self.write(")" if made else "")

    def _call(self, method: str, terms: Iterable[nodes.Node], frame: Frame) -> None:
        self.write(f"environment.{method}(context, (")
        for term in terms:
            self.visit(term, frame)
            self.write(", ")
        self.write("))")

    def _weigh(self, method: str, node: nodes.Expr, frame: Frame, cheap: bool) -> None:
        self.write("" if cheap else f"environment.{method}(context, ")
        self.visit(node, frame)
        self.write("" if cheap else ")")

    def _output_child_to_const(self, node: nodes.Expr, frame: Frame, finalize: Any) -> str:
        if not isinstance(node, nodes.TemplateData | nodes.Const):
            raise nodes.Impossible
        return super()._output_child_to_const(node, frame, finalize)

    def _output_child_pre(self, node: nodes.Expr, frame: Frame, finalize: Any) -> None:
        # Texts that were joined are paid for.
        if isinstance(node, nodes.Concat):
            self.write("(")
        elif isinstance(node, nodes.Add):
            self.write("environment.sum(context, ")
        else:
            self.write("environment.text(context, ")


_SIGNS = {
    "eq": " == ", "ne": " != ", "gt": " > ", "gteq": " >= ", "lt": " < ", "lteq": " <= ",
}  # fmt: skip


def _is_constant(node: nodes.Node) -> bool:
    if isinstance(node, nodes.List | nodes.Tuple):
        return all(map(_is_constant, node.items))
    return isinstance(node, nodes.Const)


class MeteredEnvironment(ImmutableSandboxedEnvironment):
    """What the ecosystem's templates expect to find, as far as its cost can be bounded."""

    code_generator_class = _Generator
    context_class = MeteredContext
    intercepted_binops = frozenset({"-", "*", "%", "**", "//"})

    def __init__(self) -> None:
        self._whole = 0
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            optimized=False,  # it would compute constants when it compiles, without a meter
            extensions=[_GenerationTag, "jinja2.ext.loopcontrols"],
        )
        self.filters = _filters()
        self.tests = _tests()  # type: ignore[assignment]
        del self.globals["lipsum"]
        self.globals["raise_exception"] = _raise_exception
        self.globals["strftime_now"] = _strftime_now

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = super()._parse(source, name, filename)
        if tree.find(nodes.EvalContextModifier):
            raise jinja2.TemplateSyntaxError("'autoescape' is not available in chat templates", 1)
        for loop in list(tree.find_all(nodes.For)):
            work = nodes.Const(_STEP + sum(map(_work_of, loop.body)))
            loop.iter = nodes.Filter(loop.iter, _LOOP, [work], [], None, None, lineno=loop.lineno)
        tree.set_environment(self)
        self._whole = _work_of(tree)
        return tree

    # What the generated code calls

    def text(self, context: MeteredContext, value: Any) -> str:
        """The value as text, as it is put out."""
        meter = context.meter
        text = value if type(value) is str else _as_text(meter, value)
        meter.left -= len(text) + _SLOT
        if meter.left < 0:
            meter.refill()
        return text

    def sum(self, context: MeteredContext, value: Any) -> str:
        """What `added` gave, as it is put out."""
        return value if type(value) is str else self.text(context, value)

    def joined(self, context: MeteredContext, values: tuple[Any, ...]) -> str:
        """`~` of all."""
        texts = [self.text(context, value) for value in values]
        _check_length(sum(map(len, texts)))
        return "".join(texts)

    def added(self, context: MeteredContext, values: tuple[Any, ...]) -> Any:
        """`+` of all, from the left."""
        meter = context.meter
        try:
            size = sum(map(len, values))
            meter.left -= size + _SLOT
            if meter.left < 0:
                meter.refill()
            if size > MAX_CHARACTERS:
                _check_length(size)
            return "".join(values)
        except TypeError:  # not all are texts
            pass
        total = values[0]
        for value in values[1:]:
            meter.spend(_length(total) + _length(value) + _SLOT)
            total = _checked(_unmarked(total + value))
            if isinstance(total, str):
                _check_length(len(total))
        return total

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        assert isinstance(context, MeteredContext)
        if operator == "**":
            raise jinja2.TemplateRuntimeError("'**' is not available in chat templates")
        if operator == "*":
            return _product(context.meter, left, right)
        if operator == "%" and isinstance(left, str):
            return _formatted(context.meter, left, right)
        if not isinstance(left, int | float) or not isinstance(right, int | float):
            raise TypeError(f"'{operator}' takes numbers in chat templates")
        return _checked(super().call_binop(context, operator, left, right))

    def read(self, context: MeteredContext, value: Any) -> Any:
        """The value, which is read whole, as to be compared."""
        meter = context.meter
        if isinstance(value, str):
            meter.spend(len(value))
        elif isinstance(value, _COUNTED):
            meter.spend_on(value, _PART)
        return value

    def searched(self, context: MeteredContext, value: Any) -> Any:
        """The value, in which a constant is looked for."""
        if not isinstance(value, dict):
            context.meter.spend(_length(value))
        return value

    def made(self, context: MeteredContext, value: Any) -> Any:
        """The value, which is new, and no larger than what it was made of."""
        context.meter.spend(_length(value) + _SLOT)
        return _unmarked(value)

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
            _spend_for_fields(context.meter, format, (args, kwargs))
            return SandboxedFormatter(self).vformat(format, args, kwargs)

        return pass_context(run)

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        assert isinstance(__context, MeteredContext)
        meter = __context.meter
        meter.spend(_MACRO if isinstance(__obj, Macro) else _STEP)
        owner = getattr(__obj, "__self__", None)
        if isinstance(owner, str | dict):
            for ours in _CALLERS:
                kwargs.pop(ours, None)
        if isinstance(owner, str):
            name = __obj.__name__
            if name == "join" and args:
                args = (list(__self.counted(meter, args[0], _STEP)),)
            _spend_for_text(meter, _bound_of_method(name, owner, args))
            return __self.made(__context, __obj(*args, **kwargs))
        if isinstance(owner, dict):
            return __self.taken(meter, __obj(*args, **kwargs))
        if isinstance(owner, list | tuple | LoopContext) or isinstance(__obj, LoopContext):
            meter.spend_on((owner, args, kwargs), _PART)
        else:
            meter.spend(sum(map(_length, args)))
        if isinstance(__obj, LoopContext):  # a pass of a recursive loop costs all there is
            args = tuple(__self.counted(meter, each, __self._whole) for each in args)
        result = super().call(__context, __obj, *args, **kwargs)
        meter.spend(_length(result))
        return result

    @staticmethod
    def taken(meter: Meter, value: Any) -> Any:
        """The value, which is a dictionary's, or a view or a copy of one."""
        if not isinstance(value, str):
            meter.spend(_length(value))
        return value

    @staticmethod
    def counted(meter: Meter, iterable: Any, work: int) -> Any:
        """The iterable, its passes paid for: in advance where it has a length."""
        try:
            count = len(iterable)
        except TypeError:
            return _metered(meter, iterable, work)
        meter.spend(count * work + _SLOT)
        return iterable


def _metered(meter: Meter, iterable: Iterable[Any], work: int) -> Generator[Any]:
    for item in iterable:
        meter.spend(work)
        yield item


def _work_of(node: nodes.Node) -> int:
    """Units that one pass of a loop takes at most for this part of its body."""
    own = _NODE
    if isinstance(node, nodes.TemplateData):
        own += len(node.data)
    elif isinstance(node, nodes.Const) and isinstance(node.value, str):
        own += len(node.value)
    return own + sum(map(_work_of, node.iter_child_nodes()))


# What is known of values


# Abstract types would be told much more slowly.
_SOME: dict[str, str] = {}
_PARTS = (list, tuple, set, type(_SOME.keys()), type(_SOME.values()), type(_SOME.items()))
_COUNTED = (dict, *_PARTS)


def _size(value: object, each: int, most: int) -> int:
    """Characters of a value as text, what it shares counted each time, with so many for each
    part. Looks at no more than `most` needs."""
    total, stack = each, [value]
    while stack and total <= most:
        item = stack.pop()
        if isinstance(item, str):
            total += len(item)
            continue
        if isinstance(item, dict):
            parts: Iterable[Any] = chain(item.keys(), item.values())
            total += 2 * each * len(item)
        elif isinstance(item, _PARTS):
            parts = item
            total += each * len(item)
        elif isinstance(item, Namespace):
            parts = (object.__getattribute__(item, "_Namespace__attrs"),)
            total += each
        else:
            total += item.bit_length() // 3 if isinstance(item, int) else 0
            continue
        for part in parts:
            if type(part) is str:
                total += len(part)
            else:
                stack.append(part)
    return total


def _length(value: object) -> int:
    """What it costs to go through a value once, its items untouched."""
    if isinstance(value, str):
        return len(value)
    return len(value) * _SLOT if isinstance(value, _COUNTED) else 0


def _as_text(meter: Meter, value: object) -> str:
    """The value as Python's own text, paid for where it is not one yet."""
    if type(value) is str:
        return value
    meter.spend_on(value, _PART)
    return str(value)


def _unmarked(value: Any) -> Any:
    """Markup is a text that would escape what it meets."""
    return str(value) if isinstance(value, Markup) else value


def _checked(value: Any) -> Any:
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        raise jinja2.TemplateRuntimeError(
            f"the chat template made an integer of more than {MAX_BITS} bits"
        )
    return value


def _check_length(characters: int) -> None:
    if characters > MAX_CHARACTERS:
        raise jinja2.TemplateRuntimeError(
            f"the chat template made more than {MAX_CHARACTERS} characters"
        )


def _spend_for_text(meter: Meter, characters: int) -> None:
    """For a text of so many characters that is about to be made."""
    _check_length(characters)
    meter.spend(characters)


# Operations that make more than they are given


def _product(meter: Meter, left: Any, right: Any) -> Any:
    for parts, times in ((left, right), (right, left)):
        if isinstance(parts, str | list | tuple) and isinstance(times, int):
            size = _length(parts) * max(times, 0)
            if isinstance(parts, str):
                _check_length(size)
            meter.spend(size + _SLOT)
            return _unmarked(parts * times)
    if not isinstance(left, int | float) or not isinstance(right, int | float):
        raise TypeError("'*' takes numbers, or a number and a text or list")
    if isinstance(left, int) and isinstance(right, int):
        meter.spend(_SLOT)
        if left.bit_length() + right.bit_length() > MAX_BITS:
            _checked(1 << MAX_BITS)
    return left * right


_DIGITS = re.compile(r"\d+")
_STARRED = re.compile(r"%[#0\- +\d.]*\*")


def _widths(text: str) -> int:
    """All numbers in a format's text, each of which may be a width."""
    return sum(int(digits) if len(digits) < 10 else 10**9 for digits in _DIGITS.findall(text))


def _formatted(meter: Meter, format: str, values: Any) -> str:
    """`format % values`."""
    if _STARRED.search(format):
        raise TypeError("'*' is no width in chat templates")
    fields = format.count("%")
    each = _all_of(meter, values) if fields else 0
    _spend_for_text(meter, len(format) + _widths(format) + fields * each)
    return str(format % _unmarked(values))


def _all_of(meter: Meter, values: object) -> int:
    """Characters of all that a format may put in one place."""
    meter.spend_on(values, _NUMBER)
    return _size(values, _NUMBER, MAX_WORK)


def _spend_for_fields(meter: Meter, format: str, values: object) -> None:
    """For `str.format`."""
    size = len(format)
    each = _all_of(meter, values)
    for _, field, spec, _ in Formatter().parse(format):
        if spec and "{" in spec:
            raise TypeError("a width that is a field is not available in chat templates")
        if field is not None:
            size += each + _widths(spec or "")
    _spend_for_text(meter, size)


def _replaced(text: str, old: str, new: str, count: int = -1) -> int:
    """Most characters of `text.replace(old, new, count)`."""
    found = text.count(old) if count < 0 else min(text.count(old), count)
    return len(text) + found * max(len(new) - len(old), 0)


def _width(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError("a width must be a number")
    return max(value, 0)


def _bound_of_method(name: str, text: str, args: tuple[Any, ...]) -> int:
    """Characters that a text's method makes or reads at most."""
    if name in ("center", "ljust", "rjust", "zfill"):
        return len(text) + _width(args[0] if args else None)
    if name == "replace" and len(args) > 1:
        return len(text) + _replaced(text, *args)
    if name == "join" and args:
        return sum(map(len, args[0])) + len(args[0]) * (len(text) + _SLOT)
    return len(text) + sum(map(_length, args))


# Filters and tests


def _raise_exception_(context: MeteredContext, message: object) -> NoReturn:
    raise jinja2.TemplateError(_as_text(context.meter, message)[:MAX_REFUSAL])


_raise_exception = pass_context(_raise_exception_)


@pass_context
def _strftime_now(context: MeteredContext, pattern: str) -> str:
    if len(pattern) > MAX_PATTERN:
        raise ValueError(f"a pattern for a time has up to {MAX_PATTERN} characters")
    context.meter.spend(256 * len(pattern))  # what the library makes of it at most
    return datetime.now().strftime(pattern)


@pass_context
def _to_json(
    context: MeteredContext,
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON without the escapes for HTML that Jinja's own filter makes."""
    meter = context.meter
    if indent is not None and not (isinstance(indent, int) and indent <= MAX_INDENT):
        raise TypeError(f"an indent must be a number up to {MAX_INDENT}")
    if separators is not None and max(map(len, separators)) > MAX_INDENT:
        raise TypeError(f"a separator has up to {MAX_INDENT} characters")
    if not meter.was_given(value):
        meter.spend_on(value, _PART)
    meter.spend(_indents_of(value, indent) if indent else 0)
    text = json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )
    _spend_for_text(meter, len(text))
    return text


def _indents_of(value: object, indent: int) -> int:
    """Characters that a value is indented by, as JSON."""
    total, stack = 0, [(value, 1)]
    while stack:
        item, depth = stack.pop()
        total += indent * depth
        if isinstance(item, dict | list | tuple):
            parts = item.values() if isinstance(item, dict) else item
            stack += [(part, depth + 1) for part in parts]
    return total


@pass_context
def _loop(context: MeteredContext, iterable: Any, work: int) -> Any:
    return MeteredEnvironment.counted(context.meter, iterable, work)


@pass_context
def _string(context: MeteredContext, value: object) -> str:
    return _as_text(context.meter, value)


@pass_context
def _trim(context: MeteredContext, value: object, chars: str | None = None) -> str:
    text = value if type(value) is str else _as_text(context.meter, value)
    context.meter.spend(2 * len(text))
    return text.strip(chars)


@pass_context
def _replace(
    context: MeteredContext, value: object, old: object, new: object, count: int | None = None
) -> str:
    text, old, new = (_as_text(context.meter, each) for each in (value, old, new))
    times = -1 if count is None else count
    _spend_for_text(context.meter, _replaced(text, old, new, times))
    return text.replace(old, new, times)


@pass_context
def _join(
    context: MeteredContext, value: Any, d: object = "", attribute: str | int | None = None
) -> str:
    meter, environment = context.meter, context.environment
    items = list(MeteredEnvironment.counted(meter, value, _STEP))
    if attribute is not None:
        items = list(map(make_attrgetter(environment, attribute), items))
    texts = [_as_text(meter, item) for item in items]
    between = _as_text(meter, d)
    _spend_for_text(meter, sum(map(len, texts)) + len(texts) * len(between))
    return between.join(texts)


@pass_context
def _format(context: MeteredContext, value: object, *args: Any, **kwargs: Any) -> str:
    return _formatted(context.meter, _as_text(context.meter, value), kwargs or args)


@pass_context
def _int(context: MeteredContext, value: object, default: int = 0, base: int = 10) -> int:
    value = value if isinstance(value, int | float) else _as_text(context.meter, value)
    if isinstance(value, str) and len(value) > MAX_BITS:
        raise ValueError("a number that long is not available in chat templates")
    result: int = _checked(FILTERS["int"](value, default, base))
    return result


def _round(value: object, precision: int = 0, method: Any = "common") -> float:
    if not isinstance(value, int | float) or not abs(precision) <= MAX_PRECISION:
        raise TypeError(f"'round' takes a number, and a precision up to {MAX_PRECISION}")
    result: float = FILTERS["round"](value, precision, method)
    return result


def _sum(environment: Any, iterable: Any, attribute: str | None = None, start: Any = 0) -> Any:
    if not isinstance(start, int | float):
        raise TypeError("'sum' takes numbers")
    return _checked(FILTERS["sum"](environment, iterable, attribute, start))


_sum_of = jinja2.pass_environment(_sum)


def _reading(function: Callable[..., Any], times: int = 1) -> Callable[..., Any]:
    """The filter, which reads its value whole so many times at most and makes nothing larger."""
    passes = _PassArg.from_obj(function)

    def run(context: MeteredContext, value: Any, *args: Any, **kwargs: Any) -> Any:
        meter = context.meter
        if isinstance(value, Iterator):
            value = list(_metered(meter, value, _STEP))
        meter.spend_on(value, _PART, times)
        meter.spend(sum(map(_length, args)))
        return _paid(meter, function(*_passed(passes, context), value, *args, **kwargs))

    return pass_context(run)


def _walking(function: Callable[..., Any]) -> Callable[..., Any]:
    """The filter, which goes through its value once and leaves the items as they are."""
    passes = _PassArg.from_obj(function)

    def run(context: MeteredContext, value: Any, *args: Any, **kwargs: Any) -> Any:
        meter = context.meter
        meter.spend(_length(value) * (_SLOT if isinstance(value, str) else 1) + _STEP)
        return _paid(meter, function(*_passed(passes, context), value, *args, **kwargs))

    return pass_context(run)


def _of_text(
    function: Callable[..., Any], bound: Callable[..., int] = lambda text, *args, **kwargs: 0
) -> Callable[..., Any]:
    """The filter, which makes of a text one of its size and what `bound` says of its arguments."""
    passes = _PassArg.from_obj(function)

    def run(context: MeteredContext, value: Any, *args: Any, **kwargs: Any) -> Any:
        meter = context.meter
        text = _as_text(meter, value)
        _spend_for_text(meter, 2 * len(text) + bound(text, *args, **kwargs) + _SLOT)
        meter.spend(sum(map(_length, args)))
        return _unmarked(function(*_passed(passes, context), text, *args, **kwargs))

    return pass_context(run)


def _passed(passes: _PassArg | None, context: MeteredContext) -> tuple[Any, ...]:
    """What a filter of Jinja asks for before its value."""
    match passes:
        case _PassArg.context:
            return (context,)
        case _PassArg.eval_context:
            return (context.eval_ctx,)
        case _PassArg.environment:
            return (context.environment,)
    return ()


def _paid(meter: Meter, result: Any) -> Any:
    """What a filter made, its items paid for when they come where they are not there yet."""
    if isinstance(result, Iterator):
        return _metered(meter, result, _STEP)
    meter.spend(_length(result))
    return _checked(_unmarked(result))


def _indent_bound(text: str, width: int | str = 4, *args: Any, **kwargs: Any) -> int:
    return (text.count("\n") + 2) * (len(width) if isinstance(width, str) else _width(width))


def _batch(value: Any, linecount: int, fill_with: Any = None) -> Iterator[Any]:
    if _width(linecount) > MAX_PADDING:
        raise ValueError(f"'batch' takes up to {MAX_PADDING} items")
    made: Iterator[Any] = FILTERS["batch"](value, linecount, fill_with)
    return made


_TEXT_FILTERS: Mapping[str, Callable[..., int]] = {
    "capitalize": lambda text: 2 * len(text),
    "center": lambda text, width=80: _width(width),
    "escape": lambda text: 5 * len(text),
    "indent": _indent_bound,
    "lower": lambda text: 2 * len(text),
    "title": lambda text: 2 * len(text),
    "truncate": lambda text, *args, **kwargs: 0,
    "upper": lambda text: 2 * len(text),
    "wordcount": lambda text: 0,
}
_READING_FILTERS = {"dictsort": 4, "groupby": 4, "max": 1, "min": 1, "sort": 4, "unique": 1}
_WALKING_FILTERS = (
    "attr", "first", "items", "last", "list", "map", "reject", "rejectattr", "reverse", "select",
    "selectattr", "slice",
)  # fmt: skip


def _filters() -> dict[str, Callable[..., Any]]:
    filters: dict[str, Callable[..., Any]] = {
        "abs": FILTERS["abs"],
        "default": FILTERS["default"],
        "float": FILTERS["float"],
        "length": FILTERS["length"],
        "batch": _walking(_batch),
        "format": _format,
        "int": _int,
        "join": _join,
        "replace": _replace,
        "round": _round,
        "safe": _string,
        "string": _string,
        "sum": _reading(_sum_of),
        "tojson": _to_json,
        "trim": _trim,
        "urlencode": _reading(FILTERS["urlencode"], 12),
        _LOOP: _loop,
    }
    filters |= {name: _of_text(FILTERS[name], bound) for name, bound in _TEXT_FILTERS.items()}
    filters |= {name: _reading(FILTERS[name], n) for name, n in _READING_FILTERS.items()}
    filters |= {name: _walking(FILTERS[name]) for name in _WALKING_FILTERS}
    aliases = {"count": "length", "d": "default", "e": "escape", "forceescape": "escape"}
    return filters | {name: filters[other] for name, other in aliases.items()}


_TESTS: Mapping[str, Callable[..., Any]] = TESTS  # type: ignore[assignment]
_COMPARING_TESTS = (
    "in", "==", "eq", "equalto", "!=", "ne", ">", "gt", "greaterthan", "ge", ">=", "<", "lt",
    "lessthan", "<=", "le",
)  # fmt: skip
_NUMBER_TESTS = ("odd", "even", "divisibleby")
_TEXT_TESTS = ("lower", "upper")


def _tests() -> dict[str, Callable[..., Any]]:
    tests: dict[str, Callable[..., Any]] = {**_TESTS}
    tests |= {name: _comparing(_TESTS[name]) for name in _COMPARING_TESTS}
    tests |= {name: _of_numbers(_TESTS[name]) for name in _NUMBER_TESTS}
    return tests | {name: _of_text(_TESTS[name]) for name in _TEXT_TESTS}


def _comparing(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(context: MeteredContext, left: Any, right: Any) -> Any:
        meter = context.meter
        for value in (left, right):
            meter.spend_on(value, _PART)
        return function(left, right)

    return pass_context(run)


def _of_numbers(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(*values: Any) -> Any:
        if not all(isinstance(value, int | float) for value in values):
            raise TypeError("the test takes numbers")
        return function(*values)

    return run


class _GenerationTag(Extension):
    """`{% generation %}` marks what an assistant wrote, for training; here it is only a block."""

    tags = {"generation"}  # noqa: RUF012 (as the base class declares it)

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)

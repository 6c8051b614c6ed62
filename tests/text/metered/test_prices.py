"""What each part of a template costs is paid for: seconds of processor time a unit."""

from __future__ import annotations

from datetime import datetime
from time import thread_time

import pytest

from headrace.text.metered.context import MeteredContext
from headrace.text.metered.environment import MeteredEnvironment
from headrace.text.metered.meter import NANOSECONDS, Meter, OutOfWork

WORK = 1 << 20
BUSY = 5
"""How many times longer a part may take here: machines differ, and others use this one."""

BEFORE = (
    "{% set ns = namespace(a=0, d={'a': 1}) %}{% set d = {'a': 1} %}{% set e = {} %}"
    "{% set l = ['aa', 'b', 'c'] %}{% set t = 'some text' %}{% set n = 7 %}{% set f = 1.5 %}"
    "{% set big = namespace(i=3) %}{% for i in range(12) %}{% set big.i = big.i * big.i %}"
    "{% endfor %}{% set huge = big.i %}{% set longer = 'x' * 4000 %}"
    "{% macro m() %}{% endmacro %}{% macro p(a, b=1) %}{% if a %}{% endif %}{% endmacro %}"
    "{% macro body() %}" + "{% if ns.a %}{% endif %}" * 50 + "{% endmacro %}"
    "{% macro wrap() %}{{ caller() }}{% endmacro %}"
    "{% set many = range(200) | list %}{% set rows = [{'a': {'b': {'c': 1}}}] * 200 %}"
    "{% set digits = '7' * 4000 %}"
)

KINDS = {
    "field of a namespace": "{% if ns.a %}{% endif %}",
    "no field of a namespace": "{% if ns.b %}{% endif %}",
    "item of a namespace": "{% if ns['a'] %}{% endif %}",
    "field of a dict": "{% if d.a %}{% endif %}",
    "item of a dict": "{% if d['a'] %}{% endif %}",
    "no field of a dict": "{% if d.b %}{% endif %}",
    "no item of a dict": "{% if d['b'] %}{% endif %}",
    "no item by number": "{% if l[9] %}{% endif %}",
    "attribute of a text": "{% if t.upper %}{% endif %}",
    "attribute of a text, format": "{% if t.format %}{% endif %}",
    "attribute of a text, unsafe": "{% if t.encode %}{% endif %}",
    "attribute of a number": "{% if n.real %}{% endif %}",
    "attribute of a dict": "{% if d.items %}{% endif %}",
    "attribute of a list": "{% if l.append %}{% endif %}",
    "attribute of a macro": "{% if m.name %}{% endif %}",
    "loop.last": "{% if loop.last %}{% endif %}",
    "loop.index": "{% if loop.index %}{% endif %}",
    "loop.nextitem": "{% if loop.nextitem %}{% endif %}",
    "loop.length": "{% if loop.length %}{% endif %}",
    "loop.changed": "{% if loop.changed(1) %}{% endif %}",
    "loop.cycle": "{% if loop.cycle(1, 2) %}{% endif %}",
    "undefined name": "{% if nothing %}{% endif %}",
    "undefined compared": "{% if nothing == 1 %}{% endif %}",
    "undefined put out": "{{ nothing }}",
    "name": "{% if t %}{% endif %}",
    "not": "{% if not t %}{% endif %}",
    "and": "{% if t and t %}{% endif %}",
    "text": "x",
    "short texts": "x{{ t }}",
    "number put out": "{{ n }}",
    "float put out": "{{ f / 3 }}",
    "list put out": "{{ l }}",
    "huge put out": "{{ huge % 7 }}",
    "tilde": "{% if t ~ t %}{% endif %}",
    "tilde of numbers": "{% if n ~ n %}{% endif %}",
    "plus of texts": "{% if t + t %}{% endif %}",
    "plus of numbers": "{% if n + n %}{% endif %}",
    "plus of floats": "{% if f + f %}{% endif %}",
    "plus of lists": "{% if l + l %}{% endif %}",
    "minus": "{% if n - n %}{% endif %}",
    "negative": "{% if -n %}{% endif %}",
    "times": "{% if n * n %}{% endif %}",
    "times of floats": "{% if f * f %}{% endif %}",
    "divided": "{% if n / 3 %}{% endif %}",
    "whole division": "{% if n // 3 %}{% endif %}",
    "modulo": "{% if n % 3 %}{% endif %}",
    "huge product": "{% if huge * huge %}{% endif %}",
    "huge division": "{% if huge // (big.i + 1) %}{% endif %}",
    "huge negative": "{% if -huge %}{% endif %}",
    "percent": "{% if '%s' % t %}{% endif %}",
    "equal": "{% if t == t %}{% endif %}",
    "equal to a constant": "{% if t == 'x' %}{% endif %}",
    "equal lists": "{% if l == l %}{% endif %}",
    "in a text": "{% if 'x' in t %}{% endif %}",
    "in a list": "{% if 'x' in l %}{% endif %}",
    "in a dict": "{% if 'x' in d %}{% endif %}",
    "in by names": "{% if t in l %}{% endif %}",
    "chain of comparisons": "{% if 1 < n < 9 %}{% endif %}",
    "list": "{% if [n, n, n] %}{% endif %}",
    "dict": "{% if {'a': n, 'b': n} %}{% endif %}",
    "tuple": "{% if (n, n) %}{% endif %}",
    "slice": "{% if t[1:] %}{% endif %}",
    "slice of a list": "{% if l[::-1] %}{% endif %}",
    "item of a list": "{% if l[0] %}{% endif %}",
    "condition": "{% if (n if t else f) %}{% endif %}",
    "set": "{% set x = n %}",
    "set of a namespace": "{% set ns.a = n %}",
    "set of a block": "{% set x %}a{% endset %}",
    "filter block": "{% filter upper %}a{% endfilter %}",
    "with": "{% with x = n %}{% endwith %}",
    "generation": "{% generation %}{% endgeneration %}",
    "macro": "{{ m() }}",
    "macro with arguments": "{{ p(1, b=2) }}",
    "macro with a body": "{{ body() }}",
    "macro made": "{% macro q() %}{% endmacro %}",
    "call block": "{% call wrap() %}{% endcall %}",
    "loop of nothing": "{% for x in [] %}{% endfor %}",
    "loop of one": "{% for x in l[:1] %}{% endfor %}",
    "loop with its context": "{% for x in l[:1] %}{% if loop.index %}{% endif %}{% endfor %}",
    "loop with a test": "{% for x in many if ns.a and ns.a and ns.a and ns.a %}{% endfor %}",
    "loop with a length": "{% for x in many | map('string') %}{{ loop.length }}{% endfor %}",
    "loop, recursive": "{% for x in l recursive %}{% if 0 %}{{ loop([]) }}{% endif %}{% endfor %}",
    "loop of itself": "{% for x in l recursive %}{{ loop([]) }}{% endfor %}",
    "loop of items": "{% for k, v in d.items() %}{% endfor %}",
    "loop of passes": "{% for x in many %}{% endfor %}",
    "dict.items": "{% if d.items() %}{% endif %}",
    "dict.get": "{% if d.get('a') %}{% endif %}",
    "dict.copy": "{% if d.copy() %}{% endif %}",
    "list.index": "{% if l.index('aa') %}{% endif %}",
    "range": "{% if range(3) %}{% endif %}",
    "namespace made": "{% if namespace(a=1) %}{% endif %}",
    "dict made": "{% if dict(a=1) %}{% endif %}",
    "cycler": "{% if cycler(1, 2) %}{% endif %}",
    "joiner": "{% if joiner() %}{% endif %}",
    "strftime_now": "{% if strftime_now('%Y') %}{% endif %}",
    "format method": "{% if '{}'.format(t) %}{% endif %}",
    "split": "{% if 'a b c'.split(' ') %}{% endif %}",
    "split to letters": "{% if longer.split('x') %}{% endif %}",
    "strip": "{% if t.strip() %}{% endif %}",
    "startswith": "{% if t.startswith('x') %}{% endif %}",
    "replace": "{% if t.replace('e', 'x') %}{% endif %}",
    "replace a long text": "{% if longer.replace('x', 'y') %}{% endif %}",
    "join method": "{% if ','.join(l) %}{% endif %}",
    "title of a long text": "{% if longer.title() %}{% endif %}",
    "find in a long text": "{% if longer.find('xxxxxy') %}{% endif %}",
    "map attribute": "{% if rows | map(attribute='a.b.c') | list %}{% endif %}",
    "map default": "{% if many | map('default') | list %}{% endif %}",
    "map a filter": "{% if many | map('string') | map('upper') | list %}{% endif %}",
    "selectattr": "{% if rows | selectattr('a.b.c') | list %}{% endif %}",
    "selectattr by a test": "{% if rows | selectattr('a', 'equalto', 1) | list %}{% endif %}",
    "select": "{% if many | select('odd') | list %}{% endif %}",
    "rejectattr": "{% if rows | rejectattr('a.b') | list %}{% endif %}",
    "groupby": "{% if rows | groupby('a.b.c') %}{% endif %}",
    "sort by": "{% if rows | sort(attribute='a.b.c,a.b.c') %}{% endif %}",
    "sort": "{% if many | sort %}{% endif %}",
    "sort texts": "{% if (many | map('string') | list) | sort %}{% endif %}",
    "unique": "{% if many | unique | list %}{% endif %}",
    "dictsort": "{% if d | dictsort %}{% endif %}",
    "sum": "{% if many | sum %}{% endif %}",
    "sum by": "{% if rows | sum(attribute='a.b.c') %}{% endif %}",
    "join by": "{% if rows | join(',', attribute='a.b.c') %}{% endif %}",
    "join": "{% if many | join %}{% endif %}",
    "batch": "{% if many | batch(2) | list %}{% endif %}",
    "slice filter": "{% if many | slice(90) | list %}{% endif %}",
    "max": "{% if many | max %}{% endif %}",
    "items": "{% if d | items | list %}{% endif %}",
    "list filter": "{% if l | list %}{% endif %}",
    "list of a text": "{% if longer | list %}{% endif %}",
    "reverse": "{% if longer | reverse %}{% endif %}",
    "first": "{% if l | first %}{% endif %}",
    "last": "{% if l | last %}{% endif %}",
    "attr": "{% if t | attr('upper') %}{% endif %}",
    "int of digits": "{% if digits | int %}{% endif %}",
    "int": "{% if t | int %}{% endif %}",
    "float of digits": "{% if digits | float %}{% endif %}",
    "float": "{% if t | float %}{% endif %}",
    "round": "{% if f | round %}{% endif %}",
    "abs": "{% if n | abs %}{% endif %}",
    "default": "{% if n | default(1) %}{% endif %}",
    "length": "{% if t | length %}{% endif %}",
    "string of huge": "{% if (huge % 7 ~ 1) | string %}{% endif %}",
    "trim": "{% if t | trim %}{% endif %}",
    "upper": "{% if t | upper %}{% endif %}",
    "upper of a long text": "{% if longer | upper %}{% endif %}",
    "title": "{% if t | title %}{% endif %}",
    "title of a long one": "{% if longer | title %}{% endif %}",
    "title of letters": "{% if (longer | replace('x', 'x ')) | title %}{% endif %}",
    "wordcount": "{% if (longer | replace('x', 'x ')) | wordcount %}{% endif %}",
    "indent": "{% if t | indent %}{% endif %}",
    "indent of lines": "{% if (longer | replace('x', 'x\\n')) | indent(1) %}{% endif %}",
    "center": "{% if t | center(20) %}{% endif %}",
    "truncate": "{% if t | truncate(3) %}{% endif %}",
    "escape": "{% if t | escape %}{% endif %}",
    "urlencode": "{% if t | urlencode %}{% endif %}",
    "urlencode of a long text": "{% if (longer | replace('x', '&é')) | urlencode %}{% endif %}",
    "urlencode of a dict": "{% if {'a': longer} | urlencode %}{% endif %}",
    "format": "{% if '%s' | format(t) %}{% endif %}",
    "capitalize": "{% if t | capitalize %}{% endif %}",
    "tojson": "{% if d | tojson %}{% endif %}",
    "tojson of a list": "{% if many | tojson %}{% endif %}",
    "tojson, indented": "{% if many | tojson(indent=1) %}{% endif %}",
    "tojson, indented by nothing": "{% if many | tojson(indent=0) %}{% endif %}",
    "tojson of a long text": "{% if longer | tojson(ensure_ascii=true) %}{% endif %}",
    "is defined": "{% if t is defined %}{% endif %}",
    "is string": "{% if t is string %}{% endif %}",
    "is mapping": "{% if d is mapping %}{% endif %}",
    "is iterable": "{% if l is iterable %}{% endif %}",
    "is sequence": "{% if l is sequence %}{% endif %}",
    "is odd": "{% if n is odd %}{% endif %}",
    "is divisible": "{% if n is divisibleby 3 %}{% endif %}",
    "is equal": "{% if t is equalto t %}{% endif %}",
    "is in": "{% if t is in l %}{% endif %}",
    "is lower": "{% if t is lower %}{% endif %}",
    "is filter": "{% if t is filter %}{% endif %}",
    "is callable": "{% if t is callable %}{% endif %}",
}  # fmt: skip


def nanoseconds(kind: str, work: int) -> tuple[float, str]:
    """Of processor time a unit where the part is done until the work is spent, and what ended
    it."""
    environment = MeteredEnvironment(datetime.now)
    source = "{% for i in range(99999) %}" + KINDS[kind] * 10 + "{% endfor %}"
    template = environment.from_string(BEFORE + "start" + source)
    context = MeteredContext(environment, dict(template.globals), None, template.blocks)
    context.meter = Meter(1 << 30)
    pieces = template.root_render_func(context)
    while next(pieces) != "start":
        pass
    context.meter = Meter(work)
    began = thread_time()
    why = "end"
    try:
        for _ in pieces:
            pass
    except OutOfWork:
        why = ""
    except Exception as error:
        why = repr(error)
    took = thread_time() - began
    return took / work * 1e9, why


@pytest.mark.parametrize("kind", KINDS)
def test_a_unit_of_each_kind_takes_its_time_at_most(kind: str) -> None:
    took, why = nanoseconds(kind, WORK)
    assert why == ""
    assert took < BUSY * NANOSECONDS

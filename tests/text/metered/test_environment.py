"""Templates of hostile files: whatever they do, they stop soon and have made little."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path
from time import thread_time

import pytest

from headrace.text.metered.filters import BODY, LOOP
from headrace.text.template import ChatTemplate, TemplateError

USER = [{"role": "user", "content": "hi"}]

MAX_SECONDS = 8.0  # of processor time, on a busy machine; a bound that holds takes some 0.3
MAX_BYTES = 200 << 20


def template(source: str) -> ChatTemplate:
    return ChatTemplate(source, bos_token="<s>", eos_token="</s>")


NS = "{% set n = namespace(x='xxxxxxxx', l=['xxxxxxxx'], i=3, d={'a': 1}) %}"


def repeated(statement: str, times: int = 60, then: str = "") -> str:
    return f"{NS}{{% for i in range({times}) %}}{statement}{{% endfor %}}{then}"


HOSTILE = {
    "tilde": repeated("{% set n.x = n.x ~ n.x %}"),
    "plus": repeated("{% set n.x = n.x + n.x %}"),
    "plus of three": repeated("{% set n.x = n.x + n.x + n.x %}"),
    "lists": repeated("{% set n.l = n.l + n.l %}"),
    "lists times": repeated("{% set n.l = n.l * 9 %}"),
    "times": repeated("{% set n.x = n.x * 9 %}"),
    "times a list": "{{ ['x' * 1000000] * 100000 }}",
    "percent width": "{{ '%2000000000d' % 1 }}",
    "percent precision": "{{ '%.2000000000f' % 1 }}",
    "percent star": "{{ '%*d' % (2000000000, 1) }}",
    "percent name": "{{ '%(a)2000000000d' % {'a': 1} }}",
    "percent again": repeated("{% set n.x = '%s%s%s' % (n.x, n.x, n.x) %}"),
    "percent of a list": "{{ ('%(a)s' * 9999) % {'a': 'x' * 99999} }}",
    "format filter": "{{ '%2000000000d' | format(1) }}",
    "format method": "{{ '{:2000000000d}'.format(1) }}",
    "format nested": "{{ '{:{w}}'.format(1, w=2000000000) }}",
    "format precision": "{{ '{:.2000000000f}'.format(1.5) }}",
    "format again": repeated("{% set n.x = '{0}{0}{0}'.format(n.x) %}"),
    "format map": "{{ '{a:2000000000}'.format_map({'a': 1}) }}",
    "format attr": "{{ ('{:2000000000}' | attr('format'))(1) }}",
    "format item": "{{ '{:2000000000}'['format'](1) }}",
    "format safe": "{{ ('{:2000000000}' | safe).format(1) }}",
    "center filter": "{{ 'x' | center(2000000000) }}",
    "center method": "{{ 'x'.center(2000000000) }}",
    "center constant": "{% if 'x' | center(2000000000) %}{% endif %}",
    "ljust": "{{ 'x'.ljust(2000000000) }}",
    "zfill": "{{ 'x'.zfill(2000000000) }}",
    "zfill of true": repeated("{% set n.x = n.x.rjust(n.x | length * 9) %}"),
    "expandtabs": "{{ '\\t'.expandtabs(2000000000) }}",
    "to bytes": "{{ (1).to_bytes(2000000000, 'big') }}",
    "translate": "{{ ('x' * 99999).translate({120: 'y' * 99999}) }}",
    "encode": "{{ 'x'.encode() * 9 }}",
    "replace filter": repeated("{% set n.x = n.x | replace('x', 'xxxx') %}"),
    "replace method": repeated("{% set n.x = n.x.replace('x', 'xxxx') %}"),
    "replace nothing": repeated("{% set n.x = n.x.replace('', 'xxxx') %}"),
    "join filter": "{{ (['x' * 99999] * 99999) | join }}",
    "join between": "{{ range(99999) | join('x' * 99999) }}",
    "join method": "{{ ('x' * 99999).join(['y'] * 99999) }}",
    "indent": "{{ ('\\n' * 9999) | indent(2000000) }}",
    "indent by a text": "{{ ('\\n' * 9999) | indent('x' * 99999) }}",
    "json indent": "{{ [1] | tojson(indent=2000000000) }}",
    "json depth": repeated("{% set n.l = [n.l] %}", 900, "{{ n.l | tojson(indent=16) }}"),
    "json separators": "{{ range(9999) | list | tojson(separators=('x' * 99999, '')) }}",
    "json of shared lists": repeated("{% set n.l = [n.l, n.l] %}", 60, "{{ n.l | tojson }}"),
    "json of shared dicts": repeated("{% set n.d = {'a': n.d, 'b': n.d} %}", 60,
                                     "{{ n.d | tojson }}"),
    "text of shared lists": repeated("{% set n.l = [n.l, n.l] %}", 60, "{{ n.l }}"),
    "text of a namespace": repeated("{% set n.l = [n.l, n.l] %}", 60, "{{ n }}"),
    "text of a view": repeated("{% set n.d = {'a': n.d, 'b': n.d} %}", 60, "{{ n.d.values() }}"),
    "text in a filter": repeated("{% set n.l = [n.l, n.l] %}", 60, "{{ n.l | upper }}"),
    "text in a test": repeated("{% set n.l = [n.l, n.l] %}", 60, "{{ n.l is upper }}"),
    "text of a cycle": "{% set n = namespace() %}{% set n.a = n %}{{ n }}",
    "equal shared lists": NS + "{% set m = namespace(l=['xxxxxxxx']) %}{% for i in range(60) %}"
    "{% set n.l = [n.l, n.l] %}{% set m.l = [m.l, m.l] %}{% endfor %}{{ n.l == m.l }}",
    "equal shared in a list": NS + "{% set m = namespace(l=['xxxxxxxx']) %}{% for i in range(60) %}"
    "{% set n.l = [n.l, n.l] %}{% set m.l = [m.l, m.l] %}{% endfor %}{{ n.l in [m.l] }}"
    "{{ [m.l].index(n.l) }}",
    "equal shared by test": NS + "{% set m = namespace(l=['xxxxxxxx']) %}{% for i in range(60) %}"
    "{% set n.l = [n.l, n.l] %}{% set m.l = [m.l, m.l] %}{% endfor %}{{ n.l is equalto m.l }}",
    "sort shared": NS + "{% set m = namespace(l=['xxxxxxxx']) %}{% for i in range(60) %}"
    "{% set n.l = [n.l, n.l] %}{% set m.l = [m.l, m.l] %}{% endfor %}{{ [n.l, m.l] | sort }}",
    "changed": NS + "{% set m = namespace(l=['xxxxxxxx']) %}{% for i in range(60) %}"
    "{% set n.l = [n.l, n.l] %}{% set m.l = [m.l, m.l] %}{% endfor %}"
    "{% for i in [1, 2] %}{{ loop.changed(n.l if i == 1 else m.l) }}{% endfor %}",
    "hash of shared tuples": NS + "{% set n.l = (1,) %}{% for i in range(60) %}"
    "{% set n.l = (n.l, n.l) %}{% endfor %}{{ {n.l: 1} }}",
    "squares": repeated("{% set n.i = n.i * n.i %}", 64),
    "doubles": repeated("{% set n.i = n.i + n.i %}", 99999, "{{ n.i // 7 }}"),
    "power": "{{ 9 ** 9 ** 9 }}",
    "round": "{{ 1.5 | round(2000000000, 'ceil') }}",
    "round a text": "{{ 'x' | round(9, 'ceil') }}",
    "int of a text": "{{ ('f' * 9999999) | int(0, 16) }}",
    "odd text": "{{ '%2000000000d' is odd }}",
    "divisible text": "{{ '%2000000000d' is divisibleby 1 }}",
    "sum of lists": "{{ ([range(999) | list] * 9999) | sum(start=[]) }}",
    "batch": "{{ [1] | batch(2000000000, 0) | list }}",
    "slice": "{{ [1] | slice(2000000000, 0) | list }}",
    "lipsum": "{{ lipsum(n=2000000000) }}",
    "strftime": "{{ strftime_now('%2000000000d' * 999) }}",
    "refusal": "{{ raise_exception('x' * 9999999) }}",
    "loops": "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "loops of set": "{% for i in range(99999) %}{% for j in range(99999) %}{% set a = 1 %}"
    "{% endfor %}{% endfor %}",
    "loops of lookups": repeated("{{ n.x }}" * 2000, 99999),
    "loops of text": "{% macro m() %}{% for i in range(99999) %}" + "x" * 9999 +
    "{% endfor %}{% endmacro %}{{ m() }}",
    "loops within": "{% for i in range(99999) recursive %}{{ loop(range(99999)) }}{% endfor %}",
    "macros": "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}"
    "{{ m(60) }}",
    "lazy": "{{ range(99999) | map('string') | map('upper') | map('lower') | map('list') | list "
    "| map('join') | list | length }}" * 99,
    "slices": NS + "{% set x = 'x' * 1000000 %}{% for i in range(99999) %}{% set y = x[1:] %}"
    "{% endfor %}",
    "slices of lists": "{% set x = range(99999) | list %}{% for i in range(99999) %}"
    "{% set y = x[1:] %}{% endfor %}",
    "find": "{% set x = 'x' * 1000000 %}{% for i in range(99999) %}{% set y = x.find('y') %}"
    "{% endfor %}",
    "in": "{% set x = 'x' * 1000000 %}{% for i in range(99999) %}{% set y = 'y' in x %}"
    "{% endfor %}",
    "equal": "{% set x = 'x' * 1000000 %}{% set z = x + '' + x[:0] %}{% for i in range(99999) %}"
    "{% set y = x == z %}{% endfor %}",
    "keys": "{% set x = range(99999) | map('string') | list %}{% for i in range(99999) %}"
    "{% set y = x.count('a') %}{% endfor %}",
    "kept": NS + "{% for i in range(99999) %}{% set n.l = n.l + ['x' * 9999 + i | string] %}"
    "{% endfor %}",
    "split": "{% set x = 'xy ' * 999999 %}{% for i in range(99999) %}{% set y = x.split(' ') %}"
    "{% endfor %}",
    "blocks": "{% for i in range(99999) %}{% set y %}" + "x" * 9999 + "{% endset %}{% endfor %}",
    "filter blocks": "{% for i in range(99999) %}{% filter upper %}" + "x" * 9999 +
    "{% endfilter %}{% endfor %}",
    "escape": "{{ ('&' * 9999999) | escape }}",
    "urlencode": "{{ ('é' * 9999999) | urlencode }}",
    "unique": "{% for i in range(99999) %}{% set y = range(99999) | unique | list %}{% endfor %}",
    "minus": "{% set d = dict(range(9) | map('list')) %}{{ d.keys() - d.keys() }}",
    "long number": "{{ " + "9" * 99999 + " }}",
    "deep source": "{{ " + "(" * 9999 + "1" + ")" * 9999 + " }}",
    "deep lists": "{{ " + "[" * 9999 + "]" * 9999 + " }}",
    "deep ifs": "{% if 1 %}" * 9999 + "{% endif %}" * 9999,
}  # fmt: skip


def _tried() -> dict[str, tuple[str | None, float]]:
    """What each hostile template was refused with, and its seconds of processor time, in this
    process, which may take no more memory than is allowed."""
    template("").render(USER)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MAX_BYTES,) * 2)
    found: dict[str, tuple[str | None, float]] = {}
    for name, source in HOSTILE.items():
        began = thread_time()
        refusal = None
        try:
            template(source).render(USER)
        except TemplateError as error:
            refusal = repr(error.__cause__ or error)
        found[name] = refusal, thread_time() - began
    return found


@pytest.fixture(scope="module")
def tried() -> dict[str, tuple[str | None, float]]:
    code = (
        "import json; from tests.text.metered.test_environment import _tried;"
        " print(json.dumps(_tried()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=500, check=False
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, tuple[str | None, float]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_template_is_stopped(
    tried: dict[str, tuple[str | None, float]], name: str
) -> None:
    refusal, seconds = tried[name]
    assert refusal is not None
    assert "MemoryError" not in refusal
    assert seconds < MAX_SECONDS


@pytest.mark.parametrize("name", ["__loop__", "__body__", LOOP, BODY])
def test_no_template_can_call_what_pays_for_passes(name: str) -> None:
    with pytest.raises(TemplateError):
        template(f"{{{{ [1] | {name}(-1000000000) }}}}")

from __future__ import annotations

from datetime import datetime
from time import thread_time

import pytest

from headrace.text import template as template_module
from headrace.text.metered.meter import BASE_WORK, NANOSECONDS, GivenUp
from headrace.text.template import DEFAULT_TEMPLATE, ChatTemplate, TemplateError
from headrace.turns.threads import ASIDE, at_once

BUSY = 5  # how many times longer things may take here

USER = [{"role": "user", "content": "hi"}]


def template(source: str) -> ChatTemplate:
    return ChatTemplate(source, bos_token="<s>", eos_token="</s>")


def test_variables_and_white_space_are_as_the_ecosystem_has_them() -> None:
    source = """{{ bos_token }}
{% for message in messages %}
    {% if loop.index0 > 2 %}{% break %}{% endif %}
[{{ message.role }}] {{ message['content'] }}{{ eos_token }}
{% endfor %}
{% if add_generation_prompt %}go{{ mode }}{% endif %}"""
    rendered = template(source).render(USER, mode="!")
    assert rendered == "<s>\n[user] hi</s>\ngo!"
    assert template(source).render(USER, add_generation_prompt=False) == "<s>\n[user] hi</s>\n"


def test_tools_become_json_without_html_escapes() -> None:
    tools = [{"name": "é<f>", "n": 1}]
    assert (
        template("{{ tools | tojson }}").render(USER, tools=tools) == '[{"name": "é<f>", "n": 1}]'
    )
    indented = template("{{ tools[0] | tojson(indent=2) }}").render(USER, tools=tools)
    assert indented == '{\n  "name": "é<f>",\n  "n": 1\n}'


def test_a_template_is_told_the_time_of_its_clock() -> None:
    now = datetime(2026, 2, 3, 4, 5)
    source = "{{ strftime_now('%d %b %Y %H:%M') }}"
    told = ChatTemplate(source, bos_token="", eos_token="", now=lambda: now).render(USER)
    assert told == "03 Feb 2026 04:05"


def test_generation_marks_are_only_blocks() -> None:
    source = "{% generation %}{{ messages[0].content }}{% endgeneration %}."
    assert template(source).render(USER) == "hi."


def test_a_refusal_carries_the_templates_own_words() -> None:
    with pytest.raises(TemplateError) as refusal:
        template("{{ raise_exception('roles must alternate') }}").render(USER)
    assert str(refusal.value) == "roles must alternate"


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages[0].content + 1 }}",
        "{{ nothing.at.all }}",
        "{{ 1 / 0 }}",
        "{{ messages[5]['content'] }}",
        "{% macro again() %}{{ again() }}{% endmacro %}{{ again() }}",
    ],
)
def test_a_template_that_fails_says_so(source: str) -> None:
    with pytest.raises(TemplateError):
        template(source).render(USER)


@pytest.mark.parametrize("source", ["{% if %}", "{{ messages", "{% generation %}"])
def test_what_is_no_template_is_refused_at_once(source: str) -> None:
    with pytest.raises(TemplateError, match="chat template, line 1"):
        template(source)


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ messages.append(1) }}",
        "{{ messages[0].update(role='system') }}",
        "{{ cycler.__init__.__globals__ }}",
    ],
)
def test_templates_are_sandboxed(source: str) -> None:
    with pytest.raises(TemplateError):
        template(source).render(USER)


class TestLimits:
    @pytest.mark.parametrize(
        "source",
        [
            "{{ 'x' * 999999999999 }}",
            "{{ 999999999999 * [1] }}",
            "{{ 9 ** 9 ** 9 }}",
            "{% for i in range(999999999) %}x{% endfor %}",
        ],
    )
    def test_small_templates_cannot_make_huge_things(self, source: str) -> None:
        with pytest.raises(TemplateError):
            template(source).render(USER)

    def test_output(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(template_module, "MAX_CHARACTERS", 1000)
        source = "{% for i in range(1000) %}xx{% endfor %}"
        with pytest.raises(TemplateError, match="more than 1000 characters"):
            template(source).render(USER)

    def test_a_source_that_is_no_chat_template_any_more(self) -> None:
        with pytest.raises(TemplateError, match="has 300000 characters; up to 65536"):
            template("x" * 300_000)

    def test_all_probes_together_have_the_work_of_one_render(self) -> None:
        ours = template("{% for i in range(9999) %}{{ i }}{% endfor %}")
        probes = [ours.probe(USER) for _ in range(20)]
        assert probes[0] is not None
        assert probes[-1] is None
        assert ours.render(USER) == probes[0]

    def test_many_messages_in_a_template_that_compares_them_all(self) -> None:
        source = (
            "{% for m in messages %}{% for n in messages %}{% if n.role == m.role %}{% endif %}"
            "{% endfor %}{{ m.content }}{% endfor %}"
        )
        assert template(source).render(USER * 100) == "hi" * 100
        with pytest.raises(TemplateError, match="more work"):
            template(source).render(USER * 100_000)

    def test_an_honest_template_takes_many_messages_and_much_text(self) -> None:
        source = (
            "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' +"
            " message['content'] | trim + '<|im_end|>' + '\n' }}{% endfor %}"
        )
        ours = template(source)
        assert len(ours.render(USER * 30_000)) == 30_000 * len("<|im_start|>user\nhi<|im_end|>\n")
        assert len(ours.render([{"role": "user", "content": "x" * (8 << 20)}])) > 8 << 20


class TestContent:
    parts = ({"type": "text", "text": "ab"}, {"type": "text", "text": "cd"})

    def test_templates_for_strings_get_one_string(self) -> None:
        source = "{% for m in messages %}<{{ m.content }}>{% endfor %}"
        assert template(source).render([{"role": "user", "content": list(self.parts)}]) == "<abcd>"

    @pytest.mark.parametrize("content", ["abcd", list(parts)])
    def test_templates_for_parts_get_parts(self, content: object) -> None:
        source = "{% for p in messages[0].content %}{{ p.text }}{% endfor %}"
        assert template(source).render([{"role": "user", "content": content}]) == "abcd"

    def test_templates_for_both_get_strings(self) -> None:
        source = (
            "{% if messages[0].content is string %}s:{{ messages[0].content }}{% else %}"
            "{% for p in messages[0].content %}{{ p.text }}{% endfor %}{% endif %}"
        )
        assert template(source).render([{"role": "user", "content": list(self.parts)}]) == "s:abcd"

    @pytest.mark.parametrize(
        ("content", "named"),
        [
            (5, r"messages\[1\]\.content must be"),
            ([{"type": "image_url"}], r"messages\[1\]\.content\[0\] is not a part of type 'text'"),
            ([parts[0], "x"], r"messages\[1\]\.content\[1\] is not a part"),
            ([{"type": "text", "text": 1}], r"messages\[1\]\.content\[0\]\.text must be"),
        ],
    )
    def test_what_is_no_text_is_refused_naming_its_place(self, content: object, named: str) -> None:
        with pytest.raises(TemplateError, match=named):
            template("{{ messages }}").render([*USER, {"role": "user", "content": content}])

    def test_fields_that_are_none_count_as_absent(self) -> None:
        source = "{{ 'content' in messages[0] }}"
        assert template(source).render([{"role": "assistant", "content": None}]) == "False"


def test_developer_is_system_to_templates_that_do_not_know_it() -> None:
    messages = [{"role": "developer", "content": "x"}]
    assert template("{{ messages[0].role }}").render(messages) == "system"
    knows = "{# developer #}{{ messages[0].role }}"
    assert template(knows).render(messages) == "developer"


def test_the_callers_messages_are_left_alone() -> None:
    messages = [{"role": "developer", "content": list(TestContent.parts)}]
    template("{{ messages[0].content }}").render(messages)
    assert messages == [{"role": "developer", "content": list(TestContent.parts)}]


def test_plain_turns_for_models_without_a_template() -> None:
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi?"},
        {"role": "assistant", "content": "Hi."},
        {"role": "user", "content": "Bye."},
    ]
    assert template(DEFAULT_TEMPLATE).render(messages) == (
        "System: Be brief.\n\nUser: Hi?\n\nAssistant: Hi.\n\nUser: Bye.\n\nAssistant:"
    )


class TestVariables:
    """What a template asks for, found in its syntax tree."""

    @pytest.mark.parametrize(
        ("source", "variable"),
        [
            ("{% if thinking is defined and thinking is false %}x{% endif %}", "thinking"),
            (
                "{% if effort is not defined %}{% set effort = 'low' %}{% endif %}{{ effort }}",
                "effort",
            ),
            ("{% set effort = effort | default('low') %}{{ effort }}", "effort"),
            ("{% macro f(a) %}{{ a }}{{ thinking }}{% endmacro %}{{ f(1) }}", "thinking"),
        ],
    )
    def test_those_it_looks_up_are_found(self, source: str, variable: str) -> None:
        assert template(source).variables == {variable}

    def test_its_own_and_built_in_names_are_not(self) -> None:
        source = (
            "{% set a = 1 %}{% set ns = namespace(b=2) %}{% for c in range(3) %}{{ a + ns.b + c }}"
            "{% endfor %}{% if ns.b %}{{ strftime_now('%Y') }}{% endif %}"
        )
        assert template(source).variables == frozenset()

    def test_texts_a_variable_is_compared_to(self) -> None:
        source = (
            "{% if effort == 'low' or 'high' != effort %}{% endif %}{% if effort in ['none', 3] %}"
            "{% endif %}{% if other == 'x' %}{% endif %}{{ effort }}"
        )
        assert template(source).compared("effort") == {"low", "high", "none"}
        assert template("{{ effort }}").compared("effort") == frozenset()


COSTLY = (
    "{% set ns = namespace(a=0) %}{% for i in range(99999) %}"
    + "{% if ns.a %}{% endif %}" * 10
    + "{% endfor %}{{ messages[0].content }}"
)


class TestSteps:
    def test_a_short_conversation_is_one_step(self) -> None:
        steps = template(DEFAULT_TEMPLATE).rendering(USER, {"add_generation_prompt": True})
        with pytest.raises(StopIteration) as end:
            next(steps)
        assert end.value.value == "User: hi\n\nAssistant:"

    @pytest.mark.parametrize("messages", [USER, USER * 10])
    def test_a_costly_template_goes_aside_before_it_costs_much(
        self, messages: list[dict[str, str]]
    ) -> None:
        costly = template(COSTLY)
        costly.prepare()
        began = thread_time()
        assert next(costly.rendering(messages, {})) is ASIDE
        assert thread_time() - began < 0.1

    def test_a_long_conversation_goes_aside_and_yields_its_turns(self) -> None:
        plain = template(DEFAULT_TEMPLATE)
        messages = [{"role": "user", "content": "some text " * 50}] * 5000
        steps = list(plain.rendering(messages, {}))
        assert steps[0] is ASIDE
        assert len(steps) > 3
        assert at_once(plain.rendering(messages, {})) == plain.render(
            messages, add_generation_prompt=False
        )

    def test_a_render_that_nobody_waits_for_stops_within_its_step(self) -> None:
        asked: list[None] = []

        def stopped() -> bool:
            asked.append(None)
            return len(asked) > 3

        steps = template(COSTLY).rendering(USER, {}, stopped)
        assert next(steps) is ASIDE
        began = thread_time()
        with pytest.raises(GivenUp):
            next(steps)
        assert thread_time() - began < 0.3

    def test_the_costliest_render_of_a_small_request_is_short(self) -> None:
        began = thread_time()
        with pytest.raises(TemplateError, match="more work"):
            template(COSTLY * 40).render(USER)
        assert thread_time() - began < BUSY * BASE_WORK * NANOSECONDS * 1e-9

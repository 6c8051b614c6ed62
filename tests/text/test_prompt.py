from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.text.prompt import PromptBuilder
from headrace.text.reasoning import Thinking
from headrace.text.template import ChatTemplate, TemplateError
from headrace.text.tokenizer import NOTHING, Tokenizer
from tests.text.vocabularies import byte_level, sentencepiece

CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content | trim }}"
    "{{ '<|im_end|>\n' }}{% endfor %}"
    "{% if tools %}{{ tools | tojson }}<|im_end|>{% endif %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
CONTROLS = ("<s>", "<|im_end|>", "<|im_start|>", "<|im_", "end|><|", "[x]")
TOKENIZER = Tokenizer.from_gguf(byte_level("hello", controls=CONTROLS))
SPACED = Tokenizer.from_gguf(sentencepiece({"▁": 0.0}, user_defined=("some",)))
BUILDER = PromptBuilder.for_model(TOKENIZER, CHATML)

hostile = st.lists(
    st.sampled_from(
        [
            *CONTROLS,
            "<|",
            "im_",
            "_start|>",
            "end",
            "|>",
            "<",
            ">",
            "\ufdd0",
            " ",
            "\n",
            "é",
            "[",
            "x]",
        ]
    )
    | st.text(max_size=3),
    max_size=8,
).map("".join)


def controls(ids: list[int]) -> list[str]:
    return [TOKENIZER.token(i) for i in ids if TOKENIZER.is_control(i)]


@given(hostile, hostile)
@example("<|im_end|><|im_end|>", "<|im_\ufdd0end|>")
@example("<|im_end|><|im_start|>", "")
@example("end|>", " end|> ")
@example("", "x]")
def test_users_text_never_becomes_a_control_token(one: str, two: str) -> None:
    messages = [{"role": "system", "content": one}, {"role": "user", "content": two}]
    ids = BUILDER.chat(messages)
    harmless = [{"role": "system", "content": "x"}, {"role": "user", "content": "y"}]
    assert controls(ids) == controls(BUILDER.chat(harmless))


@given(hostile)
def test_users_text_arrives_as_it_was(text: str) -> None:
    text = text.replace("\ufdd0", "").strip()
    ids = BUILDER.chat([{"role": "user", "content": text}], add_generation_prompt=False)
    assert TOKENIZER.decode(ids) == f"user\n{text}\n"


class Unprepared(PromptBuilder):
    """Knows nothing of its template beforehand."""

    _own = NOTHING


@given(hostile | st.just("some text"), hostile | st.just("more"))
@pytest.mark.parametrize("tokenizer", [TOKENIZER, SPACED])
def test_what_the_template_always_says_is_encoded_as_the_rest(
    tokenizer: Tokenizer, one: str, two: str
) -> None:
    messages = [{"role": "system", "content": one}, {"role": "user", "content": two}]
    prepared, unprepared = (
        kind.for_model(tokenizer, CHATML).chat(messages) for kind in (PromptBuilder, Unprepared)
    )
    assert prepared == unprepared


@given(hostile, hostile)
def test_tools_are_users_text_too(key: str, value: str) -> None:
    message = [{"role": "user", "content": "x"}]
    ids = BUILDER.chat(message, tools=[{"name": "f", "parameters": {key: [value]}}])
    assert controls(ids) == controls(BUILDER.chat(message, tools=[{"name": "f"}]))


@given(hostile)
def test_completions_are_plain_text(text: str) -> None:
    ids = BUILDER.completion(text)
    assert controls(ids) == []
    assert TOKENIZER.decode(ids) == text


class TestBos:
    wants = Tokenizer.from_gguf(byte_level("hello", controls=CONTROLS, add_bos_token=True))
    messages = ({"role": "user", "content": "hello"},)

    def builder(self, source: str) -> PromptBuilder:
        return PromptBuilder.for_model(self.wants, source)

    def test_is_added_where_the_model_wants_it(self) -> None:
        bos = self.wants.bos_id
        assert self.builder(CHATML).completion("hello")[0] == bos
        assert self.builder(CHATML).chat(self.messages)[0] == bos
        assert TOKENIZER.bos_id not in BUILDER.chat(self.messages) + BUILDER.completion("hello")

    def test_is_never_doubled(self) -> None:
        ids = self.builder("{{ bos_token }}{{ messages[0].content }}").chat(self.messages)
        assert ids.count(self.wants.bos_id) == 1

    def test_cannot_be_typed(self) -> None:
        assert self.builder(CHATML).completion("<s>hello").count(self.wants.bos_id) == 1

    def test_makes_an_empty_prompt_one_token_long(self) -> None:
        assert self.builder(CHATML).completion("") == [self.wants.bos_id]


def test_n2_40_the_template_for_tools_is_used_where_there_are_tools() -> None:
    with_tools = "{% for m in messages %}{{ m.content }}{% endfor %}{{ tools | tojson }}{{ mode }}"
    builder = PromptBuilder.for_model(
        TOKENIZER, "plain {{ messages[0].content }}", None, with_tools
    )
    message = [{"role": "user", "content": "hello"}]
    assert TOKENIZER.decode(builder.chat(message)) == "plain hello"
    assert TOKENIZER.decode(builder.chat(message, tools=[{"name": "f"}])) == 'hello[{"name": "f"}]'
    assert builder.variables == {"messages", "tools", "mode"}


def test_a_templates_refusal_is_passed_on() -> None:
    builder = PromptBuilder(
        TOKENIZER, ChatTemplate("{{ raise_exception('no') }}", bos_token="", eos_token="")
    )
    with pytest.raises(TemplateError, match="no"):
        builder.chat([{"role": "user", "content": "x"}])


def test_models_without_a_template_get_plain_turns() -> None:
    ids = PromptBuilder.for_model(TOKENIZER, None).chat([{"role": "user", "content": "hello"}])
    assert TOKENIZER.decode(ids) == "User: hello\n\nAssistant:"


class TestThinking:
    """Whether an answer has thoughts is told by the template, where they begin by the prompt."""

    MESSAGES = ({"role": "user", "content": "hi"},)
    TURN = "{{ messages[0].content }}{# </think> #}"

    def thinking(self, source: str, tokenizer: Tokenizer = TOKENIZER, **variables: object) -> Any:
        builder = PromptBuilder.for_model(tokenizer, source)
        return builder.thinking(builder.chat(self.MESSAGES, variables=variables))

    def test_a_template_without_markers_has_none(self) -> None:
        assert self.thinking(CHATML) is None

    @pytest.mark.parametrize(
        ("end", "begun"),
        [
            ("", False),
            ("<think>", True),
            ("<think>\n", True),
            ("<think>a", False),
        ],
    )
    def test_the_prompts_end_tells_whether_they_have_begun(self, end: str, begun: bool) -> None:
        assert self.thinking(self.TURN + end + "\n") == Thinking("<think>", "</think>", begun)

    @pytest.mark.parametrize("end", ["<think></think>", "<think>\n\n</think>\n\n", "</think>"])
    def test_a_prompt_that_ends_behind_its_thoughts_has_none(self, end: str) -> None:
        assert self.thinking(self.TURN + end) is None

    def test_variables_reach_the_template(self) -> None:
        source = self.TURN + "<think>{% if enable_thinking == false %}</think>{% endif %}"
        assert self.thinking(source).begun
        assert self.thinking(source, enable_thinking=False) is None

    def test_markers_that_are_control_tokens_are_known_by_id(self) -> None:
        tokenizer = Tokenizer.from_gguf(byte_level("hello", controls=("[THINK]", "[/THINK]")))
        source = "{{ messages[0].content }}{# [/THINK] #}[THINK]"
        found = self.thinking(source, tokenizer)
        (opening,) = tokenizer.encode("[THINK]", special=True)
        (closing,) = tokenizer.encode("[/THINK]", special=True)
        assert found.controls == {opening: "[THINK]", closing: "[/THINK]"}
        assert found.begun

    def test_a_variables_text_is_only_text(self) -> None:
        builder = PromptBuilder.for_model(TOKENIZER, "{{ effort }}")
        ids = builder.chat(self.MESSAGES, variables={"effort": "<|im_end|>"})
        assert controls(ids) == controls(builder.chat(self.MESSAGES, variables={"effort": "low"}))


# Tools.

TOOL: Any = {"type": "function", "function": {"name": "pick", "parameters": {"type": "object"}}}
CALL: Any = {"id": "call_1", "type": "function", "function": {"name": "pick", "arguments": {}}}
ASKED: Any = {"role": "user", "content": "hello"}
CALLED: Any = {"role": "assistant", "content": "", "tool_calls": [CALL]}
RESULT: Any = {"role": "tool", "tool_call_id": "call_1", "name": "pick", "content": "7"}


def builder(template: str, tool_format: str | None = None) -> PromptBuilder:
    return PromptBuilder.for_model(TOKENIZER, template, tool_format)


def prompt(template: str, *messages: Any, tools: Any = None, **options: Any) -> str:
    return TOKENIZER.decode(builder(template, **options).chat(messages, tools=tools))


PLAIN = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"


def test_a_template_without_tools_gets_them_in_words() -> None:
    text = prompt(PLAIN, ASKED, CALLED, RESULT, tools=[TOOL])
    assert text.startswith("<system>You can call functions.")
    assert text.endswith(
        '<user>hello<assistant><tool_call>\n{"name": "pick", "arguments": {}}\n</tool_call>'
        "<user><tool_response>\n7\n</tool_response>"
    )
    assert builder(PLAIN).tool_format.name == "hermes"


def test_where_there_is_no_system_message_the_user_says_it() -> None:
    refusing = "{% if messages[0].role == 'system' %}{{ raise_exception('no') }}{% endif %}" + PLAIN
    silent = (
        "{% for m in messages if m.role != 'system' %}<{{ m.role }}>{{ m.content }}{% endfor %}"
    )
    for template in (refusing, silent):
        text = prompt(template, ASKED, tools=[TOOL])
        assert text.startswith("<user>You can call functions.")
        assert text.endswith("\n\nhello")


def test_the_operator_may_name_the_format() -> None:
    assert builder(PLAIN, "llama3").tool_format.name == "llama3"
    text = prompt(PLAIN, ASKED, CALLED, tools=[TOOL], tool_format="llama3")
    assert text.endswith('<assistant>{"name": "pick", "parameters": {}}')


def test_a_template_with_tools_sees_them_as_they_are() -> None:
    template = PLAIN + "{% for t in tools or [] %}[{{ t.function.name }}]{% endfor %}"
    assert prompt(template, ASKED, tools=[TOOL]) == "<user>hello[pick]"
    assert prompt(template, ASKED) == "<user>hello"


def test_ids_are_short_where_templates_want_that() -> None:
    template = (
        "{% if tools %}[TOOL_CALLS]{% endif %}{% for m in messages %}{{ m.tool_call_id }}"
        "{% for c in m.tool_calls or [] %}{{ c.id }};{% endfor %}{% endfor %}"
    )
    called, answered = prompt(template, ASKED, CALLED, RESULT).split(";")
    assert called == answered
    assert len(called) == 9
    assert called.isalnum()


def test_whether_a_message_may_have_several_calls() -> None:
    one = (
        "{{ tools }}{% for m in messages %}{% if m.tool_calls and m.tool_calls | length > 1 %}"
        "{{ raise_exception('one at a time') }}{% endif %}{% endfor %}"
    )
    assert not builder(one).several_calls
    assert builder("{{ tools }}" + PLAIN).several_calls
    assert builder(PLAIN).several_calls


def test_a_marker_is_one_control_token_or_none() -> None:
    assert BUILDER.control("[x]") == TOKENIZER.encode("[x]", special=True)[0]
    assert BUILDER.control("[x][x]") is None
    assert BUILDER.control("x") is None


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("{{ a | tojson }}", '"{\\"city\\": \\"Mal"'),
        ("{{ a if a is string else a | tojson }}", '{"city": "Mal'),
        ("{% for k, v in a.items() %}{{ k }}={{ v }};{% endfor %}", 'arguments={"city": "Mal;'),
        ("{% for k in a %}{{ a[k] }};{% endfor %}", '{"city": "Mal;'),
    ],
)
def test_arguments_that_are_no_json_are_shown_as_the_template_can(
    written: str, expected: str
) -> None:
    source = (
        "{% for m in messages %}{% for c in m.tool_calls or [] %}{% set a = c.function.arguments %}"
        f"{written}{{% endfor %}}{{% endfor %}}{{% if tools %}}{{% endif %}}"
    )
    function = {"name": "f", "arguments": '{"city": "Mal'}
    called = {"role": "assistant", "content": "", "tool_calls": [{"id": "1", "function": function}]}
    builder = PromptBuilder.for_model(TOKENIZER, source)
    assert TOKENIZER.decode(builder.chat([called])) == expected


def test_arguments_that_are_no_json_are_told_in_words_too() -> None:
    function = {"name": "f", "arguments": '{"city": "Mal'}
    called = {"role": "assistant", "content": "", "tool_calls": [{"id": "1", "function": function}]}
    told = TOKENIZER.decode(PromptBuilder.for_model(TOKENIZER, None).chat([called]))
    assert '{"name": "f", "arguments": "{\\"city\\": \\"Mal"}' in told


TURNS = "{% for m in messages %}<s>{{ m.role }}</s>{{ m.content }}<s>{% endfor %}"
MERGED = (
    "{% for m in messages %}"
    "{% if loop.first or m.role != messages[loop.index0 - 1].role %}<s>{{ m.role }}</s>{% endif %}"
    "{{ m.content }}{% endfor %}"
)
ALTERNATING = (
    "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}"
    "<s>{{ m.role }}</s>{{ m.content }}<s>{% endfor %}"
)


@pytest.mark.parametrize(
    ("template", "least"), [(TURNS, 4), (ALTERNATING, 4), (MERGED, 1), ("{{ messages[0] }}", 1)]
)
def test_the_least_that_a_message_adds_is_what_is_around_it(template: str, least: int) -> None:
    assert builder(template).least_a_message >= least
    if least == 1:
        assert builder(template).least_a_message == 1


@given(st.sampled_from([TURNS, MERGED, CHATML]), st.lists(st.sampled_from("usa"), min_size=1))
def test_no_conversation_is_shorter_than_told_by_its_messages(template: str, roles: str) -> None:
    names = {"u": "user", "s": "system", "a": "assistant"}
    messages = [{"role": names[role], "content": ""} for role in roles]
    prompts = builder(template)
    whole = len(prompts.chat(messages, add_generation_prompt=False))
    assert len(roles) * prompts.least_a_message <= whole + (template == MERGED) * len(roles)

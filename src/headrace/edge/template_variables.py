"""What a caller may tell a model's chat template, beside the messages: how much to think."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from headrace.api.anthropic.request import CountRequest
from headrace.api.anthropic.thinking import Thinking, ThinkingDisabled, ThinkingEnabled
from headrace.api.body import BodyError
from headrace.api.openai.chat import ChatRequest
from headrace.api.reader import unsupported
from headrace.edge.services import Prompts

OURS = frozenset({"messages", "tools", "add_generation_prompt", "bos_token", "eos_token"})
"""Variables that the service itself gives to every template."""

SWITCHES = ("enable_thinking", "thinking")
"""Names by which templates let thoughts be switched off."""

DEFAULT_EFFORT, DEFAULT_MESSAGES_EFFORT = "medium", "high"
"""OpenAI's `reasoning_effort` and Anthropic's `effort` where they are absent."""

EFFORTS = frozenset({"low", "medium", "high"})
"""What `reasoning_effort` may be in a template that writes it down and compares it to nothing."""


def template_variables(
    request: ChatRequest, prompts: Prompts, *, reasons: bool
) -> dict[str, object]:
    """The template's variables that a request sets. reasons: whether the model thinks; if not,
    it may be told not to.

    Raises BodyError naming the parameter that the template does not know.
    """
    variables: dict[str, object] = {}
    for name, given in (request.chat_template_kwargs or {}).items():
        if not reasons and name in SWITCHES and given is False and name not in prompts.variables:
            continue
        if name in OURS or name not in prompts.variables:
            known = ", ".join(sorted(prompts.variables - OURS)) or "none"
            raise BodyError(
                f"Invalid 'chat_template_kwargs.{name}': this model's chat template has no such "
                f"variable for callers; it has {known}.",
                f"chat_template_kwargs.{name}",
            )
        variables[name] = given
    for param, name, value in _named(request, prompts, reasons=reasons):
        if name in variables:
            raise BodyError(
                f"Invalid '{param}': it sets '{name}', and so does 'chat_template_kwargs'.", param
            )
        variables[name] = value
    return variables


def message_variables(
    request: CountRequest, prompts: Prompts, *, reasons: bool
) -> dict[str, object]:
    """The same of Anthropic's `thinking` and `effort`. reasons: whether the model thinks; if not,
    it may be told to think as it likes, not at all, and with any effort."""
    variables: dict[str, object] = {}
    thinking = request.thinking
    if isinstance(thinking, ThinkingEnabled) and not reasons:
        raise BodyError("Invalid 'thinking': this model does not think.", "thinking")
    if thinking is not None and reasons:
        variables.update(_thinking(thinking, prompts))
    if request.effort is not None:
        unsaid = {DEFAULT_MESSAGES_EFFORT} if reasons else {request.effort}
        variables.update(_effort(request.effort, prompts, "output_config.effort", unsaid))
    return variables


def switched_off(variables: Mapping[str, object]) -> bool:
    """Whether the template's variables switch thoughts off."""
    return any(variables.get(name) is False for name in SWITCHES)


def _quiet(thinking: Thinking) -> bool:
    return isinstance(thinking, ThinkingDisabled)


def _thinking(thinking: Thinking, prompts: Prompts) -> dict[str, object]:
    """Of a model that thinks."""
    if not isinstance(thinking, ThinkingDisabled) and thinking.display == "omitted":
        raise unsupported("thinking.display", ('"summarized"',))
    switch = next((name for name in SWITCHES if name in prompts.variables), None)
    variables: dict[str, object] = {} if switch is None else {switch: not _quiet(thinking)}
    if _quiet(thinking) and switch is None:
        param = "thinking.type"
        raise BodyError(f"Invalid '{param}': this model's chat template always thinks.", param)
    if isinstance(thinking, ThinkingEnabled) and "thinking_budget" in prompts.variables:
        variables["thinking_budget"] = thinking.budget_tokens
    return variables


def _named(
    request: ChatRequest, prompts: Prompts, *, reasons: bool
) -> list[tuple[str, str, object]]:
    """(parameter, variable, value) of the parameters that have a name of their own."""
    found: list[tuple[str, str, object]] = []
    if request.reasoning_effort is not None:
        param = "reasoning_effort"
        unsaid = {DEFAULT_EFFORT} if reasons else {DEFAULT_EFFORT, "none"}
        told = _effort(request.reasoning_effort, prompts, param, unsaid)
        found += [(param, name, value) for name, value in told.items()]
    budget = request.thinking_budget
    if budget is not None and (reasons or budget or "thinking_budget" in prompts.variables):
        if "thinking_budget" not in prompts.variables:
            raise BodyError(
                "Invalid 'thinking_budget': this model's chat template knows of none.",
                "thinking_budget",
            )
        found.append(("thinking_budget", "thinking_budget", budget))
    return found


def _effort(
    effort: str, prompts: Prompts, param: str, unsaid: Collection[str]
) -> dict[str, object]:
    """The variable, and its value, by which the template is told of an effort. param: what asked
    for it. unsaid: efforts that change nothing where the template has no term for them.

    Raises BodyError for any other that it has no term for.
    """
    allowed: frozenset[str] = frozenset()
    if "reasoning_effort" in prompts.variables:
        allowed = prompts.compared("reasoning_effort") or EFFORTS
    if effort in allowed:
        return {"reasoning_effort": effort}
    switch = next((name for name in SWITCHES if name in prompts.variables), None)
    if effort == "none" and switch is not None:
        return {switch: False}
    if effort in unsaid:
        return {}
    known = sorted(allowed | ({"none"} if switch else set()))
    what = f"only {', '.join(known)}" if known else "no reasoning effort"
    raise BodyError(
        f"Invalid '{param}': this model's chat template knows {what}.",
        param,
    )

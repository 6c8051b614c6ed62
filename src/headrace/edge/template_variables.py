"""What a caller may tell a model's chat template, beside the messages: how much to think."""

from __future__ import annotations

from headrace.api.anthropic.thinking import Thinking, ThinkingDisabled
from headrace.api.body import BodyError
from headrace.api.openai.chat import ChatRequest
from headrace.edge.services import Prompts

OURS = frozenset({"messages", "tools", "add_generation_prompt", "bos_token", "eos_token"})
"""Variables that the service itself gives to every template."""

SWITCHES = ("enable_thinking", "thinking")
"""Names by which templates let thoughts be switched off."""

EFFORTS = frozenset({"low", "medium", "high"})
"""What `reasoning_effort` may be in a template that writes it down and compares it to nothing."""


def template_variables(request: ChatRequest, prompts: Prompts) -> dict[str, object]:
    """The template's variables that a request sets.

    Raises BodyError naming the parameter that the template does not know.
    """
    variables: dict[str, object] = {}
    for name, given in (request.chat_template_kwargs or {}).items():
        if name in OURS or name not in prompts.variables:
            known = ", ".join(sorted(prompts.variables - OURS)) or "none"
            raise BodyError(
                f"Invalid 'chat_template_kwargs.{name}': this model's chat template has no such "
                f"variable for callers; it has {known}.",
                f"chat_template_kwargs.{name}",
            )
        variables[name] = given
    for param, name, value in _named(request, prompts):
        if name in variables:
            raise BodyError(
                f"Invalid '{param}': it sets '{name}', and so does 'chat_template_kwargs'.", param
            )
        variables[name] = value
    return variables


def thinking_variables(
    thinking: Thinking | None, prompts: Prompts, *, reasons: bool
) -> dict[str, object]:
    """The template's variables by which Anthropic's `thinking` is told. reasons: whether the
    model does. Raises BodyError where it can't be had as asked."""
    if thinking is None or (isinstance(thinking, ThinkingDisabled) and not reasons):
        return {}
    if not reasons:
        raise BodyError("Invalid 'thinking': this model does not think.", "thinking")
    switch = next((name for name in SWITCHES if name in prompts.variables), None)
    if isinstance(thinking, ThinkingDisabled):
        if switch is None:
            raise BodyError(
                "Invalid 'thinking.type': this model's chat template can't switch it off.",
                "thinking.type",
            )
        return {switch: False}
    variables: dict[str, object] = {} if switch is None else {switch: True}
    if "thinking_budget" not in prompts.variables:
        param = "thinking.budget_tokens"
        raise BodyError(f"Invalid '{param}': this model's chat template knows of none.", param)
    return variables | {"thinking_budget": thinking.budget_tokens}


def _named(request: ChatRequest, prompts: Prompts) -> list[tuple[str, str, object]]:
    """(parameter, variable, value) of the parameters that have a name of their own."""
    found: list[tuple[str, str, object]] = []
    if request.reasoning_effort is not None:
        found.append(("reasoning_effort", *_effort(request.reasoning_effort, prompts)))
    if request.thinking_budget is not None:
        if "thinking_budget" not in prompts.variables:
            raise BodyError(
                "Invalid 'thinking_budget': this model's chat template knows of none.",
                "thinking_budget",
            )
        found.append(("thinking_budget", "thinking_budget", request.thinking_budget))
    return found


def _effort(effort: str, prompts: Prompts) -> tuple[str, object]:
    """The variable, and its value, by which the template is told of an effort."""
    allowed: frozenset[str] = frozenset()
    if "reasoning_effort" in prompts.variables:
        allowed = prompts.compared("reasoning_effort") or EFFORTS
    if effort in allowed:
        return "reasoning_effort", effort
    switch = next((name for name in SWITCHES if name in prompts.variables), None)
    if effort == "none" and switch is not None:
        return switch, False
    known = sorted(allowed | ({"none"} if switch else set()))
    what = f"only {', '.join(known)}" if known else "no reasoning effort"
    raise BodyError(
        f"Invalid 'reasoning_effort': this model's chat template knows {what}.",
        "reasoning_effort",
    )

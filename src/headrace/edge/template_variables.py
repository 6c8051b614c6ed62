"""What a caller may tell a model's chat template, beside the messages: how much to think."""

from __future__ import annotations

from headrace.api.anthropic.request import CountRequest
from headrace.api.anthropic.thinking import Thinking, ThinkingDisabled, ThinkingEnabled
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


def message_variables(
    request: CountRequest, prompts: Prompts, *, reasons: bool
) -> dict[str, object]:
    """The same of Anthropic's `thinking` and `effort`. reasons: whether the model does."""
    variables: dict[str, object] = {}
    if request.thinking is not None and (reasons or not _quiet(request.thinking)):
        if not reasons:
            raise BodyError("Invalid 'thinking': this model does not think.", "thinking")
        variables.update(_thinking(request.thinking, prompts))
    if request.effort is not None:
        name, value = _effort(request.effort, prompts, "output_config.effort")
        variables[name] = value
    return variables


def _quiet(thinking: Thinking) -> bool:
    return isinstance(thinking, ThinkingDisabled)


def _thinking(thinking: Thinking, prompts: Prompts) -> dict[str, object]:
    """Of a model that does."""
    switch = next((name for name in SWITCHES if name in prompts.variables), None)
    variables: dict[str, object] = {} if switch is None else {switch: not _quiet(thinking)}
    if _quiet(thinking) and switch is None:
        param = "thinking.type"
        raise BodyError(f"Invalid '{param}': this model's chat template always thinks.", param)
    if isinstance(thinking, ThinkingEnabled) and "thinking_budget" in prompts.variables:
        variables["thinking_budget"] = thinking.budget_tokens
    return variables


def _named(request: ChatRequest, prompts: Prompts) -> list[tuple[str, str, object]]:
    """(parameter, variable, value) of the parameters that have a name of their own."""
    found: list[tuple[str, str, object]] = []
    if request.reasoning_effort is not None:
        param = "reasoning_effort"
        found.append((param, *_effort(request.reasoning_effort, prompts, param)))
    if request.thinking_budget is not None:
        if "thinking_budget" not in prompts.variables:
            raise BodyError(
                "Invalid 'thinking_budget': this model's chat template knows of none.",
                "thinking_budget",
            )
        found.append(("thinking_budget", "thinking_budget", request.thinking_budget))
    return found


def _effort(effort: str, prompts: Prompts, param: str) -> tuple[str, object]:
    """The variable, and its value, by which the template is told of an effort. param: what asked
    for it."""
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
        f"Invalid '{param}': this model's chat template knows {what}.",
        param,
    )

"""The request of `POST /v1/completions`."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from headrace.api.body import BodyError
from headrace.api.openai.neutral import COMPLETIONS
from headrace.api.openai.parameters import (
    GenerationParameters,
    TokenId,
    check_parameters,
)
from headrace.api.openai.response_format import Form, asked_form
from headrace.api.reader import RequestReader

DEFAULT_MAX_TOKENS = 16

Prompt = str | list[int]


class CompletionRequest(GenerationParameters, frozen=True, kw_only=True):
    """prompt: a text, token ids, or a list of texts or of lists of ids. logprobs: how many
    alternatives to report beside each token. echo: put the prompt before the completion.
    max_tokens 0: only the prompt, echoed. best_of: candidates drawn for each prompt, of which
    the `n` with the highest mean logprob are answered. suffix: the text that follows what is
    generated; "" is none. parse_special: texts of control tokens in a prompt become those tokens;
    it is llama.cpp's name."""

    max_tokens: Annotated[int, Meta(ge=0, le=2**31 - 1)] | None = None
    prompt: str | Annotated[list[str | TokenId | list[TokenId]], Meta(min_length=1)]
    echo: bool = False
    best_of: Annotated[int, Meta(ge=1, le=2**31 - 1)] | None = None
    logprobs: Annotated[int, Meta(ge=0, le=5)] | None = None
    suffix: str | None = None
    parse_special: bool = False

    @property
    def form(self) -> Form | None:
        """Raises BodyError."""
        return asked_form(self)

    @property
    def candidates(self) -> int:
        """Completions drawn for each prompt."""
        return self.n if self.best_of is None else self.best_of

    @property
    def prompt_count(self) -> int:
        """How many prompts there are, by the first of them: others may be of another kind."""
        single = isinstance(self.prompt, str) or isinstance(self.prompt[0], int)
        return 1 if single else len(self.prompt)

    def prompts(self) -> list[tuple[str, Prompt]]:
        """Each prompt with the path it stands at. Raises BodyError for a mixed or empty one."""
        if isinstance(self.prompt, str):
            return [("prompt", self.prompt)]
        kinds = set(map(type, self.prompt))  # no loop of ours: it may be a million token ids
        if len(kinds) > 1:
            first = type(self.prompt[0])
            index = next(i for i, item in enumerate(self.prompt) if type(item) is not first)
            raise BodyError(
                "Invalid 'prompt': texts, token ids and lists of token ids can't be mixed.",
                f"prompt[{index}]",
            )
        if kinds == {int}:
            return [("prompt", self.prompt)]  # type: ignore[list-item]
        if [] in self.prompt:
            param = f"prompt[{self.prompt.index([])}]"
            raise BodyError(f"Invalid '{param}': a list of token ids can't be empty.", param)
        return [(f"prompt[{i}]", item) for i, item in enumerate(self.prompt)]  # type: ignore[misc]


_reader = RequestReader(CompletionRequest, COMPLETIONS)


def parse_completion_request(body: bytes, *, max_choices: int) -> CompletionRequest:
    """Raises BodyError naming the field that is missing, wrong, unknown or unsupported."""
    request = _reader.read(body)
    check_parameters(request, max_choices=max_choices)
    if request.candidates < request.n:
        raise BodyError("Invalid 'best_of': it must not be smaller than 'n'.", "best_of")
    if request.candidates > request.n and request.stream:
        raise BodyError(
            "Invalid 'best_of': more candidates than 'n' can't be streamed, since the best are "
            "known when all have ended.",
            "best_of",
        )
    if request.max_tokens == 0 and not request.echo:
        raise BodyError(
            "Invalid 'max_tokens': 0 is only allowed with 'echo', or nothing could be answered.",
            "max_tokens",
        )
    choices = request.prompt_count * request.candidates
    if choices > max_choices:
        param = "best_of" if request.candidates > max_choices else "prompt"
        raise BodyError(
            f"Invalid '{param}': prompts times 'n' (or 'best_of') make {choices} choices; "
            f"this server allows at most {max_choices}.",
            param,
        )
    request.prompts()
    _check_texts(request)
    return request


def _check_texts(request: CompletionRequest) -> None:
    """What `suffix` and `parse_special` do not go with. Raises BodyError."""
    if request.suffix:
        for param, prompt in request.prompts():
            if not isinstance(prompt, str):
                raise BodyError(
                    f"Invalid 'suffix': '{param}' has token ids, and 'suffix' needs a text before "
                    "it.",
                    "suffix",
                )
        if request.echo:
            raise BodyError("Invalid 'echo': a prompt with a 'suffix' can't be echoed.", "echo")
        if request.parse_special:
            raise BodyError(
                "Invalid 'parse_special': texts around what is to be filled in are plain.",
                "parse_special",
            )
    if request.parse_special and request.echo and request.logprobs is not None:
        raise BodyError(
            "Invalid 'logprobs': with 'parse_special' the tokens of an echoed prompt have no place "
            "in its text.",
            "logprobs",
        )

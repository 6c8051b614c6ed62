"""What requests were, came to and took."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from uuid import UUID

from msgspec import Struct
from prometheus_client.core import GaugeMetricFamily, Metric

from headrace.observe.tally import Spread, Tally

WHOLE_SECONDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640)
FIRST_TOKEN_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 2, 3, 5, 10, 30, 60, 120)
TOKEN_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.3, 0.5, 1, 2, 5)

MOST_TENANTS = 10_000


class Generated(Struct, frozen=True, kw_only=True):
    """What a request generated. cached_tokens are part of prompt_tokens. first_token: seconds from
    the request's arrival to the first token of any choice; per_token: mean seconds from one token
    of a choice to the next. None where there were not so many tokens."""

    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    first_token: float | None
    per_token: float | None


class Meter:
    """Counts every request once, when it is over; chunks of streams cost nothing.

    endpoint: the route's path, with placeholders. model: the served name, "" where none was found.
    Both are bounded, whatever callers send.
    """

    def __init__(self) -> None:
        self.in_flight = 0
        self._tenants: OrderedDict[UUID, str] = OrderedDict()
        place = ("endpoint", "model")
        self._requests = Tally("headrace_requests", "Answers.", [*place, "status"])
        self._seconds = Spread(
            "headrace_request_seconds", "From arrival to the answer's end.", place, WHOLE_SECONDS
        )
        self._first_token = Spread(
            "headrace_time_to_first_token_seconds",
            "From arrival to the first token.",
            ["model"],
            FIRST_TOKEN_SECONDS,
        )
        self._per_token = Spread(
            "headrace_time_per_output_token_seconds",
            "From one token to the next, the mean of a request.",
            ["model"],
            TOKEN_SECONDS,
        )
        self._prompt = Tally("headrace_prompt_tokens", "Of prompts, cached ones too.", ["model"])
        self._cached = Tally(
            "headrace_cached_tokens", "Of prompts, taken from the prefix cache.", ["model"]
        )
        self._completion = Tally("headrace_completion_tokens", "Generated.", ["model"])

    def meet(self, tenant: UUID, name: str) -> None:
        """Remember whose number it is."""
        if tenant not in self._tenants and len(self._tenants) >= MOST_TENANTS:
            self._tenants.popitem(last=False)
        self._tenants[tenant] = name

    def name_of(self, tenant: UUID) -> str:
        """The number itself of one that was never met: the service's own requests have one."""
        return self._tenants.get(tenant, str(tenant))

    def answered(self, endpoint: str, model: str, status: int, seconds: float) -> None:
        """A request is over. seconds: since its arrival."""
        self._requests.add((endpoint, model, str(status)))
        self._seconds.observe((endpoint, model), seconds)

    def generated(self, model: str, work: Generated) -> None:
        labels = (model,)
        self._prompt.add(labels, work.prompt_tokens)
        self._cached.add(labels, work.cached_tokens)
        self._completion.add(labels, work.completion_tokens)
        if work.first_token is not None:
            self._first_token.observe(labels, work.first_token)
        if work.per_token is not None:
            self._per_token.observe(labels, work.per_token)

    def families(self) -> Iterable[Metric]:
        in_flight = "Requests that have arrived and are not answered in full."
        yield GaugeMetricFamily("headrace_requests_in_flight", in_flight, self.in_flight)
        for metric in (
            self._requests,
            self._seconds,
            self._first_token,
            self._per_token,
            self._prompt,
            self._cached,
            self._completion,
        ):
            yield metric.family()

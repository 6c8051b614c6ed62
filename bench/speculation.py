"""Where guessing tokens pays, and where it doesn't.

    python bench/speculation.py --model qwen2.5-coder-1.5b --draft qwen2.5-coder-0.5b

One engine in this process, each way of guessing in turn, on texts that a model copies, edits or
makes up, with one stream and with many. Every answer must be the one without guesses, to the
last token. Medians of --rounds rounds, tokens a second of all streams together, prompts not
counted.
"""

from __future__ import annotations

import argparse
import inspect
import statistics
import textwrap
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from headrace.engine import draft as draft_module
from headrace.engine.blocks import BlockPool
from headrace.engine.budget import StepBudget
from headrace.engine.costs import measure_costs
from headrace.engine.draft import DraftModel
from headrace.engine.guess import Proposer
from headrace.engine.lookup import PromptLookup
from headrace.engine.loop import SynchronousEngine
from headrace.engine.request import GenerationRequest, SamplingParams, StopConditions
from headrace.engine.runner import ModelRunner
from headrace.engine.scheduler import Scheduler
from headrace.engine.speculation import Speculator
from headrace.fleet.cores import usable_cores
from headrace.models.model import Model, open_model
from headrace.ops.backend import Executable, Limits
from headrace.ops.cpu import CpuBackend
from headrace.text.pipeline import TextPipeline
from headrace.text.prompt import PromptBuilder
from headrace.text.tokenizer import Tokenizer
from run import model_path

MOST_STREAMS = 32
LIMITS = Limits(
    tokens=512, sequences=MOST_STREAMS, blocks=MOST_STREAMS * 32, threads=usable_cores()
)

CODE = textwrap.dedent(inspect.getsource(draft_module._batch) + inspect.getsource(Proposer))

TASKS = {
    "edit code": (
        "Rename the variable `parts` to `pieces` everywhere in this code, and answer with the"
        f" whole code and nothing else.\n\n```python\n{CODE}\n```"
    ),
    "write code": "Write a Python class for a binary search tree with insert, delete and search.",
    "free text": "Tell me a story about a lighthouse keeper and her two quarrelling cats.",
}


@dataclass(frozen=True)
class Way:
    """One way of guessing."""

    name: str
    proposer: Proposer | None


@dataclass
class Result:
    rates: list[float]
    proposed: int = 0
    accepted: int = 0


class Bench:
    def __init__(self, model: Model, draft: Model | None, most: int) -> None:
        backend = CpuBackend()
        self.model = model
        self.tokenizer = Tokenizer.from_gguf(model.metadata)
        self.prompts = PromptBuilder.for_model(self.tokenizer, model.chat_template)
        self.executable = backend.load(model.program, model.weights, LIMITS)
        self.costs = measure_costs(self.executable, LIMITS)
        self.most = most
        self.draft: Executable | None = None
        if draft is not None:
            self.draft = backend.load(draft.program, draft.weights, LIMITS)
            self.draft_costs = measure_costs(self.draft, LIMITS)

    def ways(self) -> Iterator[Way]:
        yield Way("off", None)
        yield Way("ngram", PromptLookup())
        if self.draft is not None:
            yield Way("draft", DraftModel(self.draft, self.draft_costs, LIMITS))

    def engine(self, way: Way) -> SynchronousEngine:
        speculator = None
        if way.proposer is not None:
            speculator = Speculator(way.proposer, self.costs, most=self.most)
        return SynchronousEngine(
            ModelRunner(
                self.executable,
                max_sequences=LIMITS.sequences,
                max_step_tokens=LIMITS.tokens,
                max_blocks=LIMITS.blocks,
                vocab_size=self.model.program.vocab_size,
            ),
            Scheduler(
                BlockPool(LIMITS.blocks),
                StepBudget(LIMITS.tokens),
                max_sequences=LIMITS.sequences,
                context_length=min(self.model.context_length, 1024),
                speculator=speculator,
            ),
            self.tokenizer,
            partial(TextPipeline, self.tokenizer),
            vocab_size=self.model.program.vocab_size,
        )

    def request(self, task: str, stream: int, temperature: float, output: int) -> GenerationRequest:
        return GenerationRequest(
            id=str(stream),
            prompt=self.prompts.chat([{"role": "user", "content": TASKS[task]}], variables={}),
            sampling=SamplingParams(temperature=temperature, seed=stream),
            stopping=StopConditions(max_tokens=output, ignore_eos=True),
        )

    def measure(
        self, way: Way, requests: Sequence[GenerationRequest]
    ) -> tuple[dict[str, list[int]], float, SynchronousEngine]:
        """The tokens of each, and seconds from the last first token to the end."""
        engine = self.engine(way)
        for request in requests:
            engine.submit(request)
        tokens: dict[str, list[int]] = {request.id: [] for request in requests}
        start, at_start = 0.0, 0
        while engine.has_work:
            for output in engine.step():
                tokens[output.id] += output.tokens
            if not start and all(tokens.values()):
                start, at_start = time.perf_counter(), sum(map(len, tokens.values()))
        seconds = time.perf_counter() - start
        return tokens, (sum(map(len, tokens.values())) - at_start) / seconds, engine


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", required=True, help="a catalogue name or a GGUF file")
    parser.add_argument("--draft", help="a smaller one of the same tokenizer")
    parser.add_argument("--streams", nargs="+", type=int, default=[1, 8, 32])
    parser.add_argument("--temperatures", nargs="+", type=float, default=[0.0, 0.8])
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--output", type=int, default=128, help="tokens of an answer")
    parser.add_argument("--guesses", type=int, default=8, help="most of a sequence in a step")
    parser.add_argument("--rounds", type=int, default=1)
    args = parser.parse_args()
    draft = open_model(Path(model_path(args.draft))) if args.draft else None
    bench = Bench(open_model(Path(model_path(args.model))), draft, args.guesses)
    print("step of tokens, ms:", {n: round(1e3 * bench.costs(n), 1) for n in (1, 2, 4, 8, 16, 32)})
    if draft is not None:
        print("of the draft, ms:", {n: round(1e3 * bench.draft_costs(n), 1) for n in (1, 8, 32)})
    print("| task | streams | temperature | way | tok/s | ratio | accepted | of guesses |")
    print("|---|---|---|---|---|---|---|---|")
    for task in args.tasks:
        for streams in args.streams:
            for temperature in args.temperatures:
                compare(bench, task, streams, temperature, args.output, args.rounds)


def compare(
    bench: Bench, task: str, streams: int, temperature: float, output: int, rounds: int
) -> None:
    requests = [bench.request(task, i, temperature, output) for i in range(streams)]
    results: dict[str, Result] = {}
    expected = None
    for _ in range(rounds):
        for way in bench.ways():
            tokens, rate, engine = bench.measure(way, requests)
            expected = expected or tokens
            assert tokens == expected, f"{way.name} gave other tokens"
            result = results.setdefault(way.name, Result([]))
            result.rates.append(rate)
            status = engine.status()
            result.proposed += status.proposed_tokens
            result.accepted += status.accepted_tokens
    plain = statistics.median(results["off"].rates)
    for name, result in results.items():
        rate = statistics.median(result.rates)
        share = f"{result.accepted / result.proposed:.0%}" if result.proposed else ""
        print(
            f"| {task} | {streams} | {temperature:g} | {name} | {rate:.1f} | {rate / plain:.2f} |"
            f" {share} | {result.proposed} |",
            flush=True,
        )


if __name__ == "__main__":
    main()

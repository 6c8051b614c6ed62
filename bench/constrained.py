"""What following a grammar costs.

    python bench/constrained.py --model qwen2.5-coder-0.5b

One engine in this process; every stream generates the same number of tokens, once freely and once
under each grammar, in turn, --rounds times. What counts is the time from when all streams are
behind their prompts until the first ends, and the tokens generated in it.
A pattern leaves a choice at every token, so each is drawn from what a mask
leaves: this is the cost of masks. A schema forces some tokens, which take no step of their own but
are computed as any other, so they are counted apart.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from headrace.engine.blocks import BlockPool, blocks_for
from headrace.engine.budget import StepBudget
from headrace.engine.loop import Engine
from headrace.engine.request import GenerationRequest, SamplingParams, StopConditions
from headrace.engine.runner import ModelRunner
from headrace.engine.scheduler import Scheduler
from headrace.fleet.constraining import Constraining
from headrace.fleet.cores import usable_cores
from headrace.grammar.compiler import Compiler
from headrace.grammar.forms import json_schema, regex
from headrace.grammar.grammar import Grammar
from headrace.models.model import Model, open_model
from headrace.ops.backend import Limits
from headrace.ops.cpu import CpuBackend
from headrace.text.pipeline import TextPipeline
from headrace.text.prompt import PromptBuilder
from headrace.text.tokenizer import Tokenizer
from run import model_path

CONTEXT = 1024
MOST_STREAMS = 32

PEOPLE = {
    "type": "array",
    "minItems": 100,
    "items": {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "age": {"type": "integer", "minimum": 0, "maximum": 130},
            "role": {"enum": ["admin", "editor", "reader"]},
            "bio": {"type": "string"},
        },
        "required": ["name", "age", "role", "bio"],
        "additionalProperties": False,
    },
}

GRAMMARS: dict[str, Grammar | None] = {
    "none": None,
    "pattern": regex(r"[A-Za-z0-9 ,.;:'()\n-]*"),
    "schema": json_schema(PEOPLE),
}

TASK = "Make up a hundred people of a small town: name, age, role and a short biography of each."


@dataclass
class Pace:
    """What an engine did and how long it took, in seconds."""

    drawn: int = 0
    forced: int = 0
    seconds: float = 0.0

    @property
    def rate(self) -> float:
        return (self.drawn + self.forced) / self.seconds


class Bench:
    def __init__(self, model: Model) -> None:
        self.model = model
        self.tokenizer = Tokenizer.of_checkpoint(model.metadata, model.tokenizer_file)
        self.prompts = PromptBuilder.for_model(self.tokenizer, model.chat_template)
        self.limits = Limits(
            tokens=512,
            sequences=MOST_STREAMS,
            blocks=MOST_STREAMS * blocks_for(CONTEXT),
            threads=usable_cores(),
        )
        self.executable = CpuBackend().load(model.program, model.weights, self.limits)
        self.constraints = Constraining(Compiler(self.tokenizer, model.program.vocab_size))

    def engine(self) -> Engine:
        limits, vocab_size = self.limits, self.model.program.vocab_size
        return Engine(
            ModelRunner(
                self.executable,
                max_sequences=limits.sequences,
                max_step_tokens=limits.tokens,
                max_blocks=limits.blocks,
                vocab_size=vocab_size,
            ),
            Scheduler(
                BlockPool(limits.blocks),
                StepBudget(limits.tokens),
                max_sequences=limits.sequences,
                context_length=min(self.model.context_length, CONTEXT),
            ),
            self.tokenizer,
            partial(TextPipeline, self.tokenizer),
            vocab_size=vocab_size,
            constraints=self.constraints,
        )

    def requests(
        self, grammar: Grammar | None, streams: int, temperature: float, output: int
    ) -> Iterator[GenerationRequest]:
        prompt = self.prompts.chat([{"role": "user", "content": TASK}], variables={})
        for stream in range(streams):
            yield GenerationRequest(
                id=str(stream),
                prompt=prompt,
                sampling=SamplingParams(temperature=temperature, seed=stream),
                stopping=StopConditions(max_tokens=output, ignore_eos=True),
                grammar=grammar,
            )

    def measure(self, requests: Sequence[GenerationRequest]) -> Pace:
        """Raises RuntimeError if an answer ends too early."""
        engine = self.engine()
        for request in requests:
            engine.submit(request)
        given = Counter[str]()
        pace, start, before = Pace(), 0.0, engine.status()
        while engine.has_work:
            for output in engine.step():
                given[output.id] += 1
                if output.finish is None:
                    continue
                if output.finish.reason != "length":
                    raise RuntimeError(f"an answer ended by {output.finish.reason}")
                if not pace.seconds:
                    after = engine.status()
                    pace.seconds = time.perf_counter() - start
                    pace.forced = after.forced_tokens - before.forced_tokens
                    generated = after.generated_tokens - before.generated_tokens
                    pace.drawn = generated - pace.forced
            # What a schema's documents begin with is given before the prompt is computed.
            if not start and sum(count > 1 for count in given.values()) == len(requests):
                start, before = time.perf_counter(), engine.status()
        return pace


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", required=True, help="a catalogue name or a GGUF file")
    parser.add_argument("--streams", nargs="+", type=int, default=[1, 8, 32])
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--output", type=int, default=128, help="tokens of an answer")
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    bench = Bench(open_model(Path(model_path(args.model))))
    print("| streams | grammar | drawn tok/s | forced tok/s | all, of free | least and most |")
    print("|---|---|---|---|---|---|")
    for streams in args.streams:
        paces: dict[str, list[Pace]] = {name: [] for name in GRAMMARS}
        for _ in range(args.rounds):
            for name, grammar in GRAMMARS.items():
                asked = bench.requests(grammar, streams, args.temperature, args.output)
                paces[name].append(bench.measure([*asked]))
        for name in GRAMMARS:
            show(streams, name, paces[name], paces["none"])


def show(streams: int, name: str, paces: Sequence[Pace], free: Sequence[Pace]) -> None:
    drawn = statistics.median(pace.drawn / pace.seconds for pace in paces)
    forced = statistics.median(pace.forced / pace.seconds for pace in paces)
    # Each round against its own, since a machine's pace changes between them.
    ratios = sorted(pace.rate / other.rate for pace, other in zip(paces, free, strict=True))
    print(
        f"| {streams} | {name} | {drawn:.0f} | {forced:.0f} | {statistics.median(ratios):.3f} |"
        f" {ratios[0]:.3f} to {ratios[-1]:.3f} |",
        flush=True,
    )


if __name__ == "__main__":
    main()

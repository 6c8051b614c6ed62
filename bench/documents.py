"""Two hundred schemas, asked of a model by greedy and by free sampling: does every answer follow?

    python bench/documents.py --model smollm2-135m qwen2.5-coder-0.5b

Each answer is judged by `jsonschema`, formats included. One that ends by itself must be valid; one
that reaches --tokens says so (`length`) and must be the beginning of a valid one. Needs the
packages of `make test`.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import httpx

from engines.headrace import Headrace
from headrace.load.client import Server
from headrace.load.workload import Workload
from run import model_path
from schemas import SCHEMAS
from schemas.judge import fault


@dataclass(frozen=True)
class Question:
    """One schema at one temperature."""

    name: str
    temperature: float
    seed: int = 0

    def body(self, model: str, tokens: int) -> dict[str, object]:
        form = {"name": "answer", "strict": True, "schema": SCHEMAS[self.name]}
        ask = f"Make up an example of: {self.name}. Answer in JSON."
        return {
            "model": model,
            "messages": [{"role": "user", "content": ask}],
            "response_format": {"type": "json_schema", "json_schema": form},
            "temperature": self.temperature,
            "seed": self.seed,
            "max_tokens": tokens,
        }


@dataclass(frozen=True)
class Verdict:
    """How one was answered. fault: what is wrong with it; None if nothing is."""

    question: Question
    finish_reason: str
    tokens: int
    text: str
    fault: str | None


async def judge_all(
    server: Server, questions: Iterable[Question], *, tokens: int, streams: int
) -> list[Verdict]:
    """Ask everything, `streams` at a time."""
    free = asyncio.Semaphore(streams)
    headers = {"authorization": f"Bearer {server.key}"}
    async with httpx.AsyncClient(base_url=server.url, headers=headers, timeout=600) as http:

        async def judge(question: Question) -> Verdict:
            async with free:
                body = question.body(server.model, tokens)
                answer = await http.post(f"{server.url}/chat/completions", json=body)
            if answer.status_code != 200:
                return Verdict(question, str(answer.status_code), 0, "", answer.text)
            choice = answer.json()["choices"][0]
            text, reason = choice["message"]["content"] or "", choice["finish_reason"]
            spent = answer.json()["usage"]["completion_tokens"]
            wrong = fault(SCHEMAS[question.name], text, reason)
            return Verdict(question, reason, spent, text, wrong)

        return await asyncio.gather(*(judge(question) for question in questions))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", nargs="+", default=["smollm2-135m"])
    parser.add_argument("--temperatures", nargs="+", type=float, default=[0.0, 1.0])
    parser.add_argument("--tokens", type=int, default=512, help="most of an answer")
    parser.add_argument("--streams", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    load = Workload(title="", streams=args.streams, requests=0, output=args.tokens)
    faults: list[Verdict] = []
    print("| model | temperature | valid | cut at the limit | faults | tokens | tok/s |")
    print("|---|---|---|---|---|---|---|")
    for model in args.model:
        with Headrace().serve(model_path(model), load) as server:
            for temperature in args.temperatures:
                questions = [Question(name, temperature, args.seed) for name in SCHEMAS]
                start = time.perf_counter()
                verdicts = asyncio.run(
                    judge_all(server, questions, tokens=args.tokens, streams=args.streams)
                )
                seconds = time.perf_counter() - start
                wrong = [verdict for verdict in verdicts if verdict.fault]
                faults += wrong
                ends = Counter(v.finish_reason for v in verdicts if not v.fault)
                spent = sum(verdict.tokens for verdict in verdicts)
                print(
                    f"| {model} | {temperature:g} | {ends['stop']} | {ends['length']} |"
                    f" {len(wrong)} | {spent} | {spent / seconds:.0f} |",
                    flush=True,
                )
    for verdict in faults:
        print(f"\n{verdict.question}: {verdict.fault}\n{verdict.text[:400]}")
    raise SystemExit(bool(faults))


if __name__ == "__main__":
    main()

r"""Tasks that want functions called: how many a model solves, here and behind a peer.

    python bench/tool_calls.py --model qwen2.5-coder-0.5b qwen2.5-coder-1.5b \
        --engines headrace llama.cpp

Greedy. With `auto` the model may talk instead; with `required` every answer that was not cut at
--tokens must be calls that parse and validate, and a fault there is one of the server's.
Needs the packages of `make test`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from engines.headrace import Headrace
from engines.llama_cpp import LlamaCpp
from headrace.load.client import Server
from headrace.load.workload import Workload
from run import model_path
from tools import TASKS
from tools.functions import tools
from tools.score import Message, fault, solved
from tools.tasks import Task

KINDS = ("single", "multiple", "parallel")
LONGEST_PROMPT = 1536


@dataclass(frozen=True)
class Answer:
    """What a server said to a task. cut: at its limit of tokens. error: its refusal, if it was
    one."""

    task: Task
    message: Message
    tokens: int
    cut: bool = False
    error: str | None = None

    @property
    def fault(self) -> str | None:
        """What is wrong with its calls, or that there are none. Where the answer was cut, the last
        of them is none yet."""
        calls = self.message.get("tool_calls") or []
        if not self.cut:
            return self.error or fault(self.task, self.message)
        whole = {**self.message, "tool_calls": calls[:-1]}
        return fault(self.task, whole) if calls[:-1] else None

    @property
    def solved(self) -> bool:
        return self.error is None and solved(self.task, self.message)


async def answer_all(
    server: Server, tasks: Iterable[Task], tool_choice: str, *, tokens: int, streams: int
) -> list[Answer]:
    free = asyncio.Semaphore(streams)
    headers = {"authorization": f"Bearer {server.key}"}
    async with httpx.AsyncClient(headers=headers, timeout=600) as http:

        async def answer(task: Task) -> Answer:
            body = {
                "model": server.model,
                "messages": [{"role": "user", "content": task.question}],
                "tools": tools(task.offered),
                "tool_choice": tool_choice,
                "parallel_tool_calls": True,
                "temperature": 0,
                "max_tokens": tokens,
            }
            async with free:
                response = await http.post(f"{server.url}/chat/completions", json=body)
            if response.status_code != 200:
                return Answer(task, {}, 0, error=f"{response.status_code}: {response.text[:300]}")
            content = response.json()
            spent = content["usage"]["completion_tokens"]
            choice = content["choices"][0]
            return Answer(task, choice["message"], spent, choice["finish_reason"] == "length")

        return await asyncio.gather(*(answer(task) for task in tasks))


class LlamaCppTools(LlamaCpp):
    """With the templates that its tools need."""

    def command(self, gguf: Path, port: int, workload: Workload) -> list[str]:
        return [*super().command(gguf, port, workload), "--jinja"]


ENGINES = {engine.name: engine for engine in (Headrace(), LlamaCppTools())}


@contextmanager
def given(url: str, key: str) -> Iterator[Server]:
    """A server that runs anyway."""
    answer = httpx.get(f"{url}/models", headers={"authorization": f"Bearer {key}"}, timeout=30)
    yield Server(url=url, model=answer.json()["data"][0]["id"], key=key)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", nargs="+", default=["qwen2.5-coder-0.5b"])
    parser.add_argument("--engines", nargs="+", default=["headrace"], choices=list(ENGINES))
    parser.add_argument("--url", help="a server that runs (its /v1), instead of these")
    parser.add_argument("--key", default="")
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=KINDS)
    parser.add_argument("--choices", nargs="+", default=["auto", "required"])
    parser.add_argument("--tokens", type=int, default=256, help="most of an answer")
    parser.add_argument("--streams", type=int, default=8)
    parser.add_argument("--answers", type=Path, help="write every answer here, a line each")
    args = parser.parse_args()
    tasks = [task for task in TASKS if task.kind in args.kinds]
    load = Workload(
        title="", streams=args.streams, requests=0, prompt=LONGEST_PROMPT, output=args.tokens
    )
    print("| model | engine | tool_choice | single | multiple | parallel | all | valid | cut | s |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for model in args.model:
        for engine in (ENGINES[name] for name in args.engines):
            serving = (
                given(args.url, args.key) if args.url else engine.serve(model_path(model), load)
            )
            with serving as server:
                for choice in args.choices:
                    start = time.perf_counter()
                    answers = asyncio.run(
                        answer_all(server, tasks, choice, tokens=args.tokens, streams=args.streams)
                    )
                    seconds = time.perf_counter() - start
                    name = args.url or engine.name
                    print(
                        f"| {model} | {name} | {choice} | {row(answers)} | {seconds:.0f} |",
                        flush=True,
                    )
                    if args.answers:
                        write(args.answers, answers, model=model, engine=name, choice=choice)
                    if choice == "required":
                        for answer in answers:
                            if answer.fault:
                                print(f"  {answer.task.question}: {answer.fault}")


def row(answers: list[Answer]) -> str:
    """Tasks solved of each kind and of all, answers whose calls are valid, answers cut off."""
    all_of = Counter(answer.task.kind for answer in answers)
    good = Counter(answer.task.kind for answer in answers if answer.solved)
    kinds = " | ".join(f"{good[kind]} of {all_of[kind]}" for kind in KINDS)
    valid = sum(answer.fault is None for answer in answers)
    share = good.total() / len(answers)
    cut = sum(answer.cut for answer in answers)
    return f"{kinds} | {share:.1%} | {valid} of {len(answers)} | {cut}"


def write(path: Path, answers: list[Answer], **where: str) -> None:
    with path.open("a") as file:
        for answer in answers:
            line = {
                **where,
                "question": answer.task.question,
                "solved": answer.solved,
                "fault": answer.fault,
                "message": answer.message,
            }
            file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()

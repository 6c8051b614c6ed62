"""From `headrace serve` to the first token that a client holds, the model being on disk.

python bench/cold_start.py [--model NAME_OR_PATH] [--rounds 5]
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time

from engines.headrace import Headrace
from headrace.load.client import Request, complete
from headrace.load.workload import builtin
from run import model_path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--model", default="smollm2-135m", help="catalogue name or GGUF path")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    gguf = model_path(args.model)
    seconds = []
    for _ in range(args.rounds):
        start = time.perf_counter()
        with Headrace().serve(gguf, builtin()["W1"]) as server:
            request = Request(prompt=list(range(1000, 1016)), output=2)
            timing = asyncio.run(complete(server, request))
            seconds.append(timing.arrivals[0] - start)
    print(f"seconds to the first token: median {statistics.median(seconds):.2f}, ", end="")
    print(f"{min(seconds):.2f} to {max(seconds):.2f} over {args.rounds} starts")


if __name__ == "__main__":
    main()

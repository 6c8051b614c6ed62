"""Memory and time of compiling many different schemas with one compiler, as SO-19 of the cases
has them. `python bench/compiled_grammars.py --model FILE.gguf`"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from headrace.grammar import json_schema
from headrace.grammar.compiler import Compiler
from headrace.models.gguf import read_gguf
from headrace.text.tokenizer import Tokenizer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True, help="a GGUF file")
    parser.add_argument("--schemas", type=int, default=10_000)
    parser.add_argument("--every", type=int, default=1_000, help="a line for so many")
    args = parser.parse_args()
    tokenizer = Tokenizer.from_gguf(read_gguf(args.model).metadata)
    compiler = Compiler(tokenizer, tokenizer.vocab_size)
    compiler.compile(json_schema({}), ())
    print("schemas   kept   counted MB   resident MB   ms a schema")
    print(f"{0:7}{'':20}{resident():14.0f}", flush=True)
    for first in range(0, args.schemas, args.every):
        begun = time.perf_counter()
        for i in range(first, first + args.every):
            properties = {f"k{i}": {"type": "integer"}}
            compiler.compile(json_schema({"type": "object", "properties": properties}), ())
        taken = (time.perf_counter() - begun) / args.every * 1e3
        kept = compiler.kept
        done = first + args.every
        line = f"{done:7}{kept.grammars:7}{kept.bytes / 1e6:13.1f}{resident():14.0f}{taken:14.2f}"
        print(line, flush=True)


def resident() -> float:
    """Megabytes of this process in memory."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1e3 for line in lines if line.startswith("VmRSS"))


if __name__ == "__main__":
    main()

"""Overhead of the Python package over the library for the same work, and memory over many calls.

    python bench/python.py MODEL.gguf ENCODER_FOLDER EXAMPLE [--runs 7] [--calls 10000]

EXAMPLE is the library's program for the same work, `target/release/examples/overhead`. Both generate the same greedy
answers to eight prompts, and vectors of eight texts; the runs take turns, and each prints seconds per call inside the
process, without loading. The last part makes --calls calls of each kind on the embedded model and prints the resident
memory. Results are one JSON object.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import time

import leyden

PROMPTS = [f"The story of a {who} who lived near the sea begins" for who in "king queen fox bear girl boy cat dog".split()]
TEXTS = [f"{prompt} on a cold morning, before anybody was awake." for prompt in PROMPTS]
TOKENS = 64


def best_of(work: object, repeats: int) -> float:
    """Returns the median of seconds of a call."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()  # type: ignore[operator]
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def measured(model: str, encoder: str, repeats: int) -> dict[str, float]:
    """Returns the seconds per call of this package."""
    with leyden.Model(model, context=512, cache_tokens=4096, parallel=8) as chat:
        generate = lambda: chat.generate(PROMPTS, max_tokens=TOKENS, temperature=0)  # noqa: E731
        generate()
        generate_seconds = best_of(generate, repeats)
    with leyden.Model(encoder) as vectors:
        embed = lambda: vectors.embed(TEXTS)  # noqa: E731
        embed()
        embed_seconds = best_of(embed, 40 * repeats)
    return {"generate": generate_seconds, "embed": embed_seconds}


def resident() -> int:
    """Returns the resident memory in KiB."""
    text = pathlib.Path("/proc/self/status").read_text()
    return int(text.split("VmRSS:")[1].split()[0])


def memory(calls: int, encoder: str) -> list[dict[str, int]]:
    """Returns the resident memory after parts of the calls."""
    told = []
    with leyden.Model(leyden.EMBEDDED, context=256) as model, leyden.Model(encoder) as vectors:
        for n in range(calls + 1):
            if n % (calls // 10) == 0:
                told.append({"calls": n, "rss_kib": resident()})
            model.generate("Once upon a time", max_tokens=2, temperature=0)
            model.chat("Once upon a time", max_tokens=1, temperature=0)
            model.score("Once upon a time")
            vectors.embed(["a cat on a mat"])
            if n % 10 == 0:
                next(model.generate("Once upon a time", max_tokens=50, stream=True))
    return told


def main() -> None:
    """Runs what the arguments ask for."""
    parser = argparse.ArgumentParser()
    for name in ("model", "encoder", "example"):
        parser.add_argument(name)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--alone", action="store_true", help="measure this package once, for the runs in turns")
    args = parser.parse_args()
    if args.alone:
        print(json.dumps(measured(args.model, args.encoder, args.repeats)))
        return
    python, library = [], []
    own = [sys.executable, __file__, args.model, args.encoder, args.example, "--alone"]
    for _ in range(args.runs):
        for command, told in (
            ([*own, "--repeats", str(args.repeats)], python),
            ([args.example, args.model, args.encoder, str(args.repeats)], library),
        ):
            told.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    result: dict[str, object] = {"version": leyden.__version__, "runs": args.runs}
    for kind in ("generate", "embed"):
        ours, theirs = (statistics.median(run[kind] for run in runs) for runs in (python, library))
        result[kind] = {"python_s": ours, "library_s": theirs, "overhead": ours / theirs - 1}
    if args.calls:
        result["memory"] = memory(args.calls, args.encoder)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()

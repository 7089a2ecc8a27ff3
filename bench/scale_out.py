#!/usr/bin/env python3
"""Measures leyden-ray on one machine: throughput beside one process, and the constants of the simulator.

    python3 bench/scale_out.py LEYDEN throughput --model MODEL [--rows 400] [--turns 3] [-- OPTIONS OF leyden batch]
    python3 bench/scale_out.py LEYDEN constants --model MODEL

`throughput` runs one `leyden batch` with all processors and a cluster of one-thread actors in turns, after a start of Ray and its actors
that is measured apart. `constants` measures costs of a unit, of Ray's control plane and object store, of files, and of the router.
Prints one JSON object. Needs the package leyden-ray.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

from leyden_ray import units
from leyden_ray.affinity import Ring, prefix_key
from leyden_ray.checkpoint import State
from leyden_ray.engine import Engine

WORDS = "king fox sea stone river child bread night garden winter song door".split()


def write_rows(path, count):
    with open(path, "w", encoding="utf-8") as file:
        for i in range(count):
            text = " ".join(WORDS[(i * 7 + j * (1 + i % 5)) % len(WORDS)] for j in range(20))
            file.write(json.dumps({"custom_id": f"r{i}", "text": f"Write a story about these: {text}."}) + "\n")


def timed(call):
    begin = time.perf_counter()
    result = call()
    return time.perf_counter() - begin, result


def middle(call, turns):
    return statistics.median(timed(call)[0] for _ in range(turns))


def throughput(args, options, folder):
    import ray

    import leyden_ray

    cores, source = os.cpu_count(), os.path.join(folder, "in.jsonl")
    write_rows(source, args.rows)
    options = [*options, *(["--model", args.model] if args.model else [])]
    start, _ = timed(lambda: ray.init(num_cpus=cores + 1, include_dashboard=False, log_to_driver=False))
    # The first run, of four small units, pays for Ray's workers.
    few = os.path.join(folder, "few.jsonl")
    write_rows(few, 2 * cores)
    first, _ = timed(lambda: leyden_ray.run(few, f"{folder}/first.jsonl", options, actors=cores, unit_rows=2, program=args.leyden))
    runs = {"one process": [], "actors": []}
    for turn in range(args.turns):
        out = f"{folder}/one{turn}.jsonl"
        command = [args.leyden, "batch", source, out, *options, "--threads", str(cores), "-q"]
        runs["one process"].append(timed(lambda: subprocess.run(command, check=True))[0])
        seconds, report = timed(
            lambda: leyden_ray.run(source, f"{folder}/ray{turn}.jsonl", options, actors=cores, unit_rows=args.unit_rows, program=args.leyden)
        )
        runs["actors"].append(seconds)
        with open(out, "rb") as a, open(f"{folder}/ray{turn}.jsonl", "rb") as b:
            assert a.read() == b.read(), "the outputs differ"
    busy = sum(actor["seconds"] for actor in report.actors.values())
    ray.shutdown()
    one, many = (statistics.median(runs[name]) for name in runs)
    return {
        "rows": args.rows, "unit_rows": args.unit_rows, "actors": cores, "ray_start_seconds": start, "first_run_seconds": first,
        "seconds": runs, "rows_per_second": {"one process": args.rows / one, "actors": args.rows / many}, "ratio": one / many,
        "busy_share_of_actors": busy / (cores * runs["actors"][-1]),
    }  # fmt: skip


def constants(args, options, folder):
    import ray

    found, source = {}, os.path.join(folder, "in.jsonl")
    write_rows(source, 64)
    options = [*options, *(["--model", args.model] if args.model else [])]
    engine = Engine(options, 1, args.leyden)
    (unit,) = units.divide(source, 64)
    number = iter(range(10**6))

    def compute(count):
        units.extract(source, units.divide(source, count)[0], f"{folder}/u.jsonl")
        return engine.compute(f"{folder}/u.jsonl", f"{folder}/made{next(number)}.jsonl")

    compute(1)
    one, many = middle(lambda: compute(1), 5), middle(lambda: compute(64), 5)
    found["row_seconds"] = (many - one) / 63
    found["unit_start_seconds"] = one - found["row_seconds"]
    # Files.
    state = State(f"{folder}/out.jsonl")
    state.begin({}, False)
    made = f"{folder}/made0.jsonl"
    found["commit_seconds"] = middle(lambda: state.commit(unit, made, {"read": 1}), 40)
    write_rows(f"{folder}/big.jsonl", 400_000)
    size = os.path.getsize(f"{folder}/big.jsonl")
    found["divide_bytes_per_second"] = size / middle(lambda: units.divide(f"{folder}/big.jsonl", 1000), 3)
    several = units.divide(f"{folder}/big.jsonl", 4000)
    for each in several:
        units.extract(f"{folder}/big.jsonl", each, state.result(each))
    found["join_bytes_per_second"] = size / timed(lambda: state.join(several))[0]
    # Ray's control plane and object store, with actors that do nothing.
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False

    def tasks(count):
        rows = ray.data.from_items([{"unit": i} for i in range(count)], override_num_blocks=count)
        pool = ray.data.ActorPoolStrategy(min_size=1, max_size=2, initial_size=2, max_tasks_in_flight_per_actor=2)
        return sum(1 for _ in rows.map_batches(Nothing, batch_size=1, compute=pool, num_cpus=1).iter_rows())

    tasks(4)
    few, most = middle(lambda: tasks(20), 3), middle(lambda: tasks(220), 3)
    found["ray_task_seconds"] = (most - few) / 200
    found["ray_pool_seconds"] = few - 20 * found["ray_task_seconds"]
    data = os.urandom(8 << 20)
    found["object_put_bytes_per_second"] = len(data) / middle(lambda: ray.put(data), 15)
    reference = ray.put(data)
    found["object_get_bytes_per_second"] = len(data) / middle(lambda: ray.get(reference), 15)
    small = ray.put(b"x")
    found["object_get_small_seconds"] = middle(lambda: [ray.get(small) for _ in range(200)], 5) / 200
    ray.shutdown()
    # The router's choice.
    keys = [prefix_key(f"document {i} " * 99, 4) for i in range(500)]
    for count in (10, 100, 1000, 10_000):
        ring = Ring([f"http://10.0.{i // 250}.{i % 250}:8080" for i in range(count)])
        found[f"choose_seconds_{count}"] = middle(lambda ring=ring: [ring.choose(key) for key in keys], 5) / len(keys)
    found["key_seconds"] = middle(lambda: [prefix_key("document " * 99, 4) for _ in range(500)], 5) / 500
    return found


class Nothing:
    """An actor that passes its unit on."""

    def __call__(self, batch):
        return batch


def main():
    words = sys.argv[1:]
    at = words.index("--") if "--" in words else len(words)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("leyden")
    parser.add_argument("what", choices=("throughput", "constants"))
    parser.add_argument("--model")
    parser.add_argument("--rows", type=int, default=400)
    parser.add_argument("--unit-rows", type=int, default=100)
    parser.add_argument("--turns", type=int, default=3)
    args = parser.parse_args(words[:at])
    options = words[at + 1 :] or ["--task", "complete", "-n", "16"]
    with tempfile.TemporaryDirectory() as folder:
        found = (throughput if args.what == "throughput" else constants)(args, options, folder)
    version = subprocess.run([args.leyden, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    model = os.path.basename(args.model.rstrip("/")) if args.model else "embedded"
    print(json.dumps({"what": args.what, "model": model, "options": options, "leyden": version, **found}, indent=1))


if __name__ == "__main__":
    main()

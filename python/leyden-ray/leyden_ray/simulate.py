"""Simulation of large clusters from measured constants: `python -m leyden_ray.simulate CONSTANTS.json > RESULTS.json`.

Two models, both deterministic for a seed. `batch`: one driver hands units to actors, a shared file system takes results, and the driver
divides the input and joins the output. `serving`: requests with common beginnings come to routers, which choose nodes with the rules of
`affinity`; a node has a queue and a cache of beginnings. Each reports how much of its time every part is busy, so the first part that
is near 1 is the next bottleneck.
"""

import argparse
import heapq
import json
import math
import random
import sys
from collections import OrderedDict

from .affinity import Ring

NODES = (1, 3, 10, 30, 100, 300, 1000)


def batch(constants, nodes, *, actors=16, rows_per_actor=2000, unit_rows=100, row_bytes=400, files_per_second=2000.0, seed=1):
    """Returns seconds, rows per second and the busy share of each part, for a run of as many rows for every actor.

    Times of units vary by a tenth (a gamma distribution). `files_per_second` is an assumption about the shared file system.
    """
    draw, count = random.Random(seed), nodes * actors
    rows = count * rows_per_actor
    units = math.ceil(rows / unit_rows)
    size = rows * row_bytes
    divide, join = size / constants["divide_bytes_per_second"], 2 * size / constants["join_bytes_per_second"]
    start = constants["ray_pool_seconds"]
    # Events: an actor is free at a time. The driver serves one actor at a time; so does the file system, twice (counts and result).
    free = [(start, actor) for actor in range(count)]
    heapq.heapify(free)
    driver, files, busy, last = start, 0.0, {"driver": 0.0, "files": 0.0, "actors": 0.0}, start
    for _ in range(units):
        at, actor = heapq.heappop(free)
        driver = max(driver, at) + constants["ray_task_seconds"]
        work = constants["unit_start_seconds"] + unit_rows * constants["row_seconds"] * draw.gammavariate(100, 0.01)
        done = driver + work
        files = max(files, done) + 2 / files_per_second
        end = max(done + constants["commit_seconds"], files)
        busy["driver"] += constants["ray_task_seconds"]
        busy["files"] += 2 / files_per_second
        busy["actors"] += work
        last = max(last, end)
        heapq.heappush(free, (end, actor))
    seconds, spread = divide + last + join, last - start
    ideal = count / (constants["row_seconds"] + constants["unit_start_seconds"] / unit_rows)
    return {
        "nodes": nodes, "actors": count, "unit_rows": unit_rows, "units": units, "rows": rows,
        "seconds": seconds, "rows_per_second": rows / seconds,
        "efficiency": rows / seconds / ideal, "busy": {
            "driver": busy["driver"] / spread, "files": busy["files"] / spread, "actors": busy["actors"] / (count * spread),
        }, "share_of_time": {"divide": divide / seconds, "start": start / seconds, "compute": spread / seconds, "join": join / seconds},
    }  # fmt: skip


def serving(
    constants, nodes, *, policy="prefix", load=0.7, beginnings_per_node=20, kept_per_node=30, prefix_tokens=1000, own_tokens=60, answer_tokens=100,
    slots=8, routers=1, requests_per_node=400, slack=0.5, most_requests=400_000, seed=1,
):  # fmt: skip
    """Returns the share of prompt tokens from caches, percentiles of the time to the first token, and the busy share of each part.

    Beginnings have Zipf's popularity (exponent 0.9). Arrivals are Poisson, at `load` times the rate that all nodes could serve if every
    beginning were cached. A node computes `slots` requests at a time, each at a slot's share of its rates. Several routers know each
    other's running requests, which is an assumption. A node that is busy for more than 1 gets more than it can compute.
    """
    draw = random.Random(seed)
    prefill, decode = constants["prefill_tokens_per_second"], constants["decode_tokens_per_second"]
    best = own_tokens / prefill + answer_tokens / decode
    rate = load * nodes / best
    count = min(requests_per_node * nodes, most_requests)
    beginnings = beginnings_per_node * nodes
    popularity = _zipf(beginnings, 0.9)
    names = list(range(nodes))
    ring, keys = Ring(names, slack), [draw.randbytes(8) for _ in range(beginnings)]
    caches = [OrderedDict() for _ in names]
    open_slots = [[0.0] * slots for _ in names]
    router_free, router_seconds = [0.0] * routers, constants["route_seconds"] + _choose_seconds(constants, nodes)
    ends, now, times, hits, node_busy, router_busy = [], 0.0, [], 0, 0.0, 0.0
    for i in range(count):
        now += draw.expovariate(rate)
        while ends and ends[0][0] <= now:
            ring.end(heapq.heappop(ends)[1])
        begin = _pick(popularity, draw.random())
        router = i % routers
        sent = router_free[router] = max(router_free[router], now) + router_seconds
        router_busy += router_seconds
        node = ring.choose(keys[begin]) if policy == "prefix" else i % nodes
        ring.begin(node)
        cache, hit = caches[node], begin in caches[node]
        cache[begin] = True
        cache.move_to_end(begin)
        if len(cache) > kept_per_node:
            cache.popitem(last=False)
        hits += hit
        tokens = own_tokens + (0 if hit else prefix_tokens)
        slot = heapq.heappop(open_slots[node])
        first = max(slot, sent) + slots * tokens / prefill
        end = first + slots * answer_tokens / decode
        heapq.heappush(open_slots[node], end)
        heapq.heappush(ends, (end, node))
        node_busy += end - max(slot, sent)
        if i >= count // 4:  # caches fill first
            times.append(first - now)
    times.sort()
    return {
        "nodes": nodes, "policy": policy, "routers": routers, "requests": count, "requests_per_second": rate, "hit_share": hits / count,
        "first_token_p50": times[len(times) // 2], "first_token_p99": times[int(0.99 * len(times))],
        "busy": {"router": router_busy / (routers * now), "nodes": node_busy / (nodes * slots * now)},
    }  # fmt: skip


def _choose_seconds(constants, nodes):
    """Returns the time of a choice among nodes, between measured numbers of them by a line."""
    known = sorted((int(name.rsplit("_", 1)[1]), value) for name, value in constants.items() if name.startswith("choose_seconds_"))
    for (a, x), (b, y) in zip(known, known[1:]):
        if nodes <= b:
            return x + (y - x) * max(nodes - a, 0) / (b - a)
    return known[-1][1] * nodes / known[-1][0]


def _zipf(count, exponent):
    sums, total = [], 0.0
    for i in range(1, count + 1):
        total += i**-exponent
        sums.append(total)
    return [s / total for s in sums]


def _pick(sums, value):
    low, high = 0, len(sums) - 1
    while low < high:
        middle = (low + high) // 2
        if sums[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


def everything(constants, nodes=NODES):
    """Returns the results that docs/scale-out.md shows."""
    out = {"batch": [], "serving": []}
    for count in nodes:
        for rows in (100, 1000):
            out["batch"].append(batch(constants, count, unit_rows=rows))
        for policy in ("prefix", "round-robin"):
            out["serving"].append(serving(constants, count, policy=policy))
        if count > 100:
            out["serving"].append(serving(constants, count, routers=math.ceil(count / 100)))
    return out


def main(words=None):
    """Runs the simulation and prints its results as JSON."""
    parser = argparse.ArgumentParser(prog="python -m leyden_ray.simulate", description="Simulates clusters of 1 to 1,000 nodes.")
    parser.add_argument("constants", help="constants by bench/scale_out.py, as JSON")
    parser.add_argument("--nodes", type=int, nargs="+", default=NODES)
    args = parser.parse_args(words)
    with open(args.constants, encoding="utf-8") as file:
        constants = json.load(file)
    print(json.dumps(everything(constants, args.nodes), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())

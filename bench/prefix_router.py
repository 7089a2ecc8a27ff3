#!/usr/bin/env python3
"""Measures the router of leyden-ray: prefix affinity beside round robin, on local servers with small caches.

    python3 bench/prefix_router.py LEYDEN --model MODEL [--servers 3] [--documents 12] [--questions 6] [--turns 2]

Each document is a prompt's beginning of about `--words` words, asked about several times, in a shuffled order, by several clients. A
cache holds the documents of one server's share and a few more, not all. Prints one JSON object: share of prompt tokens found in the caches, time to
the first token, and time of the router itself.
"""

import argparse
import asyncio
import json
import os
import random
import statistics
import subprocess
import time

import aiohttp
from leyden_ray.metrics import totals
from leyden_ray.program import LocalServer
from leyden_ray.router import Router, started


def documents(path, count, words):
    with open(path, encoding="utf-8") as file:
        text = file.read().split()
    return [" ".join(text[i * words : (i + 1) * words]) for i in range(count)]


async def ask(client, url, prompt):
    """Returns the seconds to the first token."""
    begin = time.perf_counter()
    body = {"prompt": prompt, "max_tokens": 4, "stream": True, "temperature": 0}
    async with client.post(url + "/v1/completions", json=body) as answer:
        answer.raise_for_status()
        async for line in answer.content:
            if line.startswith(b"data: {"):
                first = time.perf_counter() - begin
                async for _ in answer.content:
                    pass
                return first
    raise RuntimeError("no token came")


async def load(urls, policy, prompts, clients):
    """Returns the times to the first token of all prompts, through a router with this policy."""
    runner, url = await started(Router(urls, policy))
    waiting, times = iter(prompts), []

    async def client_of(client):
        for prompt in waiting:
            times.append(await ask(client, url, prompt))

    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as client:
        await asyncio.gather(*(client_of(client) for _ in range(clients)))
    await runner.cleanup()
    return times


async def cost(url, count=150):
    """Returns median seconds of a small request, straight and through the router."""
    runner, routed = await started(Router([url]))
    found = {}
    async with aiohttp.ClientSession() as client:
        for name, target in (("straight", url), ("routed", routed)) * 2:
            times = []
            for _ in range(count):
                begin = time.perf_counter()
                async with client.post(target + "/v1/completions", json={"prompt": "x", "max_tokens": 1}) as answer:
                    await answer.read()
                times.append(time.perf_counter() - begin)
            found.setdefault(name, []).append(statistics.median(times))
        begin, before = time.perf_counter(), time.process_time()
        for _ in range(count):
            async with client.get(routed + "/health") as answer:
                await answer.read()
        busy = time.process_time() - before
    await runner.cleanup()
    return {**{name: min(times) for name, times in found.items()}, "cpu_seconds_client_and_router": busy / count, "n": count, "wall": (time.perf_counter() - begin) / count}


def run(args, policy, prompts):
    options = ["--threads", "1", "--parallel", "4", "--ctx", "2048", "--kv-tokens", str(args.kv_tokens), "--log-format", "off"]
    servers = [LocalServer(args.model, options, args.leyden) for _ in range(args.servers)]
    try:
        begin = time.perf_counter()
        times = asyncio.run(load([s.url for s in servers], policy, prompts, args.clients))
        seconds = time.perf_counter() - begin
        sums = [totals(server.metrics()) for server in servers]
        asked, hits = (sum(s.get(f"vllm:prefix_cache_{name}_total", 0) for s in sums) for name in ("queries", "hits"))
    finally:
        for server in servers:
            server.stop()
    times.sort()
    return {
        "hit_share": hits / asked, "prompt_tokens": int(asked), "seconds": seconds,
        "first_token_p50": statistics.median(times), "first_token_p95": times[int(0.95 * len(times))], "requests": len(times),
    }  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("leyden")
    parser.add_argument("--model")
    parser.add_argument("--text", required=True, help="a text to take documents from")
    parser.add_argument("--servers", type=int, default=3)
    parser.add_argument("--documents", type=int, default=12)
    parser.add_argument("--questions", type=int, default=6)
    parser.add_argument("--words", type=int, default=350)
    parser.add_argument("--kv-tokens", type=int, default=6144)
    parser.add_argument("--clients", type=int, default=3)
    parser.add_argument("--turns", type=int, default=2)
    args = parser.parse_args()
    prompts = [f"{text}\n\nQuestion {q}: what is said here?\nAnswer:" for text in documents(args.text, args.documents, args.words) for q in range(args.questions)]
    random.Random(5).shuffle(prompts)
    found = {"prefix": [], "round-robin": []}
    for _ in range(args.turns):
        for policy in found:
            found[policy].append(run(args, policy, prompts))
    with LocalServer(None, ["--threads", "1", "--log-format", "off"], args.leyden) as server:
        router = asyncio.run(cost(server.url))
    version = subprocess.run([args.leyden, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    settings = {k: v for k, v in vars(args).items() if k not in ("leyden", "model", "text")}
    model = os.path.basename(args.model) if args.model else "embedded"
    print(json.dumps({"leyden": version, "model": model, "settings": settings, "runs": found, "router": router}, indent=1))


if __name__ == "__main__":
    main()

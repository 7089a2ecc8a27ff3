"""Reading of `/metrics`, in Prometheus' text format, and the replicas that a queue calls for."""

import math
import re

_LINE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)")

WAITING, RUNNING, CACHE = "vllm:num_requests_waiting", "vllm:num_requests_running", "vllm:kv_cache_usage_perc"


def totals(text):
    """Returns the sum of each series over its labels; of the cache's use, a share, the highest."""
    sums = {}
    for line in text.splitlines():
        found = _LINE.match(line)
        if found:
            name, value = found[1], float(found[3])
            sums[name] = max(sums.get(name, 0.0), value) if name == CACHE else sums.get(name, 0.0) + value
    return sums


def signals(text):
    """Returns what a replica tells the autoscaler: waiting and running requests, and the share of its KV cache in use."""
    sums = totals(text)
    return {"waiting": sums.get(WAITING, 0.0), "running": sums.get(RUNNING, 0.0), "cache": sums.get(CACHE, 0.0)}


def wanted(replicas, waiting, running, cache, target, cache_limit=0.8):
    """Returns the number of replicas for these sums of waiting and running requests and this mean use of the cache.

    `target` is the number of requests that one replica shall have, waiting or running. A cache above `cache_limit` calls for as many
    replicas as bring it back there: a full cache preempts, even while few requests wait.
    """
    by_queue = math.ceil((waiting + running) / target)
    by_cache = math.ceil(replicas * cache / cache_limit) if cache > cache_limit else 0
    return max(by_queue, by_cache)

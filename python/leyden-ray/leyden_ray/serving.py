"""Ray Serve deployment of `leyden serve`, scaled by the server's own queue.

Each replica has a `leyden serve` as its child on the machine's own address and passes requests on, streams included. Ray sees requests
only until they are passed on; the length of the engine's queue, and how full its KV cache is, stand in the server's `/metrics`. A
replica reports these (`record_autoscaling_stats`), and `QueuePolicy` turns them into a number of replicas.
"""

import asyncio
import math

import aiohttp
from ray import serve
from starlette.requests import Request
from starlette.responses import StreamingResponse

from .metrics import signals, wanted
from .program import LocalServer
from .router import HOP


class QueuePolicy:
    """Autoscaling policy: replicas by the queues and caches of the running ones.

    It uses the numbers that replicas report; before the first report it keeps the present number. The delays are the deployment's
    `upscale_delay_s` and `downscale_delay_s`.
    """

    def __init__(self, target=4.0, cache_limit=0.8):
        self.target, self.cache_limit = target, cache_limit

    def __call__(self, context):
        reported = context.aggregated_metrics or {}
        waiting, running, cache = (reported.get(name, {}) for name in ("waiting", "running", "cache"))
        if not running:
            return context.target_num_replicas, context.policy_state
        share = sum(cache.values()) / max(len(cache), 1)
        number = wanted(len(running), sum(waiting.values()), sum(running.values()), share, self.target, self.cache_limit)
        low, high = context.capacity_adjusted_min_replicas, context.capacity_adjusted_max_replicas
        return max(low, min(high, number)), context.policy_state


class Replica:
    """One replica: a `leyden serve` and its proxy."""

    def __init__(self, model, options, program):
        self.server = LocalServer(model, options, program)
        self.client = None

    def _session(self):
        if self.client is None:
            limits = aiohttp.ClientTimeout(total=None, sock_connect=5)
            self.client = aiohttp.ClientSession(timeout=limits, connector=aiohttp.TCPConnector(limit=0), auto_decompress=False)
        return self.client

    async def __call__(self, request: Request):
        path = request.url.path[len(request.scope.get("root_path", "")) :] or "/"
        url = self.server.url + path + (f"?{request.url.query}" if request.url.query else "")
        headers = {name: value for name, value in request.headers.items() if name.lower() not in HOP}
        answer = await self._session().request(request.method, url, headers=headers, data=await request.body())

        async def parts():
            # A client that goes closes this generator, and with it the connection, which cancels the request in the engine.
            async with answer:
                async for part in answer.content.iter_any():
                    yield part

        kept = {name: value for name, value in answer.headers.items() if name.lower() not in HOP}
        return StreamingResponse(parts(), status_code=answer.status, headers=kept)

    async def record_autoscaling_stats(self):
        """Returns the numbers for `QueuePolicy`."""
        async with self._session().get(self.server.url + "/metrics") as answer:
            return signals(await answer.text())

    async def check_health(self):
        """Raises if the server does not answer; Ray then replaces this replica."""
        async with self._session().get(self.server.url + "/health", timeout=aiohttp.ClientTimeout(total=30)) as answer:
            answer.raise_for_status()

    async def __del__(self):
        if self.client is not None:
            await self.client.close()
        await asyncio.to_thread(self.server.stop)


def deployment(
    model, options=(), *, program=None, threads=1, replicas=(1, 4), target=4.0, cache_limit=0.8, most_requests=1000, scaling=None, name="leyden"
):  # fmt: skip
    """Returns a Ray Serve application with one deployment.

    `options` are words of `leyden serve`. `replicas` is the smallest and the largest number of them, each with `threads` processors.
    `target` is the number of requests per replica that the autoscaler aims at, and `cache_limit` the share of the KV cache; `scaling`
    has further fields of Ray's `AutoscalingConfig`, such as the delays.
    """
    low, high = replicas
    policy = {"policy_function": "leyden_ray.serving:QueuePolicy", "policy_kwargs": {"target": target, "cache_limit": cache_limit}}
    made = serve.deployment(
        Replica,
        name=name,
        # The engine has the queue: Ray shall hold nothing back, or the queue's length says nothing.
        max_ongoing_requests=most_requests,
        ray_actor_options={"num_cpus": threads},
        autoscaling_config={"min_replicas": low, "max_replicas": high, "policy": policy, **(scaling or {})},
        graceful_shutdown_timeout_s=40,
        health_check_period_s=5,
    )
    words = [str(word) for word in options]
    if "--threads" not in words:
        words += ["--threads", str(math.ceil(threads))]
    return made.bind(model, words, program)

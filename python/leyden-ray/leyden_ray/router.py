"""HTTP router in front of several `leyden serve`, with prefix affinity.

    python -m leyden_ray.router --port 8000 http://10.0.0.1:8080 http://10.0.0.2:8080

A request goes to the replica that its prompt's first blocks choose (`affinity`), so prompts with a common beginning find it in that
replica's cache. A replica that does not answer is passed over and asked again after `RETRY_SECONDS`; a request moves on only while nothing of its
answer has been sent. The router keeps no prompts and no state on a disk: several routers choose alike.
"""

import argparse
import asyncio
import itertools
import json
import sys
import time

import aiohttp
from aiohttp import web

from .affinity import Ring, prefix_key, prompt_text

RETRY_SECONDS = 2.0
MAX_BODY = 8 << 20
# Headers of one connection, which are not passed on (RFC 9110, 7.6.1).
HOP = {"connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "host", "content-length"}


class Router:
    """Router over replicas, given by their URLs. `policy` is `prefix` or `round-robin`."""

    def __init__(self, replicas, policy="prefix", blocks=4, slack=0.5):
        if policy not in ("prefix", "round-robin"):
            raise ValueError(f"policy: {policy}; prefix or round-robin")
        self.replicas = [url.rstrip("/") for url in replicas]
        if not self.replicas:
            raise ValueError("replicas: none; name at least one URL")
        self.ring, self.policy, self.blocks = Ring(self.replicas, slack), policy, blocks
        self.turn, self.down, self.sent, self.client = itertools.count(), {}, dict.fromkeys(self.replicas, 0), None

    def app(self):
        """Returns the application of aiohttp."""
        app = web.Application(client_max_size=MAX_BODY)
        app.cleanup_ctx.append(self._session)
        app.router.add_get("/router", self._state)
        app.router.add_route("*", "/{path:.*}", self._pass)
        return app

    def candidates(self, body):
        """Returns the replicas to try for a body, in order; those that lately failed come last."""
        now = time.monotonic()
        for url, until in list(self.down.items()):
            if until <= now:
                del self.down[url]
                self.ring.add(url)
        if self.policy == "round-robin" or not body:
            first = next(self.turn) % len(self.replicas)
            order = self.replicas[first:] + self.replicas[:first]
        else:
            try:
                fields = json.loads(body)
            except ValueError:
                fields = {}
            key = prefix_key(prompt_text(fields if isinstance(fields, dict) else {}), self.blocks)
            chosen = self.ring.choose(key)
            order = [url for url in dict.fromkeys([chosen, *self.ring.order(key), *self.replicas]) if url]
        return [url for url in order if url not in self.down] + [url for url in order if url in self.down]

    async def _session(self, _app):
        # No limit on the whole answer: generation may take long. `leyden serve` sends keep-alive events.
        limits = aiohttp.ClientTimeout(total=None, sock_connect=5)
        async with aiohttp.ClientSession(timeout=limits, connector=aiohttp.TCPConnector(limit=0), auto_decompress=False) as self.client:
            yield

    async def _state(self, _request):
        return web.json_response({"policy": self.policy, "running": self.ring.running, "sent": self.sent, "down": sorted(self.down)})

    async def _pass(self, request):
        body = await request.read()
        headers = {name: value for name, value in request.headers.items() if name.lower() not in HOP}
        for url in self.candidates(body):
            self.ring.add(url)
            self.ring.begin(url)
            self.sent[url] += 1
            begun = []
            try:
                return await self._ask(url, request, headers, body, begun)
            except aiohttp.ClientError:
                self.ring.remove(url)
                self.down[url] = time.monotonic() + RETRY_SECONDS
                if begun:
                    # The client has a part of the answer. The end of its connection tells it that the rest is missing.
                    if request.transport:
                        request.transport.abort()
                    return begun[0]
            finally:
                self.ring.end(url)
        return web.json_response({"error": {"message": "no replica answers", "type": "server_error", "code": "no_replica"}}, status=503)

    async def _ask(self, url, request, headers, body, begun):
        async with self.client.request(request.method, url + request.path_qs, headers=headers, data=body) as answer:
            reply = web.StreamResponse(status=answer.status)
            for name, value in answer.headers.items():
                if name.lower() not in HOP:
                    reply.headers.add(name, value)
            reply.headers["x-leyden-replica"] = url
            begun.append(reply)
            await reply.prepare(request)
            async for part in answer.content.iter_any():
                await reply.write(part)
            await reply.write_eof()
            return reply


def main(words=None):
    """Runs a router until it is interrupted."""
    parser = argparse.ArgumentParser(prog="python -m leyden_ray.router", description="Routes requests to replicas of leyden serve.")
    parser.add_argument("replicas", nargs="+", metavar="URL")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--policy", choices=("prefix", "round-robin"), default="prefix")
    parser.add_argument("--blocks", type=int, default=4, help="blocks of 256 bytes of a prompt that choose its replica (default 4)")
    parser.add_argument("--slack", type=float, default=0.5, help="load above the mean that a replica may have (default 0.5)")
    args = parser.parse_args(words)
    router = Router(args.replicas, args.policy, args.blocks, args.slack)
    web.run_app(router.app(), host=args.host, port=args.port, print=lambda *_: None, handle_signals=True)
    return 0


async def started(router, port=0, host="127.0.0.1"):
    """Starts a router in this event loop. Returns its runner, to be cleaned up, and its URL."""
    runner = web.AppRunner(router.app())
    await runner.setup()
    site = web.TCPSite(runner, host, port)
    await site.start()
    return runner, f"http://{host}:{site._server.sockets[0].getsockname()[1]}"


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (asyncio.CancelledError, KeyboardInterrupt):
        sys.exit(130)

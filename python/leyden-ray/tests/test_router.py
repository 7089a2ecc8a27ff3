"""The router in front of small servers of the test: choice, failures, streams, headers."""

import asyncio

import pytest

aiohttp = pytest.importorskip("aiohttp")
from aiohttp import web

from leyden_ray.router import Router, started


async def upstream(name):
    """A server that says its name in three parts. Returns its runner and URL."""

    async def answer(request):
        reply = web.StreamResponse(status=201, headers={"x-name": name, "content-type": "text/event-stream"})
        await reply.prepare(request)
        for part in (name, request.path_qs, (await request.read()).decode()):
            await reply.write(part.encode() + b"\n")
        return reply

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    return runner, f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"


async def ask(client, url, prompt):
    async with client.post(url + "/v1/completions?x=1", json={"prompt": prompt}) as answer:
        return answer.status, answer.headers, (await answer.text()).splitlines()


def test_equal_beginnings_meet_and_failures_move_on():
    async def story():
        servers = dict([reversed(await upstream(name)) for name in "abc"])
        runner, url = await started(Router(list(servers)))
        async with aiohttp.ClientSession() as client:
            prompts = [f"{'document ' * 200}{i}" for i in range(5)]
            chosen = {(await ask(client, url, prompt))[1]["x-leyden-replica"] for prompt in prompts}
            assert len(chosen) == 1
            status, headers, lines = await ask(client, url, prompts[0])
            assert (status, headers["content-type"]) == (201, "text/event-stream") and lines[1] == "/v1/completions?x=1"
            spread = {(await ask(client, url, f"{i} " * 200))[1]["x-leyden-replica"] for i in range(40)}
            assert spread == set(servers)
            # The chosen server ends: its prompts move to one other, and come back with it.
            gone = chosen.pop()
            await servers[gone].cleanup()
            second = {(await ask(client, url, prompt))[1]["x-leyden-replica"] for prompt in prompts}
            assert len(second) == 1 and gone not in second
            async with client.get(url + "/router") as answer:
                state = await answer.json()
            assert state["down"] == [gone] and sum(state["running"].values()) == 0 and state["sent"][gone] > 5
            for other in set(servers) - {gone}:
                await servers[other].cleanup()
            status, _, _ = await ask(client, url, "nobody")
            assert status == 503
        await runner.cleanup()

    asyncio.run(story())


def test_a_server_that_dies_is_passed_over_until_its_answer_has_begun():
    async def story():
        async def broken(reader, writer):
            head = await reader.readuntil(b"\r\n\r\n")
            if b"/late" in head:
                writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n")
                await writer.drain()
            writer.close()

        server = await asyncio.start_server(broken, "127.0.0.1", 0)
        bad = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        good, well = await upstream("well")
        for path, passes in (("/early", True), ("/late", False)):
            runner, url = await started(Router([bad, well], policy="round-robin"))
            async with aiohttp.ClientSession() as client:
                try:
                    async with client.post(url + path, json={"prompt": "x"}) as answer:
                        text = await answer.text()
                        assert passes and text.startswith("well") and answer.headers["x-leyden-replica"] == well
                except aiohttp.ClientError:
                    assert not passes
                async with client.get(url + "/router") as answer:
                    state = await answer.json()
            assert state["down"] == [bad] and sum(state["running"].values()) == 0
            await runner.cleanup()
        server.close()
        await good.cleanup()

    asyncio.run(story())


def test_round_robin_takes_turns():
    async def story():
        servers = dict([reversed(await upstream(name)) for name in "ab"])
        runner, url = await started(Router(list(servers), policy="round-robin"))
        async with aiohttp.ClientSession() as client:
            seen = [(await ask(client, url, "same"))[1]["x-name"] for _ in range(4)]
        assert seen in (list("abab"), list("baba"))
        for one in (runner, *servers.values()):
            await one.cleanup()

    asyncio.run(story())


@pytest.mark.parametrize("settings, message", [({"policy": "best"}, "policy"), ({"slack": -1}, "slack")])
def test_wrong_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        Router(["http://a"], **settings)
    with pytest.raises(ValueError, match="replicas"):
        Router([])

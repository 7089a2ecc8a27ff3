"""The Ray Serve deployment: answers, scaling by the engine's queue, and a server that is killed."""

import json
import os
import signal
import threading
import time
import urllib.error
import urllib.request

import pytest

pytest.importorskip("ray.serve")

LIMIT = 240


def ask(url, **fields):
    body = {"prompt": "Once upon a time", "max_tokens": 200, "seed": 1, **fields}
    request = urllib.request.Request(url + "/v1/completions", json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=LIMIT) as answer:
        return answer.read().decode()


def until(what, limit=LIMIT):
    """Waits until a function returns something true, and returns it."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        if found := what():
            return found
        time.sleep(0.2)
    raise AssertionError(f"not within {limit} s: {what.__name__}")


@pytest.fixture
def deployed(program, monkeypatch):
    """A cluster with a deployment of one to three replicas, each of which runs two requests at a time. Returns its URL."""
    import ray
    from ray import serve

    import leyden_ray
    from leyden_ray.program import free_port

    # How often replicas report; Ray's default is ten seconds.
    monkeypatch.setenv("RAY_SERVE_REPLICA_AUTOSCALING_METRIC_PUSH_INTERVAL_S", "1")
    monkeypatch.setenv("RAY_SERVE_REPLICA_AUTOSCALING_METRIC_RECORD_INTERVAL_S", "0.5")
    # A busy machine starts Ray's proxy slowly.
    monkeypatch.setenv("RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S", "60")
    port = free_port()
    ray.init(num_cpus=6, include_dashboard=False, log_to_driver=False)
    try:
        serve.start(http_options={"port": port})
        scaling = {"upscale_delay_s": 1, "downscale_delay_s": 4, "look_back_period_s": 11}
        serve.run(leyden_ray.deployment(None, OPTIONS, program=program, replicas=(1, 3), target=3, scaling=scaling))
        yield f"http://127.0.0.1:{port}"
        serve.shutdown()
    finally:
        ray.shutdown()
    until(lambda: servers() == [])


OPTIONS = ["--parallel", "2", "--log-format", "off"]


def replicas():
    """Number of running replicas."""
    from ray import serve

    return serve.status().applications["default"].deployments["leyden"].replica_states.get("RUNNING", 0)


def test_a_deployment_answers_and_scales_with_the_queue(program, deployed):
    import leyden_ray

    # Whole and as a stream, the text is that of the server alone.
    with leyden_ray.LocalServer(None, OPTIONS, program) as alone:
        want = json.loads(ask(alone.url))["choices"][0]["text"]
    assert json.loads(ask(deployed))["choices"][0]["text"] == want
    events = [json.loads(line[6:]) for line in ask(deployed, stream=True).splitlines() if line.startswith("data: {")]
    assert "".join(event["choices"][0]["text"] for event in events if event["choices"]) == want
    with pytest.raises(urllib.error.HTTPError, match="400"):
        ask(deployed, temperature=-1)

    # Twelve clients: two run in the engine, ten wait there. Ray itself holds none back.
    done, end = [], threading.Event()

    def client(number):
        while not end.is_set():
            done.append(ask(deployed, seed=number, max_tokens=400))

    clients = [threading.Thread(target=client, args=(i,)) for i in range(12)]
    for one in clients:
        one.start()
    try:
        until(lambda: replicas() == 3)
    finally:
        end.set()
        for one in clients:
            one.join()
    assert done
    until(lambda: replicas() == 1)


def test_a_server_that_is_killed_is_replaced(deployed):
    want = json.loads(ask(deployed))["choices"][0]["text"]
    (victim,) = servers()
    os.kill(victim, signal.SIGKILL)
    # The health check of its replica fails, and Ray replaces the replica.
    until(lambda: servers() not in ([], [victim]))

    def answers():
        try:
            return json.loads(ask(deployed))["choices"][0]["text"]
        except OSError:
            return None

    assert until(answers) == want


def servers():
    """Ids of the processes `leyden serve` that descend from this one's cluster."""
    found = []
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
            with open(f"/proc/{name}/environ", "rb") as file:
                ours = b"RAY_SERVE_REPLICA_AUTOSCALING_METRIC_PUSH_INTERVAL_S=1" in file.read()
        except OSError:
            continue
        if ours and words[1:2] == [b"serve"] and words[0].endswith(b"leyden"):
            found.append(int(name))
    return found

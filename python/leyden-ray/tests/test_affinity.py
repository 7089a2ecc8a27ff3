"""Choice of replicas, and the reading of metrics. Without Ray and without the program."""

import random

import pytest

from leyden_ray.affinity import BLOCK_BYTES, Ring, prefix_key, prompt_text
from leyden_ray.metrics import signals, wanted

NAMES = [f"http://10.0.0.{i}" for i in range(10)]


def keys(count):
    return [prefix_key(f"document {i} " * 40, 4) for i in range(count)]


def test_keys_spread_evenly_and_move_only_with_their_replica():
    ring, count = Ring(NAMES), 5000
    before = {key: ring.choose(key) for key in keys(count)}
    held = [list(before.values()).count(name) for name in NAMES]
    # Binomial with mean 500 and standard deviation 21.
    assert min(held) > 400 and max(held) < 600
    ring.remove(NAMES[3])
    assert all(ring.choose(key) == name for key, name in before.items() if name != NAMES[3])
    ring.add(NAMES[3])
    assert all(ring.choose(key) == name for key, name in before.items())


@pytest.mark.parametrize("slack", [0.25, 0.5, 2.0])
def test_no_replica_has_more_than_the_bound(slack):
    ring, draw, open_ones = Ring(NAMES, slack), random.Random(1), []
    for _ in range(3000):
        if open_ones and draw.random() < 0.45:
            ring.end(open_ones.pop(draw.randrange(len(open_ones))))
        # Half of all requests have one key: a popular prefix.
        key = prefix_key("popular " * 99, 4) if draw.random() < 0.5 else prefix_key(f"{draw.random()}", 4)
        chosen = ring.choose(key)
        ring.begin(chosen)
        open_ones.append(chosen)
        mean = len(open_ones) / len(NAMES)
        assert ring.running[chosen] <= (1 + slack) * mean + 1


def test_a_key_is_the_first_whole_blocks():
    block = "x" * BLOCK_BYTES
    assert prefix_key(block + "a", 4) == prefix_key(block + "b", 4)
    assert prefix_key(block * 4 + "a", 4) == prefix_key(block * 9, 4)
    assert prefix_key(block * 2, 4) != prefix_key(block * 3, 4)
    assert prefix_key("short", 4) != prefix_key("shorter", 4)
    assert prefix_key("\ud800", 4)


@pytest.mark.parametrize("body, text", [
    ({"messages": [{"role": "system", "content": "a"}, {"role": "user", "content": [{"type": "text", "text": "b"}]}]}, "system\na\nuser\nb\n"),
    ({"messages": [{"role": "user", "content": None}, 3]}, "user\n\n"),
    ({"prompt": "p"}, "p"), ({"prompt": [1, 2]}, "[1, 2]"), ({"input": "i"}, "i"), ({}, ""),
])  # fmt: skip
def test_the_text_of_a_body(body, text):
    assert prompt_text(body) == text


def test_no_replica_and_wrong_settings():
    assert Ring([]).choose(b"k") is None
    with pytest.raises(ValueError, match="slack"):
        Ring(NAMES, slack=0)


PAGE = """# HELP vllm:num_requests_waiting Number of waiting requests.
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{model_name="a",engine="0"} 3
vllm:num_requests_waiting{model_name="a",engine="1"} 2
vllm:num_requests_running{model_name="a"} 4
vllm:kv_cache_usage_perc{model_name="a"} 0.25
vllm:kv_cache_usage_perc{model_name="b } 1"} 0.5
"""


def test_signals_of_a_page():
    assert signals(PAGE) == {"waiting": 5.0, "running": 4.0, "cache": 0.5}
    assert signals("") == {"waiting": 0.0, "running": 0.0, "cache": 0.0}


@pytest.mark.parametrize("state, number", [
    ((1, 0, 0, 0.0), 0), ((1, 0, 1, 0.1), 1), ((1, 7, 1, 0.1), 2), ((2, 9, 8, 0.5), 5),
    # Few requests with long contexts: the cache calls for more.
    ((2, 0, 2, 0.95), 3),
])  # fmt: skip
def test_wanted_replicas(state, number):
    assert wanted(*state, target=4) == number

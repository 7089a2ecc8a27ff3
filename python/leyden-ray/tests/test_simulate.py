"""The simulator: its limits where they are known, and that it always gives the same."""

import json
import pathlib

import pytest

from leyden_ray.simulate import batch, everything, serving

BENCH = pathlib.Path(__file__).resolve().parents[3] / "bench/scale_out"
CONSTANTS = json.loads((BENCH / "constants.json").read_text())


def test_a_run_is_limited_by_its_slowest_part():
    small = batch(CONSTANTS, 1, actors=4, rows_per_actor=4000)
    assert small["efficiency"] > 0.85 and small["busy"]["actors"] > 0.9
    # The driver hands out one unit in `ray_task_seconds`: more nodes cannot make it faster.
    large = batch(CONSTANTS, 300, actors=16, rows_per_actor=400, unit_rows=100)
    assert large["busy"]["driver"] > 0.95
    assert large["rows_per_second"] < 100 / CONSTANTS["ray_task_seconds"]
    assert batch(CONSTANTS, 300, actors=16, rows_per_actor=400, unit_rows=400)["rows_per_second"] > 2 * large["rows_per_second"]
    slow = batch(CONSTANTS, 100, unit_rows=100, files_per_second=50)
    assert slow["busy"]["files"] > 0.95


def test_affinity_keeps_its_hits_and_turns_lose_them():
    few = {policy: serving(CONSTANTS, 10, policy=policy, requests_per_node=200) for policy in ("prefix", "round-robin")}
    assert few["prefix"]["hit_share"] > few["round-robin"]["hit_share"] + 0.2
    assert few["prefix"]["first_token_p50"] < few["round-robin"]["first_token_p50"]
    # One node has no choice.
    one = [serving(CONSTANTS, 1, policy=policy) for policy in ("prefix", "round-robin")]
    assert one[0]["hit_share"] == one[1]["hit_share"]
    assert serving(CONSTANTS, 5, load=0.2)["first_token_p99"] < serving(CONSTANTS, 5, load=0.9)["first_token_p99"]


def test_the_same_seed_gives_the_same():
    assert batch(CONSTANTS, 3) == batch(CONSTANTS, 3) != batch(CONSTANTS, 3, seed=2)
    assert serving(CONSTANTS, 3) == serving(CONSTANTS, 3) != serving(CONSTANTS, 3, seed=2)


def test_the_recorded_results_are_those_of_the_recorded_constants():
    kept = json.loads((BENCH / "simulation.json").read_text())
    again = everything(CONSTANTS, (1, 3))
    for part in ("batch", "serving"):
        for result in again[part]:
            same = [k for k in kept[part] if all(k[name] == result[name] for name in ("nodes", "unit_rows", "policy", "routers") if name in result)]
            assert len(same) == 1
            assert _near(same[0], result)


def _near(a, b):
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_near(a[name], b[name]) for name in a)
    return a == b if isinstance(a, str) else a == pytest.approx(b, rel=1e-3)

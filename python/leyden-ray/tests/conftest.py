"""The program, rows, and clusters of several nodes on this machine."""

import json
import os
import shutil

import pytest

os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")


@pytest.fixture(scope="session")
def program():
    """Path of the program; tests without it are skipped."""
    found = os.environ.get("LEYDEN") or shutil.which("leyden")
    if not found:
        if os.environ.get("LEYDEN_CI"):
            pytest.fail("the variable LEYDEN names no program")
        pytest.skip("no program leyden: name it in the variable LEYDEN")
    os.environ["LEYDEN"] = found
    return found


@pytest.fixture
def rows(tmp_path):
    """Writes a JSON lines file of so many rows; every 97th row is no text, every 101st no JSON."""

    def write(count, name="in.jsonl", bad=True):
        with open(tmp_path / name, "w", encoding="utf-8") as file:
            for i in range(count):
                if bad and i % 97 == 5:
                    file.write(json.dumps({"custom_id": f"r{i}", "text": 17}) + "\n")
                elif bad and i % 101 == 7:
                    file.write('{"custom_id": "r\n')
                else:
                    file.write(json.dumps({"custom_id": f"r{i}", "text": f"Row {i}: once there was a {['king', 'fox', 'sea'][i % 3]}."}) + "\n")
        return tmp_path / name

    return write


@pytest.fixture
def cluster():
    """Starts a cluster of nodes with two processors each; ends it afterwards."""
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    made = []

    def start(nodes, cpus=2):
        one = Cluster(initialize_head=True, head_node_args={"num_cpus": cpus, "object_store_memory": 100 << 20, "include_dashboard": False})
        made.append(one)
        others = [one.add_node(num_cpus=cpus, object_store_memory=100 << 20) for _ in range(nodes - 1)]
        ray.init(address=one.address, log_to_driver=False)
        one.wait_for_nodes()
        return one, others

    yield start
    ray.shutdown()
    for one in made:
        one.shutdown()

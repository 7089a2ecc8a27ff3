"""Runs on clusters of several nodes: equality with one process, resumption, and nodes that are killed."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

OPTIONS = ["--task", "complete", "-n", "8"]


def alone(program, source, out, options=OPTIONS):
    """The output of one `leyden batch`, to compare with."""
    done = subprocess.run([program, "batch", source, out, *options, "-q"], capture_output=True, text=True)
    assert out.exists(), done.stderr
    return out.read_bytes()


def test_a_cluster_gives_what_one_process_gives(program, rows, cluster, tmp_path):
    import leyden_ray

    cluster(2)
    source = rows(300)
    want = alone(program, source, tmp_path / "alone.jsonl")
    report = leyden_ray.run(source, tmp_path / "out.jsonl", OPTIONS, actors=3, unit_rows=40)
    assert (tmp_path / "out.jsonl").read_bytes() == want
    bad = sum(b'"error"' in line for line in want.splitlines())
    assert (report.rows, report.failed, report.units, report.kept_units) == (300, bad, 8, 0) and bad >= 6
    assert sum(actor["units"] for actor in report.actors.values()) == 8
    assert not (tmp_path / "out.jsonl.units").exists()
    # An output that is there is kept, and settings that cannot work are refused before anything is computed.
    with pytest.raises(leyden_ray.LeydenError, match="is there already"):
        leyden_ray.run(source, tmp_path / "out.jsonl", OPTIONS)
    with pytest.raises(leyden_ray.LeydenError, match="--threads"):
        leyden_ray.run(source, tmp_path / "other.jsonl", [*OPTIONS, "--threads", "2"])


def test_a_failure_of_the_engine_is_an_error_with_its_words(program, rows, cluster, tmp_path):
    import ray

    import leyden_ray

    cluster(1)
    with pytest.raises((leyden_ray.LeydenError, ray.exceptions.RayTaskError, ray.exceptions.UserCodeException), match="nothing.gguf"):
        leyden_ray.run(rows(4), tmp_path / "out.jsonl", [*OPTIONS, "--model", "nothing.gguf"])


def test_a_killed_node_costs_no_row_and_doubles_none(program, rows, cluster, tmp_path):
    import leyden_ray

    one, others = cluster(4, cpus=1)
    source = rows(1200)
    want = alone(program, source, tmp_path / "alone.jsonl")
    finished, killed = [], []

    def progress(outcome):
        finished.append(outcome["unit"])

    def kill():
        # The raylet is killed with SIGKILL while its actor computes; its workers end with it.
        limit = time.monotonic() + 120
        while len(finished) < 2 and time.monotonic() < limit:
            time.sleep(0.01)
        one.remove_node(others[0], allow_graceful=False)
        killed.append(len(finished))

    killer = threading.Thread(target=kill)
    killer.start()
    report = leyden_ray.run(source, tmp_path / "out.jsonl", OPTIONS, actors=4, unit_rows=40, progress=progress)
    killer.join()
    assert killed and killed[0] < 30, "the node was killed before the run had ended"
    got = (tmp_path / "out.jsonl").read_bytes()
    assert got == want, "every row once, in order, with the result of one process"
    assert report.rows == 1200
    ids = [json.loads(line).get("custom_id") for line in got.splitlines()]
    assert len([i for i in ids if i]) == len({i for i in ids if i})


DRIVER = """
import sys, ray, leyden_ray
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
report = leyden_ray.run(sys.argv[1], sys.argv[2], ["--task", "complete", "-n", "8"], actors=2, unit_rows=40)
print(report.units, report.kept_units, report.rows)
"""


def test_a_killed_run_goes_on_where_it_was(program, rows, tmp_path):
    pytest.importorskip("ray")
    source, out = rows(800), tmp_path / "out.jsonl"
    want = alone(program, source, tmp_path / "alone.jsonl")
    command = [sys.executable, "-c", DRIVER, str(source), str(out)]
    first = subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    folder, limit = tmp_path / "out.jsonl.units", time.monotonic() + 120
    while len(list(folder.glob("*.jsonl"))) < 4:
        assert first.poll() is None and time.monotonic() < limit, "the first run ended before it could be killed"
        time.sleep(0.01)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    assert not out.exists()
    second = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert second.returncode == 0, second.stderr
    units, kept, count = map(int, second.stdout.split()[-3:])
    assert units == 20 and 4 <= kept < 20 and count == 800
    assert out.read_bytes() == want


def test_rows_of_a_dataset(program, cluster):
    import ray

    from leyden_ray import Rows

    cluster(1)
    ray.data.DataContext.get_current().enable_progress_bars = False
    data = ray.data.from_items([{"key": i, "text": f"Row {i} is"} for i in range(64)])
    made = data.map_batches(
        Rows, fn_constructor_args=(OPTIONS,), batch_format="pyarrow", batch_size=32, num_cpus=0.5,
        compute=ray.data.ActorPoolStrategy(size=1),
    ).take_all()  # fmt: skip
    assert sorted(row["key"] for row in made) == list(range(64))
    assert all(row["output"] and row["error"] is None for row in made)

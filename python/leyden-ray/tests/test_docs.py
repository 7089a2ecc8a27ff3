"""The commands and programs of docs/scale-out.md run as they stand there, but for ports and the installation."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import urllib.request

import pytest

PAGE = pathlib.Path(__file__).resolve().parents[3] / "docs/scale-out.md"


def snippets(kind):
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.fixture
def place(program, tmp_path):
    """A folder with rows and with programs by their names, and the environment that finds them."""
    (tmp_path / "bin").mkdir()
    for name, command in (("leyden", f'"{program}"'), ("python", f'"{sys.executable}"'), ("leyden-ray", f'"{sys.executable}" -m leyden_ray')):
        (tmp_path / "bin" / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        (tmp_path / "bin" / name).chmod(0o755)
    with open(tmp_path / "questions.jsonl", "w") as file:
        file.writelines(json.dumps({"prompt": f"Row {i} is"}) + "\n" for i in range(250))
    here = str(pathlib.Path(__file__).resolve().parents[1])
    return tmp_path, {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "LEYDEN": program, "PYTHONPATH": here, "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "60"}


def run(command, place):
    folder, environment = place
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, f"{command[-1]}\n{done.stderr[-3000:]}"
    return done.stdout


def test_the_page_has_the_snippets_that_are_tested():
    kinds = {kind: [block.split()[0] for block in snippets(kind)] for kind in ("sh", "python")}
    assert kinds == {"sh": ["pip", "leyden-ray", "leyden", "pip"], "python": ["import", "import", "from"]}


def test_rows_of_a_file(place):
    pytest.importorskip("ray")
    run(["bash", "-ec", snippets("sh")[1]], place)
    printed = run([sys.executable, "-c", snippets("python")[0]], place)
    assert printed.startswith("250 0 ")
    folder, _ = place
    assert (folder / "answers.jsonl").read_bytes() == (folder / "answers2.jsonl").read_bytes()


def test_rows_of_a_dataset(place):
    pytest.importorskip("ray")
    assert "output" in run([sys.executable, "-c", snippets("python")[1]], place)


def test_a_server_that_scales(place):
    pytest.importorskip("ray.serve")
    from leyden_ray.program import free_port

    port = free_port()
    code = snippets("python")[2].replace("serve.run(app)", f"serve.start(http_options={{'port': {port}}}); serve.run(app)")
    ask = f"import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:{port}/v1/models').read())"
    assert "leyden" in run([sys.executable, "-c", f"{code}\n{ask}\nserve.shutdown()"], place)


def test_the_router(place):
    pytest.importorskip("aiohttp")
    from leyden_ray.program import free_port

    block = snippets("sh")[2]
    ports = {str(port): str(free_port()) for port in (8080, 8081, 8082)}
    for port, free in ports.items():
        block = block.replace(port, free)
    folder, environment = place
    with open(folder / "log", "w") as log:
        shell = subprocess.Popen(["bash", "-c", block + "wait"], cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True)
    try:
        body, limit = json.dumps({"prompt": "Once upon a time", "max_tokens": 3}).encode(), time.monotonic() + 120
        while True:
            try:
                request = urllib.request.Request(f"http://127.0.0.1:{ports['8080']}/v1/completions", body, {"content-type": "application/json"})
                with urllib.request.urlopen(request, timeout=60) as answer:
                    assert json.load(answer)["choices"][0]["text"] and answer.headers["x-leyden-replica"]
                break
            except OSError:
                assert shell.poll() is None and time.monotonic() < limit, (folder / "log").read_text()
                time.sleep(0.2)
    finally:
        os.killpg(shell.pid, signal.SIGKILL)
        shell.wait()

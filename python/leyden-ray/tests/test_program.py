"""Children: they end when they are told to, and with the process that started them. Without Ray."""

import os
import signal
import subprocess
import sys
import time

import pytest

from leyden_ray import LeydenError, LocalServer
from leyden_ray.program import find_program


def test_a_server_answers_and_ends_even_if_signals_are_blocked(program):
    old = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        with LocalServer(None, ["--log-format", "off"], program) as server:
            assert server.healthy() and "vllm:num_requests_waiting" in server.metrics()
            begin = time.monotonic()
        # Far below the 35 seconds after which it is killed.
        assert time.monotonic() - begin < 30 and server.process.returncode == 0
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, old)


def test_a_server_that_cannot_start_is_an_error_with_its_words(program):
    with pytest.raises(LeydenError, match="nothing.gguf"):
        LocalServer("nothing.gguf", [], program)
    with pytest.raises(LeydenError, match="no program"):
        find_program("/nowhere/leyden")


PARENT = """
import time, leyden_ray
print(leyden_ray.LocalServer(None, ["--log-format", "off"]).process.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs PR_SET_PDEATHSIG")
def test_a_child_dies_with_its_parent(program):
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    child = int(parent.stdout.readline())
    os.kill(child, 0)
    parent.kill()
    parent.wait()
    limit = time.monotonic() + 60
    while time.monotonic() < limit:
        try:
            with open(f"/proc/{child}/stat") as file:
                if file.read().rsplit(")", 1)[1].split()[0] == "Z":
                    return
        except OSError:
            return
        time.sleep(0.05)
    raise AssertionError(f"the server {child} outlived its parent")

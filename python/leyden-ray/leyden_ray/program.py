"""Child processes of the program `leyden`.

A child dies with the process that started it, however that ends: an actor killed with SIGKILL leaves no server behind. On Linux the
kernel does this (`PR_SET_PDEATHSIG`, prctl(2)); it watches the thread that started the child, so start children in a thread that
lives as long as they.
"""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

from .errors import LeydenError

# Runs the command after asking the kernel for SIGKILL at the parent's death. It replaces itself, so the child's id is that of leyden. Ray's
# threads block SIGINT, and a child inherits that: it would never hear that it shall end.
_WITH_PARENT = (
    "import ctypes,os,signal,sys\n"
    "signal.pthread_sigmask(signal.SIG_SETMASK,[])\n"
    "ctypes.CDLL(None).prctl(1,9)\n"
    "if os.getppid()!=int(sys.argv[1]): sys.exit(1)\n"
    "os.execvp(sys.argv[2],sys.argv[2:])"
)


def find_program(given=None):
    """Returns the path of the program: `given`, the variable `LEYDEN`, or `leyden` on the path."""
    named = given or os.environ.get("LEYDEN")
    found = shutil.which(named or "leyden") or shutil.which("leyden", path=os.path.dirname(sys.executable))
    if named and not shutil.which(named):
        raise LeydenError(f"{named}: no program; name `leyden` by its path or in the variable LEYDEN")
    if not found:
        raise LeydenError("leyden: not on the path; install it, or name it in the variable LEYDEN")
    return os.path.abspath(found)


def version(program):
    """Returns the line that `leyden --version` prints."""
    done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        raise LeydenError(f"{program} --version: {done.stderr.strip() or done.returncode}")
    return done.stdout.strip()


def start(command, **options):
    """Starts a command as a child that dies with this process. Returns its `subprocess.Popen`."""
    command = [str(word) for word in command]
    if sys.platform == "linux":
        command = [sys.executable, "-I", "-S", "-c", _WITH_PARENT, str(os.getpid()), *command]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, **options)


def free_port():
    """Returns a port of this machine that is free at this moment."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class LocalServer:
    """A `leyden serve` on this machine's own address, as a child. Use it as a context manager, or `stop` it.

    `options` are those of `leyden serve`, as a list of words. The constructor returns when the server is ready.
    """

    def __init__(self, model, options=(), program=None, wait=300.0):
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._log = tempfile.TemporaryFile()
        command = [find_program(program), "serve", *([model] if model else []), "--port", self.port, *options]
        self.process = start(command, stdout=self._log, stderr=self._log)
        limit = time.monotonic() + wait
        while not self.healthy():
            if self.process.poll() is not None:
                raise LeydenError(f"leyden serve ended: {self.log().strip()[-2000:]}")
            if time.monotonic() > limit:
                self.stop(grace=1)
                raise LeydenError(f"leyden serve is not ready after {wait:.0f} s: {self.log().strip()[-2000:]}")
            time.sleep(0.02)

    def healthy(self):
        """Returns whether the server answers `/health` with 200."""
        try:
            with urllib.request.urlopen(self.url + "/health", timeout=5) as answer:
                return answer.status == 200
        except (urllib.error.URLError, OSError):
            return False

    def metrics(self):
        """Returns the text of `/metrics`."""
        with urllib.request.urlopen(self.url + "/metrics", timeout=10) as answer:
            return answer.read().decode()

    def log(self):
        """Returns what the server has written to its outputs."""
        return os.pread(self._log.fileno(), 1 << 20, 0).decode(errors="replace")

    def stop(self, grace=35.0):
        """Ends the server: running answers may finish within `grace` seconds."""
        if self.process.poll() is None:
            self.process.send_signal(2)
            try:
                self.process.wait(grace)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait()
        self._log.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

"""Plays a person at a terminal: waits for what the program shows, types, and reports what became of it.

The argument is a JSON object: program (a list: before the program what runs it, if anything), arguments (a first "|"
gives standard output a pipe of its own, a first "2|" standard error), environment, folder to run in, and a scene, a
list of steps. A step waits until the terminal has shown `wait` since the step before (or, with `output`, until
anything of an answer has come), then types `send`.
Prints a JSON object: code, terminal, output.
"""

import json
import os
import pty
import select
import signal
import sys
import time

LIMIT_SECONDS = 60

request = json.loads(sys.argv[1])
arguments = request["arguments"]
piped = {"|": 1, "2|": 2}.get(arguments[0])
if piped:
    arguments = arguments[1:]
pipe_read, pipe_write = os.pipe()

pid, terminal = pty.fork()
if pid == 0:
    os.chdir(request["folder"])
    if piped:
        os.dup2(pipe_write, piped)
    program = request["program"]
    os.execvpe(program[0], [*program, *arguments], {**os.environ, **request["environment"]})
os.close(pipe_write)

seen = b""
output = b""
watched = [terminal, pipe_read] if piped else [terminal]


def pump(deadline):
    """Reads what there is; false when the program has closed everything."""
    global seen, output
    ready, _, _ = select.select(watched, [], [], max(0.0, min(0.1, deadline - time.time())))
    for source in ready:
        try:
            data = os.read(source, 1 << 16)
        except OSError:
            data = b""
        if not data:
            watched.remove(source)
        elif source == terminal:
            seen += data
            # A terminal answers when it is asked where the cursor is.
            for _ in range(data.count(b"\x1b[6n")):
                os.write(terminal, b"\x1b[1;1R")
        else:
            output += data
    return bool(watched)


def fail(message):
    os.kill(pid, signal.SIGKILL)
    sys.exit(f"{message}\nterminal: {seen!r}\noutput: {output!r}")


mark = 0
for step in request["scene"]:
    deadline = time.time() + LIMIT_SECONDS
    if step.get("output"):
        # The line editor's last act is to switch bracketed paste off; letters after that are the answer.
        done = lambda: any(chr(c).isalpha() for c in seen[mark:].rpartition(b"\x1b[?2004l")[2])
        started = lambda: b"\x1b[?2004l" in seen[mark:] and done()
    else:
        started = lambda: step["wait"].encode() in seen[mark:]
    while not started():
        if time.time() > deadline:
            fail(f"waited in vain: {step}")
        if not pump(deadline) and not started():
            fail(f"ended before: {step}")
    if not step.get("output"):
        mark += seen[mark:].index(step["wait"].encode()) + len(step["wait"])
    if step["send"]:
        mark = len(seen)
        os.write(terminal, step["send"].encode())

deadline = time.time() + LIMIT_SECONDS
while pump(deadline):
    if time.time() > deadline:
        fail("does not end")
_, status = os.waitpid(pid, 0)
code = os.waitstatus_to_exitcode(status)
print(json.dumps({"code": code, "terminal": seen.decode(errors="replace"), "output": output.decode(errors="replace")}))

"""One run of `leyden batch` over one piece of rows, as a child process.

The child brings everything that docs/batch.md promises for one machine: formats, tasks, templates and schemas, rows with errors, seeds
that do not depend on the place of a row, bounded memory. A child that is killed is started again and continues from its journal; a row
that kills its process twice gets an error. It costs a load of the model for each piece.
"""

import json
import os
import tempfile
import time

from . import program as programs
from .errors import LeydenError

# `leyden batch` gives up a row in which two processes ended, so every row of a piece could end the process twice and no more. A piece
# whose processes are killed this often without an end has another cause, such as too little memory.
MAX_STARTS = 20


class Engine:
    """`leyden batch` with fixed options. `options` are its words after IN and OUT, without `--threads`.

    Paths among them are relative to `folder`, by default this process's own.
    """

    def __init__(self, options, threads=1, program=None, folder=None):
        self.program, self.folder = programs.find_program(program), folder
        if folder and not os.path.isdir(folder):
            raise LeydenError(f"{folder}: no such folder on this machine; all machines must see it")
        self.options = [str(word) for word in options]
        self.threads = threads
        for word in ("--threads", "-t", "--json", "--shard", "--restart"):
            if word in self.options:
                raise LeydenError(f"{word}: not among the options of `leyden batch` here; it is set for each actor")

    def compute(self, source, out):
        """Computes the rows of the file `source` into the file `out`. Returns counts and seconds.

        Rows with errors are rows of the output. Raises `LeydenError` if the run itself failed.
        """
        began = time.monotonic()
        command = [self.program, "batch", source, out, *self.options, "--threads", self.threads, "--json", "--quiet"]
        for starts in range(1, MAX_STARTS + 1):
            with tempfile.TemporaryFile() as errors, tempfile.TemporaryFile() as report:
                code = programs.start(command, stdout=report, stderr=errors, cwd=self.folder).wait()
                said = os.pread(errors.fileno(), 1 << 16, 0).decode(errors="replace").strip()
                counts = os.pread(report.fileno(), 1 << 16, 0).decode(errors="replace")
            if code >= 0:
                break
        if code not in (0, 1) or not os.path.exists(out):
            raise LeydenError(f"leyden batch: {said or f'ended with {code}'}")
        counts = json.loads(counts)
        return {
            "read": counts["read"],
            "done": counts["done"],
            "failed": counts["failed"],
            "first_error": counts["first_error"],
            "starts": starts,
            "seconds": time.monotonic() - began,
            "compute_seconds": counts["seconds"],
        }

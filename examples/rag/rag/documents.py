"""Texts of documents, read by `leyden batch`: .txt, .md, .html, .docx and .pdf, each in a limited child process."""

import json
import os
import shutil
import subprocess
import tempfile


def read_folder(folder, embedder, program=None):
    """Yields `(path, text)` for each document of a folder, sorted by path. `embedder` is a model that `leyden batch` can load.

    Raises RuntimeError if the run fails; a document that cannot be read is yielded as `(path, None)` with the reason on standard error.
    """
    program = program or os.environ.get("LEYDEN") or shutil.which("leyden")
    if not program:
        raise RuntimeError("leyden: not on the path; install it, or name it in the variable LEYDEN")
    with tempfile.TemporaryDirectory() as place:
        out = os.path.join(place, "texts.jsonl")
        # The rows of the output have the text beside the vector; the vector of a whole document is of no use here.
        command = [program, "batch", folder, out, "--task", "embed", "--model", embedder, "--truncate", "--quiet"]
        done = subprocess.run(command, capture_output=True, text=True)
        if not os.path.exists(out):
            raise RuntimeError(f"leyden batch {folder}: {done.stderr.strip() or done.returncode}")
        if done.returncode:
            print(done.stderr.strip())
        with open(out, encoding="utf-8") as rows:
            for row in map(json.loads, rows):
                yield row["path"], row.get("text")

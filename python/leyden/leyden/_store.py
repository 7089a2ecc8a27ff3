"""The store of models, which the program `leyden` fills."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig

from ._native import ModelError


def program() -> str:
    """Returns the path of the program `leyden` that this package brings."""
    beside = os.path.join(sysconfig.get_path("scripts"), "leyden")
    found = beside if os.access(beside, os.X_OK) else shutil.which("leyden")
    if found is None:
        raise ModelError("the program `leyden` is not beside this Python, nor on PATH; install the wheel again")
    return found


def pull(name: str) -> None:
    """Downloads a model into the store, for `Model(name)`: a short name, or hf:ORG/REPO[:FILE].

    Progress goes to standard error, as by `leyden pull NAME`.

    Raises ModelError with the program's words.
    """
    done = subprocess.run([program(), "pull", name], stderr=None, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        print(done.stdout, file=sys.stderr, end="")
        raise ModelError(f"{name}: `leyden pull` failed with code {done.returncode}; its words are above")

"""Paths, and the skips of tests whose model or package is not there."""

import os
import pathlib
import shutil
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE.parents[2] / "python" / "leyden-ray"))


def missing(reason):
    """Skips a test, or fails it where nothing may be missing."""
    if os.environ.get("LEYDEN_CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def program():
    """Path of the program."""
    found = os.environ.get("LEYDEN") or shutil.which("leyden")
    if not found:
        missing("no program leyden: name it in the variable LEYDEN")
    os.environ["LEYDEN"] = found
    return found


@pytest.fixture(scope="session")
def models():
    """Folder of `fetch_models.py` with minilm, qwen-coder and smollm2."""
    folder = pathlib.Path(os.environ.get("LEYDEN_TEST_MODELS", ""))
    if not (folder / "all-MiniLM-L6-v2").is_dir() or not (folder / "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf").is_file():
        missing("the variable LEYDEN_TEST_MODELS names no folder with all-MiniLM-L6-v2 and qwen2.5-coder-0.5b-instruct-q4_k_m.gguf")
    return folder

"""Every Python snippet of docs/python.md and of the package's README runs."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

import pytest

from conftest import ROOT, needs

PAGES = [ROOT / "docs/python.md", ROOT / "python/leyden/README.md", ROOT / "README.md"]
#: Real models in snippets, which stand in for the folder of the reader; the embedded model takes their place here.
REAL = re.compile(r'"(SmolLM2-135M-Instruct\.Q4_1\.gguf|all-MiniLM-L6-v2)"')


def snippets() -> list[tuple[str, str]]:
    """Returns the snippets with a name each."""
    found = []
    for page in PAGES:
        blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.S | re.M)
        found += [(f"{page.name}:{number}", block) for number, block in enumerate(blocks, 1) if "leyden" in block]
    return found


SNIPPETS = snippets()


@pytest.mark.parametrize(("name", "code"), SNIPPETS, ids=[name for name, _ in SNIPPETS])
def test_a_snippet_runs(name: str, code: str, tmp_path: pathlib.Path) -> None:
    for module, package in (("langchain", "langchain_core"), ("llama_index", "llama_index.core"), ("pyarrow",) * 2):
        if module in code:
            needs(package)
    code = REAL.sub("leyden.EMBEDDED", code)
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{name}:\n{code}\n{done.stderr}"


def test_there_are_snippets() -> None:
    assert len(SNIPPETS) >= 10

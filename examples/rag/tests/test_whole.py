"""The whole pipeline on real models: documents of every format, a cited answer, an agent, and the commands of docs/rag.md."""

import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import time
import urllib.request
import zipfile

import pytest
from rag import agent, pipeline
from rag.service import Service
from rag.stores import LanceStore

ROOT = pathlib.Path(__file__).resolve().parents[3]
CHAT, EMBED = "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf", "all-MiniLM-L6-v2"

FACTS = {
    "tower.txt": "The lighthouse of Marlow is painted green. It was built in 1871 by Ada Thorn.",
    "bridge.md": "# Bridges\n\nThe bridge of Oakham has seven arches. Carts pay two pennies to cross it.",
    "mill.html": "<html><body><h1>Mills</h1><p>The mill of Dunmore grinds barley. Its owner is called Peter Vane.</p></body></html>",
    "garden.docx": "The garden of Ashby has a pond with forty carps. It closes at sunset.",
    "school.pdf": "The school of Wexley teaches ninety children. Its bell was cast in Ghent.",
}


def write_documents(folder):
    """Writes a document of each format."""
    folder.mkdir()
    for name, text in FACTS.items():
        path = folder / name
        if name.endswith(".docx"):
            body = f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>"
            space = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr("word/document.xml", f'<?xml version="1.0"?><w:document {space}><w:body>{body}</w:body></w:document>')
        elif name.endswith(".pdf"):
            path.write_bytes(pdf(text))
        else:
            path.write_text(text)


def pdf(text):
    """Returns a PDF of one page with a line of text."""
    content = f"BT /F1 12 Tf 40 700 Td ({text}) Tj ET".encode()
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
        b"<</Length %d>>stream\n%s\nendstream" % (len(content), content),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>",
    ]  # fmt: skip
    out, places = bytearray(b"%PDF-1.4\n"), []
    for i, item in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj%s\nendobj\n" % (i, item)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1) + b"".join(b"%010d 00000 n \n" % at for at in places)
    return bytes(out + b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, start))


@pytest.fixture(scope="module")
def place(program, models, tmp_path_factory):
    """A folder with documents, in which the models have their names; and a server of both."""
    folder = tmp_path_factory.mktemp("whole")
    write_documents(folder / "documents")
    for name in (CHAT, EMBED):
        (folder / name).symlink_to(models / name)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    command = [program, "serve", EMBED, CHAT, "--port", str(port), "--kv-tokens", "16384", "--parallel", "4"]
    with open(folder / "log", "w") as log:
        server = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
    limit = time.monotonic() + 300
    while True:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5)
            break
        except OSError:
            assert server.poll() is None and time.monotonic() < limit, (folder / "log").read_text()
            time.sleep(0.1)
    yield folder, port
    server.kill()
    server.wait()


@pytest.fixture(scope="module")
def whole(place):
    """Store with the documents, and the service."""
    folder, port = place
    service = Service(f"http://127.0.0.1:{port}/v1", embed=EMBED, chat=CHAT.removesuffix(".gguf"), likelihood=CHAT.removesuffix(".gguf"))
    store = LanceStore(str(folder / "store"))
    documents, chunks = pipeline.index(store, service, folder / "documents", str(folder / EMBED))
    assert (documents, chunks) == (5, 5)
    return folder, store, service


QUESTIONS = [
    ("Who built the lighthouse of Marlow?", "tower.txt", "Ada Thorn"),
    ("How many arches has the bridge of Oakham?", "bridge.md", "seven"),
    ("What is the name of the owner of the mill?", "mill.html", "Peter Vane"),
    ("How many carps are in the pond?", "garden.docx", "forty"),
    ("Where was the bell of the school cast?", "school.pdf", "Ghent"),
]


def test_every_format_is_found_and_quotes_are_exact(whole):
    _, store, service = whole
    right = 0
    for question, path, words in QUESTIONS:
        chunks, answer = pipeline.ask(store, service, question, 2)
        assert chunks[0].path.endswith(path)
        assert answer.citations and not answer.wrong
        for citation in answer.citations:
            (chunk,) = [chunk for chunk in chunks if chunk.path == citation.path]
            assert chunk.text[citation.start - chunk.start : citation.end - chunk.start] == citation.quote
        right += any(words in citation.quote for citation in answer.citations)
    # A model of half a billion parameters often quotes the sentence beside the one that answers.
    assert right >= 2


def test_reranking_keeps_the_answer_first(whole):
    _, store, service = whole
    for question, path, _ in QUESTIONS[:2]:
        assert pipeline.search(store, service, question, 3, rerank=True)[0].path.endswith(path)
        assert pipeline.search(store, service, question, 3, rerank=False)[0].path.endswith(path)


def test_an_agent_searches_and_cites(whole):
    _, store, service = whole
    queries, found, answer = agent.run(store, service, QUESTIONS[0][0], rounds=2, rerank=False)
    assert queries and any(chunk.path.endswith("tower.txt") for chunk in found)
    assert answer.citations and not answer.wrong


def snippets(kind):
    text = (ROOT / "docs/rag.md").read_text(encoding="utf-8")
    return re.findall(rf"^```{kind}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def test_the_commands_of_the_page_run(place, program):
    folder, port = place
    (folder / "bin").mkdir(exist_ok=True)
    for name, target in (("leyden", program), ("python", sys.executable)):
        if not (folder / "bin" / name).exists():
            (folder / "bin" / name).write_text(f'#!/bin/sh\nexec "{target}" "$@"\n')
            (folder / "bin" / name).chmod(0o755)
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT / "examples/rag"), "OPENAI_API_KEY": "none"}
    ran = 0
    for block in snippets("sh"):
        # The server runs already; the measurement and the installation are no part of a test.
        lines = [line for line in block.splitlines() if not line.startswith(("pip ", "leyden serve", "pytest", "python -m rag.evaluate", "cd "))]
        for line in "\n".join(lines).replace("\\\n", " ").splitlines():
            line = line.replace("python -m rag ", f"python -m rag --url http://127.0.0.1:{port}/v1 ")
            if "postgresql://" in line:
                continue  # its own test, test_stores.py
            done = subprocess.run(["bash", "-c", line], cwd=folder, env=environment, capture_output=True, text=True)
            assert done.returncode == 0, f"{line}\n{done.stderr}"
            ran += 1
    assert ran >= 3
    for block in snippets("python"):
        code = block.replace("127.0.0.1:8080", f"127.0.0.1:{port}")
        done = subprocess.run([sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{code}\n{done.stderr}"
    for block in snippets("json"):
        json.loads(block)

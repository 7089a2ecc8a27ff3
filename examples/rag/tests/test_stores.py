"""Both stores on real engines: LanceDB in a folder, and a Postgres server with pgvector."""

import math
import os
import random

import pytest
from conftest import missing
from rag.chunks import Chunk
from rag.stores import open_store


def unit(draw, size=24):
    values = [draw.gauss(0, 1) for _ in range(size)]
    length = math.sqrt(sum(v * v for v in values))
    return [v / length for v in values]


@pytest.fixture
def lance(tmp_path):
    try:
        import lancedb  # noqa: F401
    except ImportError:
        missing("no package lancedb")
    return str(tmp_path / "store")


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """Address of a Postgres server with pgvector: LEYDEN_TEST_POSTGRES, or one started from the package pgserver, which has both."""
    try:
        import pgvector  # noqa: F401
        import psycopg
    except ImportError:
        missing("no package psycopg or pgvector")
    if address := os.environ.get("LEYDEN_TEST_POSTGRES"):
        yield address
        return
    try:
        import pgserver
    except ImportError:
        missing("no Postgres with pgvector: install the package pgserver, or set LEYDEN_TEST_POSTGRES to an address")
    folder = tmp_path_factory.mktemp("postgres")
    # The server runs as an ordinary user, who must be able to reach its folder.
    for part in (folder, *folder.parents):
        if part == part.parent or not str(part).startswith(("/tmp/", "/var/tmp/")):
            break
        part.chmod(part.stat().st_mode | 0o055)
    with pgserver.get_server(folder / "data", cleanup_mode="stop") as running:
        assert psycopg.connect(running.get_uri()).execute("SELECT 1").fetchone() == (1,)
        yield running.get_uri()


@pytest.mark.parametrize("kind", ["lance", "server"])
def test_a_store_gives_the_nearest_and_the_words(kind, request):
    store, draw = open_store(request.getfixturevalue(kind)), random.Random(3)
    chunks = [Chunk(f"{i}.txt", i, i + 9, f"number {i} says {'fox' if i % 10 == 3 else 'hen'} 'quoted' & more") for i in range(200)]
    vectors = [unit(draw) for _ in chunks]
    for _ in range(2):  # the second time replaces the first
        store.write(chunks, vectors)
    for _ in range(5):
        asked = unit(draw)
        near = sorted(range(200), key=lambda i: -sum(a * b for a, b in zip(asked, vectors[i])))[:7]
        assert store.by_vector(asked, 7) == [chunks[i] for i in near]
    found = store.by_words("a fox?", 50)
    assert len(found) == 20 and all("fox" in chunk.text for chunk in found)
    # Marks of query languages are only marks.
    for odd in ["'; DROP TABLE chunks; --", '"fox" AND (', "fox:* & !", "-fox +hen ~2"]:
        store.by_words(odd, 3)
    assert store.by_words("...", 3) == [] or kind == "lance"
    store.close()

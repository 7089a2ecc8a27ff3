"""Stores of chunks and vectors: LanceDB, a folder without a server, and Postgres with pgvector.

Both have the same methods, and compute the search themselves: vectors by cosine, words by BM25 (LanceDB) or by Postgres' `ts_rank_cd`.
"""

from .chunks import Chunk


class LanceStore:
    """Table `chunks` of a LanceDB folder."""

    def __init__(self, folder):
        import lancedb

        self.base = lancedb.connect(folder)

    def write(self, chunks, vectors):
        """Replaces the content of the store."""
        from lancedb.index import FTS

        rows = [{"path": c.path, "start": c.start, "end": c.end, "text": c.text, "vector": v} for c, v in zip(chunks, vectors, strict=True)]
        table = self.base.create_table("chunks", rows, mode="overwrite")
        table.create_index("text", config=FTS(), replace=True)

    def by_vector(self, vector, count):
        """Returns the chunks whose vectors are nearest, the best first. The search is exact: it compares all vectors."""
        return _chunks(self.base.open_table("chunks").search(vector).distance_type("cosine").limit(count).to_list())

    def by_words(self, text, count):
        """Returns the chunks with the words of a text, the best first."""
        return _chunks(self.base.open_table("chunks").search(_plain(text), query_type="fts").limit(count).to_list())

    def close(self):
        """Does nothing: the folder needs no end."""


class PostgresStore:
    """Table `chunks` of a Postgres database with the extension pgvector."""

    def __init__(self, address):
        import psycopg
        from pgvector.psycopg import register_vector

        self.base = psycopg.connect(address, autocommit=True)
        self.base.execute("CREATE EXTENSION IF NOT EXISTS vector")
        register_vector(self.base)

    def write(self, chunks, vectors):
        """Replaces the content of the store, in one transaction."""
        import numpy

        size = len(vectors[0]) if vectors else 1
        with self.base.transaction(), self.base.cursor() as cursor:
            cursor.execute("DROP TABLE IF EXISTS chunks")
            cursor.execute(
                f'CREATE TABLE chunks (path text, start int, "end" int, text text, vector vector({size}), '
                "words tsvector GENERATED ALWAYS AS (to_tsvector('english', text)) STORED)"
            )
            with cursor.copy('COPY chunks (path, start, "end", text, vector) FROM STDIN WITH (FORMAT BINARY)') as copy:
                copy.set_types(["text", "int4", "int4", "text", "vector"])
                for c, v in zip(chunks, vectors, strict=True):
                    copy.write_row((c.path, c.start, c.end, c.text, numpy.asarray(v, "f4")))
            cursor.execute("CREATE INDEX ON chunks USING gin (words)")

    def by_vector(self, vector, count):
        """Returns the chunks whose vectors are nearest, the best first. The search is exact: there is no vector index."""
        import numpy

        query = 'SELECT path, start, "end", text FROM chunks ORDER BY vector <=> %s, path, start LIMIT %s'
        return self._rows(query, (numpy.asarray(vector, "f4"), count))

    def by_words(self, text, count):
        """Returns the chunks with the words of a text, the best first."""
        words = " or ".join(_plain(text).split())
        query = (
            'SELECT path, start, "end", text FROM chunks, websearch_to_tsquery(\'english\', %s) q WHERE words @@ q '
            "ORDER BY ts_rank_cd(words, q, 1) DESC, path, start LIMIT %s"
        )
        return self._rows(query, (words, count))

    def _rows(self, query, values):
        return [Chunk(*row) for row in self.base.execute(query, values)]

    def close(self):
        """Closes the connection."""
        self.base.close()


def open_store(where):
    """Returns the store at a place: a `postgresql://` address, or a folder."""
    return PostgresStore(where) if where.startswith(("postgresql://", "postgres://")) else LanceStore(where)


def _chunks(rows):
    return [Chunk(row["path"], row["start"], row["end"], row["text"]) for row in rows]


def _plain(text):
    """Returns the words of a question without marks, which query languages would take for operators."""
    return " ".join("".join(c if c.isalnum() else " " for c in text).split())

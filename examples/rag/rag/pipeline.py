"""The pipeline: documents to chunks to a store, and a question to chunks to an answer."""

from . import answers
from .chunks import divide
from .documents import read_folder

# Constant of reciprocal rank fusion (Cormack, Clarke and Büttcher, 2009).
_RRF = 60


def index(store, service, folder, embedder, words=180, program=None):
    """Reads a folder into a store. Returns the numbers of documents and chunks."""
    chunks, documents = [], 0
    for path, text in read_folder(folder, embedder, program):
        documents += text is not None
        chunks += divide(path, text or "", words)
    if not chunks:
        raise ValueError(f"{folder}: no text in its documents")
    store.write(chunks, service.vectors([chunk.text for chunk in chunks]))
    return documents, len(chunks)


def search(store, service, question, count=5, *, words=True, rerank=True, candidates=20):
    """Returns the `count` best chunks for a question.

    The candidates are the nearest by vector; with `words`, fused with those by words. With `rerank`, a model puts them in order.
    """
    pool = candidates if rerank and service.reranks else count
    found = store.by_vector(service.vectors([question])[0], max(pool, 20) if words else pool)
    if words:
        found = fuse([found, store.by_words(question, max(pool, 20))])[:pool]
    if rerank and service.reranks and found:
        found = reorder(found, service.scores(question, [chunk.text for chunk in found]))
    return found[:count]


def fuse(lists):
    """Returns the chunks of several rankings by reciprocal rank fusion."""
    scores = {}
    for ranking in lists:
        for place, chunk in enumerate(ranking):
            scores[chunk] = scores.get(chunk, 0.0) + 1 / (_RRF + 1 + place)
    return sorted(scores, key=lambda chunk: -scores[chunk])


def reorder(found, scores):
    """Returns chunks by a model's scores, the best first; equal ones keep their order."""
    return [found[i] for i in sorted(range(len(found)), key=lambda i: -scores[i])]


def ask(store, service, question, count=5, exact=True, **options):
    """Returns the chunks that were found, and the `Answer`."""
    chunks = search(store, service, question, count, **options)
    return chunks, answers.answer(service, question, chunks, exact)

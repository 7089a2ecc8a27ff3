"""Chunks of a text, and their sentences.

A chunk is a slice `text[start:end]` of its document, never a rewriting, so a quote from it is at a known place of the document.
"""

import re
from dataclasses import dataclass

# A sentence ends with its mark, closing quotes included, before white space; or with an empty line.
_END = re.compile(r"[.!?…]+[\"'”’)\]]*(?=\s)|\n\s*\n")
_NOT_AN_END = re.compile(r"(?:\b(?:Mr|Mrs|Ms|Dr|St|No|vs|etc|e\.g|i\.e)|\b[A-Z])\.$")


@dataclass(frozen=True)
class Chunk:
    """Slice of a document: its path, place and text."""

    path: str
    start: int
    end: int
    text: str

    @property
    def id(self):
        """Identifies the chunk in its store."""
        return f"{self.path}#{self.start}-{self.end}"


def sentences(text):
    """Returns the places `(start, end)` of the sentences of a text, without the white space between them."""
    places, start = [], 0
    for end in [m.end() for m in _END.finditer(text) if not _NOT_AN_END.search(text[start : m.end()])] + [len(text)]:
        part = text[start:end]
        if part.strip():
            places.append((start + len(part) - len(part.lstrip()), start + len(part.rstrip())))
        start = end
    return places


def divide(path, text, words=180, overlap=1):
    """Returns the chunks of a text: whole sentences, up to `words` words each, of which the last `overlap` begin the next chunk.

    A sentence that is longer is a chunk of its own, divided between words. 180 words are below the 256 tokens of all-MiniLM-L6-v2.
    """
    pieces = [piece for place in sentences(text) for piece in _short(text, place, words)]
    chunks, first = [], 0
    while first < len(pieces):
        last, count = first, len(text[slice(*pieces[first])].split())
        while last + 1 < len(pieces) and count + (more := len(text[slice(*pieces[last + 1])].split())) <= words:
            last, count = last + 1, count + more
        start, end = pieces[first][0], pieces[last][1]
        chunks.append(Chunk(path, start, end, text[start:end]))
        if last + 1 == len(pieces):
            break
        first = max(first + 1, last + 1 - overlap)
    return chunks


def _short(text, place, words):
    starts = [m.span() for m in re.finditer(r"\S+", text[slice(*place)])]
    for i in range(0, len(starts), words):
        part = starts[i : i + words]
        yield place[0] + part[0][0], place[0] + part[-1][1]

"""Answers with citations, as JSON, and the check that every quote is in the chunk that it names.

With `exact`, the schema itself lists the sentences of the found chunks: the model chooses among them and cannot write another quote.
Without it, the model writes quotes freely, and those that are not in their chunk are counted and dropped. White space is no part of
the comparison: the model sees lines joined, and a citation's text is the document's own. The quote comes before the answer, so that
the answer can follow from it.
"""

import json
import re
from dataclasses import dataclass, field

from .chunks import sentences

SYSTEM = (
    "Answer the question from the numbered passages alone. First quote the sentence that shows the answer, with the number of its "
    "passage, then answer in a few words. If the passages do not answer the question, quote nothing and say that you do not know."
)
MAX_CITATIONS = 2


@dataclass
class Citation:
    """Quote, and its place in a document: `text[start:end]` is the quote."""

    path: str
    start: int
    end: int
    quote: str


@dataclass
class Answer:
    """Answer, its checked citations, and the quotes that failed the check."""

    text: str
    citations: list = field(default_factory=list)
    wrong: list = field(default_factory=list)


def one_line(text):
    """Returns a text with every run of white space as one space."""
    return " ".join(text.split())


def find(quote, text):
    """Returns the place `(start, end)` of a quote in a text, whatever the white space between its words, or None."""
    words = [re.escape(word) for word in quote.split()]
    found = re.search(r"\s+".join(words), text) if words else None
    return found.span() if found else None


def messages(question, chunks):
    """Returns the conversation that asks for an answer."""
    passages = "\n\n".join(f"[{i}] {one_line(chunk.text)}" for i, chunk in enumerate(chunks, 1))
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": f"{passages}\n\nQuestion: {question}"}]


def schema(chunks, exact=True):
    """Returns the JSON schema of an answer over these chunks."""
    kinds = []
    for i, chunk in enumerate(chunks, 1):
        quotes = list(dict.fromkeys(one_line(chunk.text[a:b]) for a, b in sentences(chunk.text)))
        quote = {"enum": quotes} if exact else {"type": "string", "minLength": 1, "maxLength": 300}
        properties = {"passage": {"const": i}, "quote": quote}
        kinds.append({"type": "object", "properties": properties, "required": ["passage", "quote"], "additionalProperties": False})
    citations = {"type": "array", "items": {"anyOf": kinds}, "minItems": 0, "maxItems": MAX_CITATIONS}
    properties = {"citations": citations, "answer": {"type": "string", "minLength": 1, "maxLength": 300}}
    return {"type": "object", "properties": properties, "required": ["citations", "answer"], "additionalProperties": False}


def check(reply, chunks):
    """Returns the `Answer` in a model's JSON, with each quote searched in its chunk. Raises ValueError if it is no such JSON."""
    try:
        fields = json.loads(reply)
        answer = Answer(str(fields["answer"]))
        for citation in fields["citations"]:
            number, quote = citation["passage"], citation["quote"]
            chunk = chunks[number - 1] if isinstance(number, int) and 0 < number <= len(chunks) else None
            at = find(quote, chunk.text) if chunk else None
            if at is None:
                answer.wrong.append(quote)
            else:
                start, end = at
                answer.citations.append(Citation(chunk.path, chunk.start + start, chunk.start + end, chunk.text[start:end]))
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"the answer is not in the form that was asked for: {error}: {reply[:200]}") from error
    return answer


def answer(service, question, chunks, exact=True, max_tokens=400, seed=0):
    """Returns the model's `Answer` to a question over chunks."""
    if not chunks:
        return Answer("I do not know: nothing was found.")
    form = {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": schema(chunks, exact)}}
    reply = service.chat(messages(question, chunks), response_format=form, max_tokens=max_tokens, temperature=0, seed=seed)
    return check(reply.content or "", chunks)

"""Chunks, citations and fusion, without models."""

import json
import random

import jsonschema
import pytest
from rag import answers, pipeline
from rag.chunks import Chunk, divide, sentences

TEXT = 'The fox ran. "Stop!" cried Mr. Hare. He did not stop… Then it rained\n\nA new part begins here! And ends'


def test_sentences_are_whole_and_nothing_is_lost():
    found = [TEXT[a:b] for a, b in sentences(TEXT)]
    assert found == ["The fox ran.", '"Stop!"', "cried Mr. Hare.", "He did not stop…", "Then it rained", "A new part begins here!", "And ends"]
    assert sentences("") == [] and sentences(" \n ") == []


@pytest.mark.parametrize("words, overlap", [(3, 0), (3, 1), (8, 1), (1, 3), (180, 1)])
def test_chunks_are_slices_that_cover_the_text(words, overlap):
    draw = random.Random(words)
    text = TEXT + "\n\n" + " ".join("".join(draw.choice("ab. !\n") for _ in range(9)) for _ in range(60)) + "x" * 50
    chunks = divide("a.txt", text, words, overlap)
    assert all(chunk.text == text[chunk.start : chunk.end] and len(chunk.text.split()) <= words for chunk in chunks)
    covered = set().union(*(range(chunk.start, chunk.end) for chunk in chunks))
    assert all(i in covered or text[i].isspace() for i in range(len(text)))
    assert [chunk.start for chunk in chunks] == sorted(chunk.start for chunk in chunks)
    assert divide("a.txt", "") == []


CHUNKS = [Chunk("a.txt", 10, 40, "The fox ran. The hare slept."), Chunk("b.txt", 0, 9, "It rained")]


def reply(*citations):
    return json.dumps({"answer": "the fox", "citations": [{"passage": p, "quote": q} for p, q in citations]})


def test_quotes_are_found_at_their_place_or_dropped():
    found = answers.check(reply((1, "The hare slept."), (2, "It rained")), CHUNKS)
    assert [(c.path, c.start, c.end) for c in found.citations] == [("a.txt", 23, 38), ("b.txt", 0, 9)] and not found.wrong
    spaced = answers.check(reply((1, "fox ran. The  hare")), [Chunk("a.txt", 5, 40, "The fox ran.\n\nThe hare slept.")])
    assert [(c.start, c.quote) for c in spaced.citations] == [(9, "fox ran.\n\nThe hare")]
    wrong = [(2, "The fox ran."), (1, "The foxran."), (1, "the fox ran."), (1, "The.fox"), (3, "It rained"), (0, "It rained"), (1, "")]
    found = answers.check(reply(*wrong), CHUNKS)
    assert found.citations == [] and len(found.wrong) == len(wrong)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"answer": "a"}', '{"answer": "a", "citations": 3}', '{"answer": "a", "citations": [{}]}'])
def test_other_replies_are_errors(text):
    with pytest.raises(ValueError, match="form that was asked for"):
        answers.check(text, CHUNKS)


def test_the_schema_lets_exact_quotes_through_and_nothing_else():
    schema = answers.schema(CHUNKS)
    valid = jsonschema.Draft202012Validator(schema).is_valid
    assert valid(json.loads(reply((1, "The fox ran."), (2, "It rained"))))
    for citation in [(1, "The fox"), (2, "The fox ran."), (3, "It rained")]:
        assert not valid(json.loads(reply(citation)))
    free = jsonschema.Draft202012Validator(answers.schema(CHUNKS, exact=False)).is_valid
    assert free(json.loads(reply((2, "anything")))) and not free(json.loads(reply((3, "It rained"))))


def test_fusion_and_reordering():
    a, b, c = (Chunk(name, 0, 1, name) for name in "abc")
    assert pipeline.fuse([[a, b, c], [b, a, c]])[2] == c
    assert pipeline.fuse([[a], [b, a]])[0] == a
    assert pipeline.reorder([a, b, c], [0.0, 2.0, 0.0]) == [b, a, c]


def test_nothing_found_is_said():
    assert "do not know" in answers.answer(None, "Who?", []).text

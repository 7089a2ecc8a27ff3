"""Scores, vectors, labels, relevance and entities, against what transformers computes."""

from __future__ import annotations

import asyncio
from typing import Any, Callable

import numpy as np
import pytest

import leyden
from conftest import needs

Encoder = Callable[[str], tuple[leyden.Model, dict[str, Any]]]
QUERY, DOCUMENT = "w13 w24", "w46 w57 w68 w79"


def test_a_text_and_its_tokens(story: leyden.Model) -> None:
    tokens = story.tokenize("Once upon a time")
    assert tokens.dtype == np.uint32 and story.detokenize(tokens).strip() == "Once upon a time"
    with pytest.raises(leyden.RequestError, match="outside the vocabulary"):
        story.detokenize([10_000_000])


def test_scores_are_the_log_probabilities_of_generation(story: leyden.Model) -> None:
    made = story.generate("Once upon a time", max_tokens=10, temperature=0, logprobs=1)
    row = np.concatenate([story.tokenize("Once upon a time"), made.tokens])
    (score,) = story.score_tokens([row], [len(row) - 10], top=1)
    assert score.tokens.tolist() == made.tokens.tolist() and score.is_greedy
    assert np.array_equal(score.logprobs, made.logprobs)
    assert score.total == pytest.approx(float(made.logprobs.sum(dtype=np.float64)))


def test_a_likely_text_has_the_higher_score(story: leyden.Model) -> None:
    likely, odd = story.score(["Once upon a time there was a king.", "Once upon a king there was a time."])
    assert likely.total > odd.total
    after = story.score(" time", context="Once upon a")
    assert after.total == story.score("time", context="Once upon a ").total
    several = story.score([" time", " king"], context="Once upon a")
    assert several[0].total == after.total and several[0].total > several[1].total
    with pytest.raises(leyden.RequestError, match="1 contexts for 2 texts"):
        story.score(["a", "b"], context=["c"])


def test_vectors_are_those_of_transformers(encoder: Encoder) -> None:
    model, wanted = encoder("bert")
    vectors = model.embed(wanted["words"], pooling="cls")
    assert vectors.dtype == np.float32 and vectors.shape == (2, 32) and vectors.flags.c_contiguous
    assert model.dimensions == 32
    for vector, text in zip(vectors, wanted["texts"]):
        state = np.array(text["states"]["0"])
        assert vector @ state / np.linalg.norm(state) > 1 - 1e-6
        assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)
    assert np.array_equal(model.embed(wanted["words"][1], pooling="cls"), vectors[1])
    assert model.embed(wanted["words"], dimensions=3).shape == (2, 3)
    assert model.embed([]).shape == (0, 32)
    many = model.embed(wanted["words"] * 400, pooling="cls")
    assert many.shape == (800, 32) and np.array_equal(many[798:], vectors)
    assert np.array_equal(asyncio.run(model.aembed(wanted["words"], pooling="cls")), vectors)
    tokens = model.embed_tokens(wanted["words"])
    assert [rows.shape for rows in tokens] == [(len(text.split()), 32) for text in wanted["words"]]


def test_arrow_goes_in_and_out_without_a_copy(encoder: Encoder) -> None:
    pyarrow = needs("pyarrow")
    model, wanted = encoder("bert")
    vectors = model.embed(pyarrow.array(wanted["words"]))
    array = leyden.to_arrow(vectors)
    assert array.type == pyarrow.list_(pyarrow.float32(), 32) and len(array) == 2
    assert array.values.buffers()[1].address == vectors.ctypes.data
    assert np.array_equal(model.embed(pyarrow.chunked_array([wanted["words"]])), vectors)


def test_labels_are_those_of_transformers(encoder: Encoder) -> None:
    model, wanted = encoder("bert, labels")
    names = wanted["config"]["id2label"]
    assert model.labels == [names[key] for key in sorted(names, key=int)]
    for found, text in zip(model.classify(wanted["words"]), wanted["texts"]):
        scores = {names[str(i)]: score for i, score in enumerate(text["scores"])}
        assert found[0].score == max(label.score for label in found)
        assert {label.label: pytest.approx(label.score, abs=1e-4) for label in found} == scores
    assert model.classify(wanted["words"][0])[0].label == model.classify(wanted["words"])[0][0].label


def test_relevance_is_that_of_transformers(encoder: Encoder) -> None:
    model, wanted = encoder("bert, rank")
    scores = model.rerank(QUERY, [DOCUMENT, "w1 w2 w3"])
    assert scores.dtype == np.float32 and scores.shape == (2,)
    assert scores[0] == pytest.approx(wanted["pair_score"], abs=1e-4)


def test_entities_have_their_places_in_characters(encoder: Encoder) -> None:
    model, wanted = encoder("bert, tokens")
    text = wanted["entities"]["text"]
    for way in ("simple", "max"):
        found = model.extract(text, aggregation=way)
        wants = wanted["entities"]["found"][way]
        assert [(e.label, e.start, e.end) for e in found] == [(w["label"], w["start"], w["end"]) for w in wants]
        assert all(text[e.start : e.end] == e.text for e in found)


def test_a_task_that_the_model_lacks_is_an_error(story: leyden.Model, encoder: Encoder) -> None:
    model, _ = encoder("bert")
    with pytest.raises(leyden.RequestError, match="the model is an encoder"):
        model.generate("w1")
    with pytest.raises(leyden.RequestError):
        story.classify("x")
    with pytest.raises(leyden.RequestError, match=r"texts\[1\]: a text is expected, not int"):
        model.embed(["w1", 2])  # type: ignore[list-item]
    with pytest.raises(leyden.RequestError, match="pooling: best"):
        model.embed("w1", pooling="best")


def test_vectors_of_a_decoder(story: leyden.Model) -> None:
    fox, wolf, sum_ = story.embed(["A fox ran into the wood.", "A wolf ran into the forest.", "One, two, three."])
    assert fox @ wolf > fox @ sum_


def test_a_bar_counts_rows(encoder: Encoder, capfd: pytest.CaptureFixture[str]) -> None:
    needs("tqdm")
    model, _ = encoder("bert")
    model.embed(["w1 w2"] * 300, progress=True)
    assert "300/300" in capfd.readouterr().err

"""The classes for LangChain and LlamaIndex, in this process."""

from __future__ import annotations

import asyncio
from typing import Any, Callable

import pytest

import leyden
from conftest import needs

START = "Once upon a time"
GREEDY = {"max_tokens": 10, "temperature": 0}


def test_langchain_text(story: leyden.Model) -> None:
    needs("langchain_core")
    from leyden.langchain import LeydenLLM

    llm, wanted = LeydenLLM(model=story, options=GREEDY), story.generate(START, **GREEDY).text
    assert llm.invoke(START) == wanted
    assert llm.batch([START, "The king"]) == [wanted, story.generate("The king", **GREEDY).text]
    assert "".join(llm.stream(START)) == wanted
    assert asyncio.run(llm.ainvoke(START)) == wanted
    word = wanted.split()[2]
    assert llm.invoke(START, stop=[word]) == wanted[: wanted.index(word)]


def test_langchain_chat(story: leyden.Model) -> None:
    needs("langchain_core")
    pydantic = needs("pydantic")
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
    from langchain_core.tools import tool
    from leyden.langchain import LeydenChat

    chat, wanted = LeydenChat(model=story, options=GREEDY), story.chat(START, **GREEDY).content
    answer = chat.invoke([HumanMessage(START)])
    assert isinstance(answer, AIMessage) and answer.content == wanted
    assert answer.usage_metadata is not None and answer.usage_metadata["output_tokens"] == 10
    assert "".join(piece.text for piece in chat.stream(START)) == wanted
    assert asyncio.run(chat.ainvoke(START)).content == wanted

    @tool
    def pick(wild: bool) -> str:
        """Picks an animal."""
        return "fox" if wild else "cow"

    calling = LeydenChat(model=story, options={"max_tokens": 200, "temperature": 0})
    bound = calling.bind_tools([pick], tool_choice="any")
    called = bound.invoke("Pick")
    assert called.tool_calls[0]["name"] == "pick" and isinstance(called.tool_calls[0]["args"]["wild"], bool)
    result = pick.invoke(called.tool_calls[0])
    assert isinstance(result, ToolMessage)
    assert chat.invoke([HumanMessage("Pick"), called, result]).content

    class Animal(pydantic.BaseModel):  # type: ignore[misc, name-defined]
        legs: int = pydantic.Field(ge=0, le=8)

    made = calling.with_structured_output(Animal).invoke("An animal")
    assert isinstance(made, Animal)
    assert isinstance(calling.with_structured_output(Animal.model_json_schema()).invoke("An animal"), dict)


def test_langchain_vectors_and_reranker(encoder: Callable[[str], tuple[leyden.Model, dict[str, Any]]]) -> None:
    needs("langchain_core")
    from langchain_core.documents import Document
    from leyden.langchain import LeydenEmbeddings, LeydenReranker

    model, wanted = encoder("bert")
    vectors = LeydenEmbeddings(model=model)
    assert vectors.embed_documents(wanted["words"]) == model.embed(wanted["words"]).tolist()
    assert vectors.embed_query(wanted["words"][1]) == model.embed(wanted["words"][1]).tolist()
    ranker, _ = encoder("bert, rank")
    documents = [Document(page_content=text) for text in ("w1 w2 w3", "w46 w57 w68 w79", "w5")]
    kept = LeydenReranker(model=ranker, top_n=2).compress_documents(documents, "w13 w24")
    scores = ranker.rerank("w13 w24", [document.page_content for document in documents])
    assert [document.metadata["relevance_score"] for document in kept] == sorted(scores.tolist())[::-1][:2]


def test_llama_index(story: leyden.Model, encoder: Callable[[str], tuple[leyden.Model, dict[str, Any]]]) -> None:
    needs("llama_index.core")
    from llama_index.core.llms import ChatMessage
    from llama_index.core.schema import NodeWithScore, TextNode
    from leyden.llama_index import LeydenEmbedding, LeydenLLM, LeydenRerank

    llm, wanted = LeydenLLM(story, options=GREEDY), story.generate(START, **GREEDY).text
    assert llm.metadata.context_window == 512
    assert llm.complete(START).text == wanted
    assert [piece.delta for piece in llm.stream_complete(START)]
    assert list(llm.stream_complete(START))[-1].text == wanted
    assert asyncio.run(llm.acomplete(START)).text == wanted
    said = story.chat(START, **GREEDY).content
    assert llm.chat([ChatMessage(content=START)]).message.content == said
    assert list(llm.stream_chat([ChatMessage(content=START)]))[-1].message.content == said
    model, texts = encoder("bert")
    vectors = LeydenEmbedding(model)
    assert vectors.get_text_embedding_batch(texts["words"]) == model.embed(texts["words"]).tolist()
    assert vectors.get_query_embedding(texts["words"][0]) == model.embed(texts["words"][0]).tolist()
    ranker, _ = encoder("bert, rank")
    nodes = [NodeWithScore(node=TextNode(text=text)) for text in ("w1 w2 w3", "w46 w57 w68 w79")]
    kept = LeydenRerank(ranker, top_n=1).postprocess_nodes(nodes, query_str="w13 w24")
    assert len(kept) == 1
    assert kept[0].score == pytest.approx(float(max(ranker.rerank("w13 w24", ["w1 w2 w3", "w46 w57 w68 w79"]))))


def test_lm_eval(story: leyden.Model) -> None:
    needs("lm_eval")
    from lm_eval.api.instance import Instance
    from lm_eval.api.registry import get_model

    import leyden.lm_eval  # noqa: F401

    model = get_model("leyden").create_from_arg_string(f"pretrained={leyden.EMBEDDED}", {"max_length": 256})
    ask = lambda kind, *arguments: Instance(kind, {}, arguments, 0)  # noqa: E731
    pairs = [ask("loglikelihood", "Once upon a", " time"), ask("loglikelihood", "Once upon a", " king")]
    (likely, greedy), (odd, not_greedy) = model.loglikelihood(pairs, disable_tqdm=True)
    assert likely > odd and greedy and not not_greedy
    assert likely == pytest.approx(story.score(" time", context="Once upon a").total, abs=1e-6)
    text = "Once upon a time there was a king. " * 40
    (rolling,) = model.loglikelihood_rolling([ask("loglikelihood_rolling", text)], disable_tqdm=True)
    assert rolling < 0
    until = {"until": ["."], "max_gen_toks": 24}
    (made,) = model.generate_until([ask("generate_until", START, until)], disable_tqdm=True)
    assert made and "." not in made
    assert model.apply_chat_template([{"role": "user", "content": "Hi"}]) == "Hi"

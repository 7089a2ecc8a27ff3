"""Asks a server of a reranker and an embedder through the official clients of Cohere, OpenAI, LangChain and LlamaIndex:
`python3 encoder_client.py BASE_URL ALONE RERANKER EMBEDDER QUERY DOCUMENT SCORE`, SCORE being how well the two fit. ALONE is a
server that has the reranker alone, whose states make vectors too, for clients that name no model.

Every check is an assertion; the last line of a run in which all held is `ok`.
"""

import base64
import json
import math
import struct
import sys
import urllib.error
import urllib.request

import cohere.v2.types
import openai
from langchain_openai import OpenAIEmbeddings
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.embeddings.openai_like import OpenAILikeEmbedding
from llama_index.embeddings.text_embeddings_inference import TextEmbeddingsInference
from llama_index.postprocessor.tei_rerank import TextEmbeddingInference
from pydantic import TypeAdapter

base, alone, reranker, embedder, query, document, score = sys.argv[1:]
documents = ["w1 w2", document, "w3 w5 w8"]


def near(a, b):
    return abs(a - b) < 1e-5


# Cohere, both versions.
for kind in (cohere.ClientV2, cohere.Client):
    client = kind(api_key="none", base_url=base)
    answer = client.rerank(model=reranker, query=query, documents=documents)
    assert sorted(r.index for r in answer.results) == [0, 1, 2]
    scores = [r.relevance_score for r in answer.results]
    assert scores == sorted(scores, reverse=True)
    assert near(next(r.relevance_score for r in answer.results if r.index == 1), float(score)), answer
    assert len(client.rerank(model=reranker, query=query, documents=documents, top_n=1).results) == 1

    # Vectors, which OpenAI's interface gives too.
    vectors = openai.OpenAI(base_url=base + "/v1", api_key="none", max_retries=0).embeddings.create(
        model=embedder, input=documents, encoding_format="float").data
    embedded = client.embed(model=embedder, texts=documents, input_type="search_document", embedding_types=["float", "ubinary"])
    rows = embedded.embeddings.float_
    assert all(near(x, y) for row, v in zip(rows, vectors) for x, y in zip(row, v.embedding)) and len(rows) == 3
    assert embedded.embeddings.ubinary[0][0] == sum((x > 0) << (7 - i) for i, x in enumerate(rows[0][:8]))
plain = cohere.Client(api_key="none", base_url=base).embed(model=embedder, texts=documents, input_type="search_query")
assert len(plain.embeddings) == 3 and plain.texts == documents
try:
    client.embed(model=embedder, images=["data:image/png;base64,AA=="], input_type="image")
    raise SystemExit("a picture was taken")
except cohere.errors.BadRequestError as error:
    assert "images are not supported" in str(error.body), error.body

# Cohere's answers and errors are of the types that it publishes.
def post(path, body):
    request = urllib.request.Request(base + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        return 200, urllib.request.urlopen(request).read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


pairs = {"model": reranker, "query": query, "documents": documents}
read = TypeAdapter(cohere.v2.types.V2RerankResponse).validate_json(post("/v2/rerank", pairs)[1], strict=True)
assert len(read.results) == 3 and read.id
status, text = post("/v2/rerank", {"model": reranker})
assert status == 400 and "`query` is missing" in json.loads(text)["message"], text

# OpenAI: numbers, and base64 of them.
client = openai.OpenAI(base_url=base + "/v1", api_key="none", max_retries=0)
plain = client.embeddings.create(model=embedder, input=documents, encoding_format="float").data
assert [d.index for d in plain] == [0, 1, 2] and near(math.hypot(*plain[0].embedding), 1)
packed = client.embeddings.create(model=embedder, input=documents, encoding_format="base64").data
for a, b in zip(plain, packed):
    raw = base64.b64decode(b.embedding) if isinstance(b.embedding, str) else struct.pack(f"<{len(b.embedding)}f", *b.embedding)
    assert all(near(x, y) for x, y in zip(a.embedding, struct.unpack(f"<{len(raw) // 4}f", raw)))
short = client.embeddings.create(model=embedder, input=document, dimensions=8).data[0].embedding
length = math.hypot(*plain[1].embedding[:8])
assert all(near(x, y / length) for x, y in zip(short, plain[1].embedding[:8])) and len(short) == 8

# LangChain.
chain = OpenAIEmbeddings(model=embedder, base_url=base + "/v1", api_key="none", check_embedding_ctx_length=False)
for a, b in zip(chain.embed_documents(documents), plain):
    assert all(near(x, y) for x, y in zip(a, b.embedding))
assert all(near(x, y) for x, y in zip(chain.embed_query(document), plain[1].embedding))

# LlamaIndex: the dialects of OpenAI and of text-embeddings-inference.
like = OpenAILikeEmbedding(model_name=embedder, api_base=base + "/v1", api_key="none", max_retries=0)
tei = TextEmbeddingsInference(model_name=reranker, base_url=alone)
client = openai.OpenAI(base_url=alone + "/v1", api_key="none", max_retries=0)
own = client.embeddings.create(model=reranker, input=documents, encoding_format="float").data
for index, wanted in ((like, plain), (tei, own)):
    for a, b in zip(index.get_text_embedding_batch(documents), wanted):
        assert all(near(x, y) for x, y in zip(a, b.embedding)), index
    assert all(near(x, y) for x, y in zip(index.get_query_embedding(document), wanted[1].embedding)), index
nodes = [NodeWithScore(node=TextNode(text=text)) for text in documents]
ranked = TextEmbeddingInference(model_name=reranker, base_url=alone, top_n=2).postprocess_nodes(nodes, query_str=query)
assert len(ranked) == 2 and ranked[0].score >= ranked[1].score
wanted = sorted(answer.results, key=lambda r: -r.relevance_score)[0]
assert ranked[0].text == documents[wanted.index] and near(ranked[0].score, wanted.relevance_score)

print("ok")

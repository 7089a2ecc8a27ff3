"""Compares the table of published fields with what official Python packages publish: `python3 published_fields.py TABLE`.

Each field of a request that the packages openai, anthropic, ollama and cohere know must have a row for its endpoint. The last line
of a run in which all have one is `ok`.
"""

import inspect
import sys
import typing

import anthropic.types.beta.message_count_tokens_params
import anthropic.types.beta.message_create_params
import anthropic.types.message_count_tokens_params
import anthropic.types.message_create_params
import cohere
import ollama._types
import openai.types.chat.chat_completion_stream_options_param
import openai.types.chat.completion_create_params
import openai.types.completion_create_params
import openai.types.embedding_create_params
import openai.types.responses.response_create_params

# As the server's own table of words has them.
WORDS = {
    "chat": "/v1/chat/completions",
    "completions": "/v1/completions",
    "rerank": "/v2/rerank",
    "responses": "/v1/responses",
}

rows = set()
for line in open(sys.argv[1], encoding="utf-8"):
    if line.strip() and not line.startswith("#"):
        _, endpoints, field = line.split("\t")[:3]
        rows |= {(WORDS.get(endpoint, endpoint), field) for endpoint in endpoints.split(" ")}


def typed(module, name):
    return typing.get_type_hints(getattr(module, name))


def keywords(function):
    return set(inspect.signature(function).parameters) - {"self", "request_options", "batching"}


chat = openai.types.chat.completion_create_params
beta = anthropic.types.beta
types = ollama._types
published = {
    "/v1/chat/completions": set(typed(chat, "CompletionCreateParamsBase")) | {"stream"},
    "/v1/completions": set(typed(openai.types.completion_create_params, "CompletionCreateParamsBase")) | {"stream"},
    "/v1/embeddings": set(typed(openai.types.embedding_create_params, "EmbeddingCreateParams")),
    "/v1/responses": set(typed(openai.types.responses.response_create_params, "ResponseCreateParamsBase")) | {"stream"},
    "/v1/messages": set(typed(anthropic.types.message_create_params, "MessageCreateParamsBase"))
    | set(typed(beta.message_create_params, "MessageCreateParamsBase")) | {"stream"},
    "/v1/messages/count_tokens": set(typed(anthropic.types.message_count_tokens_params, "MessageCountTokensParams"))
    | set(typed(beta.message_count_tokens_params, "MessageCountTokensParams")),
    "/api/chat": set(types.ChatRequest.model_fields) - {"options"},
    "/api/generate": set(types.GenerateRequest.model_fields) - {"options"},
    "/api/embed": set(types.EmbedRequest.model_fields),
    "/v2/embed": keywords(cohere.ClientV2.embed),
    "/v2/rerank": keywords(cohere.ClientV2.rerank) | keywords(cohere.Client.rerank),
}
for path in ("/api/chat", "/api/generate"):
    published[path] |= {f"options.{name}" for name in types.Options.model_fields}
options = typed(openai.types.chat.chat_completion_stream_options_param, "ChatCompletionStreamOptionsParam")
published["/v1/chat/completions"] |= {f"stream_options.{name}" for name in options}

absent = [(path, name) for path, names in published.items() for name in sorted(names) if (path, name) not in rows]
assert not absent, "no row: " + ", ".join(f"{path} {name}" for path, name in absent)
print(f"{sum(map(len, published.values()))} fields of {len(published)} endpoints: ok")

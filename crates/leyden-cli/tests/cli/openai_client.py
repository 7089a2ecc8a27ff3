"""Asks a server through the official client of OpenAI: `python3 openai_client.py BASE_URL`.

Every check is an assertion; the last line of a run in which all held is `ok`.
"""

import json
import sys

import openai

client = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key="secret of ada", max_retries=0, timeout=120)
MODEL = "storyteller"
ONCE = [{"role": "user", "content": "Once upon a time"}]


def failure(kind, call):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


# Models.
assert [m.id for m in client.models.list()] == [MODEL]
assert client.models.retrieve(MODEL).owned_by == "leyden"
failure(openai.NotFoundError, lambda: client.models.retrieve("other"))

# A chat, whole and in pieces, by a seed.
options = dict(model=MODEL, messages=ONCE, max_tokens=12, seed=7, temperature=0.9)
whole = client.chat.completions.create(**options)
text = whole.choices[0].message.content
assert whole.choices[0].message.role == "assistant" and text and whole.id.startswith("chatcmpl-")
assert whole.usage.completion_tokens == 12 and whole.choices[0].finish_reason == "length"
assert client.chat.completions.create(**options).choices[0].message.content == text
assert client.chat.completions.create(**{**options, "seed": 8}).choices[0].message.content != text
pieces = list(client.chat.completions.create(**options, stream=True, stream_options={"include_usage": True}))
assert "".join(p.choices[0].delta.content or "" for p in pieces if p.choices) == text
assert pieces[-1].usage.total_tokens == whole.usage.total_tokens and not pieces[-1].choices
assert pieces[-1].usage.prompt_tokens_details.cached_tokens is not None

# Choices, probabilities, stop texts.
several = client.chat.completions.create(**options, n=3)
assert [c.index for c in several.choices] == [0, 1, 2] and several.choices[0].message.content == text
probable = client.chat.completions.create(**options, logprobs=True, top_logprobs=2)
content = probable.choices[0].logprobs.content
assert len(content) == 12 and all(len(t.top_logprobs) == 2 and t.logprob <= 0 for t in content)
word = text.split()[3]
before = text[: text.index(word)]
assert client.chat.completions.create(**options, stop=[word]).choices[0].message.content == before
with client.chat.completions.stream(**options, stop=[word]) as stream:
    final = stream.get_final_completion()
assert final.choices[0].message.content == before
client.chat.completions.create(**options, extra_body={"min_p": 0.1, "top_k": 5})

# Completions.
plain = client.completions.create(model=MODEL, prompt=["The king", "The queen"], max_tokens=4, echo=True, seed=1)
assert [c.text[:8] for c in plain.choices] == ["The king", "The quee"]
assert client.completions.create(model=MODEL, prompt=[5, 6, 7], max_tokens=1).usage.prompt_tokens == 3

# Embeddings: the client asks for base64 by itself.
vectors = client.embeddings.create(model=MODEL, input=["A fox.", "A wolf."])
assert len(vectors.data) == 2 and abs(sum(x * x for x in vectors.data[0].embedding) - 1) < 1e-4
floats = client.embeddings.create(model=MODEL, input="A fox.", encoding_format="float")
assert max(abs(a - b) for a, b in zip(floats.data[0].embedding, vectors.data[0].embedding)) < 1e-6

# A form for the answer, and the client's own way to read it.
schema = {
    "type": "object",
    "properties": {"animal": {"enum": ["fox", "wolf"]}, "legs": {"type": "integer", "minimum": 0, "maximum": 9}},
    "required": ["animal", "legs"],
    "additionalProperties": False,
}
form = {"type": "json_schema", "json_schema": {"name": "beast", "strict": True, "schema": schema}}
answer = client.chat.completions.create(**{**options, "max_tokens": 200}, response_format=form)
answer = json.loads(answer.choices[0].message.content)
assert answer["animal"] in ("fox", "wolf") and 0 <= answer["legs"] <= 9

# Tools: asked for, called, and answered.
tools = [{"type": "function", "function": {"name": "count", "description": "Counts legs", "parameters": schema}}]
forced = dict(tools=tools, tool_choice="required", parallel_tool_calls=False)
called = client.chat.completions.create(**{**options, "max_tokens": 200}, **forced)
assert called.choices[0].finish_reason == "tool_calls" and called.choices[0].message.content is None
call = called.choices[0].message.tool_calls[0]
assert call.function.name == "count" and json.loads(call.function.arguments)["animal"] in ("fox", "wolf")
history = ONCE + [called.choices[0].message, {"role": "tool", "tool_call_id": call.id, "content": "4"}]
assert client.chat.completions.create(model=MODEL, messages=history, tools=tools, max_tokens=3).usage.completion_tokens <= 3
with client.chat.completions.stream(**{**options, "max_tokens": 200}, **forced) as stream:
    final = stream.get_final_completion()
assert json.loads(final.choices[0].message.tool_calls[0].function.arguments)["animal"] in ("fox", "wolf")
error = failure(openai.BadRequestError, lambda: client.chat.completions.create(**options, tools=[{"type": "function"}]))
assert error.param == "tools[0].function"

# Errors arrive as the client's own kinds, with the field.
error = failure(openai.BadRequestError, lambda: client.chat.completions.create(**{**options, "temperature": 3}))
assert error.param == "temperature" and error.code == "invalid_value" and error.type == "invalid_request_error"
odd = client.chat.completions.with_raw_response.create(**options, extra_body={"unheard": 1})
assert odd.headers["x-leyden-ignored"] == "unheard" and odd.parse().choices[0].message.content == text
long = [{"role": "user", "content": "word " * 5000}]
error = failure(openai.BadRequestError, lambda: client.chat.completions.create(model=MODEL, messages=long))
assert error.code == "context_length_exceeded"
failure(openai.AuthenticationError, lambda: client.with_options(api_key="other").models.list())

print("ok")

"""Asks a server through the official client of OpenAI: `python3 openai_client.py BASE_URL`.

Every check is an assertion; the last line of a run in which all held is `ok`.
"""

import json
import sys
import time

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

# Files and batches.


def batch_file(rows, name="rows.jsonl"):
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    return client.files.create(file=(name, lines.encode()), purpose="batch")


def row(i, url="/v1/chat/completions", **body):
    return {"custom_id": f"row {i}", "method": "POST", "url": url, "body": body}


def ended(batch):
    for _ in range(2400):
        batch = client.batches.retrieve(batch.id)
        if batch.status in ("completed", "failed", "expired", "cancelled"):
            return batch
        time.sleep(0.05)
    raise AssertionError(batch)


def results(file_id):
    return [json.loads(line) for line in client.files.content(file_id).text.splitlines()]


def create(file, endpoint="/v1/chat/completions", **more):
    return client.batches.create(input_file_id=file.id, endpoint=endpoint, completion_window="24h", **more)


rows = [row(i, model=MODEL, messages=ONCE, max_tokens=4, seed=i) for i in range(24)]
rows[5]["body"]["model"] = "other"
rows[7]["body"]["max_tokens"] = "four"
file = batch_file(rows, "Käufe.jsonl")
assert file.filename == "Käufe.jsonl" and file.purpose == "batch" and file.status == "processed" and file.bytes > 2000
batch = ended(create(file, metadata={"for": "a test"}))
assert batch.status == "completed" and batch.metadata == {"for": "a test"} and batch.errors is None, batch
counts = batch.request_counts
assert (counts.total, counts.completed, counts.failed) == (24, 22, 2), counts
output, failed = results(batch.output_file_id), results(batch.error_file_id)
assert [r["custom_id"] for r in output] == [f"row {i}" for i in range(24) if i not in (5, 7)]
assert [r["custom_id"] for r in failed] == ["row 5", "row 7"]
assert [r["response"]["status_code"] for r in failed] == [404, 400]
assert failed[1]["response"]["body"]["error"]["param"] == "max_tokens" and failed[1]["error"] is None
for i, one in zip([0, 8], [output[0], output[6]]):
    alone = client.chat.completions.create(model=MODEL, messages=ONCE, max_tokens=4, seed=i)
    assert one["response"]["body"]["choices"][0]["message"]["content"] == alone.choices[0].message.content
    assert one["response"]["status_code"] == 200 and one["error"] is None

# The other endpoints, and inputs that no batch begins with.
for endpoint, body in [("/v1/completions", {"prompt": "The king", "max_tokens": 2}), ("/v1/embeddings", {"input": "The king"})]:
    batch = ended(create(batch_file([row(1, endpoint, model=MODEL, **body)]), endpoint))
    assert batch.status == "completed" and batch.request_counts.completed == 1, batch
    assert results(batch.output_file_id)[0]["response"]["body"]["usage"]["prompt_tokens"] > 0
    assert batch.error_file_id is None
wrong = batch_file([rows[0], rows[0], row(3, "/v1/completions", prompt="x"), row(4, model=MODEL, stream=True)])
batch = ended(create(wrong))
assert batch.status == "failed" and batch.output_file_id is None
found = [(e.line, e.code) for e in batch.errors.data]
assert found == [(2, "duplicate_custom_id"), (3, "mismatched_endpoint"), (4, "invalid_value")], found
assert ended(create(batch_file([]))).errors.data[0].code == "empty_file"
failure(openai.NotFoundError, lambda: client.batches.create(
    input_file_id="file-x", endpoint="/v1/completions", completion_window="24h"))
failure(openai.BadRequestError, lambda: client.batches.create(
    input_file_id=file.id, endpoint="/v1/models", completion_window="24h"))
failure(openai.BadRequestError, lambda: client.files.create(file=b"x", purpose="assistants"))

# A batch that is cancelled: every row is there once.
long = [row(i, model=MODEL, messages=ONCE, max_tokens=300, extra=i) for i in range(200)]
for one in long:
    one["body"].pop("extra")
long_file = batch_file(long)
batch = create(long_file)
used = failure(openai.ConflictError, lambda: client.files.delete(long_file.id))
assert used.code == "file_in_use"
assert client.batches.cancel(batch.id).status in ("cancelling", "cancelled")
batch = ended(batch)
assert batch.status == "cancelled" and batch.cancelled_at >= batch.cancelling_at
failure(openai.ConflictError, lambda: client.batches.cancel(batch.id))
rows = [r for id in (batch.output_file_id, batch.error_file_id) if id for r in results(id)]
assert sorted(r["custom_id"] for r in rows) == sorted(r["custom_id"] for r in long)
assert any((r["error"] or {}).get("code") == "batch_cancelled" for r in rows)

# Lists, another key, and deletion.
ids = [b.id for b in client.batches.list(limit=2)]
assert batch.id == ids[0] and len(ids) == 6 and len(set(ids)) == 6, ids
files = list(client.files.list(purpose="batch", limit=2))
assert file.id in [f.id for f in files] and all(f.purpose == "batch" for f in files)
bob = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key="secret of bob", max_retries=0)
assert list(bob.files.list()) == [] and list(bob.batches.list()) == []
failure(openai.NotFoundError, lambda: bob.files.content(file.id))
failure(openai.NotFoundError, lambda: bob.batches.retrieve(batch.id))
failure(openai.NotFoundError, lambda: bob.batches.create(
    input_file_id=file.id, endpoint="/v1/completions", completion_window="24h"))
assert client.files.delete(file.id).deleted
failure(openai.NotFoundError, lambda: client.files.retrieve(file.id))
brief = client.files.create(file=b"{}", purpose="batch", expires_after={"anchor": "created_at", "seconds": 3600})
assert brief.expires_at == brief.created_at + 3600

print("ok")

"""Asks a server through the official client of Ollama: `python3 ollama_client.py BASE_URL`.

Every check is an assertion; the last line of a run in which all held is `ok`.
"""

import json
import sys

import ollama

client = ollama.Client(host=sys.argv[1], headers={"Authorization": "Bearer secret of ada"}, timeout=120)
MODEL = "storyteller"
ONCE = [{"role": "system", "content": "You tell stories."}, {"role": "user", "content": "Once upon a time"}]
options = {"temperature": 0, "num_predict": 12, "num_ctx": 512, "seed": 1}


def failure(status, call):
    try:
        call()
    except ollama.ResponseError as error:
        assert error.status_code == status, error
        return error.error
    raise AssertionError(f"no status {status}")


# Models.
[model] = client.list().models
assert model.model == MODEL and model.size > 1_000_000 and model.details.parameter_size.endswith("M")
assert model.details.family == "llama" and model.modified_at.year >= 2020
assert len(bytes.fromhex(model.digest)) == 32
[running] = client.ps().models
assert running.model == MODEL and running.context_length > 100 and running.digest == model.digest
shown = client.show(MODEL)
assert "<|im_start|>" in shown.template and {"completion", "tools"} <= set(shown.capabilities)
assert shown.modelinfo["general.architecture"] == "llama" and shown.modelinfo["llama.context_length"] > 100

# A chat, whole and in pieces, under a name with the usual tag.
whole = client.chat(MODEL + ":latest", ONCE, options=options)
text = whole.message.content
assert whole.done and whole.done_reason == "length" and (whole.eval_count, whole.prompt_eval_count > 5) == (12, True)
assert whole.total_duration >= whole.prompt_eval_duration + whole.eval_duration - 1 > 0 and whole.created_at.endswith("Z")
pieces = list(client.chat(MODEL, ONCE, options=options, stream=True))
assert "".join(piece.message.content for piece in pieces) == text
assert [piece.done for piece in pieces] == [False] * (len(pieces) - 1) + [True] and pieces[-1].eval_count == 12
begun = client.chat(MODEL, ONCE + [{"role": "assistant", "content": text[:20]}], options=options)
assert begun.prompt_eval_count > whole.prompt_eval_count
word = text.split()[3]
stopped = client.chat(MODEL, ONCE, options={**options, "stop": [word]})
assert stopped.message.content == text[: text.index(word)] and stopped.done_reason == "stop"
assert client.chat(MODEL).done_reason == "load" and client.chat(MODEL + ":latest").model == MODEL + ":latest"
assert client.chat(MODEL, ONCE, options=options, think=False, keep_alive="5m").message.content == text

# A text that goes on, through the template and without it.
story = client.generate(MODEL, "Once upon a time", system="You tell stories.", options=options)
assert story.response == text and story.done_reason == "length"
raw = client.generate(MODEL, "Once upon a time", raw=True, options=options)
assert raw.response != text and raw.prompt_eval_count < story.prompt_eval_count
pieces = list(client.generate(MODEL, "Once upon a time", raw=True, options=options, stream=True))
assert "".join(piece.response for piece in pieces) == raw.response and pieces[-1].done

# A form.
schema = {
    "type": "object",
    "properties": {"animal": {"enum": ["fox", "wolf"]}, "legs": {"type": "integer", "minimum": 0, "maximum": 9}},
    "required": ["animal", "legs"],
    "additionalProperties": False,
}
long = {**options, "num_predict": 200, "temperature": 1}
answer = json.loads(client.chat(MODEL, ONCE, format=schema, options=long).message.content)
assert answer["animal"] in ("fox", "wolf") and 0 <= answer["legs"] <= 9
assert client.generate(MODEL, "A fox", format="json", options=long).response.lstrip().startswith("{")


# The probabilities of the text's tokens, in pieces as in the whole, of a chat and of a prompt as it is.
told = client.chat(MODEL, ONCE, options=options, logprobs=True, top_logprobs=2)
assert "".join(t.token for t in told.logprobs) == told.message.content
assert all(t.logprob <= 0 and len(t.top_logprobs) == 2 for t in told.logprobs)
pieces = list(client.chat(MODEL, ONCE, options=options, logprobs=True, top_logprobs=2, stream=True))
assert [t.token for p in pieces for t in p.logprobs or []] == [t.token for t in told.logprobs]
assert client.chat(MODEL, ONCE, options=options).logprobs is None
raw = client.generate(MODEL, "Once upon", raw=True, options=options, logprobs=True)
assert "".join(t.token for t in raw.logprobs) == raw.response and not raw.logprobs[0].top_logprobs

# Tools: described by a function, and answered.
def count(animal: str) -> int:
    """Counts legs.

    Args:
        animal: Whose
    """
    return len(animal)


call = {"function": {"name": "count", "arguments": {"animal": "fox"}}}
history = ONCE + [{"role": "assistant", "tool_calls": [call]}, {"role": "tool", "content": "4", "tool_name": "count"}]
assert client.chat(MODEL, history, tools=[count], options=options).prompt_eval_count > whole.prompt_eval_count

# Vectors.
vectors = client.embed(MODEL, ["A fox.", "A wolf."])
assert len(vectors.embeddings) == 2 and abs(sum(x * x for x in vectors.embeddings[0]) - 1) < 1e-4
assert list(client.embed(MODEL, "A fox.").embeddings[0]) == list(vectors.embeddings[0])
assert len(client.embed(MODEL, "A fox.", dimensions=8).embeddings[0]) == 8
assert client.embed(MODEL, []).embeddings == [] and client.embed(MODEL, "").embeddings == []
older = client.embeddings(MODEL, "A fox.").embedding
assert len(older) == len(vectors.embeddings[0]) and client.embeddings(MODEL).embedding == []
assert client.embed(MODEL, "word " * 5000).prompt_eval_count < 5000
assert "maximum context length" in failure(400, lambda: client.embed(MODEL, "word " * 5000, truncate=False))

# Errors.
assert "known names" in failure(404, lambda: client.chat("other", ONCE))
assert "`options.temperature`" in failure(400, lambda: client.chat(MODEL, ONCE, options={"temperature": 3}))
picture = [{"role": "user", "content": "What is it?", "images": ["aGVsbG8="]}]
assert "images are not supported" in failure(400, lambda: client.chat(MODEL, picture))
assert "no such endpoint" in failure(404, lambda: client.push(MODEL))
failure(401, lambda: ollama.Client(host=sys.argv[1]).list())

print("ok")

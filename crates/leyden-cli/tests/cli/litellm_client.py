"""Asks a server through litellm, in each dialect that it speaks here: `python3 litellm_client.py BASE_URL`.

Every check is an assertion; the last line of a run in which all held is `ok`.
"""

import json
import os
import sys

# Its table of prices would be fetched otherwise.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm

litellm.telemetry = False
BASE, KEY, MODEL = sys.argv[1], "secret of ada", "storyteller"
ONCE = [{"role": "user", "content": "Once upon a time"}]
SHORT = dict(messages=ONCE, api_key=KEY, max_tokens=12, temperature=0, num_retries=0, timeout=120)
PLACES = {"openai": BASE + "/v1", "hosted_vllm": BASE + "/v1", "llamafile": BASE + "/v1", "anthropic": BASE, "ollama_chat": BASE}

# One answer, whatever it is asked in, whole and in pieces.
answers = set()
for provider, place in PLACES.items():
    options = dict(SHORT, model=f"{provider}/{MODEL}", api_base=place)
    whole = litellm.completion(**options)
    assert whole.usage.completion_tokens == 12 and whole.choices[0].finish_reason == "length", (provider, whole)
    pieces = [p.choices[0].delta.content or "" for p in litellm.completion(**options, stream=True) if p.choices]
    assert "".join(pieces) == whole.choices[0].message.content, provider
    answers.add(whole.choices[0].message.content)
assert len(answers) == 1, answers

# A form of the answer, tools and vectors.
options = dict(SHORT, model=f"openai/{MODEL}", api_base=PLACES["openai"], max_tokens=200)
schema = {
    "type": "object",
    "properties": {"animal": {"enum": ["fox", "wolf"]}},
    "required": ["animal"],
    "additionalProperties": False,
}
form = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema, "strict": True}}
answer = litellm.completion(**options, response_format=form).choices[0].message.content
assert json.loads(answer)["animal"] in ("fox", "wolf")
tool = {"type": "function", "function": {"name": "count", "parameters": schema, "strict": True}}
for provider in ("openai", "anthropic"):
    asked = {**options, "model": f"{provider}/{MODEL}", "api_base": PLACES[provider], "tools": [tool]}
    [call] = litellm.completion(**asked, tool_choice="required", parallel_tool_calls=False).choices[0].message.tool_calls
    assert call.function.name == "count" and json.loads(call.function.arguments)["animal"] in ("fox", "wolf"), provider
place = dict(model=f"openai/{MODEL}", api_base=PLACES["openai"], api_key=KEY)
assert len(litellm.embedding(input=["A fox.", "A wolf."], encoding_format="float", **place).data) == 2

# Errors arrive as its own kinds.
for kind, more in (
    (litellm.AuthenticationError, {"api_key": "wrong"}),
    (litellm.NotFoundError, {"model": "openai/other"}),
    (litellm.ContextWindowExceededError, {"messages": [{"role": "user", "content": "word " * 5000}]}),
):
    try:
        litellm.completion(**{**options, **more})
    except kind:
        continue
    raise AssertionError(f"no {kind.__name__}")

print("ok")

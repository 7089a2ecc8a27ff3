"""Asks a server for responses through the official client of OpenAI: `python3 responses_client.py BASE_URL`.

Every check is an assertion; the last line of a run in which all held is `ok`.
"""

import json
import sys
from typing import Literal

import openai
from pydantic import BaseModel

client = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key="secret of ada", max_retries=0, timeout=120)
options = dict(model="storyteller", input="Once upon a time", max_output_tokens=24, temperature=0)


def short_of(what):
    return {**options, "input": what, "max_output_tokens": 3}


def failure(kind, call):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


# Whole and in pieces.
whole = client.responses.create(**options, instructions="You tell stories.")
text = whole.output_text
assert whole.id.startswith("resp_") and text and whole.status == "incomplete"
assert whole.incomplete_details.reason == "max_output_tokens" and whole.instructions == "You tell stories."
assert whole.usage.output_tokens == 24 and whole.usage.input_tokens > 5
with client.responses.stream(**options, instructions="You tell stories.") as stream:
    events = list(stream)
kinds = [event.type for event in events]
assert [event.sequence_number for event in events] == list(range(len(events)))
assert kinds[:4] == [
    "response.created",
    "response.in_progress",
    "response.output_item.added",
    "response.content_part.added",
]
assert kinds[-4:] == [
    "response.output_text.done",
    "response.content_part.done",
    "response.output_item.done",
    "response.incomplete",
]
assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == text
assert events[-1].response.output_text == text

# The next request names the one before, whose conversation it goes on with; instructions are not part of that.
again = client.responses.create(**{**options, "input": "And then?"}, previous_response_id=whole.id)
both = [
    {"role": "user", "content": "Once upon a time"},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text, "annotations": []}]},
    {"role": "user", "content": "And then?"},
]
told = client.responses.create(**{**options, "input": both})
assert again.output_text == told.output_text and again.usage.input_tokens == told.usage.input_tokens
assert again.previous_response_id == whole.id
assert client.responses.retrieve(again.id).output_text == again.output_text
client.responses.delete(again.id)
failure(openai.NotFoundError, lambda: client.responses.retrieve(again.id))
gone = dict(previous_response_id=again.id)
assert failure(openai.NotFoundError, lambda: client.responses.create(**options, **gone)).param == "previous_response_id"
gone = failure(openai.NotFoundError, lambda: client.responses.create(**options, **gone))
assert gone.code == "previous_response_not_found"

# The items before an answer, page by page; a summary of a conversation; nothing to be cancelled.
third = client.responses.create(**short_of("And then?"), previous_response_id=whole.id)
listed = list(client.responses.input_items.list(third.id, order="asc", limit=2))
assert [item.role for item in listed] == ["user", "assistant", "user"] and listed[1].id == whole.output[0].id
assert [item.id for item in client.responses.input_items.list(third.id)] == [item.id for item in listed[::-1]]
said = [{"role": "user", "content": "A fox"}, {"role": "assistant", "content": "ran."}]
summary = client.responses.compact(model="storyteller", input=said)
assert summary.object == "response.compaction" and [item.type for item in summary.output] == ["compaction"]
[item] = summary.output
client.responses.create(**short_of([item.model_dump(exclude_none=True), {"role": "user", "content": "And then?"}]))
assert failure(openai.BadRequestError, lambda: client.responses.cancel(whole.id)).param == "response_id"
unkept = client.responses.create(**options, store=False)
failure(openai.NotFoundError, lambda: client.responses.retrieve(unkept.id))


# A form, and the client's own way to read it.
class Beast(BaseModel):
    animal: Literal["fox", "wolf"]
    wild: bool


long = {**options, "max_output_tokens": 300, "temperature": 1}
beast = {"type": "object", "properties": {"animal": {"enum": ["fox", "wolf"]}}, "required": ["animal"]}
beast["additionalProperties"] = False
form = {"format": {"type": "json_schema", "name": "beast", "schema": beast, "strict": True}}
assert json.loads(client.responses.create(**long, text=form).output_text)["animal"] in ("fox", "wolf")
assert client.responses.parse(**long, text_format=Beast).output_parsed.animal in ("fox", "wolf")

# Tools: asked for, called, and answered, by the items and by the response before.
tools = [{"type": "function", "name": "count", "description": "Counts legs", "parameters": beast, "strict": True}]
forced = dict(tools=tools, tool_choice={"type": "function", "name": "count"}, parallel_tool_calls=False)
called = client.responses.create(**long, **forced)
[call] = called.output
assert called.status == "completed" and (call.type, call.name) == ("function_call", "count"), called
assert json.loads(call.arguments)["animal"] in ("fox", "wolf") and called.tools[0].name == "count"
with client.responses.stream(**long, **forced) as stream:
    kinds = [event.type for event in stream]
    final = stream.get_final_response()
assert "response.function_call_arguments.delta" in kinds and kinds[-1] == "response.completed"
assert json.loads(final.output[0].arguments)["animal"] in ("fox", "wolf")
result = {"type": "function_call_output", "call_id": call.call_id, "output": "4"}
short = {**options, "max_output_tokens": 3}
by_id = client.responses.create(**{**short, "input": [result]}, tools=tools, previous_response_id=called.id)
items = [{"role": "user", "content": "Once upon a time"}, call.model_dump(exclude_none=True), result]
by_items = client.responses.create(**{**short, "input": items}, tools=tools)
assert by_id.output_text == by_items.output_text and by_id.usage.input_tokens == by_items.usage.input_tokens

# Reasoning comes back with what it led to.
thought = {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]}
client.responses.create(**{**short, "input": [items[0], thought, *items[1:]]}, tools=tools, reasoning={"effort": "low"})

# The probabilities of the text's tokens, in pieces as in the whole.
probable = {**short, "include": ["message.output_text.logprobs"], "top_logprobs": 2}
told = client.responses.create(**probable).output[0].content[0].logprobs
assert "".join(t.token for t in told) == client.responses.create(**short).output_text
assert all(t.logprob <= 0 and len(t.top_logprobs) == 2 for t in told)
events = list(client.responses.create(**probable, stream=True))
deltas = [t.token for e in events if e.type == "response.output_text.delta" for t in e.logprobs]
assert deltas == [t.token for t in told]
assert events[-1].response.output[0].content[0].logprobs == told
assert not client.responses.create(**short).output[0].content[0].logprobs

# Errors arrive as the client's own kinds, with the field.
error = failure(openai.BadRequestError, lambda: client.responses.create(**{**options, "temperature": 3}))
assert error.param == "temperature" and error.code == "invalid_value"
error = failure(openai.BadRequestError, lambda: client.responses.create(**options, tools=[{"type": "function"}]))
assert error.param == "tools[0].name"
error = failure(openai.BadRequestError, lambda: client.responses.create(**{**options, "input": [{"type": "message"}]}))
assert error.param == "input[0].role"
error = failure(openai.BadRequestError, lambda: client.responses.create(**{**options, "input": "word " * 5000}))
assert error.code == "context_length_exceeded"

print("ok")

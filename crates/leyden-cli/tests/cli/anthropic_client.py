"""Asks a server through the official client of Anthropic: `python3 anthropic_client.py BASE_URL`.

Every check is an assertion; the last line of a run in which all held is `ok`.
"""

import sys

import anthropic

client = anthropic.Anthropic(base_url=sys.argv[1], api_key="secret of ada", max_retries=0, timeout=120)
ONCE = [{"role": "user", "content": "Once upon a time"}]
options = dict(
    model="storyteller", messages=ONCE, max_tokens=24, system="You tell stories.", extra_body={"temperature": 0}
)


def failure(kind, call):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


# Whole and in pieces.
whole = client.messages.create(**options)
text = whole.content[0].text
assert whole.id.startswith("msg_") and whole.role == "assistant" and text
assert (whole.stop_reason, whole.usage.output_tokens) == ("max_tokens", 24) and whole.usage.input_tokens > 5
with client.messages.stream(**options) as stream:
    assert "".join(stream.text_stream) == text
    final = stream.get_final_message()
assert final.content[0].text == text and final.stop_reason == "max_tokens" and final.usage.output_tokens == 24
kinds = [event.type for event in client.messages.create(**options, stream=True)]
assert kinds[0] == "message_start" and kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"]
counted = client.messages.count_tokens(model="storyteller", messages=ONCE, system="You tell stories.")
assert counted.input_tokens == whole.usage.input_tokens + whole.usage.cache_read_input_tokens

# An answer that is begun goes on, and stop texts are named.
begun = ONCE + [{"role": "assistant", "content": text[:20]}]
assert client.messages.create(**{**options, "messages": begun}).content[0].text
word = text.split()[3]
for stopped in (
    client.messages.create(**options, stop_sequences=["zebra", word]),
    client.messages.stream(**options, stop_sequences=["zebra", word]).__enter__().get_final_message(),
):
    assert (stopped.stop_reason, stopped.stop_sequence) == ("stop_sequence", word)
    assert stopped.content[0].text == text[: text.index(word)]

# Tools: asked for, called, and answered.
schema = {
    "type": "object",
    "properties": {"animal": {"enum": ["fox", "wolf"]}},
    "required": ["animal"],
    "additionalProperties": False,
}
tools = [{"name": "count", "description": "Counts legs", "input_schema": schema}]
choice = {"type": "tool", "name": "count", "disable_parallel_tool_use": True}
forced = {**options, "max_tokens": 200, "tools": tools, "tool_choice": choice}
called = client.messages.create(**forced)
assert called.stop_reason == "tool_use", called
[use] = called.content
assert use.name == "count" and use.input["animal"] in ("fox", "wolf")
with client.messages.stream(**forced) as stream:
    assert stream.get_final_message().content[0].input == use.input
result = {"type": "tool_result", "tool_use_id": use.id, "content": [{"type": "text", "text": "4"}]}
thought = {"type": "thinking", "thinking": "Hm.", "signature": ""}
history = ONCE + [{"role": "assistant", "content": [thought, use]}, {"role": "user", "content": [result]}]
client.messages.create(**{**options, "messages": history, "max_tokens": 3}, tools=tools)
client.messages.create(**{**options, "max_tokens": 3}, tools=tools, thinking={"type": "enabled", "budget_tokens": 1024})

# Errors arrive as the client's own kinds.
error = failure(anthropic.BadRequestError, lambda: client.messages.create(**{**options, "extra_body": {"temperature": 3}}))
assert error.body["error"]["type"] == "invalid_request_error" and "`temperature`" in error.body["error"]["message"]
failure(anthropic.NotFoundError, lambda: client.messages.create(**{**options, "model": "other"}))
failure(anthropic.AuthenticationError, lambda: client.with_options(api_key="other").messages.create(**options))

print("ok")

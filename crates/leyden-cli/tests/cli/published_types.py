"""Holds answers against the types that the owners of the interfaces publish: `python3 published_types.py BASE_URL`.

Every answer, every event of a stream and every error is read strictly as the type of OpenAI's, Anthropic's or Ollama's
package, and may have no other fields than those and the ones listed here. The last line of a run in which all held is `ok`.
"""

import json
import sys
import urllib.error
import urllib.request

import anthropic.types
import ollama
import openai.types
import openai.types.chat
import openai.types.responses
from openai.types.shared import ErrorObject
from pydantic import BaseModel, TypeAdapter

base = sys.argv[1]
MODEL = "storyteller"
# Fields of this server or of others whose clients ask here, too.
BEYOND = {
    "seed", "reasoning_content", "stop_reason", "root", "parent", "max_model_len", "status", "name", "running", "digest",
    "completion_tokens_details", "timings", "cache_write_tokens", "store", "bytes", "presence_penalty", "frequency_penalty", "index", "id",
}  # fmt: skip


def ask(method, path, body=None, key="secret of ada"):
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", "Authorization": "Bearer " + key}
    request = urllib.request.Request(base + path, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.status, answer.read().decode(), dict(answer.headers)
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(), dict(error.headers)


def extras(value, path=""):
    """Names of fields that the types do not have, with their place."""
    if isinstance(value, BaseModel):
        for name, inner in {**dict(value), **(value.model_extra or {})}.items():
            if name in (value.model_extra or {}):
                yield f"{path}.{name}", name
            else:
                yield from extras(inner, f"{path}.{name}")
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from extras(inner, path + "[]")


checked = set()


def hold(kind, text, what):
    if kind is openai.types.Completion:
        # OpenAI's servers end no piece but the last, and know nothing of the first token; their type has no null.
        text = text.replace('"finish_reason":null', '"finish_reason":"stop"')
        text = text.replace('"token_logprobs":[null', '"token_logprobs":[0.0').replace('"top_logprobs":[null', '"top_logprobs":[{}')
    read = TypeAdapter(kind).validate_json(text, strict=True)
    unknown = [place for place, name in extras(read) if name not in BEYOND]
    assert not unknown, (what, unknown)
    checked.add(what)
    return read


def whole(kind, path, body, status=200):
    got, text, _ = ask("POST", path, body)
    assert got == status, (path, got, text)
    return hold(kind, text, path)


def events(kind, path, body):
    """The events of a stream, each with its name and its document."""
    status, text, _ = ask("POST", path, {**body, "stream": True})
    assert status == 200, text
    read = []
    for block in text.strip().split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.split("\n") if not line.startswith(":"))
        data = lines.get("data")
        if data is None or data == "[DONE]" or lines.get("event") == "ping":
            continue
        read.append(hold(kind, data, path + " stream"))
        if "event" in lines:
            assert lines["event"] == read[-1].type, lines
    return read


# OpenAI: chats, completions, vectors, models.
ONCE = [{"role": "user", "content": "Once upon a time"}]
schema = {"type": "object", "properties": {"animal": {"enum": ["fox", "wolf"]}}, "required": ["animal"]}
schema["additionalProperties"] = False
function = {"type": "function", "function": {"name": "count", "description": "Counts legs", "parameters": schema}}
regex = {"type": "grammar", "grammar": {"syntax": "regex", "definition": "(fox|wolf)\\n[0-9]{2}"}}
custom = {"type": "custom", "custom": {"name": "note", "description": "Notes an animal", "format": regex}}
chat = {"model": MODEL, "messages": ONCE, "max_completion_tokens": 200, "seed": 1}
short = {**chat, "max_completion_tokens": 8}
CHAT, Whole, Piece = "/v1/chat/completions", openai.types.chat.ChatCompletion, openai.types.chat.ChatCompletionChunk
for more in (
    {},
    {"n": 2, "logprobs": True, "top_logprobs": 2},
    {"tools": [function]},
    {"tools": [function], "tool_choice": "required", "max_completion_tokens": 200},
    {"functions": [function["function"]], "function_call": {"name": "count"}, "max_completion_tokens": 200},
    {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}},
):
    whole(Whole, CHAT, {**short, **more})
    events(Piece, CHAT, {**short, **more, "stream_options": {"include_usage": True}})
named = {"type": "custom", "custom": {"name": "note"}}
freely = {**chat, "tools": [{"type": "web_search"}, custom, function], "tool_choice": named}
[call] = whole(Whole, CHAT, freely).choices[0].message.tool_calls
assert call.type == "custom" and call.custom.input[-3] == "\n", call
# No type of a piece of such a call is published.
status, text, headers = ask("POST", CHAT, {**freely, "stream": True})
pieces = [json.loads(line[6:]) for line in text.split("\n") if line.startswith("data: {")]
pieces = [c for p in pieces for choice in p["choices"] for c in choice["delta"].get("tool_calls", [])]
assert "".join(p["custom"]["input"] for p in pieces) == call.custom.input and pieces[0]["custom"]["name"] == "note"
assert headers["x-leyden-ignored"] == "tools[0]:web_search", headers
result = {"role": "tool", "tool_call_id": call.id, "content": "noted"}
told = {"role": "assistant", "tool_calls": [call.model_dump(exclude_none=True)]}
whole(Whole, CHAT, {**short, "messages": ONCE + [told, result], "tools": [custom]})

text = {"model": MODEL, "prompt": ["Once upon a time", "A fox"], "max_tokens": 6}
for more in ({}, {"logprobs": 2}, {"logprobs": 1, "echo": True}):
    whole(openai.types.Completion, "/v1/completions", {**text, **more})
    events(openai.types.Completion, "/v1/completions", {**text, **more, "stream_options": {"include_usage": True}})
whole(openai.types.CreateEmbeddingResponse, "/v1/embeddings", {"model": MODEL, "input": ["A fox", "A wolf"]})
listed = json.loads(ask("GET", "/v1/models")[1])
assert listed["object"] == "list"
for model in listed["data"]:
    hold(openai.types.Model, json.dumps(model), "/v1/models")
hold(openai.types.Model, ask("GET", "/v1/models/" + MODEL)[1], "/v1/models/ID")

# OpenAI's Responses; Open Responses requires all of these fields.
REQUIRED = """id object created_at completed_at status incomplete_details model previous_response_id instructions output error
tools tool_choice truncation parallel_tool_calls text top_p presence_penalty frequency_penalty top_logprobs temperature
reasoning usage max_output_tokens max_tool_calls store background service_tier metadata safety_identifier
prompt_cache_key""".split()
RESPONSES, Response = "/v1/responses", openai.types.responses.Response
Event = openai.types.responses.ResponseStreamEvent
ask_short = {"model": MODEL, "input": "Once upon a time", "max_output_tokens": 8}
count = {"type": "function", "name": "count", "parameters": schema}
note = {**custom["custom"], "type": "custom", "format": {**regex["grammar"], "type": "grammar"}}
space = {"type": "namespace", "name": "zoo", "description": "A zoo", "tools": [{**count, "strict": False}, note]}
others = ["web_search", "file_search", "computer_use_preview", "code_interpreter", "mcp", "image_generation"]
others += ["local_shell", "shell", "apply_patch", "tool_search", "computer", "of_tomorrow"]
kinds = [{"type": kind} for kind in others]
for more in (
    {},
    {"instructions": "You tell stories.", "metadata": {"a": "b"}, "user": "ada", "safety_identifier": "x"},
    {"prompt_cache_key": "k", "max_tool_calls": 3, "presence_penalty": 0.5, "truncation": "auto"},
    {"include": ["message.output_text.logprobs"], "top_logprobs": 2},
    {"text": {"format": {"type": "json_schema", "name": "a", "schema": schema}}, "max_output_tokens": 100},
    {"tools": [count, space], "reasoning": {"effort": "low"}},
    {"tools": [count], "tool_choice": "required", "max_output_tokens": 200},
    {"tools": [space], "tool_choice": {"type": "custom", "name": "note"}, "max_output_tokens": 200},
):
    answer = whole(Response, RESPONSES, {**ask_short, **more})
    missing = set(REQUIRED) - answer.model_dump(exclude_unset=True).keys()
    assert not missing, missing
    heard = events(Event, RESPONSES, {**ask_short, **more})
    assert [e.sequence_number for e in heard] == list(range(len(heard)))
    # Events of parts of the answer say of which item they tell, and where that is.
    last = heard[-1].response
    for event in heard:
        if hasattr(event, "item_id"):
            assert last.output[event.output_index].id == event.item_id
    hold(Response, ask("GET", f"{RESPONSES}/{answer.id}")[1], "/v1/responses/ID")

# Kinds of tools that are not run here are left out, and named.
status, text, headers = ask("POST", RESPONSES, {**ask_short, "tools": kinds + [count]})
assert status == 200, text
assert headers["x-leyden-ignored"] == ", ".join(f"tools[{i}]:{kind}" for i, kind in enumerate(others)), headers
assert hold(Response, ask("POST", RESPONSES, {**ask_short, "tools": kinds[:1]})[1], "left out").output
for choice in ("required", {"type": "allowed_tools", "mode": "required", "tools": kinds}):
    status, text, _ = ask("POST", RESPONSES, {**ask_short, "tools": kinds, "tool_choice": choice})
    assert status == 400 and "tool_choice" in text, text

# A tool of a namespace and one of free text are called as they were declared, and what comes of it is understood.
chosen = {"tools": [space], "tool_choice": {"type": "custom", "name": "note"}, "max_output_tokens": 200}
called = whole(Response, RESPONSES, {**ask_short, **chosen}).output[0]
assert (called.type, called.namespace, called.name) == ("custom_tool_call", "zoo", "note"), called
assert called.input[-3] == "\n"
heard = events(Event, RESPONSES, {**ask_short, **chosen, "seed": 3})
deltas = "".join(e.delta for e in heard if e.type == "response.custom_tool_call_input.delta")
assert deltas == heard[-1].response.output[0].input and len(deltas) > 5
chosen["tool_choice"] = {"type": "function", "name": "count"}
counted = whole(Response, RESPONSES, {**ask_short, **chosen}).output[0]
assert (counted.type, counted.namespace, counted.name) == ("function_call", "zoo", "count"), counted
items = [{"role": "user", "content": "Once upon a time"}, called.model_dump(exclude_none=True)]
items += [{"type": "custom_tool_call_output", "call_id": called.call_id, "output": "noted"}]
items += [counted.model_dump(exclude_none=True)]
items += [{"type": "function_call_output", "call_id": counted.call_id, "output": [{"type": "input_text", "text": "4"}]}]
odd = [{"type": "web_search_call", "id": "ws_1", "status": "completed"}, {"type": "of_tomorrow", "x": [1]}]
status, text, headers = ask("POST", RESPONSES, {**ask_short, "input": items + odd, "tools": [space]})
assert status == 200, text
assert headers["x-leyden-ignored"] == "input[5]:web_search_call, input[6]:of_tomorrow", headers

# Items are named instead of sent again, and the tokens of a prompt are counted.
first = whole(Response, RESPONSES, ask_short)
again = {**ask_short, "input": [{"type": "item_reference", "id": first.output[0].id}, items[0]]}
told = {**ask_short, "input": [first.output[0].model_dump(), items[0]]}
assert whole(Response, RESPONSES, again).usage.input_tokens == whole(Response, RESPONSES, told).usage.input_tokens
status, text, _ = ask("POST", RESPONSES, {**ask_short, "input": [{"id": "msg_none_0"}]})
assert status == 404 and json.loads(text)["error"]["param"] == "input[0].id", text
Counted = openai.types.responses.InputTokenCountResponse
for body in (ask_short, told, {**ask_short, "tools": [space, count], "instructions": "You tell stories."}):
    body = {name: value for name, value in body.items() if name != "max_output_tokens"}
    tokens = whole(Counted, "/v1/responses/input_tokens", body).input_tokens
    assert tokens == whole(Response, RESPONSES, {**body, "max_output_tokens": 1}).usage.input_tokens
for field in ("conversation", "prompt"):
    status, text, _ = ask("POST", RESPONSES, {**ask_short, field: {"id": "x"}})
    assert status == 400 and json.loads(text)["error"]["param"] == field, text

# OpenAI's errors.
for method, path, body, status in (
    ("POST", CHAT, {**chat, "temperature": 3}, 400),
    ("POST", CHAT, {**chat, "model": "other"}, 404),
    ("POST", "/v1/completions", {}, 400),
    ("POST", "/v1/embeddings", {"model": MODEL}, 400),
    ("POST", RESPONSES, {**ask_short, "previous_response_id": "resp_x"}, 404),
    ("POST", "/v1/responses/input_tokens", {"model": MODEL, "input": 1}, 400),
    ("GET", "/v1/responses/resp_x", None, 404),
    ("DELETE", "/v1/responses/resp_x", None, 404),
    ("GET", "/v1/models/other", None, 404),
    ("GET", "/v1/nothing", None, 404),
    ("GET", CHAT, None, 405),
):
    got, text, _ = ask(method, path, body)
    error = json.loads(text)
    assert got == status and list(error) == ["error"], (path, got, text)
    hold(ErrorObject, json.dumps(error["error"]), "OpenAI's error")
hold(ErrorObject, json.dumps(json.loads(ask("GET", "/v1/models", key="other")[1])["error"]), "OpenAI's error")

# Anthropic.
MESSAGES, Message = "/v1/messages", anthropic.types.Message
message = {"model": MODEL, "messages": ONCE, "max_tokens": 8}
tool = {"name": "count", "description": "Counts legs", "input_schema": schema}
servers = ["web_search_20250305", "web_fetch_20250910", "bash_20250124", "text_editor_20250728", "computer_20250124"]
servers += ["code_execution_20250825", "memory_20250818", "tool_search_tool_bm25_20251119", "of_tomorrow"]
blocks = [
    {"type": "text", "text": "Once", "cache_control": {"type": "ephemeral"}},
    {"type": "document", "title": "T", "source": {"type": "text", "media_type": "text/plain", "data": "upon"}},
    {"type": "search_result", "title": "T", "source": "S", "content": [{"type": "text", "text": "a time"}]},
]
used = {"type": "tool_use", "id": "toolu_1", "name": "count", "input": {"animal": "fox"}}
done = {"type": "tool_result", "tool_use_id": "toolu_1", "content": blocks, "is_error": False}
server_use = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
agent = {
    "system": [{"type": "text", "text": "You tell stories.", "cache_control": {"type": "ephemeral"}}],
    "messages": [{"role": "user", "content": blocks}, {"role": "assistant", "content": [used]}]
    + [{"role": "user", "content": [done, blocks[0]]}, {"role": "system", "content": "Be brief."}],
    "thinking": {"type": "adaptive", "display": "omitted"},
    "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
    "metadata": {"user_id": "{}"},
    "output_config": {"effort": "high"},
    "tools": [tool],
}
for more in (
    {},
    {"stop_sequences": ["a", "e"]},
    {"tools": [tool], "tool_choice": {"type": "any"}, "max_tokens": 200},
    agent,
):
    whole(Message, MESSAGES + "?beta=true", {**message, **more})
    heard = events(anthropic.types.RawMessageStreamEvent, MESSAGES, {**message, **more})
    assert heard[0].type == "message_start" and heard[-1].type == "message_stop"
named = [{"type": kind, "name": "x"} for kind in servers]
searched = [{"role": "user", "content": "Hm?"}, {"role": "assistant", "content": [server_use, blocks[0]]}, ONCE[0]]
status, text, headers = ask("POST", MESSAGES, {**message, "messages": searched, "tools": named + [tool]})
assert status == 200, text
wanted = ["messages[1].content[0]:server_tool_use"] + [f"tools[{i}]:{kind}" for i, kind in enumerate(servers)]
assert headers["x-leyden-ignored"] == ", ".join(wanted), headers
COUNT = MESSAGES + "/count_tokens"
plain = {name: value for name, value in message.items() if name != "max_tokens"}
tokens = whole(anthropic.types.MessageTokensCount, COUNT + "?beta=true", plain).input_tokens
# What Claude Code says of its version is not for the model.
billed = [{"type": "text", "text": f"x-anthropic-billing-header: {i}"} for i in range(3)]
asked = whole(anthropic.types.MessageTokensCount, COUNT, {**plain, "system": billed[:1]}).input_tokens
assert asked == whole(anthropic.types.MessageTokensCount, COUNT, {**plain, "system": billed}).input_tokens
assert ask("HEAD", "/")[0] == 200
for path, body, status in (
    (MESSAGES, {**message, "temperature": 3}, 400),
    (MESSAGES, {**message, "model": "other"}, 404),
    (MESSAGES, {"model": MODEL, "messages": ONCE}, 400),
    (COUNT, {"model": MODEL}, 400),
):
    whole(anthropic.types.ErrorResponse, path, body, status)
hold(anthropic.types.ErrorResponse, ask("POST", MESSAGES, message, key="other")[1], "Anthropic's error")

# Ollama.
options = {"num_predict": 8, "seed": 1}
for kind, path, body in (
    (ollama.ChatResponse, "/api/chat", {"messages": ONCE}),
    (ollama.ChatResponse, "/api/chat", {"messages": ONCE, "logprobs": True, "top_logprobs": 2}),
    (ollama.ChatResponse, "/api/chat", {"messages": ONCE, "tools": [{"type": "web_search"}, custom, function]}),
    (ollama.ChatResponse, "/api/chat", {"messages": []}),
    (ollama.GenerateResponse, "/api/generate", {"prompt": "Once upon a time"}),
    (ollama.GenerateResponse, "/api/generate", {"prompt": "Once", "raw": True, "logprobs": True}),
):
    for stream in (False, True):
        status, text, _ = ask("POST", path, {"model": MODEL, **body, "options": options, "stream": stream})
        assert status == 200, text
        for line in text.strip().split("\n"):
            hold(kind, line, path)
whole(ollama.EmbedResponse, "/api/embed", {"model": MODEL, "input": ["A fox", "A wolf"]})
whole(ollama.ShowResponse, "/api/show", {"model": MODEL})
hold(ollama.ListResponse, ask("GET", "/api/tags")[1], "/api/tags")
hold(ollama.ProcessResponse, ask("GET", "/api/ps")[1], "/api/ps")
for path, body, status in (
    ("/api/chat", {"model": "other", "messages": ONCE}, 404),
    ("/api/generate", {"model": MODEL, "prompt": 1}, 400),
    ("/api/embed", {}, 400),
    ("/api/show", {"model": "other"}, 404),
):
    got, text, _ = ask("POST", path, body)
    error = json.loads(text)
    assert got == status and list(error) == ["error"] and isinstance(error["error"], str), (got, text)

print(len(checked), "kinds of answers")
print("ok")

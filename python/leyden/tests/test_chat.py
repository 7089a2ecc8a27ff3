"""Conversations: templates, tools and streams."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys

import pytest

import leyden
from conftest import ROOT, absent, needs

TEMPLATE = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


@pytest.fixture(scope="module")
def chatty(tmp_path_factory: pytest.TempPathFactory) -> leyden.Model:
    """The model of stories with a chat template."""
    needs("gguf")
    source = ROOT.parent / "shared/demo-model/storyteller-f16.gguf"
    if not source.exists():
        absent(f"{source} is absent")
    made = tmp_path_factory.mktemp("chat") / "chat.gguf"
    command = [sys.executable, "-m", "gguf.scripts.gguf_new_metadata", "--chat-template", TEMPLATE, source, made]
    subprocess.run(command, check=True, capture_output=True)
    return leyden.Model(made)


def get_weather(city: str, days: int = 1) -> str:
    """Returns the weather."""
    return f"{city} {days}"


def test_a_message_gets_an_answer(story: leyden.Model) -> None:
    answer = story.chat("Once upon a time", max_tokens=8, temperature=0)
    assert answer.content == str(answer) and answer.finish == "length" and not answer.tool_calls
    messages = [{"role": "user", "content": "Once upon a time"}]
    assert story.chat(messages, max_tokens=8, temperature=0).content == answer.content
    parts = [{"role": "user", "content": [{"type": "text", "text": "Once upon a time"}]}]
    assert story.chat(parts, max_tokens=8, temperature=0).content == answer.content
    assert answer.message == {"role": "assistant", "content": answer.content}
    many = story.chat([messages, messages], max_tokens=8, temperature=0)
    assert [one.content for one in many] == [answer.content] * 2


def test_the_template_renders_and_special_tokens_of_messages_stay_text(chatty: leyden.Model) -> None:
    assert chatty.render([{"role": "user", "content": "Hi"}]) == "<|user|>Hi\n<|assistant|>"
    begun = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Well"}]
    assert chatty.render(begun, continue_last=True) == "<|user|>Hi\n<|assistant|>Well"
    assert chatty.chat_template == TEMPLATE


@pytest.mark.parametrize("choice", ["required", "get_weather"])
def test_a_required_call_follows_its_schema(story: leyden.Model, choice: str) -> None:
    answer = story.chat("The weather?", tools=[get_weather], tool_choice=choice, seed=2, max_tokens=300)
    assert answer.finish == "tool_calls" and len(answer.tool_calls) == 1
    call = answer.tool_calls[0]
    assert call.name == "get_weather" and call.id
    if call.complete:
        assert isinstance(call.arguments["city"], str)
    described = answer.message["tool_calls"][0]["function"]
    assert json.loads(described["arguments"]) == call.arguments


def test_a_tool_with_few_arguments_is_called(story: leyden.Model) -> None:
    tool = {
        "name": "pick",
        "parameters": {
            "type": "object",
            "properties": {"n": {"enum": [1, 2, 3]}},
            "required": ["n"],
            "additionalProperties": False,
        },
    }
    answer = story.chat("Pick", tools=[tool], tool_choice="required", temperature=0)
    assert answer.tool_calls[0].complete and answer.tool_calls[0].arguments["n"] in (1, 2, 3)
    pieces = list(story.chat("Pick", tools=[tool], tool_choice="required", temperature=0, stream=True))
    assert [piece.tool_call for piece in pieces if piece.tool_call] == answer.tool_calls
    # An answer that may call follows earlier calls and results.
    messages = [
        {"role": "user", "content": "Pick"},
        answer.message,
        {"role": "tool", "tool_call_id": answer.tool_calls[0].id, "content": "picked"},
    ]
    assert story.chat(messages, tools=[tool], max_tokens=8, temperature=0).finish in ("length", "stop", "tool_calls")


def test_a_stream_has_the_answer_in_pieces(story: leyden.Model) -> None:
    whole = story.chat("Once upon a time", max_tokens=12, temperature=0)
    stream = story.chat("Once upon a time", max_tokens=12, temperature=0, stream=True)
    assert "".join(str(piece) for piece in stream) == whole.content
    assert stream.result.content == whole.content

    async def streamed() -> tuple[str, str]:
        pieces = [p.content async for p in story.astream_chat("Once upon a time", max_tokens=12, temperature=0)]
        answer = await story.achat("Once upon a time", max_tokens=12, temperature=0)
        return "".join(pieces), answer.content

    assert asyncio.run(streamed()) == (whole.content, whole.content)


@pytest.mark.parametrize(
    ("messages", "options", "words"),
    [
        ([{"content": "x"}], {}, r"messages\[0\]"),
        ([{"role": "user", "content": [{"type": "image_url"}]}], {}, "image_url is not supported"),
        ("x", {"tool_choice": "required"}, "there are no tools"),
        ("x", {"tools": [{"name": "a b"}]}, "a tool has a name of letters"),
        ("x", {"tools": [7]}, "tools: a description"),
    ],
)
def test_a_wrong_conversation_is_an_error(story: leyden.Model, messages: object, options: dict, words: str) -> None:
    with pytest.raises(leyden.RequestError, match=words):
        story.chat(messages, **options)



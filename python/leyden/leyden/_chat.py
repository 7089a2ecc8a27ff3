"""Conversations: messages to JSON, and answers from the parts that the native parser finds."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Iterable, Mapping, Sequence, Union

from . import _native
from ._native import RequestError
from ._results import Generation
from ._schema import Schema, parsed

#: A message in OpenAI's form, with `role` and `content`.
Message = Mapping[str, Any]
#: A conversation, or one message of the user.
Messages = Union[str, Sequence[Message]]


@dataclass(frozen=True)
class ToolCall:
    """A call of a tool. `complete` is False if the answer was cut off within it; `arguments` are empty then."""

    name: str
    arguments: dict[str, Any]
    id: str
    complete: bool = True


@dataclass(frozen=True)
class ChatAnswer:
    """An answer of a conversation."""

    content: str
    generation: Generation = field(repr=False)
    reasoning: str = ""
    tool_calls: list[ToolCall] = field(default_factory=list)
    #: Instance of the pydantic model, or the parsed JSON, if a schema was given and the answer is whole.
    parsed: Any = None

    def __str__(self) -> str:
        return self.content

    @property
    def finish(self) -> str:
        """`stop`, `length`, `cancelled`, or `tool_calls` if the answer calls tools."""
        return "tool_calls" if self.tool_calls else self.generation.finish

    @property
    def message(self) -> dict[str, Any]:
        """The answer as the next message of the conversation."""
        made: dict[str, Any] = {"role": "assistant", "content": self.content}
        if self.reasoning:
            made["reasoning_content"] = self.reasoning
        if self.tool_calls:
            made["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
                }
                for call in self.tool_calls
            ]
        return made


@dataclass(frozen=True)
class ChatPiece:
    """The next piece of an answer: text of its content or reasoning, or a whole call."""

    content: str = ""
    reasoning: str = ""
    tool_call: ToolCall | None = None

    def __str__(self) -> str:
        return self.content


class Reader:
    """Reader of one answer's parts, in pieces."""

    def __init__(self, turn: _native.Turn) -> None:
        self._turn = turn
        self._names: dict[int, tuple[str, str]] = {}
        self._arguments: dict[int, str] = {}
        self.content: list[str] = []
        self.reasoning: list[str] = []
        self.calls: list[ToolCall] = []

    def push(self, text: str) -> list[ChatPiece]:
        """Takes the next text."""
        return self._read(self._turn.push(text))

    def finish(self) -> list[ChatPiece]:
        """Ends the answer."""
        return self._read(self._turn.finish())

    def _read(self, events: Iterable[tuple[Any, ...]]) -> list[ChatPiece]:
        pieces = []
        for kind, *values in events:
            if kind == "content":
                self.content.append(values[0])
                pieces.append(ChatPiece(content=values[0]))
            elif kind == "reasoning":
                self.reasoning.append(values[0])
                pieces.append(ChatPiece(reasoning=values[0]))
            elif kind == "call":
                index, id, name = values
                self._names[index] = (name, id or f"call_{index}")
                self._arguments[index] = ""
            elif kind == "arguments":
                self._arguments[values[0]] += values[1]
            else:
                call = self._call(values[0], complete=kind == "end")
                self.calls.append(call)
                pieces.append(ChatPiece(tool_call=call))
        return pieces

    def _call(self, index: int, complete: bool) -> ToolCall:
        name, id = self._names.get(index, ("", f"call_{index}"))
        arguments = json.loads(self._arguments[index] or "{}") if complete else {}
        return ToolCall(name, arguments, id, complete)

    def answer(self, generation: Generation, schema: Schema | None) -> ChatAnswer:
        """Returns the whole answer, with the value of its content under a schema."""
        content = "".join(self.content)
        value = None if self.calls else parsed(schema, content, generation.finish)
        return ChatAnswer(content, generation, "".join(self.reasoning), list(self.calls), value)


def is_many(messages: Any) -> bool:
    """Returns whether messages are a list of conversations."""
    return (
        isinstance(messages, Sequence)
        and not isinstance(messages, str)
        and len(messages) > 0
        and not isinstance(messages[0], Mapping)
    )


def messages_text(messages: Messages) -> str:
    """Returns messages as JSON with texts as contents."""
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    written = []
    for index, message in enumerate(messages):
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise RequestError(f"messages[{index}]: a dictionary with `role` and `content` is expected")
        one = dict(message)
        one["content"] = _text(one.get("content"), index)
        written.append(one)
    return json.dumps(written)


def _text(content: Any, index: int) -> str:
    """Returns the text of a message's content."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    texts = []
    for part in content:
        if not isinstance(part, Mapping) or part.get("type") not in ("text", "input_text", "output_text"):
            kind = part.get("type") if isinstance(part, Mapping) else type(part).__name__
            raise RequestError(f"messages[{index}].content: {kind} is not supported; a text is expected")
        texts.append(str(part["text"]))
    return "\n".join(texts)

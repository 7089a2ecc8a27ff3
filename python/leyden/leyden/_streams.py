"""Iterators over an answer during generation. Closing or dropping one cancels its request."""

from __future__ import annotations

from typing import Iterator

from . import _native
from ._chat import ChatAnswer, ChatPiece, Reader
from ._results import Generation, generation
from ._schema import Schema, parsed


class TextStream(Iterator[str]):
    """Pieces of a text. `result` is the finished answer once the iterator has ended."""

    def __init__(self, pending: _native.Pending, with_logprobs: bool, schema: Schema | None) -> None:
        self._pending = pending
        self._with_logprobs = with_logprobs
        self._schema = schema
        self.result: Generation | None = None

    def __next__(self) -> str:
        if self.result is not None:
            raise StopIteration
        try:
            event = self._pending.next()
        except BaseException:
            self.close()
            raise
        if isinstance(event, str):
            return event
        value = parsed(self._schema, event.text, event.finish)
        self.result = generation(event, self._with_logprobs, value)
        raise StopIteration

    def close(self) -> None:
        """Cancels the request."""
        self._pending.cancel()


class ChatStream(Iterator[ChatPiece]):
    """Pieces of an answer. `result` is the finished answer once the iterator has ended."""

    def __init__(self, texts: TextStream, turn: _native.Turn, schema: Schema | None) -> None:
        self._texts = texts
        self._schema = schema
        self._reader = Reader(turn)
        self._ready: list[ChatPiece] = []
        self._ended = False
        self.result: ChatAnswer | None = None

    def __next__(self) -> ChatPiece:
        while not self._ready and not self._ended:
            try:
                self._ready = self._reader.push(next(self._texts))
            except StopIteration:
                self._ready = self._reader.finish()
                self._ended = True
        if self._ready:
            return self._ready.pop(0)
        if self.result is None and self._texts.result is not None:
            self.result = self._reader.answer(self._texts.result, self._schema)
        raise StopIteration

    def close(self) -> None:
        """Cancels the request."""
        self._texts.close()

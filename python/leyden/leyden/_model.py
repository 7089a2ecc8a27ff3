"""`Model`: a loaded model."""

from __future__ import annotations

import asyncio
import json
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any, AsyncIterator, Callable, Iterable, Literal, Mapping, Sequence, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from . import _native
from ._chat import ChatAnswer, ChatPiece, Messages, Reader, is_many, messages_text
from ._native import RequestError
from ._results import Entity, Generation, Label, Score, generation
from ._rows import Bar, given, listed, pieces, texts_of
from ._schema import Schema, Tool, constraint, parsed, tools_text
from ._streams import ChatStream, TextStream

Result = TypeVar("Result")
#: A prompt: a text, or token ids.
Prompt = str | Sequence[int] | NDArray[np.uint32]
#: Names of options of generation; see `Model.generate`.
OPTIONS = (
    "max_tokens",
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "typical_p",
    "seed",
    "stop",
    "repeat_penalty",
    "frequency_penalty",
    "presence_penalty",
    "repeat_last_n",
    "mirostat",
    "logit_bias",
    "logprobs",
)


class Model:
    """A loaded model, whose methods any threads may call at the same time.

    Requests that are open together are computed together, whichever thread or task they come from; an answer does not
    depend on the others. All methods compute without Python's lock. Ctrl-C cancels what a method computes.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        threads: int | None = None,
        threads_batch: int | None = None,
        context: int | None = None,
        parallel: int = 64,
        cache_tokens: int | None = None,
        kv_type: Literal["f32", "f16", "q8_0"] | None = None,
        lora: str | os.PathLike[str] | Iterable[Any] | None = None,
        int8: bool = False,
        exact: bool = False,
        isa: str | None = None,
        pack_cache: str | os.PathLike[str] | None = None,
        progress: bool = False,
    ) -> None:
        """Loads a model.

        path: a GGUF file, a folder of the Hugging Face hub, an ONNX encoder, a name of the store (`leyden.pull`), or
        `leyden.EMBEDDED`. threads: threads of decode, by default one per physical core; threads_batch: of prompts.
        context: longest prompt and answer in tokens, by default the model's but at most 8192. parallel: most answers
        computed together. cache_tokens: capacity of the KV cache, by default the context; answers that do not fit
        wait. kv_type: type of cached keys and values, by default f16. lora: adapters, each a path or a pair of path
        and scale. int8: multiply float matrices in 8-bit integers. exact: keep activations of BF16 weights in F32.
        isa: instruction-set tier. pack_cache: folder for packed weights, from which later loads are faster.
        progress: show a bar of tqdm.

        Raises ModelError, ResourceError or RequestError.
        """
        options = given(
            threads=threads,
            threads_batch=threads_batch,
            context=context,
            parallel=parallel,
            cache_tokens=cache_tokens,
            kv_type=kv_type,
            int8=int8,
            exact=exact,
            isa=isa,
            lora=_adapters(lora),
            pack_cache=pack_cache,
        )
        with Bar(progress, 0, "B") as bar:
            self._native = _native.Model.open(os.fspath(path), options, bar.total if progress else None)
        self._info = self._native.info()
        self._waiters = ThreadPoolExecutor(max(64, parallel), thread_name_prefix="leyden-wait")

    def __repr__(self) -> str:
        return f"leyden.Model({self.file!r})"

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Frees the model's memory. Requests under way end with an error."""
        self._native.close()
        self._waiters.shutdown(wait=False, cancel_futures=True)

    # Facts

    @property
    def file(self) -> str:
        """The path of the model."""
        return str(self._info["file"])

    @property
    def architecture(self) -> str:
        """The architecture's name in GGUF."""
        return str(self._info["architecture"])

    @property
    def context(self) -> int:
        """The longest prompt and answer in tokens."""
        return int(self._info["context"])

    @property
    def dimensions(self) -> int:
        """The dimensions of `embed`'s vectors."""
        return int(self._info["dimensions"])

    @property
    def labels(self) -> list[str] | None:
        """The labels of `classify`; None if the model has none."""
        return self._info["labels"]  # type: ignore[no-any-return]

    @property
    def chat_template(self) -> str | None:
        """The chat template's source; None if the model has none."""
        return self._info["chat_template"]  # type: ignore[no-any-return]

    @property
    def info(self) -> dict[str, Any]:
        """Further facts: `vocabulary`, `bos`, `eos`, `add_bos`, `generates`, `model_context`, `load_seconds`."""
        return dict(self._info)

    # Tokens

    def tokenize(self, text: str, *, begin: bool = True, special: bool = False) -> NDArray[np.uint32]:
        """Returns a text's token ids, `uint32[n]`. begin: with the token that begins a prompt, if the model has one.
        special: the names of special tokens in the text become these tokens."""
        return self._native.tokenize(text, begin, special)

    def detokenize(self, tokens: Sequence[int] | NDArray[np.uint32], *, special: bool = False) -> str:
        """Returns the text of token ids. special: with the names of special tokens, which are left out else."""
        return self._native.detokenize(tokens, special)

    # Generation

    @overload
    def generate(self, prompt: str, *, stream: Literal[False] = False, **options: Any) -> Generation: ...
    @overload
    def generate(self, prompt: Prompt, *, stream: Literal[True], **options: Any) -> TextStream: ...
    @overload
    def generate(
        self, prompt: Iterable[Prompt], *, stream: Literal[False] = False, **options: Any
    ) -> list[Generation]: ...
    def generate(self, prompt: Any, *, stream: bool = False, progress: bool = False, **options: Any) -> Any:
        """Continues one prompt or many, each a text or token ids.

        One prompt gives a `Generation`, a list of prompts a list of them, computed together. stream: returns an
        iterator over the pieces of one text.

        Options: max_tokens (512; None for the rest of the context), temperature (0.8; 0 is greedy), top_k (40), top_p
        (0.95), min_p (0.05), typical_p, seed (0), stop (a text or several), repeat_penalty, frequency_penalty,
        presence_penalty, repeat_last_n, mirostat (0, 1, 2), logit_bias ({id: bias}), logprobs (number of top tokens).
        One of: schema (dictionary, JSON text or pydantic model; the answer's `parsed` is its value), regex, grammar
        (GBNF), lark. progress: show a bar of tqdm.
        """
        one = _is_one(prompt)
        prompts = [prompt] if one else list(prompt)
        if stream:
            if not one:
                raise RequestError("stream=True takes one prompt")
            begun = self._begin(prompts, True, options)
            return TextStream(begun[0], options.get("logprobs") is not None, options.get("schema"))
        answers = self._finish(self._begin(prompts, False, options), progress, options)
        return answers[0] if one else answers

    async def agenerate(self, prompt: Any, **options: Any) -> Any:
        """Does as `generate` without blocking the event loop. Cancelling the task cancels the request."""
        one = _is_one(prompt)
        prompts = [prompt] if one else list(prompt)
        begun = await self._aside(lambda: self._begin(prompts, False, options))
        try:
            answers = await self._aside(lambda: self._finish(begun, False, options))
        except BaseException:
            _cancel(begun)
            raise
        return answers[0] if one else answers

    async def astream(self, prompt: Prompt, **options: Any) -> AsyncIterator[str]:
        """Yields the pieces of one text. Leaving the loop cancels the request."""
        stream = await self._aside(lambda: self.generate(prompt, stream=True, **options))
        async for piece in self._pieces(stream):
            yield piece

    def _begin(self, prompts: list[Any], stream: bool, options: dict[str, Any]) -> list[_native.Pending]:
        options = dict(options)
        form = constraint(*(options.pop(name, None) for name in ("schema", "regex", "grammar", "lark")))
        return self._native.generate(prompts, _answer_options(options), form, stream)

    def _finish(
        self, begun: list[_native.Pending], progress: bool, options: Mapping[str, Any]
    ) -> list[Generation]:
        schema, with_logprobs = options.get("schema"), options.get("logprobs") is not None
        answers = []
        try:
            with Bar(progress, len(begun), "answer") as bar:
                for pending in begun:
                    answer = pending.wait()
                    value = parsed(schema, answer.text, answer.finish)
                    answers.append(generation(answer, with_logprobs, value))
                    bar.add(1)
        except BaseException:
            _cancel(begun)
            raise
        return answers

    # Conversations

    def chat(
        self,
        messages: Messages | Sequence[Messages],
        *,
        tools: Sequence[Tool] | None = None,
        tool_choice: str = "auto",
        schema: Schema | None = None,
        stream: bool = False,
        template_variables: Mapping[str, Any] | None = None,
        continue_last: bool = False,
        progress: bool = False,
        **options: Any,
    ) -> Any:
        """Answers a conversation: messages in OpenAI's form, or the text of one message.

        One conversation gives a `ChatAnswer`, a list of conversations a list of them, computed together. stream:
        returns an iterator of `ChatPiece`.

        tools: functions with type hints, pydantic models or descriptions in OpenAI's form; calls always follow their
        schemas. tool_choice: `auto`, `none`, `required` or a tool's name. schema: of the answer, as for `generate`.
        template_variables: such as {"enable_thinking": False}. continue_last: continue the last message. Other options
        are those of `generate`.
        """
        many = is_many(messages)
        conversations: list[Any] = list(messages) if many else [messages]
        turns = self._turns(
            conversations, tools, tool_choice, schema, template_variables, continue_last, options
        )
        if stream:
            if many:
                raise RequestError("stream=True takes one conversation")
            with_logprobs = options.get("logprobs") is not None
            texts = TextStream(self._native.answer(turns[0], True), with_logprobs, None)
            return ChatStream(texts, turns[0], schema)
        begun = [self._native.answer(turn, False) for turn in turns]
        answers = self._answers(begun, turns, schema, progress, options)
        return answers if many else answers[0]

    async def achat(self, messages: Any, **options: Any) -> Any:
        """Does as `chat` without blocking the event loop. Cancelling the task cancels the request."""
        if options.get("stream"):
            raise RequestError("stream: use astream_chat")
        many = is_many(messages)
        stream_free = {name: value for name, value in options.items() if name != "stream"}
        conversations: list[Any] = list(messages) if many else [messages]
        schema = stream_free.pop("schema", None)
        form = [
            stream_free.pop(name, default)
            for name, default in (
                ("tools", None),
                ("tool_choice", "auto"),
                ("template_variables", None),
                ("continue_last", False),
            )
        ]

        def begin() -> tuple[list[_native.Turn], list[_native.Pending]]:
            turns = self._turns(conversations, form[0], form[1], schema, form[2], form[3], stream_free)
            return turns, [self._native.answer(turn, False) for turn in turns]

        turns, begun = await self._aside(begin)
        try:
            answers = await self._aside(lambda: self._answers(begun, turns, schema, False, stream_free))
        except BaseException:
            _cancel(begun)
            raise
        return answers if many else answers[0]

    async def astream_chat(self, messages: Messages, **options: Any) -> AsyncIterator[ChatPiece]:
        """Yields the pieces of one answer. Leaving the loop cancels the request."""
        stream = await self._aside(lambda: self.chat(messages, stream=True, **options))
        async for piece in self._pieces(stream):
            yield piece

    def render(
        self,
        messages: Messages,
        *,
        tools: Sequence[Tool] | None = None,
        template_variables: Mapping[str, Any] | None = None,
        continue_last: bool = False,
    ) -> str:
        """Returns a conversation's prompt as text."""
        chat = _chat_options(tools, "auto", None, template_variables, continue_last)
        return self._native.render(messages_text(messages), chat)

    def _turns(
        self,
        conversations: list[Any],
        tools: Sequence[Tool] | None,
        tool_choice: str,
        schema: Schema | None,
        variables: Mapping[str, Any] | None,
        continue_last: bool,
        options: dict[str, Any],
    ) -> list[_native.Turn]:
        options = dict(options)
        form = constraint(schema, *(options.pop(name, None) for name in ("regex", "grammar", "lark")))
        chat = _chat_options(tools, tool_choice, form, variables, continue_last)
        answer = _answer_options(options)
        return [self._native.turn(messages_text(messages), chat, answer) for messages in conversations]

    def _answers(
        self,
        begun: list[_native.Pending],
        turns: list[_native.Turn],
        schema: Schema | None,
        progress: bool,
        options: Mapping[str, Any],
    ) -> list[ChatAnswer]:
        # A schema is for the content, which the parser finds.
        generations = self._finish(begun, progress, {**options, "schema": None})
        answers = []
        for turn, made in zip(turns, generations):
            reader = Reader(turn)
            reader.push(made.text)
            reader.finish()
            answers.append(reader.answer(made, schema))
        return answers

    # Scores

    def score(
        self,
        text: str | Sequence[str],
        *,
        context: str | Sequence[str] | None = None,
        top: int = 0,
        progress: bool = False,
    ) -> Any:
        """Computes the log probabilities of the tokens of one text or many, given what comes before.

        context: a text before each text, or one for each; its tokens are not scored. Without it the first token of a
        text is not scored, unless the model begins texts with a token of its own. Blanks at the end of a context are
        counted to the text, as in lm-evaluation-harness. top: number of most probable tokens to return at each place.

        One text gives a `Score`, a list a list of them, computed together.
        """
        one = isinstance(text, str)
        texts = texts_of([text] if one else text)
        contexts = [context] * len(texts) if context is None or isinstance(context, str) else texts_of(context)
        if len(contexts) != len(texts):
            raise RequestError(f"context: {len(contexts)} contexts for {len(texts)} texts")
        rows, starts = [], []
        for before, after in zip(contexts, texts):
            tokens, start = self._split(before, after)
            rows.append(tokens)
            starts.append(start)
        scores = self.score_tokens(rows, starts, top=top, progress=progress)
        return scores[0] if one else scores

    def score_tokens(
        self,
        rows: Sequence[Sequence[int] | NDArray[np.uint32]],
        starts: Sequence[int] | int = 1,
        *,
        top: int = 0,
        progress: bool = False,
    ) -> list[Score]:
        """Computes the log probabilities of the tokens of each row from its start on; the token at 0 has none."""
        all_starts = [starts] * len(rows) if isinstance(starts, int) else list(starts)
        begun: list[_native.Pending] = []
        scores = []
        try:
            for tokens, start in zip(rows, all_starts):
                begun.append(self._native.score(tokens, max(start, 1) - 1, top))
            with Bar(progress, len(begun), "text") as bar:
                for pending in begun:
                    scores.append(Score(*pending.scores()))
                    bar.add(1)
        except BaseException:
            _cancel(begun)
            raise
        return scores

    def _split(self, context: str | None, text: str) -> tuple[NDArray[np.uint32], int]:
        """Returns the tokens of a context with a text, and the place of the text's first token."""
        if not context:
            tokens = self.tokenize(text)
            has_bos = len(tokens) > 0 and bool(self._info["add_bos"])
            return tokens, 1 if has_bos else 0
        kept = context.rstrip()
        if kept:
            context, text = kept, context[len(kept) :] + text
        return self.tokenize(context + text), len(self.tokenize(context))

    # Vectors, labels and relevance

    def embed(
        self,
        texts: str | Iterable[str],
        *,
        pooling: str | None = None,
        normalize: bool = True,
        dimensions: int | None = None,
        truncate: bool = False,
        prompt_name: str | None = None,
        progress: bool = False,
    ) -> NDArray[np.float32]:
        """Computes vectors: `float32[n, dims]` of a list of texts, `float32[dims]` of one text.

        texts may be an Arrow array. pooling: by default the model's. normalize: scale to length 1. dimensions: keep
        the first. truncate: cut off texts that are too long, which are an error else. prompt_name: the model's prompt
        of this name comes before each text, such as `query`.
        """
        options = _embed_options(pooling, normalize, dimensions, truncate, prompt_name)
        one = isinstance(texts, str)
        rows = texts_of([texts] if one else texts)
        parts = list(pieces(rows, progress, lambda piece: self._native.embed(piece, options)))
        if not parts:
            return np.empty((0, dimensions or self.dimensions), np.float32)
        vectors = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return vectors[0] if one else vectors

    async def aembed(self, texts: str | Iterable[str], **options: Any) -> NDArray[np.float32]:
        """Does as `embed` without blocking the event loop."""
        return await self._aside(lambda: self.embed(texts, **options))

    def embed_tokens(self, texts: Iterable[str], *, truncate: bool = False) -> list[NDArray[np.float32]]:
        """Computes a vector for each token of each text, `float32[n_tokens, dims]`, for late interaction."""
        options = {"truncate": truncate}
        rows = texts_of(texts)
        return [row for part in pieces(rows, False, lambda p: self._native.embed_tokens(p, options)) for row in part]

    def embed_sparse(
        self, texts: Iterable[str], *, truncate: bool = False
    ) -> list[tuple[NDArray[np.uint32], NDArray[np.float32]]]:
        """Computes sparse vectors: token ids, ascending, and their weights."""
        options = {"truncate": truncate}
        rows = texts_of(texts)
        return [row for part in pieces(rows, False, lambda p: self._native.embed_sparse(p, options)) for row in part]

    def classify(self, texts: str | Iterable[str], *, truncate: bool = False, progress: bool = False) -> Any:
        """Computes the labels of one text or many, each text's best label first."""
        one = isinstance(texts, str)
        rows = texts_of([texts] if one else texts)
        options = {"truncate": truncate}
        parts = pieces(rows, progress, lambda piece: self._native.classify(piece, options))
        labelled = [[Label(*label) for label in labels] for part in parts for labels in part]
        return labelled[0] if one else labelled

    def rerank(
        self, query: str, documents: Iterable[str], *, truncate: bool = False, progress: bool = False
    ) -> NDArray[np.float32]:
        """Computes the relevance of each document for a question, from 0 to 1, `float32[n]`, in their order.

        A document that does not fit the context is read in parts, whose best score counts; truncate: only its
        beginning is read.
        """
        rows = texts_of(documents, "documents")
        options = {"truncate": truncate}
        parts = list(pieces(rows, progress, lambda piece: self._native.rerank(query, piece, options)))
        return np.concatenate(parts) if parts else np.empty(0, np.float32)

    def extract(
        self,
        texts: str | Iterable[str],
        labels: Sequence[str] | None = None,
        *,
        threshold: float = 0.5,
        aggregation: str = "simple",
        progress: bool = False,
    ) -> Any:
        """Finds entities in one text or many: those of the model's labels or, with a GLiNER model, of `labels`."""
        one = isinstance(texts, str)
        rows = texts_of([texts] if one else texts)
        chosen = None if labels is None else texts_of(labels, "labels")
        parts = pieces(rows, progress, lambda piece: self._native.extract(piece, chosen, threshold, aggregation))
        found = [[Entity(**entity) for entity in entities] for part in parts for entities in part]
        return found[0] if one else found

    # Waiting aside of an event loop

    async def _aside(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._waiters, work)

    async def _pieces(self, stream: Any) -> AsyncIterator[Any]:
        try:
            while (piece := await self._aside(lambda: next(stream, None))) is not None:
                yield piece
        finally:
            stream.close()


def _cancel(begun: Iterable[_native.Pending]) -> None:
    for pending in begun:
        pending.cancel()


def _is_one(prompt: Any) -> bool:
    """Returns whether a prompt is one text or one list of token ids."""
    if isinstance(prompt, (str, np.ndarray)):
        return True
    return isinstance(prompt, Sequence) and len(prompt) > 0 and isinstance(prompt[0], (int, np.integer))


def _adapters(lora: Any) -> list[tuple[str, float]] | None:
    if lora is None:
        return None
    if isinstance(lora, (str, os.PathLike)):
        lora = [lora]
    pairs = [one if isinstance(one, tuple) else (one, 1.0) for one in lora]
    return [(os.fspath(path), float(scale)) for path, scale in pairs]


def _answer_options(options: dict[str, Any]) -> dict[str, Any]:
    """Returns the options of an answer for the native module; one that is not known is an error there."""
    made = {"max_tokens": 512, **options}
    if "stop" in made:
        made["stop"] = listed(made["stop"])
    return {name: value for name, value in made.items() if value is not None or name == "max_tokens"}


def _chat_options(
    tools: Sequence[Tool] | None,
    tool_choice: str,
    form: tuple[str, str] | None,
    variables: Mapping[str, Any] | None,
    continue_last: bool,
) -> dict[str, Any]:
    return given(
        tools=None if tools is None else tools_text(tools),
        tool_choice=tool_choice,
        constraint=form,
        variables=None if variables is None else json.dumps(dict(variables)),
        continue_last=continue_last,
    )


def _embed_options(
    pooling: str | None,
    normalize: bool,
    dimensions: int | None,
    truncate: bool,
    prompt_name: str | None,
) -> dict[str, Any]:
    return given(
        pooling=pooling,
        normalize=normalize,
        dimensions=dimensions,
        truncate=truncate,
        prompt_name=prompt_name,
    )

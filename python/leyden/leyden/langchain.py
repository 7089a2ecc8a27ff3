"""LangChain's interfaces on a `leyden.Model` in this process. Needs langchain-core.

One `Model` can be given to several of them: `LeydenChat(model=leyden.Model("smollm2"))`. A path or name loads one.
"""

from __future__ import annotations

import json
from typing import Any, AsyncIterator, Callable, Iterator, Sequence

from langchain_core.callbacks import (
    AsyncCallbackManagerForLLMRun,
    CallbackManagerForLLMRun,
    Callbacks,
)
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel, BaseLLM, LanguageModelInput
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ToolCall,
    ToolCallChunk,
    convert_to_openai_messages,
)
from langchain_core.messages.ai import UsageMetadata
from langchain_core.output_parsers import JsonOutputParser, PydanticOutputParser
from langchain_core.outputs import (
    ChatGeneration,
    ChatGenerationChunk,
    ChatResult,
    Generation,
    GenerationChunk,
    LLMResult,
)
from langchain_core.runnables import Runnable, RunnableMap, RunnablePassthrough
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import BaseModel, ConfigDict, Field, field_validator

from . import Model
from ._chat import ChatAnswer, ChatPiece
from ._schema import is_pydantic

__all__ = ["LeydenChat", "LeydenEmbeddings", "LeydenLLM", "LeydenReranker"]


def _loaded(model: Any) -> Model:
    return model if isinstance(model, Model) else Model(model)


def _options(own: dict[str, Any], stop: list[str] | None, given: dict[str, Any]) -> dict[str, Any]:
    options = {**own, **given}
    if stop is not None:
        options["stop"] = stop
    return options


class LeydenLLM(BaseLLM):
    """Continuation of texts. `options` are those of `Model.generate`."""

    model_config = ConfigDict(arbitrary_types_allowed=True)
    model: Any
    options: dict[str, Any] = Field(default_factory=dict)

    _load = field_validator("model")(_loaded)

    @property
    def _llm_type(self) -> str:
        return "leyden"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"model": self.model.file, **self.options}

    def _generate(
        self,
        prompts: list[str],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> LLMResult:
        return _llm_result(self.model.generate(prompts, **_options(self.options, stop, kwargs)))

    async def _agenerate(
        self,
        prompts: list[str],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> LLMResult:
        return _llm_result(await self.model.agenerate(prompts, **_options(self.options, stop, kwargs)))

    def _stream(
        self,
        prompt: str,
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[GenerationChunk]:
        for piece in self.model.generate(prompt, stream=True, **_options(self.options, stop, kwargs)):
            chunk = GenerationChunk(text=piece)
            if run_manager is not None:
                run_manager.on_llm_new_token(piece, chunk=chunk)
            yield chunk

    async def _astream(
        self,
        prompt: str,
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[GenerationChunk]:
        async for piece in self.model.astream(prompt, **_options(self.options, stop, kwargs)):
            chunk = GenerationChunk(text=piece)
            if run_manager is not None:
                await run_manager.on_llm_new_token(piece, chunk=chunk)
            yield chunk


def _llm_result(answers: list[Any]) -> LLMResult:
    made = [[Generation(text=a.text, generation_info={"finish_reason": a.finish})] for a in answers]
    prompt, completion = sum(a.prompt_tokens for a in answers), sum(len(a.tokens) for a in answers)
    usage = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    return LLMResult(generations=made, llm_output={"token_usage": usage})


class LeydenChat(BaseChatModel):
    """Conversations, with tools and structured output. `options` are those of `Model.chat`."""

    model_config = ConfigDict(arbitrary_types_allowed=True)
    model: Any
    options: dict[str, Any] = Field(default_factory=dict)

    _load = field_validator("model")(_loaded)

    @property
    def _llm_type(self) -> str:
        return "leyden-chat"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"model": self.model.file, **self.options}

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        answer = self.model.chat(_messages(messages), **_options(self.options, stop, kwargs))
        return _chat_result(answer)

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        answer = await self.model.achat(_messages(messages), **_options(self.options, stop, kwargs))
        return _chat_result(answer)

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        stream = self.model.chat(_messages(messages), stream=True, **_options(self.options, stop, kwargs))
        for index, piece in enumerate(stream):
            chunk = _chunk(piece, index)
            if run_manager is not None:
                run_manager.on_llm_new_token(piece.content, chunk=chunk)
            yield chunk

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        options = _options(self.options, stop, kwargs)
        index = 0
        async for piece in self.model.astream_chat(_messages(messages), **options):
            chunk = _chunk(piece, index)
            index += 1
            if run_manager is not None:
                await run_manager.on_llm_new_token(piece.content, chunk=chunk)
            yield chunk

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Binds tools. tool_choice: `auto`, `none`, `any` or `required`, or a tool's name."""
        choice = {"any": "required", None: "auto"}.get(tool_choice, tool_choice)
        described = [convert_to_openai_tool(tool) for tool in tools]
        return self.bind(tools=described, tool_choice=choice, **kwargs)

    def with_structured_output(
        self, schema: dict[str, Any] | type, *, include_raw: bool = False, **kwargs: Any
    ) -> Runnable[LanguageModelInput, Any]:
        """Returns a runnable whose output follows the schema, as an instance of a pydantic model or as JSON."""
        if is_pydantic(schema):
            parser: Any = PydanticOutputParser(pydantic_object=schema)  # type: ignore[arg-type]
            form: Any = schema
        else:
            parser = JsonOutputParser()
            form = schema if isinstance(schema, dict) else convert_to_openai_tool(schema)["function"]["parameters"]
        answer = self.bind(schema=form, **kwargs)
        if not include_raw:
            return answer | parser  # type: ignore[no-any-return]
        read = RunnablePassthrough.assign(
            parsed=lambda made: parser.invoke(made["raw"]), parsing_error=lambda _: None
        )
        return RunnableMap(raw=answer) | read


def _messages(messages: list[BaseMessage]) -> list[dict[str, Any]]:
    return list(convert_to_openai_messages(messages))


def _chat_result(answer: ChatAnswer) -> ChatResult:
    calls = [ToolCall(name=c.name, args=c.arguments, id=c.id, type="tool_call") for c in answer.tool_calls]
    made = answer.generation
    usage = UsageMetadata(
        input_tokens=made.prompt_tokens,
        output_tokens=len(made.tokens),
        total_tokens=made.prompt_tokens + len(made.tokens),
    )
    extra = {"reasoning_content": answer.reasoning} if answer.reasoning else {}
    message = AIMessage(
        content=answer.content,
        tool_calls=calls,
        usage_metadata=usage,
        additional_kwargs=extra,
        response_metadata={"finish_reason": answer.finish},
    )
    return ChatResult(generations=[ChatGeneration(message=message)])


def _chunk(piece: ChatPiece, index: int) -> ChatGenerationChunk:
    calls = []
    if (call := piece.tool_call) is not None:
        arguments = json.dumps(call.arguments)
        calls.append(ToolCallChunk(name=call.name, args=arguments, id=call.id, index=index, type="tool_call_chunk"))
    extra = {"reasoning_content": piece.reasoning} if piece.reasoning else {}
    message = AIMessageChunk(content=piece.content, tool_call_chunks=calls, additional_kwargs=extra)
    return ChatGenerationChunk(message=message)


class LeydenEmbeddings(BaseModel, Embeddings):
    """Vectors of texts. `options` are those of `Model.embed`.

    query_prompt and document_prompt: the names of the model's prompts before questions and documents.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)
    model: Any
    options: dict[str, Any] = Field(default_factory=dict)
    query_prompt: str | None = None
    document_prompt: str | None = None

    _load = field_validator("model")(_loaded)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Returns a vector for each text."""
        vectors = self.model.embed(texts, prompt_name=self.document_prompt, **self.options)
        return vectors.tolist()  # type: ignore[no-any-return]

    def embed_query(self, text: str) -> list[float]:
        """Returns the vector of a question."""
        vector = self.model.embed(text, prompt_name=self.query_prompt, **self.options)
        return vector.tolist()  # type: ignore[no-any-return]


class LeydenReranker(BaseDocumentCompressor):
    """The most relevant documents for a question, best first, with `relevance_score` in their metadata."""

    model_config = ConfigDict(arbitrary_types_allowed=True)
    model: Any
    top_n: int = 3

    _load = field_validator("model")(_loaded)

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> Sequence[Document]:
        """Returns the `top_n` most relevant documents."""
        scores = self.model.rerank(query, [document.page_content for document in documents]).tolist()
        best = sorted(range(len(scores)), key=lambda i: -scores[i])[: self.top_n]
        return [
            documents[i].model_copy(update={"metadata": {**documents[i].metadata, "relevance_score": scores[i]}})
            for i in best
        ]

"""LlamaIndex's interfaces on a `leyden.Model` in this process. Needs llama-index-core."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    ChatResponseAsyncGen,
    ChatResponseGen,
    CompletionResponse,
    CompletionResponseAsyncGen,
    CompletionResponseGen,
    LLMMetadata,
    MessageRole,
)
from llama_index.core.bridge.pydantic import Field, PrivateAttr
from llama_index.core.llms.callbacks import llm_chat_callback, llm_completion_callback
from llama_index.core.llms.llm import LLM
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle

from . import Model

__all__ = ["LeydenEmbedding", "LeydenLLM", "LeydenRerank"]


def _loaded(model: Any) -> Model:
    return model if isinstance(model, Model) else Model(model)


class LeydenLLM(LLM):
    """Text and chat. `options` are those of `Model.generate`."""

    options: dict[str, Any] = Field(default_factory=dict, description="Options of Model.generate")
    _model: Model = PrivateAttr()

    def __init__(self, model: Any, options: dict[str, Any] | None = None, **kwargs: Any) -> None:
        super().__init__(**{"options": options or {}, **kwargs})
        self._model = _loaded(model)

    @classmethod
    def class_name(cls) -> str:
        """Returns the class's name in LlamaIndex's files."""
        return "LeydenLLM"

    @property
    def metadata(self) -> LLMMetadata:
        """Facts about the model."""
        return LLMMetadata(
            context_window=self._model.context,
            num_output=int(self.options.get("max_tokens") or 512),
            is_chat_model=self._model.chat_template is not None,
            model_name=self._model.file,
        )

    @llm_chat_callback()
    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        """Answers a conversation."""
        return _response(self._model.chat(_messages(messages), **{**self.options, **kwargs}))

    @llm_chat_callback()
    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        """Answers a conversation without blocking the event loop."""
        return _response(await self._model.achat(_messages(messages), **{**self.options, **kwargs}))

    @llm_chat_callback()
    def stream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponseGen:
        """Answers a conversation in pieces."""
        stream = self._model.chat(_messages(messages), stream=True, **{**self.options, **kwargs})

        def pieces() -> ChatResponseGen:
            text = ""
            for piece in stream:
                text += piece.content
                yield ChatResponse(message=_assistant(text), delta=piece.content)

        return pieces()

    @llm_chat_callback()
    async def astream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponseAsyncGen:
        """Answers a conversation in pieces without blocking the event loop."""
        stream = self._model.astream_chat(_messages(messages), **{**self.options, **kwargs})

        async def pieces() -> ChatResponseAsyncGen:
            text = ""
            async for piece in stream:
                text += piece.content
                yield ChatResponse(message=_assistant(text), delta=piece.content)

        return pieces()

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        """Continues a text."""
        made = self._model.generate(prompt, **{**self.options, **kwargs})
        return CompletionResponse(text=made.text, raw={"finish_reason": made.finish})

    @llm_completion_callback()
    async def acomplete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        """Continues a text without blocking the event loop."""
        made = await self._model.agenerate(prompt, **{**self.options, **kwargs})
        return CompletionResponse(text=made.text, raw={"finish_reason": made.finish})

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponseGen:
        """Continues a text in pieces."""
        stream = self._model.generate(prompt, stream=True, **{**self.options, **kwargs})

        def pieces() -> CompletionResponseGen:
            text = ""
            for piece in stream:
                text += piece
                yield CompletionResponse(text=text, delta=piece)

        return pieces()

    @llm_completion_callback()
    async def astream_complete(
        self, prompt: str, formatted: bool = False, **kwargs: Any
    ) -> CompletionResponseAsyncGen:
        """Continues a text in pieces without blocking the event loop."""
        stream = self._model.astream(prompt, **{**self.options, **kwargs})

        async def pieces() -> CompletionResponseAsyncGen:
            text = ""
            async for piece in stream:
                text += piece
                yield CompletionResponse(text=text, delta=piece)

        return pieces()


def _messages(messages: Sequence[ChatMessage]) -> list[dict[str, Any]]:
    return [{"role": message.role.value, "content": message.content or ""} for message in messages]


def _assistant(text: str) -> ChatMessage:
    return ChatMessage(role=MessageRole.ASSISTANT, content=text)


def _response(answer: Any) -> ChatResponse:
    return ChatResponse(message=_assistant(answer.content), raw={"finish_reason": answer.finish})


class LeydenEmbedding(BaseEmbedding):
    """Vectors of texts. `options` are those of `Model.embed`."""

    options: dict[str, Any] = Field(default_factory=dict, description="Options of Model.embed")
    query_prompt: Optional[str] = Field(default=None, description="Name of the prompt before questions")
    document_prompt: Optional[str] = Field(default=None, description="Name of the prompt before texts")
    _model: Model = PrivateAttr()

    def __init__(self, model: Any, **kwargs: Any) -> None:
        loaded = _loaded(model)
        kwargs.setdefault("model_name", loaded.file)
        kwargs.setdefault("embed_batch_size", 256)
        super().__init__(**kwargs)
        self._model = loaded

    @classmethod
    def class_name(cls) -> str:
        """Returns the class's name in LlamaIndex's files."""
        return "LeydenEmbedding"

    def _embed(self, texts: list[str], prompt: str | None) -> List[List[float]]:
        return self._model.embed(texts, prompt_name=prompt, **self.options).tolist()  # type: ignore[no-any-return]

    def _get_query_embedding(self, query: str) -> List[float]:
        return self._embed([query], self.query_prompt)[0]

    async def _aget_query_embedding(self, query: str) -> List[float]:
        made = await self._model.aembed([query], prompt_name=self.query_prompt, **self.options)
        return made[0].tolist()  # type: ignore[no-any-return]

    def _get_text_embedding(self, text: str) -> List[float]:
        return self._embed([text], self.document_prompt)[0]

    def _get_text_embeddings(self, texts: List[str]) -> List[List[float]]:
        return self._embed(texts, self.document_prompt)


class LeydenRerank(BaseNodePostprocessor):
    """The most relevant nodes for a question, best first, with the reranker's scores."""

    top_n: int = Field(default=3, description="Number of nodes to keep")
    _model: Model = PrivateAttr()

    def __init__(self, model: Any, top_n: int = 3, **kwargs: Any) -> None:
        super().__init__(**{"top_n": top_n, **kwargs})
        self._model = _loaded(model)

    @classmethod
    def class_name(cls) -> str:
        """Returns the class's name in LlamaIndex's files."""
        return "LeydenRerank"

    def _postprocess_nodes(
        self, nodes: List[NodeWithScore], query_bundle: Optional[QueryBundle] = None
    ) -> List[NodeWithScore]:
        if query_bundle is None:
            raise ValueError("LeydenRerank needs the question: give query_bundle or query_str")
        texts = [node.node.get_content(metadata_mode=MetadataMode.EMBED) for node in nodes]
        scores = self._model.rerank(query_bundle.query_str, texts).tolist()
        best = sorted(range(len(scores)), key=lambda i: -scores[i])[: self.top_n]
        return [NodeWithScore(node=nodes[i].node, score=scores[i]) for i in best]

"""Results of a model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow

    from . import _native


@dataclass(frozen=True)
class Generation:
    """A finished answer."""

    text: str
    #: Generated token ids, `uint32[n]`, without the token that ends the answer.
    tokens: NDArray[np.uint32] = field(repr=False)
    #: `stop` (end token, stop string or end of a grammar), `length` or `cancelled`.
    finish: str
    prompt_tokens: int
    #: Prompt tokens that were in the cache.
    cached_tokens: int
    #: Log probability of each token, `float32[n]`; None unless `logprobs` was given.
    logprobs: NDArray[np.float32] | None = field(default=None, repr=False)
    #: The most probable tokens at each place with their log probabilities; empty for `logprobs=0`.
    top_logprobs: list[list[tuple[int, float]]] = field(default_factory=list, repr=False)
    #: Seconds from the request to the first token, and for the tokens after it.
    first_token_seconds: float = 0.0
    decode_seconds: float = 0.0
    #: Instance of the pydantic model, or the parsed JSON, if a schema was given and the answer is whole.
    parsed: Any = None

    def __str__(self) -> str:
        return self.text


def generation(answer: _native.Answer, with_logprobs: bool, parsed: Any = None) -> Generation:
    """Returns a native answer as a dataclass."""
    logprobs: NDArray[np.float32] | None = None
    top: list[list[tuple[int, float]]] = []
    if with_logprobs:
        _, logprobs, top = answer.scores
    return Generation(
        text=answer.text,
        tokens=answer.tokens,
        finish=answer.finish,
        prompt_tokens=answer.prompt_tokens,
        cached_tokens=answer.cached_tokens,
        logprobs=logprobs,
        top_logprobs=top,
        first_token_seconds=answer.first_token_seconds,
        decode_seconds=answer.decode_seconds,
        parsed=parsed,
    )


@dataclass(frozen=True)
class Score:
    """Log probabilities of a text's tokens, each given those before it."""

    #: Scored token ids, `uint32[n]`: those of the continuation, or all but the first of a text without a context.
    tokens: NDArray[np.uint32] = field(repr=False)
    #: Log probabilities, natural logarithm, `float32[n]`.
    logprobs: NDArray[np.float32] = field(repr=False)
    #: The most probable tokens at each place, best first; empty for `top=0`.
    top: list[list[tuple[int, float]]] = field(default_factory=list, repr=False)

    @property
    def total(self) -> float:
        """The log probability of all scored tokens."""
        return float(np.sum(self.logprobs, dtype=np.float64))

    @property
    def is_greedy(self) -> bool:
        """Whether each scored token is the most probable one at its place; needs `top=1` or more."""
        if len(self.top) != len(self.tokens):
            raise ValueError("is_greedy needs score(..., top=1)")
        return all(best[0][0] == token for best, token in zip(self.top, self.tokens.tolist()))


@dataclass(frozen=True)
class Label:
    """A label of a text. `score` is a probability or, for a regression model, its value."""

    label: str
    score: float


@dataclass(frozen=True)
class Entity:
    """An entity in a text; `start` and `end` count characters."""

    label: str
    text: str
    score: float
    start: int
    end: int


def to_arrow(vectors: NDArray[np.float32]) -> pyarrow.FixedSizeListArray:
    """Returns vectors `[n, dims]` as an Arrow array of lists of `dims` floats, which shares their memory.

    Other libraries read it through the Arrow PyCapsule interface. Needs pyarrow.
    """
    import pyarrow

    flat = np.ascontiguousarray(vectors).reshape(-1)
    return pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(flat), vectors.shape[1])

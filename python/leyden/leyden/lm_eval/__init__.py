"""A backend for lm-evaluation-harness (PyPI `lm_eval`).

    python -m leyden.lm_eval run --model leyden --model_args pretrained=PATH --tasks arc_easy

is the harness's command with the model `leyden` registered; in Python, importing this module registers it.
"""

from __future__ import annotations

from typing import Any, Sequence, cast

from lm_eval.api.model import TemplateLM
from lm_eval.api.registry import register_model
from lm_eval.models.utils import normalize_gen_kwargs
from lm_eval.utils import get_rolling_token_windows, make_disjoint_window

from .._model import Model

#: Prompts that are computed together, as one request to the engine.
PIECE = 1024


@register_model("leyden")
class LeydenLM(TemplateLM):  # type: ignore[misc]
    """A leyden model. `pretrained` is a path or name; other arguments are those of `leyden.Model`.

    add_bos_token: begin texts with the model's token for it; by default as the model does. max_length: tokens of a
    text, by default the model's context. max_gen_toks: tokens of an answer whose task names none.
    """

    def __init__(
        self,
        pretrained: str,
        batch_size: int | str | None = None,
        max_batch_size: int | None = None,
        device: str | None = None,
        max_length: int | None = None,
        max_gen_toks: int = 256,
        add_bos_token: bool | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        # The harness sends several names for the same thing; the scheduler needs no size of a batch.
        del batch_size, max_batch_size, device
        self.model = Model(pretrained, context=max_length, **options)
        self.max_length = self.model.context
        self.max_gen_toks = int(max_gen_toks)
        info = self.model.info
        self._begin = bool(info["add_bos"]) if add_bos_token is None else bool(add_bos_token)
        self._bos, self._eos = info["bos"], info["eos"]

    @property
    def eot_token_id(self) -> int:
        """The token that ends a text."""
        return cast(int, self._eos)

    @property
    def prefix_token_id(self) -> int:
        """The token before a text without a context."""
        return cast(int, self._bos if self._bos is not None else self._eos)

    @property
    def tokenizer_name(self) -> str:
        """The name of the chat template's model in the harness's cache."""
        return self.model.file

    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **_: Any) -> list[int]:
        """Returns the token ids of a text; names of special tokens in it become these tokens, as in transformers."""
        tokens: list[int] = self.model.tokenize(string, begin=False, special=True).tolist()
        begin = self._begin if add_special_tokens is None else add_special_tokens and self._begin
        if begin and self._bos is not None and tokens[:1] != [self._bos]:
            tokens.insert(0, self._bos)
        return tokens

    def _loglikelihood_tokens(
        self,
        requests: Sequence[tuple[Any, list[int], list[int]]],
        disable_tqdm: bool = False,
        **_: Any,
    ) -> list[tuple[float, bool]]:
        rows, starts = [], []
        for _texts, context, continuation in requests:
            # Of a text that is too long, the end is kept.
            row = (context + continuation)[-(self.max_length) :]
            rows.append(row)
            starts.append(len(row) - len(continuation))
        results: list[tuple[float, bool]] = []
        scores = self.model.score_tokens(rows, starts, top=1, progress=not disable_tqdm)
        for (texts, _context, _continuation), score in zip(requests, scores):
            result = (score.total, score.is_greedy)
            results.append(result)
            if texts is not None:
                self.cache_hook.add_partial("loglikelihood", texts, result)
        return results

    def loglikelihood_rolling(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[float]:
        """Returns the log probability of each whole text, in windows of the context."""
        windows: list[tuple[Any, list[int], list[int]]] = []
        counts = []
        for request in requests:
            (text,) = request.args
            rolling = get_rolling_token_windows(
                token_list=self.tok_encode(text),
                prefix_token=self.prefix_token_id,
                max_seq_len=self.max_length - 1,
                context_len=1,
            )
            pairs = [make_disjoint_window(pair) for pair in rolling]
            windows.extend((None, context, continuation) for context, continuation in pairs)
            counts.append(len(pairs))
        scores = iter(self._loglikelihood_tokens(windows, disable_tqdm=disable_tqdm))
        totals = []
        for request, count in zip(requests, counts):
            total = sum(next(scores)[0] for _ in range(count))
            totals.append(total)
            self.cache_hook.add_partial("loglikelihood_rolling", request.args, total)
        return totals

    def generate_until(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[str]:
        """Continues each context until one of its stop texts."""
        answers: list[str] = []
        for start in range(0, len(requests), PIECE):
            piece = requests[start : start + PIECE]
            answers.extend(self._generate(piece, progress=not disable_tqdm))
        return answers

    def _generate(self, requests: Sequence[Any], progress: bool) -> list[str]:
        # Requests with the same options are one call; mostly all are.
        groups: dict[str, tuple[dict[str, Any], list[int]]] = {}
        for index, request in enumerate(requests):
            options = request.args[1]
            groups.setdefault(repr(sorted(options.items())), (options, []))[1].append(index)
        answers = [""] * len(requests)
        for options, indices in groups.values():
            given = self._options(options)
            room = self.max_length - given["max_tokens"]
            prompts = [self.tok_encode(requests[index].args[0])[-room:] for index in indices]
            made = self.model.generate(prompts, progress=progress, **given)
            for index, answer in zip(indices, made):
                answers[index] = answer.text
                self.cache_hook.add_partial("generate_until", requests[index].args, answer.text)
        return answers

    def _options(self, options: dict[str, Any]) -> dict[str, Any]:
        """Returns a task's options as those of `Model.generate`."""
        options = dict(normalize_gen_kwargs(options, self.max_gen_toks))
        until = options.get("until") or []
        stop = [until] if isinstance(until, str) else list(until)
        samples = bool(options.get("do_sample")) and float(options.get("temperature", 1.0)) > 0
        given: dict[str, Any] = {
            "max_tokens": int(options["max_gen_toks"]),
            "stop": [text for text in stop if text],
            "temperature": float(options.get("temperature", 1.0)) if samples else 0.0,
        }
        if samples:
            # transformers' defaults, not ours.
            given["top_k"] = int(options.get("top_k", 0))
            given["top_p"] = float(options.get("top_p", 1.0))
            given["min_p"] = float(options.get("min_p", 0.0))
        return given

    def chat_template(self, chat_template: bool | str = False) -> str | None:
        """Returns the source of the model's chat template."""
        return self.model.chat_template if chat_template else None

    def apply_chat_template(
        self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True
    ) -> str:
        """Returns the prompt of a conversation; without `add_generation_prompt` it continues the last message."""
        return self.model.render(chat_history, continue_last=not add_generation_prompt)

"""The models: one `leyden serve` with an embedder, a chat model and, if there is one, a reranker, by OpenAI's client.

    leyden serve all-MiniLM-L6-v2 qwen2.5-coder-0.5b-instruct-q4_k_m.gguf
"""

from openai import OpenAI

# Passage first, question last (Sachan et al., "Improving Passage Retrieval with Zero-Shot Question Generation", 2022).
_PASSAGE = "Passage: {text}\nPlease write a question based on this passage.\nQuestion:"


class Service:
    """Models of a server. `embed`, `chat` and `rerank` are their names there.

    Without `rerank`, `likelihood` names a language model that reranks: by the probability that it gives to the question after the passage.
    """

    def __init__(self, url="http://127.0.0.1:8080/v1", *, embed, chat, rerank=None, likelihood=None, key="none"):
        self.client = OpenAI(base_url=url, api_key=key, timeout=600, max_retries=2)
        self.names = {"embed": embed, "chat": chat, "rerank": rerank, "likelihood": likelihood}

    @property
    def reranks(self):
        """True if there is a model that reranks."""
        return bool(self.names["rerank"] or self.names["likelihood"])

    def vectors(self, texts, batch=64):
        """Returns the vectors of texts, of length 1, as lists of floats."""
        made = []
        for i in range(0, len(texts), batch):
            answer = self.client.embeddings.create(model=self.names["embed"], input=texts[i : i + batch])
            made += [item.embedding for item in answer.data]
        return made

    def scores(self, question, texts):
        """Returns a score for each text, higher for a text that answers the question better."""
        if self.names["rerank"]:
            body = {"model": self.names["rerank"], "query": question, "documents": texts}
            answer = self.client.post("/rerank", cast_to=object, body=body)
            scores = {item["index"]: item["relevance_score"] for item in answer["results"]}
            return [scores[i] for i in range(len(texts))]
        if not self.names["likelihood"]:
            raise ValueError("no model reranks: name one as `rerank` or `likelihood`")
        return self._likelihoods(question, texts)

    def _likelihoods(self, question, texts):
        """Returns the mean log probability of the question's tokens after each text."""
        prefixes = [_PASSAGE.format(text=" ".join(text.split())) for text in texts]
        prompts = [f"{prefix} {question.strip()}" for prefix in prefixes]
        scores = [0.0] * len(texts)
        for i in range(0, len(prompts), 32):
            answer = self.client.completions.create(
                model=self.names["likelihood"], prompt=prompts[i : i + 32], max_tokens=0, echo=True, logprobs=0
            )
            for choice in answer.choices:
                place, found = i + choice.index, choice.logprobs
                ours = [p for p, at in zip(found.token_logprobs, found.text_offset) if at >= len(prefixes[place])]
                scores[place] = sum(ours) / max(len(ours), 1)
        return scores

    def chat(self, messages, **options):
        """Returns the message that the chat model answers with."""
        return self.client.chat.completions.create(model=self.names["chat"], messages=messages, **options).choices[0].message

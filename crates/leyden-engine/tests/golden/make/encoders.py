"""States and scores of transformers for tiny encoders whose weights follow from a formula.

    python3 encoders.py ../encoders.json ../../fixtures/m3

Needs torch, transformers and numpy. `tests/model/encoders.rs` makes the same weights. The folder gets the heads of M3-Embedding, as
torch.save writes them.
"""

import json
import sys
import tempfile

import safetensors.torch
import torch
import transformers
from noise import noise

VOCAB, WIDTH = 96, 32
NORMS = ("norm.weight", "norm1.weight", "norm2.weight", "_ln.weight")

BERT = {
    "vocab_size": VOCAB, "hidden_size": WIDTH, "intermediate_size": 48, "num_attention_heads": 2, "num_hidden_layers": 2,
    "max_position_embeddings": 128, "type_vocab_size": 2, "layer_norm_eps": 1e-12, "pad_token_id": 0,
}
ROBERTA = {**BERT, "max_position_embeddings": 130, "type_vocab_size": 1, "layer_norm_eps": 1e-5, "pad_token_id": 1}
DISTIL = {"vocab_size": VOCAB, "dim": WIDTH, "hidden_dim": 48, "n_heads": 2, "n_layers": 3, "max_position_embeddings": 128}
MODERN = {
    "vocab_size": VOCAB, "hidden_size": WIDTH, "intermediate_size": 48, "num_attention_heads": 2, "num_hidden_layers": 4,
    "max_position_embeddings": 128, "norm_eps": 1e-5, "local_attention": 16, "pad_token_id": 0,
}
ROPED = {
    "vocab_size": VOCAB, "hidden_size": WIDTH, "intermediate_size": 48, "num_attention_heads": 2, "num_hidden_layers": 2,
    "max_position_embeddings": 128, "type_vocab_size": 2, "layer_norm_eps": 1e-12, "pad_token_id": 0,
}
MPNET = {**ROPED, "max_position_embeddings": 130, "relative_attention_num_buckets": 32, "pad_token_id": 1}
del MPNET["type_vocab_size"]
DEBERTA = {
    **ROPED, "type_vocab_size": 0, "relative_attention": True, "position_buckets": 16, "norm_rel_ebd": "layer_norm",
    "share_att_key": True, "pos_att_type": ["p2c", "c2p"], "position_biased_input": False, "max_relative_positions": -1,
    "pooler_hidden_act": "gelu", "pooler_dropout": 0, "pooler_hidden_size": WIDTH,
}
EURO = {
    "vocab_size": VOCAB, "hidden_size": WIDTH, "intermediate_size": 48, "num_attention_heads": 2, "num_key_value_heads": 1,
    "num_hidden_layers": 2, "max_position_embeddings": 128, "rms_norm_eps": 1e-5, "pad_token_id": 0,
    "rope_parameters": {"rope_type": "default", "rope_theta": 250000.0},
}
GEMMA = {
    "vocab_size": VOCAB, "hidden_size": WIDTH, "intermediate_size": 48, "num_attention_heads": 2, "num_key_value_heads": 1,
    "head_dim": 16, "num_hidden_layers": 3, "max_position_embeddings": 128, "rms_norm_eps": 1e-6, "sliding_window": 16,
    "query_pre_attn_scalar": 16, "use_bidirectional_attention": True, "pad_token_id": 0, "rope_theta": 1000000.0,
    "rope_local_base_freq": 10000.0, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
}
QWEN3 = {
    "vocab_size": VOCAB, "hidden_size": WIDTH, "intermediate_size": 48, "num_attention_heads": 2, "num_key_value_heads": 1,
    "head_dim": 16, "num_hidden_layers": 2, "max_position_embeddings": 128, "rms_norm_eps": 1e-6, "tie_word_embeddings": True,
    "pad_token_id": 0,
}
TAGS = {str(i): name for i, name in enumerate(["O", "I-PER", "PER", "B-LOC", "LOC"])}
NAMES = {str(i): name for i, name in enumerate(["lost card", "card arrival", "top up"])}

MODELS = {
    "bert": ("BertModel", {**BERT, "num_hidden_layers": 3}),
    "bert, tanh": ("BertModel", {**BERT, "hidden_act": "gelu_new"}),
    "bert, labels": ("BertForSequenceClassification", {**BERT, "id2label": NAMES}),
    "bert, several labels": ("BertForSequenceClassification",
                             {**BERT, "id2label": NAMES, "problem_type": "multi_label_classification"}),
    "bert, regression": ("BertForSequenceClassification",
                         {**BERT, "id2label": {"0": "grade"}, "problem_type": "regression"}),
    "bert, rank": ("BertForSequenceClassification", {**BERT, "id2label": {"0": "LABEL_0"}}),
    "bert, tokens": ("BertForTokenClassification", {**BERT, "id2label": TAGS}),
    "roberta": ("RobertaModel", ROBERTA),
    "roberta, labels": ("RobertaForSequenceClassification", {**ROBERTA, "id2label": NAMES}),
    "xlm-roberta": ("XLMRobertaModel", ROBERTA),
    "xlm-roberta, rank": ("XLMRobertaForSequenceClassification", {**ROBERTA, "id2label": {"0": "LABEL_0"}}),
    "xlm-roberta, tokens": ("XLMRobertaForTokenClassification", {**ROBERTA, "id2label": TAGS}),
    "distilbert": ("DistilBertModel", DISTIL),
    "distilbert, labels": ("DistilBertForSequenceClassification", {**DISTIL, "id2label": NAMES}),
    "distilbert, tokens": ("DistilBertForTokenClassification", {**DISTIL, "id2label": TAGS}),
    "electra": ("ElectraModel", {**BERT, "embedding_size": 16}),
    "electra, labels": ("ElectraForSequenceClassification", {**BERT, "embedding_size": WIDTH, "id2label": NAMES}),
    "electra, tokens": ("ElectraForTokenClassification", {**BERT, "embedding_size": 16, "id2label": TAGS}),
    "mpnet": ("MPNetModel", MPNET),
    "mpnet, labels": ("MPNetForSequenceClassification", {**MPNET, "id2label": NAMES}),
    "deberta": ("DebertaV2Model", DEBERTA),
    "deberta, own matrices": ("DebertaV2Model", {
        **DEBERTA, "share_att_key": False, "position_buckets": -1, "max_relative_positions": 24, "norm_rel_ebd": "none",
        "pos_att_type": ["c2p", "p2c"], "type_vocab_size": 2, "position_biased_input": True}),
    "deberta, labels": ("DebertaV2ForSequenceClassification", {**DEBERTA, "pos_att_type": ["p2c"], "id2label": NAMES}),
    "deberta, tokens": ("DebertaV2ForTokenClassification", {**DEBERTA, "id2label": TAGS}),
    "modernbert": ("ModernBertModel", MODERN),
    "modernbert, labels": ("ModernBertForSequenceClassification", {**MODERN, "classifier_pooling": "mean", "id2label": NAMES}),
    "modernbert, rank": ("ModernBertForSequenceClassification", {**MODERN, "id2label": {"0": "LABEL_0"}}),
    "modernbert, tokens": ("ModernBertForTokenClassification", {**MODERN, "id2label": TAGS}),
    "nomic": ("NomicBertModel", ROPED),
    "nomic, labels": ("NomicBertForSequenceClassification", {**ROPED, "id2label": NAMES}),
    "gte": ("GteModel", {**ROPED, "type_vocab_size": 0}),
    "gte, labels": ("GteForSequenceClassification", {**ROPED, "id2label": NAMES}),
    "eurobert": ("EuroBertModel", EURO),
    "eurobert, labels": ("EuroBertForSequenceClassification", {**EURO, "classifier_pooling": "mean", "id2label": NAMES}),
    "embeddinggemma": ("Gemma3TextModel", GEMMA),
    "qwen3, rank": ("Qwen3ForSequenceClassification", {**QWEN3, "id2label": {"0": "yes"}}),
}


# Of jinaai/jina-bert-implementation, which is no part of transformers; the sizes are ours.
JINA = {**BERT, "position_embedding_type": "alibi", "feed_forward_type": "geglu", "emb_pooler": "mean", "hidden_act": "gelu",
        "num_attention_heads": 2}


def weights(cls, config):
    """The model with weights by their names in files, and these names with their shapes."""
    model = cls._from_config(config, attn_implementation="eager").float()
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        tensors = safetensors.torch.load_file(f"{folder}/model.safetensors")
        for seed, name in enumerate(sorted(tensors), 1):
            p = tensors[name]
            norm = p.dim() == 1 and name.lower().endswith(NORMS)
            scale = 0.4 if p.dim() == 1 else 2.0 if "embeddings" in name else 4.0 / p.shape[1] ** 0.5
            values = noise(p.numel(), seed, 1.0 if norm else 0.0, scale)
            tensors[name] = torch.from_numpy(values.reshape(p.shape))
        safetensors.torch.save_file(tensors, f"{folder}/model.safetensors", metadata={"format": "pt"})
        model = cls.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()
        with open(f"{folder}/config.json", encoding="utf-8") as file:
            written = json.load(file)
    return model, written, [[name, list(tensors[name].shape)] for name in sorted(tensors)]


class Jina(torch.nn.Module):
    """Jina's BERT by its description (Günther et al., 2023; ALiBi in both directions, GEGLU), with the names of its folders."""

    def __init__(self, config, labels):
        super().__init__()
        c, width, ffn = config, config["hidden_size"], config["intermediate_size"]
        linear, norm = torch.nn.Linear, lambda: torch.nn.LayerNorm(width, eps=c["layer_norm_eps"])
        part = lambda **parts: torch.nn.ModuleDict(parts)
        layer = lambda: part(
            attention=part(self=part(query=linear(width, width), key=linear(width, width), value=linear(width, width)),
                           output=part(dense=linear(width, width), LayerNorm=norm())),
            mlp=part(gated_layers=linear(width, 2 * ffn, bias=False), wo=linear(ffn, width), layernorm=norm()))
        self.config = c
        self.embeddings = part(word_embeddings=torch.nn.Embedding(c["vocab_size"], width),
                               token_type_embeddings=torch.nn.Embedding(c["type_vocab_size"], width), LayerNorm=norm())
        self.encoder = part(layer=torch.nn.ModuleList(layer() for _ in range(c["num_hidden_layers"])))
        if labels:
            self.pooler, self.classifier = part(dense=linear(width, width)), linear(width, labels)

    def forward(self, tokens, types):
        heads = self.config["num_attention_heads"]
        n, e = len(tokens), self.embeddings
        x = e["LayerNorm"](e["word_embeddings"](tokens) + e["token_type_embeddings"](types))
        # Their number is a power of two here.
        slopes = torch.tensor([2.0 ** (-8.0 * (i + 1) / heads) for i in range(heads)])
        far = (torch.arange(n)[:, None] - torch.arange(n)[None]).abs()
        bias = -slopes[:, None, None] * far
        for layer in self.encoder["layer"]:
            a, m = layer["attention"], layer["mlp"]
            split = lambda part: a["self"][part](x).view(n, heads, -1).transpose(0, 1)
            q, k, v = split("query"), split("key"), split("value")
            scores = q @ k.transpose(1, 2) / q.shape[-1] ** 0.5 + bias
            mixed = (scores.softmax(-1) @ v).transpose(0, 1).reshape(n, -1)
            x = a["output"]["LayerNorm"](a["output"]["dense"](mixed) + x)
            gate, up = m["gated_layers"](x).chunk(2, -1)
            x = m["layernorm"](m["wo"](torch.nn.functional.gelu(gate) * up) + x)
        return x


def jina(name, options, labels, texts):
    """An entry for a model that transformers does not have."""
    model = Jina(options, labels).float()
    state = model.state_dict()
    for seed, key in enumerate(sorted(state), 1):
        p = state[key]
        norm = p.dim() == 1 and key.lower().endswith(NORMS)
        scale = 0.4 if p.dim() == 1 else 2.0 if "embeddings" in key else 4.0 / p.shape[1] ** 0.5
        state[key] = torch.from_numpy(noise(p.numel(), seed, 1.0 if norm else 0.0, scale).reshape(p.shape))
    model.load_state_dict(state)
    kind = "JinaBertForSequenceClassification" if labels else "JinaBertForMaskedLM"
    names = {"id2label": {str(i): NAMES[str(i)] for i in range(labels)}} if labels else {}
    entry = {"name": name, "described": True, "config": {**options, **names, "model_type": "bert", "architectures": [kind]},
             "tensors": [[key, list(state[key].shape)] for key in sorted(state)], "texts": []}
    row = lambda state: [round(float(x), 5) for x in state]
    with torch.no_grad():
        for tokens in texts:
            states = model(torch.tensor(tokens), torch.zeros(len(tokens), dtype=torch.long))
            result = {"states": {str(at): row(states[at]) for at in (0, len(tokens) - 1)}}
            if labels:
                pooled = torch.tanh(model.pooler["dense"](states[0]))
                result["scores"] = [round(float(x), 6) for x in model.classifier(pooled).softmax(-1)]
            entry["texts"].append(result)
        entry["pair"] = row(model(torch.tensor(texts[1]), torch.tensor([0] * 4 + [1] * (len(texts[1]) - 4)))[0])
    return entry


def m3(folder, states, tokens):
    """What FlagEmbedding makes of states: a weight for each token but the special ones, here the first and the last, of a token
    that stands several times the greatest; and a vector for each but the first. The heads go into files."""
    heads = {}
    for seed, (name, rows) in enumerate({"sparse_linear": 1, "colbert_linear": 24}.items(), 301):
        head = torch.nn.Linear(WIDTH, rows)
        head.weight.data = torch.from_numpy(noise(rows * WIDTH, seed, 0.0, 0.7).reshape(rows, WIDTH))
        head.bias.data = torch.from_numpy(noise(rows, seed + 10, 0.0, 0.4))
        head = head.half()
        torch.save(head.state_dict(), f"{folder}/{name}.pt")
        heads[name] = head.float()
    with torch.no_grad():
        weights = torch.relu(heads["sparse_linear"](states))[:, 0]
        vectors = torch.nn.functional.normalize(heads["colbert_linear"](states[1:]), dim=-1)
    sparse = {}
    for token, weight in zip(tokens, weights):
        if weight > 0 and token not in (tokens[0], tokens[-1]):
            sparse[token] = max(sparse.get(token, 0.0), round(float(weight), 6))
    return {"sparse": sorted(sparse.items()), "vectors": [[round(float(x), 6) for x in vectors[at]] for at in (0, -1)]}


def splade(name, options, tokens):
    """A number for each token of the vocabulary, as SPLADE's models make it, and the tensors of such a model."""
    kind = {"bert": "BertForMaskedLM", "distilbert": "DistilBertForMaskedLM", "roberta": "RobertaForMaskedLM"}[name]
    cls = getattr(transformers, kind)
    model, _, tensors = weights(cls, cls.config_class(**options))
    with torch.no_grad():
        logits = model(torch.tensor([tokens])).logits[0]
    numbers = torch.log1p(torch.relu(logits))
    return {"class": kind, "tensors": tensors,
            "max": [round(float(x), 5) for x in numbers.max(0).values], "sum": [round(float(x), 5) for x in numbers.sum(0)]}


def entities(model):
    """What transformers' pipeline finds, with every strategy, in a text that has words of several tokens."""
    words = [f"w{i}" for i in range(VOCAB)]
    words[80:86] = ["##er", "##s", ".", "new", "[UNK]", "cafe"]
    words[2], words[90] = "[CLS]", "[SEP]"
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": 84, "content": "[UNK]", "single_word": False, "lstrip": False, "rstrip": False,
                          "normalized": False, "special": True}],
        "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
                       "strip_accents": None, "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 90], "cls": ["[CLS]", 2]},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                  "max_input_chars_per_word": 100, "vocab": {word: i for i, word in enumerate(words)}},
    }
    text = "W5 w6er. w7ers  \u2603 w13 Caf\u00e9s, w24ers w35 New w46.\nw9 w11 w12s w15 w16ers"
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/tokenizer.json", "w", encoding="utf-8") as out:
            json.dump(tokenizer, out)
        fast = transformers.PreTrainedTokenizerFast(
            tokenizer_file=f"{folder}/tokenizer.json", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]")
    found = {}
    for strategy in ["none", "simple", "first", "average", "max"]:
        pipeline = transformers.pipeline("token-classification", model=model, tokenizer=fast, aggregation_strategy=strategy)
        found[strategy] = [{"label": e.get("entity_group", e.get("entity")), "score": round(float(e["score"]), 6),
                            "start": int(e["start"]), "end": int(e["end"])} for e in pipeline(text)]
    return {"tokenizer": tokenizer, "text": text, "found": found}


def main():
    # Padding would not be counted among RoBERTa's positions.
    texts = [[2 + (i * 37 + i * i) % (VOCAB - 2) for i in range(100)], [2 + (i * 11) % (VOCAB - 2) for i in range(9)]]
    models = []
    for name, (kind, options) in MODELS.items():
        cls = getattr(transformers, kind)
        config = cls.config_class(**options)
        model, _, tensors = weights(cls, config)
        written = {**options, "model_type": config.model_type, "architectures": [kind]}
        entry = {"name": name, "config": written, "tensors": tensors, "texts": []}
        for tokens in texts:
            with torch.no_grad():
                out = model(torch.tensor([tokens]), output_hidden_states=True)
            states = out.hidden_states[-1][0]
            rows = {str(at): [round(float(x), 5) for x in states[at]] for at in (0, len(tokens) - 1)}
            result = {"states": rows}
            if "logits" in out:
                logits = out.logits[0]
                kind_of = options.get("problem_type")
                one = len(options.get("id2label", [])) == 1
                scores = (logits if kind_of == "regression" else logits.sigmoid()
                          if one or kind_of == "multi_label_classification" else logits.softmax(-1))
                if scores.dim() == 2:
                    scores = scores[[0, len(tokens) - 1]].flatten()
                result["scores"] = [round(float(x), 6) for x in scores]
            entry["texts"].append(result)
        if options.get("type_vocab_size") == 2:
            # A pair of texts: the second begins at the fourth token.
            types = torch.tensor([[0] * 4 + [1] * (len(texts[1]) - 4)])
            with torch.no_grad():
                out = model(torch.tensor([texts[1]]), token_type_ids=types, output_hidden_states=True)
            entry["pair"] = [round(float(x), 5) for x in out.hidden_states[-1][0, 0]]
            if name == "bert, rank":
                entry["pair_score"] = round(float(out.logits.sigmoid()), 6)
            if name == "bert, tokens":
                entry["entities"] = entities(model)
        if name in ("bert", "distilbert", "roberta"):
            entry["splade"] = splade(name, options, texts[1])
        if name == "xlm-roberta":
            with torch.no_grad():
                states = model(torch.tensor([texts[0]])).last_hidden_state[0]
            entry["m3"] = m3(sys.argv[2], states, texts[0])
        models.append(entry)
    models += [jina("jina", JINA, 0, texts), jina("jina, labels", JINA, 3, texts)]
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        json.dump({"format": 1, "texts": texts, "models": models}, out, separators=(",", ":"))
        out.write("\n")


main()

"""States and scores of transformers for tiny encoders whose weights follow from a formula.

    python3 encoders.py ../encoders.json

Needs torch, transformers and numpy. `tests/model/encoders.rs` makes the same weights.
"""

import json
import sys

import numpy as np
import torch
import transformers

VOCAB, WIDTH = 96, 32

BERT = {
    "vocab_size": VOCAB, "hidden_size": WIDTH, "intermediate_size": 48, "num_attention_heads": 2, "num_hidden_layers": 2,
    "max_position_embeddings": 128, "type_vocab_size": 2, "layer_norm_eps": 1e-12, "pad_token_id": 0,
}
ROBERTA = {**BERT, "max_position_embeddings": 130, "type_vocab_size": 1, "layer_norm_eps": 1e-5, "pad_token_id": 1}
DISTIL = {"vocab_size": VOCAB, "dim": WIDTH, "hidden_dim": 48, "n_heads": 2, "n_layers": 3, "max_position_embeddings": 128}
NAMES = {str(i): name for i, name in enumerate(["lost card", "card arrival", "top up"])}

MODELS = {
    "bert": ("BertModel", {**BERT, "num_hidden_layers": 3}),
    "bert, tanh": ("BertModel", {**BERT, "hidden_act": "gelu_new"}),
    "bert, labels": ("BertForSequenceClassification", {**BERT, "id2label": NAMES}),
    "bert, several labels": ("BertForSequenceClassification",
                             {**BERT, "id2label": NAMES, "problem_type": "multi_label_classification"}),
    "bert, regression": ("BertForSequenceClassification",
                         {**BERT, "id2label": {"0": "grade"}, "problem_type": "regression"}),
    "roberta": ("RobertaModel", ROBERTA),
    "roberta, labels": ("RobertaForSequenceClassification", {**ROBERTA, "id2label": NAMES}),
    "xlm-roberta": ("XLMRobertaModel", ROBERTA),
    "distilbert": ("DistilBertModel", DISTIL),
    "distilbert, labels": ("DistilBertForSequenceClassification", {**DISTIL, "id2label": NAMES}),
}


def noise(n, seed, base, scale):
    i = np.arange(n, dtype=np.uint64)
    x = (i * np.uint64(747796405) + np.uint64(seed * 2891336453 % 2**64)) % np.uint64(2**32)
    x = ((x ^ (x >> np.uint64(15))) * np.uint64(2246822519)) % np.uint64(2**32)
    x = x ^ (x >> np.uint64(13))
    value = ((x >> np.uint64(8)).astype(np.float64) / 2**24 - 0.5) * scale
    return (value.astype(np.float32) + np.float32(base)).astype(np.float32)


def weights(model):
    tensors = dict(model.named_parameters())
    for seed, name in enumerate(sorted(tensors), 1):
        p = tensors[name]
        norm = p.dim() == 1 and name.lower().endswith("norm.weight")
        scale = 0.4 if p.dim() == 1 else 2.0 if "embeddings" in name else 4.0 / p.shape[1] ** 0.5
        p.data.copy_(torch.from_numpy(noise(p.numel(), seed, 1.0 if norm else 0.0, scale).reshape(p.shape)))
    return [[name, list(tensors[name].shape)] for name in sorted(tensors)]


def main():
    # Padding would not be counted among RoBERTa's positions.
    texts = [[2 + (i * 37 + i * i) % (VOCAB - 2) for i in range(100)], [2 + (i * 11) % (VOCAB - 2) for i in range(9)]]
    models = []
    for name, (kind, options) in MODELS.items():
        cls = getattr(transformers, kind)
        config = cls.config_class(**options)
        model = cls._from_config(config, attn_implementation="eager").float().eval()
        tensors = weights(model)
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
                scores = (logits if kind_of == "regression" else logits.sigmoid()
                          if kind_of == "multi_label_classification" else logits.softmax(-1))
                result["scores"] = [round(float(x), 6) for x in scores]
            entry["texts"].append(result)
        models.append(entry)
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        json.dump({"format": 1, "texts": texts, "models": models}, out, separators=(",", ":"))
        out.write("\n")


main()

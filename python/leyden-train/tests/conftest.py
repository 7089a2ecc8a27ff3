"""A tiny model of random weights, rows to train it on, and a recipe."""

import json
import os

import pytest

os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors

WORDS = [f"w{i}" for i in range(40)]
LABELS = ["blue", "green", "red"]


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    """A folder with a model and rows."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("place")
    vocabulary = {word: i for i, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    names = ["input_ids", "token_type_ids", "attention_mask"]
    made = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_input_names=names, **special)
    made.save_pretrained(folder / "model")
    config = transformers.BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=128,
        max_position_embeddings=32,
    )
    torch.manual_seed(0)
    transformers.BertModel(config).save_pretrained(folder / "model")
    for name, count in (("train", 90), ("eval", 30)):
        with open(folder / f"{name}.jsonl", "w", encoding="utf-8") as file:
            for i in range(count):
                words = [WORDS[3 + (i * 7 + 3 * j) % 37] for j in range(1 + i % 4)] + [WORDS[i % 3]] * 3
                file.write(json.dumps({"text": " ".join(words), "label": LABELS[i % 3]}) + "\n")
    return folder


@pytest.fixture
def tree(place, tmp_path):
    """A recipe with all kinds of stages, as a dictionary."""
    common = {"epochs": 2, "batch": 16, "lr": 3e-3}
    return {
        "model": str(place / "model"),
        "output": str(tmp_path / "out"),
        "data": {"train": str(place / "train.jsonl"), "eval": str(place / "eval.jsonl")},
        "precision": "float32",
        "device": "cpu",
        "stages": [
            {"name": "dense", "kind": "finetune", **common},
            {"name": "sparse", "kind": "prune", "sparsity": 0.75, "updates": 4, "teacher": "dense", **common},
            {"name": "int8", "kind": "qat", "bits": 8, "activations": "int8", "teacher": "dense", **common},
            {"name": "int4", "kind": "qat", "bits": 4, "from": "sparse", **common},
        ],
    }

"""Models: reading folders, and the matrices that stages prune and round."""

import os
import re

import torch
import transformers

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "added_tokens.json",
    "sentencepiece.bpe.model",
    "spm.model",
)


class ModelError(Exception):
    """A model that cannot be trained."""


def local(name):
    """Returns the folder of a model: `name` itself, or the folder that the hub's files are downloaded to."""
    if os.path.isdir(name):
        return name
    from huggingface_hub import snapshot_download

    try:
        return snapshot_download(name, allow_patterns=["config.json", "*.safetensors", *TOKENIZER_FILES])
    except (OSError, ValueError) as error:
        raise ModelError(f"{name}: neither a folder nor a model of the hub: {error}") from error


def tokenizer(path):
    """Reads a tokenizer."""
    try:
        return transformers.AutoTokenizer.from_pretrained(path)
    except (OSError, ValueError) as error:
        raise ModelError(f"{path}: {error}") from error


def known_labels(path):
    """Returns the labels of a folder's classifier, or `None` if it has none of its own."""
    try:
        config = transformers.AutoConfig.from_pretrained(path)
    except (OSError, ValueError) as error:
        raise ModelError(f"{path}: {error}") from error
    labels = [label for _, label in sorted(config.id2label.items())]
    classifies = any("SequenceClassification" in name for name in config.architectures or [])
    return labels if classifies and labels != [f"LABEL_{i}" for i in range(len(labels))] else None


def load(path, labels, must_fit):
    """Reads a model for the labels in F32. If `must_fit`, it must have a classifier for just these labels."""
    own = known_labels(path)
    if own != labels and (must_fit or own is not None):
        raise ModelError(
            f"{path}: its labels are not those of the training rows in the same order; "
            "take it as `model`, or give its labels in `data.labels`"
        )
    if os.path.isdir(path) and _is_quantised(path):
        raise ModelError(f"{path}: is stored in integers; take a stage with `export: float32`")
    names = dict(enumerate(labels))
    try:
        return transformers.AutoModelForSequenceClassification.from_pretrained(
            path, num_labels=len(labels), id2label=names, label2id={v: k for k, v in names.items()}, dtype=torch.float32
        )
    except (OSError, ValueError, RuntimeError) as error:
        raise ModelError(f"{path}: {error}") from error


def _is_quantised(path):
    return getattr(transformers.AutoConfig.from_pretrained(path), "quantization_config", None) is not None


def linear_modules(model, patterns):
    """Returns the linear modules inside numbered layers, or those whose names match a pattern, by their names."""
    layers = {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear)
        and (any(re.search(p, name) for p in patterns) if patterns else re.search(r"\.\d+\.", name))
    }
    if not layers:
        raise ModelError(f"no matrix matches {patterns or 'a numbered layer'}")
    return layers


def set_dropout(model, p):
    """Sets the probability of every dropout."""
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = p
        if isinstance(getattr(module, "attention_dropout", None), float):
            module.attention_dropout = p

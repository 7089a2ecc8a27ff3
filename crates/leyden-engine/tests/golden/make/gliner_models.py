"""What the package gliner computes of tiny models whose weights follow from a formula.

    python3 gliner_models.py ../gliner.json

Needs gliner 0.2.29, torch, transformers, tokenizers and numpy. `tests/model/gliner.rs` makes the same weights.
"""

import json
import logging
import sys
import tempfile
import warnings

import gliner
import tokenizers
import torch
import transformers
from noise import noise
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)

WIDTH = 32
NORMS = ("norm.weight", "norm1.weight", "norm2.weight", "_ln.weight")
PIECES = ["the", "of", "and", "in", "ar", "den", "Lei", "An", "gel", "per", "son", "pla", "ce", "ci", "ty", "live", "work",
          "s", "to", "New", "York", "Mr", "date", "birth", "ing", "na", "me", "fly", "er"]
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,-_'()!?"

BACKBONE = {"hidden_size": WIDTH, "intermediate_size": 48, "num_attention_heads": 2, "num_hidden_layers": 2, "pad_token_id": 0}
DEBERTA = {
    "model_type": "deberta-v2", **BACKBONE, "max_position_embeddings": 48, "type_vocab_size": 0, "layer_norm_eps": 1e-7,
    "relative_attention": True, "position_buckets": 16, "norm_rel_ebd": "layer_norm", "share_att_key": True,
    "pos_att_type": ["p2c", "c2p"], "position_biased_input": False, "max_relative_positions": -1, "hidden_act": "gelu",
}
BERT = {"model_type": "bert", **BACKBONE, "max_position_embeddings": 96, "type_vocab_size": 2, "layer_norm_eps": 1e-12,
        "hidden_act": "gelu"}
MODERN = {"model_type": "modernbert", **BACKBONE, "max_position_embeddings": 128, "norm_eps": 1e-5, "local_attention": 16,
          "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2}

# The backbone, its tokenizer, and what the configuration says besides.
MODELS = {
    "deberta": (DEBERTA, "unigram", {"hidden_size": 24}),
    "deberta, no lstm": (DEBERTA, "unigram", {"hidden_size": WIDTH, "num_rnn_layers": 0, "embed_ent_token": False,
                                              "subtoken_pooling": "mean", "max_width": 3}),
    "bert": (BERT, "wordpiece", {"hidden_size": WIDTH, "num_rnn_layers": 2, "subtoken_pooling": "last"}),
    "modernbert": (MODERN, "bytes", {"hidden_size": 16, "subtoken_pooling": "max", "max_width": 2}),
}
TEXTS = [
    "Angela lives in New York.",
    "Mr. O'Neill-Smith (born 1951) works in Leiden, the city of Rembrandt_van-Rijn; \u0928\u092e\u0938\u094d\u0924\u0947 \u00bd caf\u00e9 \u2603!",
    "fly",
]
LABELS = [["person", "city", "date of birth"], ["place"], ["person", "name", "city", "place", "work"]]
THRESHOLD = 0.5


def tokenizer(kind):
    """A tokenizer of the kind that the backbone has, with the three tokens that the package adds."""
    special = ["[PAD]", "[CLS]", "[SEP]", "[UNK]"]
    if kind == "unigram":
        marked = ["\u2581" + piece for piece in PIECES]
        vocab = [(t, 0.0) for t in special] + [("\u2581", -3.0)]
        vocab += [(t, -4.0 - 0.01 * i) for i, t in enumerate(marked + PIECES) if len(t) > 1]
        vocab += [(c, -7.0 - 0.01 * i) for i, c in enumerate(LETTERS)]
        made = tokenizers.Tokenizer(models.Unigram(vocab, unk_id=3))
        made.normalizer = normalizers.Sequence([normalizers.Strip(), normalizers.NFKC()])
        made.pre_tokenizer = pre_tokenizers.Metaspace()
        made.decoder = decoders.Metaspace()
    elif kind == "wordpiece":
        words = special + PIECES + ["##" + p for p in PIECES] + [*LETTERS] + ["##" + c for c in LETTERS]
        made = tokenizers.Tokenizer(models.WordPiece({t: i for i, t in enumerate(dict.fromkeys(words))}, unk_token="[UNK]"))
        made.normalizer = normalizers.BertNormalizer(lowercase=False)
        made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        made.decoder = decoders.WordPiece()
    else:
        letters = sorted(pre_tokenizers.ByteLevel.alphabet())
        merges = [(a, b) for a, b in [("t", "h"), ("th", "e"), ("i", "n"), ("e", "r"), ("p", "er"), ("s", "o"), ("so", "n")]]
        words = special + letters + [a + b for a, b in merges]
        made = tokenizers.Tokenizer(models.BPE({t: i for i, t in enumerate(words)}, merges))
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        made.decoder = decoders.ByteLevel()
    made.add_special_tokens(special + ["[FLERT]", "<<ENT>>", "<<SEP>>"])
    made.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)])
    names = {"pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]"}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, **names)


def entry(name, backbone, kind, options, folder):
    fast = tokenizer(kind)
    fast.save_pretrained(folder)
    config = {
        "max_width": 4, "max_len": 64, "dropout": 0.0, "span_mode": "markerV0", "num_rnn_layers": 1, "subtoken_pooling": "first",
        "words_splitter_type": "whitespace", "ent_token": "<<ENT>>", "sep_token": "<<SEP>>", "model_name": "tiny/backbone",
        "class_token_index": fast.convert_tokens_to_ids("<<ENT>>"), "vocab_size": len(fast), "fuse_layers": False,
        "labels_encoder": None, "post_fusion_schema": "", **options, "encoder_config": {**backbone, "vocab_size": len(fast)},
    }
    with open(f"{folder}/gliner_config.json", "w", encoding="utf-8") as out:
        json.dump(config, out)
    made = gliner.GLiNER.from_config(
        {**config, "model_name": folder, "_attn_implementation": "eager"}, backbone_from_pretrained=False)
    state = made.model.state_dict()
    for seed, key in enumerate(sorted(state), 1):
        p = state[key]
        norm = p.dim() == 1 and key.lower().endswith(NORMS)
        scale = 0.4 if p.dim() == 1 else 2.0 if "embeddings" in key else 4.0 / p.shape[1] ** 0.5
        state[key] = torch.from_numpy(noise(p.numel(), seed, 1.0 if norm else 0.0, scale).reshape(p.shape))
    made.model.load_state_dict(state)
    made.eval()
    assert type(made).__name__ == "UniEncoderSpanGLiNER", type(made)
    cases = []
    for labels in LABELS:
        for text in TEXTS:
            ready = made.prepare_batch([text], labels)
            batch = made.collate_batch(ready["input_x"], ready["entity_types"], None, ready["label_names"])
            with torch.no_grad():
                logits = made.run_batch(batch, threshold=THRESHOLD).logits[0]
            case = {"text": text, "labels": labels, "tokens": batch["input_ids"][0].tolist(),
                    "words": list(zip(ready["start_token_map"][0], ready["end_token_map"][0]))}
            words = len(case["words"])
            # Of spans that end in the text; of long ones with one list of labels.
            if words < 10 or labels is LABELS[0]:
                case["logits"] = [[round(float(x), 5) for x in logits[start, width]]
                                  for start in range(words) for width in range(min(logits.shape[1], words - start))]
            for kind, flat in [("flat", True), ("nested", False)]:
                found = made.predict_entities(text, labels, flat_ner=flat, threshold=THRESHOLD)
                case[kind] = [[e["label"], round(e["score"], 6), e["start"], e["end"]] for e in found]
            cases.append(case)
    with open(f"{folder}/tokenizer.json", encoding="utf-8") as file:
        vocabulary = json.load(file)
    return {"name": name, "config": config, "tokenizer": vocabulary, "cases": cases,
            "tensors": [[key, list(state[key].shape)] for key in sorted(state)]}


def main():
    entries = []
    for name, (backbone, kind, options) in MODELS.items():
        with tempfile.TemporaryDirectory() as folder:
            entries.append(entry(name, backbone, kind, options, folder))
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        json.dump({"format": 1, "threshold": THRESHOLD, "models": entries}, out, separators=(",", ":"))
        out.write("\n")


main()

#!/usr/bin/env python3
"""Trains a small Unigram vocabulary and writes unigram.gguf beside itself.

    python3 unigram_vocabulary.py

Needs the Python packages sentencepiece and gguf. The training text is random_strings.json, the rules of normalisation
stand below, so that the file holds nothing from elsewhere.
"""

import json
import pathlib
import tempfile

import gguf
import sentencepiece as spm
from sentencepiece import sentencepiece_model_pb2 as model_pb2

HERE = pathlib.Path(__file__).parent

RULES = {
    "ﬁ": "fi", "ﬂ": "fl", "½": "1/2", "№": "No", "…": "...", "²": "2", "³": "3", "Ⅷ": "VIII", "㈠": "(一)", "ﷺ": "صلى الله عليه وسلم",
    "e\u0301": "é", "o\u0308": "ö", "o\u0308\u0323": "ọ\u0308", "\u00a0": " ", "\u3000": " ", "\u2003": " ", "\t": " ", "\n": " ", "\r": " ",
    "\u200b": "", "\ufeff": "", "\x7f": "", **{chr(0xFF01 + i): chr(0x21 + i) for i in range(94)}, **{chr(c): "" for c in range(1, 9)},
}


def main():
    folder = pathlib.Path(tempfile.mkdtemp())
    strings = json.loads((HERE / "random_strings.json").read_text())
    (folder / "text").write_text("\n".join(" ".join(string.split()) for string in strings))
    rules = [
        " ".join(f"{ord(c):X}" for c in key) + "\t" + " ".join(f"{ord(c):X}" for c in value) for key, value in sorted(RULES.items())
    ]
    (folder / "rules.tsv").write_text("\n".join(rules) + "\n")
    spm.SentencePieceTrainer.train(
        input=folder / "text", model_prefix=folder / "unigram", model_type="unigram", vocab_size=1200, character_coverage=0.98,
        normalization_rule_tsv=folder / "rules.tsv", pad_id=0, eos_id=1, unk_id=2, bos_id=-1, num_threads=1,
        user_defined_symbols=["<extra_id_0>", "<extra_id_1>", "foo_bar"], minloglevel=2,
    )
    model = model_pb2.ModelProto()
    model.ParseFromString((folder / "unigram.model").read_bytes())
    writer = gguf.GGUFWriter(HERE / "unigram.gguf", "t5")
    for key in ["context_length", "embedding_length", "block_count", "feed_forward_length", "attention.head_count"]:
        writer.add_uint32(f"t5.{key}", 8)
    writer.add_float32("t5.attention.layer_norm_rms_epsilon", 1e-5)
    writer.add_uint32("t5.attention.relative_buckets_count", 8)
    writer.add_tokenizer_model("t5")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([piece.piece for piece in model.pieces])
    writer.add_token_scores([piece.score for piece in model.pieces])
    # SentencePiece numbers the kinds as GGUF does.
    writer.add_token_types([piece.type for piece in model.pieces])
    writer.add_add_space_prefix(model.normalizer_spec.add_dummy_prefix)
    writer.add_remove_extra_whitespaces(model.normalizer_spec.remove_extra_whitespaces)
    writer.add_precompiled_charsmap(model.normalizer_spec.precompiled_charsmap)
    writer.add_unk_token_id(2)
    writer.add_eos_token_id(1)
    writer.add_pad_token_id(0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


main()

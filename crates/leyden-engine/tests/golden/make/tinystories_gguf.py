"""Convert TinyStories-656K to an F32 GGUF and check it: llama.cpp must give reference_greedy.json's ids.

usage: tinystories_gguf.py FOLDER OUT.gguf
FOLDER holds model.safetensors, config.json, tokenizer.json and reference_greedy.json.
The mapping is described in ../README.md; the project's own test converts in Rust, this is its cross-check.
"""
import json
import pathlib
import struct
import sys

import gguf
import numpy as np

from exact import Exact
from peer import Peer

NAMES = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
         "self_attn.o_proj": "attn_output", "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
         "mlp.down_proj": "ffn_down"}


def tensors(path):
    raw = path.read_bytes()
    n = struct.unpack("<Q", raw[:8])[0]
    for name, t in json.loads(raw[8 : 8 + n]).items():
        if name != "__metadata__":
            a, b = t["data_offsets"]
            yield name, np.frombuffer(raw[8 + n + a : 8 + n + b], "<f4").reshape(t["shape"])


def interleave(w, heads):
    """Row r of a head's first half goes to 2r, row r of its second half to 2r + 1."""
    rows, cols = w.shape
    half = rows // heads // 2
    return w.reshape(heads, 2, half, cols).swapaxes(1, 2).reshape(rows, cols)


def main():
    folder, out = pathlib.Path(sys.argv[1]), sys.argv[2]
    c = json.loads((folder / "config.json").read_text())
    w = gguf.GGUFWriter(out, "llama")
    w.add_block_count(c["num_hidden_layers"]); w.add_context_length(c["max_position_embeddings"]); w.add_embedding_length(c["hidden_size"])
    w.add_feed_forward_length(c["intermediate_size"]); w.add_head_count(c["num_attention_heads"]); w.add_head_count_kv(c["num_key_value_heads"])
    w.add_rope_dimension_count(c["hidden_size"] // c["num_attention_heads"]); w.add_rope_freq_base(c["rope_theta"])
    w.add_layer_norm_rms_eps(c["rms_norm_eps"]); w.add_vocab_size(c["vocab_size"]); w.add_file_type(0)
    tok = json.loads((folder / "tokenizer.json").read_text())
    vocab = sorted(tok["model"]["vocab"].items(), key=lambda kv: kv[1])
    merged = {a + b: i for i, (a, b) in enumerate(m.split(" ") if isinstance(m, str) else m for m in tok["model"]["merges"])}
    w.add_tokenizer_model("llama"); w.add_token_list([t for t, _ in vocab])
    w.add_token_scores([-float(merged.get(t, 1e6)) for t, _ in vocab])
    kinds = {0: gguf.TokenType.UNKNOWN, 1: gguf.TokenType.CONTROL, 2: gguf.TokenType.CONTROL}
    w.add_token_types([kinds.get(i, gguf.TokenType.NORMAL) for _, i in vocab])
    w.add_bos_token_id(c["bos_token_id"]); w.add_eos_token_id(c["eos_token_id"]); w.add_unk_token_id(0)
    w.add_add_bos_token(True); w.add_add_eos_token(False); w.add_add_space_prefix(True)
    for name, t in tensors(folder / "model.safetensors"):
        if name == "lm_head.weight":
            w.add_tensor("token_embd.weight", t)
        elif name == "model.norm.weight":
            w.add_tensor("output_norm.weight", t)
        else:
            _, _, layer, rest = name.split(".", 3)
            kind = rest.removesuffix(".weight")
            if kind.endswith("q_proj"):
                t = interleave(t, c["num_attention_heads"])
            elif kind.endswith("k_proj"):
                t = interleave(t, c["num_key_value_heads"])
            w.add_tensor(f"blk.{layer}.{NAMES[kind]}.weight", np.ascontiguousarray(t))
    w.write_header_to_file(); w.write_kv_data_to_file(); w.write_tensors_to_file(); w.close()

    ref = json.loads((folder / "reference_greedy.json").read_text())
    n = len(ref["greedy_ids"])
    exact = Exact(out)
    row = exact.forced(ref["prompt_ids"])[-1]
    ids = ref["prompt_ids"] + ref["greedy_ids"]
    rows = np.sort(exact.forced(ids)[len(ref["prompt_ids"]) - 1 : -1], -1)
    print("float64: same ids", exact.greedy(ref["prompt_ids"], n) == ref["greedy_ids"], "smallest gap", (rows[:, -1] - rows[:, -2]).min(),
          "logit sum", row.sum(), "wanted", ref["logits_after_prompt_sum"],
          "largest top-10 difference", max(abs(row[i] - v) for i, v in ref["logits_after_prompt_top10"]))
    peer = Peer(out, n_ctx=512)
    print("llama.cpp: same ids", peer.greedy(ref["prompt_ids"], n)[0] == ref["greedy_ids"], "encodes the prompt alike", peer.encode(ref["prompt"]), ref["prompt_ids"])


main()

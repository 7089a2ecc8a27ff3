#!/usr/bin/env python3
"""Goldens of encoders as GGUF files: what llama.cpp computes from what its converter makes of tiny folders.

    python3 encoder_gguf.py ../encoders.json ../encoder_gguf.json LLAMA_CPP_SOURCES

Needs torch, gguf, the low-level part of llama_cpp, and llama.cpp's sources for its converter. The folders are those of
encoders.json. What the converter writes as metadata, names and shapes is kept; the values are those of the formula, under
GGUF's names; the results are the states of the first and the last token of a text, with weights in F32. `tests/model/
encoder_gguf.rs` makes the same weights.
"""
import ctypes
import json
import pathlib
import sys
import tempfile

import numpy as np
import torch
from decoders import TYPES, noise, row, values
from safetensors.torch import save_file

# How far apart the states may be. llama.cpp looks GELU up in a table of half-precision numbers, and has the approximation by a
# hyperbolic tangent where models have the error function.
MODELS = {
    "bert": 2e-3, "xlm-roberta": 2e-3, "jina": 2e-3, "modernbert": 2e-3, "nomic": 1e-4, "eurobert": 1e-4,
    "embeddinggemma": 2e-3,
}
# What published configurations have besides, and the converter reads.
MORE = {
    "modernbert": {"layer_norm_eps": 1e-5, "global_attn_every_n_layers": 3, "hidden_activation": "gelu",
                   "global_rope_theta": 160000.0, "local_rope_theta": 10000.0},
    "nomic": {"n_embd": 32, "n_head": 2, "n_layer": 2, "n_inner": 48, "n_positions": 8192, "max_trained_positions": 2048,
              "layer_norm_epsilon": 1e-12, "rotary_emb_base": 1000, "activation_function": "swiglu", "causal": False,
              "qkv_proj_bias": False, "mlp_fc1_bias": False, "mlp_fc2_bias": False, "prenorm": False,
              "rotary_emb_fraction": 1.0, "rotary_emb_interleaved": False, "rotary_emb_scale_base": None},
    # In GGUF every sixth layer attends to everything.
    "embeddinggemma": {"num_hidden_layers": 6, "layer_types": ["sliding_attention"] * 5 + ["full_attention"]},
}
RULES = {"bias$": (0.0, 0.4), "_norm": (1.0, 0.4), "token_types|position_embd": (0.0, 2.0)}


def write_folder(folder, model):
    tensors = {}
    config = {**model["config"], **MORE.get(model["name"], {})}
    shapes, first = dict(map(tuple, model["tensors"])), "layers.0."
    for i in range(model["config"].get("num_hidden_layers", 0), config.get("num_hidden_layers", 0)):
        more = {n.replace(first, f"layers.{i}."): shape for n, shape in shapes.items() if first in n}
        shapes.update(more)
    for seed, (name, shape) in enumerate(shapes.items(), 1):
        tensors[name] = torch.from_numpy(noise(int(np.prod(shape)), seed, 0.0, 1.0).reshape(shape))
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config))
    # One converter asks what kind of tokenizer there is.
    (folder / "tokenizer.json").write_text(json.dumps(
        {"model": {"type": "WordPiece", "vocab": list(range(model["config"]["vocab_size"]))}, "added_tokens": []}))


def convert(folder, out):
    import conversion
    import gguf

    hparams = json.loads((folder / "config.json").read_text())
    arch = conversion.get_model_architecture(hparams, conversion.ModelType.TEXT)
    plain = conversion.get_model_class(arch)

    def set_vocab(self):
        self._set_vocab_none()
        self.gguf_writer.add_vocab_size(hparams["vocab_size"])
        self.gguf_writer.add_token_type_count(hparams.get("type_vocab_size", 1))

    converter = type(plain.__name__, (plain,), {"set_vocab": set_vocab, "model_arch": plain.model_arch})
    with torch.inference_mode():
        converter(folder, gguf.LlamaFileType.ALL_F32, out, hparams=hparams).write()


def states(path, ids, width):
    """Those of all tokens, by llama.cpp."""
    import llama_cpp as L

    quiet = L.llama_log_callback(lambda level, text, data: level >= 4 and print(text.decode(), end=""))
    L.llama_log_set(quiet, ctypes.c_void_p(0))
    L.llama_backend_init()
    model = L.llama_model_load_from_file(str(path).encode(), L.llama_model_default_params())
    assert model, f"llama.cpp cannot load {path}"
    p = L.llama_context_default_params()
    p.n_ctx, p.n_batch, p.n_ubatch, p.n_threads, p.n_threads_batch = 256, 256, 256, 1, 1
    p.type_k = p.type_v = 0
    p.flash_attn_type, p.embeddings, p.pooling_type = 0, True, 0
    context = L.llama_init_from_model(model, p)
    b = L.llama_batch_init(len(ids), 0, 1)
    for k, t in enumerate(ids):
        b.token[k], b.pos[k], b.n_seq_id[k], b.seq_id[k][0], b.logits[k] = t, k, 1, 0, 1
    b.n_tokens = len(ids)
    run = L.llama_encode if not L.llama_get_memory(context) else L.llama_decode
    assert run(context, b) == 0
    rows = [np.ctypeslib.as_array(L.llama_get_embeddings_ith(context, k), (width,)).copy() for k in range(len(ids))]
    L.llama_batch_free(b)
    L.llama_free(context)
    L.llama_model_free(model)
    return rows


def main():
    source, out, sources = sys.argv[1:]
    sys.path[:0] = [sources, str(pathlib.Path(sources) / "gguf-py")]
    import gguf

    golden = json.loads(pathlib.Path(source).read_text())
    ids = golden["texts"][0]
    models = []
    for name, tolerance in MODELS.items():
        model = next(model for model in golden["models"] if model["name"] == name)
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            converted, plain = folder / "converted.gguf", folder / "f32.gguf"
            write_folder(folder, model)
            convert(folder, converted)
            reader = gguf.GGUFReader(converted)
            arch = reader.fields["general.architecture"].contents()
            meta = {}
            for key, field in reader.fields.items():
                if key in ("general.architecture", "tokenizer.ggml.token_type_count") or key.startswith(arch + "."):
                    meta[key] = [" ".join(TYPES[t] for t in field.types), field.contents()]
            shapes = {t.name: tuple(int(n) for n in reversed(t.shape)) for t in reader.tensors}
            tensors, kept = values(shapes, RULES)
            w = gguf.GGUFWriter(plain, arch)
            for key, (kind, value) in meta.items():
                if key != "general.architecture":
                    kinds = [gguf.GGUFValueType(TYPES.index(k)) for k in kind.split()]
                    w.add_key_value(key, value, kinds[0], kinds[1] if len(kinds) > 1 else None)
            w.add_tokenizer_model("none")
            for tensor, value in tensors.items():
                w.add_tensor(tensor, value.astype(np.float32))
            w.write_header_to_file()
            w.write_kv_data_to_file()
            w.write_tensors_to_file()
            w.close()
            rows = states(plain, ids, model["config"]["hidden_size"])
            models.append({"name": name, "meta": meta, "tensors": kept, "tolerance": tolerance,
                           "states": {str(at): row(rows[at]) for at in (0, len(ids) - 1)}})
            print(name, arch, len(kept))
    text = json.dumps({"format": 1, "tokens": ids, "models": models}, separators=(",", ":"))
    pathlib.Path(out).write_text(text.replace('{"name"', '\n{"name"') + "\n")


main()

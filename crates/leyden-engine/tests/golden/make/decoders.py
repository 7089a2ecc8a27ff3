#!/usr/bin/env python3
"""Goldens of decoders: what transformers and llama.cpp compute from tiny models whose weights follow from a formula.

    python3 decoders.py ../decoders LLAMA_CPP_SOURCES [--greedy] [NAME...]

Needs torch, transformers, gguf and the low-level part of llama_cpp, and llama.cpp's sources for its converter. Each row
of `decoder_table.py` becomes one file NAME.json; without names, all do. `tests/model/decoders.rs` makes the same weights.

Of a folder transformers' logits are kept. The folder is then converted by llama.cpp's converter without a vocabulary.
What it writes as metadata, names and shapes is kept; the values are those of the formula again, under GGUF's names, and
the results are llama.cpp's: logits with weights and cache in F32, greedy tokens with weights in F16. With `--greedy` these
tokens alone are made anew, from what is kept.
"""
import ctypes
import json
import pathlib
import re
import sys
import tempfile

import numpy as np
import torch
from decoder_table import DECODERS, VOCAB
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

TOKENS = [(i * 37 + i * i) % VOCAB for i in range(100)]
AT = (0, 49, 99)
# Prompts are of so many tokens, from one of some places in the text on: the first behind which so many tokens follow without a
# near tie, or else that behind which most do, which must be `LEAST`.
GREEDY_PROMPT, GREEDY, LEAST = 20, 12, 8
# Types of GGUF's values, in the order of their numbers.
TYPES = ["u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64"]


def noise(n, seed, base, scale):
    i = np.arange(n, dtype=np.uint64)
    x = (i * np.uint64(747796405) + np.uint64(seed * 2891336453 % 2**64)) % np.uint64(2**32)
    x = ((x ^ (x >> np.uint64(15))) * np.uint64(2246822519)) % np.uint64(2**32)
    x = x ^ (x >> np.uint64(13))
    value = ((x >> np.uint64(8)).astype(np.float64) / 2**24 - 0.5) * scale
    return value.astype(np.float32) + np.float32(base)


def rule(name, shape, rules):
    """Base and scale of a tensor's values; `rules` are those of the architecture, by part of the name."""
    for part, values in rules.items():
        if re.search(part, name):
            return values
    last = name.rsplit(".", 2)[-2:]
    if len(shape) == 1:
        is_norm = last[-1] == "weight" and ("norm" in last[0].lower() or "ln_" in last[0])
        return (1.0, 0.4) if is_norm else (0.0, 0.4)
    if "embed" in name or "embd" in name or ".wte" in name or ".wpe" in name or "word_embeddings" in name:
        return 0.0, 2.0
    return 0.0, round(4.0 / shape[-1] ** 0.5, 6)


def values(shapes, rules):
    """Names, sorted, with values and what the values follow from."""
    rows = {}
    tensors = {}
    for seed, name in enumerate(sorted(shapes), 1):
        shape = shapes[name]
        base, scale = rule(name, shape, rules)
        tensors[name] = noise(int(np.prod(shape)), seed, base, scale).reshape(shape)
        found = re.match(r"(.*?\.|^)(\d+)\.(.*)", name)
        layer = int(found[2]) if found else None
        pattern = f"{found[1]}{{}}.{found[3]}" if found else name
        rows.setdefault((pattern, tuple(shape), base, scale), []).append(layer)
    kept = [[p, [] if layers == [None] else layers, list(s), b, c] for (p, s, b, c), layers in rows.items()]
    return tensors, kept


def row(logits):
    return [float(f"{float(x):.6g}") for x in logits]


def of_folder(folder, config, rules):
    """Writes a folder with the formula's weights; gives what transformers computes."""
    (folder / "config.json").write_text(json.dumps(config))
    parsed = AutoConfig.from_pretrained(folder)
    model = AutoModelForCausalLM.from_config(parsed, attn_implementation="eager").float()
    with tempfile.TemporaryDirectory() as saved:
        model.save_pretrained(saved)
        shapes = {}
        for part in pathlib.Path(saved).glob("*.safetensors"):
            shapes.update({n: tuple(t.shape) for n, t in load_file(part).items()})
    tensors, kept = values(shapes, rules)
    save_file({n: torch.from_numpy(t) for n, t in tensors.items()}, folder / "model.safetensors",
              metadata={"format": "pt"})
    model, info = AutoModelForCausalLM.from_pretrained(
        folder, attn_implementation="eager", dtype=torch.float32, output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"], info
    with torch.no_grad():
        logits = model.eval()(torch.tensor([TOKENS]), use_cache=False).logits[0]
    return {"tensors": kept, "logits": {str(at): row(logits[at]) for at in AT}}


def convert(folder, out):
    """What llama.cpp's converter makes of a folder, without a vocabulary."""
    import conversion
    import gguf

    # With the keys that transformers renames when it reads them.
    written = json.loads((folder / "config.json").read_text())
    hparams = written | conversion.ModelBase.load_hparams(folder, False)
    # Kinds of layers have newer names in transformers.
    hparams |= {k: v for k, v in written.items() if k == "layer_types"}
    arch = conversion.get_model_architecture(hparams, conversion.ModelType.TEXT)
    plain = conversion.get_model_class(arch)

    # One converter leaves out what its vocabulary lacks.
    vocabulary = {"model": {"vocab": {str(i): i for i in range(VOCAB)}}, "added_tokens": []}
    (folder / "tokenizer.json").write_text(json.dumps(vocabulary))

    def set_vocab(self):
        self._set_vocab_none()
        self.gguf_writer.add_vocab_size(VOCAB)

    converter = type(plain.__name__, (plain,), {"set_vocab": set_vocab, "model_arch": plain.model_arch, "no_mtp": True})
    with torch.inference_mode():
        made = converter(folder, gguf.LlamaFileType.ALL_F32, out, hparams=hparams)
        # One converter leaves everything to another.
        if hasattr(made, "impl"):
            made.impl.set_vocab = lambda: set_vocab(made.impl)
        made.write()


def of_gguf(folder, rules, tolerance, whole_layers=False):
    import gguf

    converted, plain, half = (folder / f"{n}.gguf" for n in ("converted", "f32", "f16"))
    convert(folder, converted)
    reader = gguf.GGUFReader(converted)
    arch = reader.fields["general.architecture"].contents()
    meta = {}
    for key, field in reader.fields.items():
        if key == "general.architecture" or key.startswith(arch + "."):
            kind = [TYPES[t] for t in field.types]
            meta[key] = [" ".join(kind), field.contents()]
    shapes = {t.name: tuple(int(n) for n in reversed(t.shape)) for t in reader.tensors}
    # Published files have keys and values in layers that do not use them, and llama.cpp asks for them.
    for name, shape in list(shapes.items()) if whole_layers else ():
        if name.startswith("blk.0."):
            layers = range(meta[f"{arch}.block_count"][1])
            shapes |= {n: shape for n in (name.replace("0", str(i), 1) for i in layers) if n not in shapes}
    # Factors of the rotation are positive numbers.
    tensors, kept = values(shapes, {**rules, "^rope_": (4.0, 6.0)})
    for path, dtype in ((plain, np.float32), (half, np.float16)):
        write(path, dtype, meta, tensors)
    rows = Peer(plain).logits(TOKENS)
    # JSON has no number for infinity.
    finite = {k: [kind, [max(v, -1e39) for v in value] if kind == "array f32" else value]
              for k, (kind, value) in meta.items()}
    return {"meta": finite, "tensors": kept, "logits": {str(at): row(rows[at]) for at in AT},
            "tolerance": tolerance, **greedy(Peer(half))}


def write(path, dtype, meta, tensors):
    """A GGUF file with matrices of this type."""
    import gguf

    arch = meta["general.architecture"][1]
    w = gguf.GGUFWriter(path, arch)
    for key, (kind, value) in meta.items():
        if key != "general.architecture":
            kinds = [gguf.GGUFValueType(TYPES.index(k)) for k in kind.split()]
            value = [float(np.float32(v)) for v in value] if kind == "array f32" else value
            w.add_key_value(key, value, kinds[0], kinds[1] if len(kinds) > 1 else None)
    w.add_tokenizer_model("none")
    for name, value in tensors.items():
        matrix = value.ndim > 1 and not re.search("conv1d|shortconv.conv|ssm_a$|ssm_d$|ssm_norm|ffn_gate_inp|bias$", name)
        w.add_tensor(name, value.astype(dtype if matrix else np.float32))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def greedy(peer):
    """Where the prompt begins in the text, and the tokens that follow it."""
    best = {"prompt": 0, "greedy": []}
    for start in range(len(TOKENS) - GREEDY_PROMPT):
        text, found = TOKENS[start:start + GREEDY_PROMPT], []
        while len(found) < GREEDY:
            last = peer.logits(text)[-1]
            top = np.sort(last)[-2:]
            # Where two tokens are that close, rounding may choose the other.
            if top[1] - top[0] < 0.02 * last.std():
                break
            found.append(int(last.argmax()))
            text = text + found[-1:]
        if len(found) > len(best["greedy"]):
            best = {"prompt": start, "greedy": found}
        if len(found) == GREEDY:
            break
    assert len(best["greedy"]) >= LEAST, f"near ties everywhere: {best}"
    return best


def again(kept):
    """The greedy tokens of a converted model that is kept."""
    shapes = {}
    for pattern, layers, shape, base, scale in kept["tensors"]:
        names = [pattern.replace("{}", str(i), 1) for i in layers] or [pattern]
        shapes.update({name: (shape, base, scale) for name in names})
    tensors = {}
    for seed, name in enumerate(sorted(shapes), 1):
        shape, base, scale = shapes[name]
        tensors[name] = noise(int(np.prod(shape)), seed, base, scale).reshape(shape)
    with tempfile.TemporaryDirectory() as folder:
        half = pathlib.Path(folder) / "f16.gguf"
        write(half, np.float16, kept["meta"], tensors)
        return greedy(Peer(half))


class Peer:
    """llama.cpp with one file; cache in F32, without flash attention."""

    def __init__(self, path):
        import llama_cpp as L

        self.L = L
        self.quiet = L.llama_log_callback(lambda level, text, data: None)
        L.llama_log_set(self.quiet, ctypes.c_void_p(0))
        L.llama_backend_init()
        self.model = L.llama_model_load_from_file(str(path).encode(), L.llama_model_default_params())
        assert self.model, f"llama.cpp cannot load {path}"

    def logits(self, ids):
        L = self.L
        p = L.llama_context_default_params()
        p.n_ctx, p.n_batch, p.n_threads, p.n_threads_batch = 256, 256, 1, 1
        p.type_k = p.type_v = 0
        p.flash_attn_type = 0
        context = L.llama_init_from_model(self.model, p)
        b = L.llama_batch_init(len(ids), 0, 1)
        for k, t in enumerate(ids):
            b.token[k], b.pos[k], b.n_seq_id[k], b.seq_id[k][0], b.logits[k] = t, k, 1, 0, 1
        b.n_tokens = len(ids)
        assert L.llama_decode(context, b) == 0
        rows = [np.ctypeslib.as_array(L.llama_get_logits_ith(context, k), (VOCAB,)).copy() for k in range(len(ids))]
        L.llama_batch_free(b)
        L.llama_free(context)
        return rows


def save(path, golden):
    text = json.dumps(golden, separators=(",", ":"))
    path.write_text(text.replace('{"name"', '\n{"name"').replace('"gguf":', '\n"gguf":') + "\n")
    print(path.stem, len(text), "bytes")


def main():
    out, sources, *names = sys.argv[1:]
    sys.path[:0] = [sources, str(pathlib.Path(sources) / "gguf-py")]
    only_greedy = "--greedy" in names
    for name in [n for n in names if n != "--greedy"] or DECODERS:
        path = pathlib.Path(out) / f"{name}.json"
        if only_greedy:
            golden = json.loads(path.read_text())
            for model in golden["models"]:
                if "gguf" in model:
                    model["gguf"] |= again(model["gguf"])
            save(path, golden)
            continue
        decoder = DECODERS[name]
        models = []
        for variant, options in decoder["variants"].items():
            config = {"architectures": [decoder["class"]], "vocab_size": VOCAB, **decoder["config"], **options}
            config = {k: v for k, v in config.items() if v != "unset"}
            rules = decoder.get("rules", {})
            with tempfile.TemporaryDirectory() as folder:
                folder = pathlib.Path(folder)
                model = {"name": variant, "config": config, **of_folder(folder, config, rules)}
                if variant not in decoder.get("no_gguf", ()):
                    rules = decoder.get("gguf_rules", rules)
                    model["gguf"] = of_gguf(folder, rules, decoder.get("tolerance", 1e-4),
                                            decoder.get("whole_layers", False))
                models.append(model)
        save(path, {"format": 1, "tokens": TOKENS, "models": models})


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Goldens of LoRA adapters: what PEFT computes from tiny decoders with adapters whose weights follow from a formula.

    python3 adapters.py ../decoders ../adapters.json

Needs torch, transformers and peft. The decoders are those of `decoders.py`, as it has kept them. Each adapter is saved by
PEFT: what it writes as configuration, names and shapes is kept, the values are those of the formula. A case has the logits
with the adapter at full scale. `tests/model/adapters.rs` makes the same files.
"""
import json
import pathlib
import sys
import tempfile

import torch
from decoders import AT, TOKENS, noise, row, values
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

# Name, file and number of the decoder, and what the adapter is configured as.
CASES = [
    ("all projections, ranks and scales of their own", "mistral", 0, {
        "r": 4, "lora_alpha": 6, "target_modules": "all-linear",
        "rank_pattern": {"q_proj": 2, "layers.1.mlp.up_proj": 7},
        "alpha_pattern": {"k_proj": 9, "^model.layers.2.self_attn.o_proj": 1}}),
    ("rank-stabilised", "mistral", 0, {
        "r": 9, "lora_alpha": 3, "target_modules": ["q_proj", "v_proj"], "use_rslora": True}),
    ("fused projections", "phi3", 0, {"r": 3, "lora_alpha": 6, "target_modules": "all-linear"}),
    ("a plain feed-forward layer, stored transposed", "gpt2", 0, {
        "r": 4, "lora_alpha": 8, "target_modules": ["c_attn", "c_proj", "c_fc"], "fan_in_fan_out": True}),
    ("fused projections in groups", "gptneox", 0, {"r": 4, "lora_alpha": 4, "target_modules": "all-linear"}),
    ("a mixture with a shared expert", "qwen2moe", 0, {
        "r": 4, "lora_alpha": 8,
        "target_modules": ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]}),
    ("norms behind the halves", "gemma2", 1, {
        "r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "o_proj", "gate_proj", "down_proj"]}),
    ("gated queries", "qwen35", 1, {
        "r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "k_proj", "v_proj", "o_proj", "down_proj"]}),
]
# The keys that say how an adapter is computed.
KEPT = ["peft_type", "r", "lora_alpha", "use_rslora", "use_dora", "rank_pattern", "alpha_pattern", "bias", "fan_in_fan_out",
        "modules_to_save", "init_lora_weights", "layer_replication", "lora_bias", "target_modules"]


def tensors_of(rows):
    """Values of kept rows, as `decoders.values` gives them out."""
    names = {}
    for pattern, layers, shape, base, scale in rows:
        for layer in layers or [None]:
            names[pattern if layer is None else pattern.replace("{}", str(layer), 1)] = (shape, base, scale)
    return {name: torch.from_numpy(noise(torch.Size(shape).numel(), seed, base, scale).reshape(shape))
            for seed, (name, (shape, base, scale)) in enumerate(sorted(names.items()), 1)}


def main():
    decoders, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    cases = []
    for name, file, number, config in CASES:
        kept = json.loads((decoders / f"{file}.json").read_text())["models"][number]
        with tempfile.TemporaryDirectory() as folder:
            base, adapter = pathlib.Path(folder) / "base", pathlib.Path(folder) / "adapter"
            base.mkdir()
            (base / "config.json").write_text(json.dumps(kept["config"]))
            save_file(tensors_of(kept["tensors"]), base / "model.safetensors", metadata={"format": "pt"})

            def load():
                return AutoModelForCausalLM.from_pretrained(base, attn_implementation="eager", dtype=torch.float32)

            get_peft_model(load(), LoraConfig(task_type="CAUSAL_LM", **config)).save_pretrained(adapter)
            shapes = {n: tuple(t.shape) for n, t in load_file(adapter / "adapter_model.safetensors").items()}
            made, rows = values(shapes, {"lora_A": (0.0, 0.5), "lora_B": (0.0, 0.5)})
            save_file({n: torch.from_numpy(t) for n, t in made.items()}, adapter / "adapter_model.safetensors",
                      metadata={"format": "pt"})
            model = PeftModel.from_pretrained(load(), adapter).eval()
            with torch.no_grad():
                logits = model(torch.tensor([TOKENS]), use_cache=False).logits[0]
                plain = load().eval()(torch.tensor([TOKENS]), use_cache=False).logits[0]
            print(name, float((logits - plain).norm() / plain.norm()))
            written = json.loads((adapter / "adapter_config.json").read_text())
        if isinstance(written["target_modules"], list):
            written["target_modules"].sort()
        cases.append({"name": name, "decoder": file, "model": number,
                      "config": {k: written[k] for k in KEPT if k in written},
                      "tensors": rows, "logits": {str(at): row(logits[at]) for at in AT}})
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    out.write_text(f'{{"format":1,"cases":[\n{lines}\n]}}\n')


main()

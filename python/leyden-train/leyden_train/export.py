"""Hugging Face folders of trained models: floats, or integers in the format of compressed-tensors."""

import json
import os
import shutil

import torch
from safetensors.torch import save

from . import checkpoint, quant
from .models import TOKENIZER_FILES

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


def export(path, model, stage, weights, tokenizer_from):
    """Writes a folder. `weights` are the names of the pruned or rounded matrices; they hold trained values.

    After `qat` the file has the rounded values: as floats on the grid, or as integers.
    """
    tensors = {name: t.detach().cpu().contiguous() for name, t in model.state_dict().items() if t.is_floating_point()}
    bits, group = (stage.bits, stage.group) if stage.kind == "qat" else (None, None)
    packed = stage.export == "compressed-tensors"
    dtype = torch.float32 if packed else DTYPES[stage.export]
    for name in weights if bits else ():
        codes, scales = quant.grid(tensors[name], bits, group)
        if packed:
            del tensors[name]
            tensors.update(_integers(name, codes, scales, bits))
        else:
            tensors[name] = quant.values(codes, scales)
    skip = ("weight_scale", "weight_packed")
    tensors = {n: t.to(dtype) if t.is_floating_point() and not n.endswith(skip) else t for n, t in tensors.items()}
    config = json.loads(model.config.to_json_string())
    config.pop("_name_or_path", None)
    config.pop("dtype", None)
    config["architectures"] = [type(model).__name__]
    config["torch_dtype"] = str(dtype).removeprefix("torch.")
    if packed:
        config["quantization_config"] = _quantization_config(model, weights, bits, group)
    with checkpoint.new_folder(path) as folder:
        with open(os.path.join(folder, "model.safetensors"), "wb") as file:
            file.write(save(tensors, metadata={"format": "pt"}))
        with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
            json.dump(config, file, indent=1, ensure_ascii=False)
        for name in TOKENIZER_FILES:
            source = os.path.join(tokenizer_from, name)
            if os.path.exists(source):
                shutil.copyfile(source, os.path.join(folder, name))


def _integers(name, codes, scales, bits):
    """Returns the tensors of a matrix in compressed-tensors' layout: 8 bits as they are, 4 bits in words of I32."""
    stem = name.removesuffix(".weight")
    scales = {f"{stem}.weight_scale": scales.half().contiguous()}
    if bits == 8:
        return {name: codes.contiguous(), **scales}
    rows, columns = codes.shape
    each = 32 // bits
    fields = (codes.to(torch.int64) + 8).reshape(rows, columns // each, each)
    words = (fields << (torch.arange(each) * bits)).sum(2)
    words = torch.where(words >= 1 << 31, words - (1 << 32), words).to(torch.int32)
    return {
        f"{stem}.weight_packed": words.contiguous(),
        f"{stem}.weight_shape": torch.tensor([rows, columns], dtype=torch.int64),
        **scales,
    }


def _quantization_config(model, weights, bits, group):
    ours = {name.removesuffix(".weight") for name in weights}
    others = [n for n, m in model.named_modules() if isinstance(m, torch.nn.Linear) and n not in ours]
    form = "pack-quantized" if bits == 4 else "int-quantized"
    scheme = {
        "num_bits": bits,
        "type": "int",
        "symmetric": True,
        "dynamic": False,
        "strategy": "group" if group else "channel",
        "group_size": group or None,
    }
    return {
        "quant_method": "compressed-tensors",
        "format": form,
        "quantization_status": "compressed",
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": scheme}},
        "ignore": others,
    }

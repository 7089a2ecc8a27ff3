#!/usr/bin/env python3
"""Writes small matrices quantised as folders have them, for src/hf_quant/tests.rs.

usage: make_hf_quant.py
Needs numpy, torch, safetensors and compressed-tensors from PyPI. Those of compressed-tensors are packed and decoded by
the library itself; GPTQ's and AWQ's words are packed here as their own programs do (AutoGPTQ's QuantLinear.pack,
AutoAWQ's WQLinear_GEMM.from_linear). `__metadata__` has an FNV-1a digest of each matrix in F32.
"""
import pathlib

import numpy as np
import torch
from compressed_tensors.compressors import pack_to_int32, unpack_from_int32
from compressed_tensors.quantization import QuantizationArgs
from compressed_tensors.quantization.lifecycle.forward import dequantize
from safetensors.torch import save_file

OUT = pathlib.Path(__file__).parent / "hf_quant.safetensors"
ROWS, K = 32, 64
rng = np.random.default_rng(8)
tensors, digests = {}, {}


def fnv(data):
    h = 0xCBF29CE484222325
    for byte in np.ascontiguousarray(data, np.float32).tobytes():
        h = ((h ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return f"{h:016x}"


def keep(case, values, **parts):
    for name, value in parts.items():
        value = torch.from_numpy(value) if isinstance(value, np.ndarray) else value
        tensors[f"{case}.{name}"] = value.contiguous()
    digests[case] = fnv(values.float().numpy() if isinstance(values, torch.Tensor) else values)


def stream(codes, bits):
    """Codes along the first axis as 32-bit words, the first in the lowest bits, across words where these are full."""
    n, columns = codes.shape
    words = np.zeros((-(-n * bits // 32), columns), np.uint64)
    for i in range(n):
        word, shift = divmod(i * bits, 32)
        words[word] |= codes[i].astype(np.uint64) << np.uint64(shift)
        if shift + bits > 32:
            words[word + 1] |= codes[i].astype(np.uint64) >> np.uint64(32 - shift)
    return (words & np.uint64(0xFFFFFFFF)).astype(np.uint32).view(np.int32)


def gptq(case, bits, group, symmetric, version, order=False):
    groups = K // group
    codes = rng.integers(0, 1 << bits, (K, ROWS))
    scales = rng.uniform(0.001, 0.02, (groups, ROWS)).astype(np.float16)
    zeros = np.full((groups, ROWS), 1 << (bits - 1)) if symmetric else rng.integers(1, 1 << bits, (groups, ROWS))
    g_idx = np.arange(K) // group
    if order:
        g_idx = rng.permutation(g_idx)
    values = scales.astype(np.float32)[g_idx] * (codes - zeros[g_idx]).astype(np.float32)
    # What torch computes for half-precision scales, where groups do not lie in order.
    values = values.astype(np.float16).astype(np.float32) if order else values
    stored = zeros - (1 if version == 1 else 0)
    keep(case, values.T, qweight=stream(codes, bits), scales=scales, g_idx=g_idx.astype(np.int32),
         qzeros=np.ascontiguousarray(stream(stored.T, bits).T))


def awq(case, group):
    order = [0, 2, 4, 6, 1, 3, 5, 7]

    def pack(codes):
        words = np.zeros((codes.shape[0], ROWS // 8), np.uint32)
        for column in range(ROWS // 8):
            for i in range(8):
                words[:, column] |= codes[:, column * 8 + order[i]].astype(np.uint32) << np.uint32(4 * i)
        return words.view(np.int32)

    groups = K // group
    codes, zeros = rng.integers(0, 16, (K, ROWS)), rng.integers(0, 16, (groups, ROWS))
    scales = rng.uniform(0.001, 0.02, (groups, ROWS)).astype(np.float16)
    values = np.repeat(scales, group, 0).astype(np.float32) * (codes - np.repeat(zeros, group, 0)).astype(np.float32)
    keep(case, values.T, qweight=pack(codes), qzeros=pack(zeros), scales=scales)


def packed(case, bits, group, symmetric):
    groups = K // group if group else 1
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    codes = torch.from_numpy(rng.integers(low, high + 1, (ROWS, K))).to(torch.int8)
    scale = torch.from_numpy(rng.uniform(0.001, 0.02, (ROWS, groups))).to(torch.bfloat16)
    zero = None if symmetric else torch.from_numpy(rng.integers(low, high + 1, (ROWS, groups))).to(torch.int8)
    words = pack_to_int32(codes, bits)
    assert torch.equal(unpack_from_int32(words, bits, codes.shape), codes)
    args = QuantizationArgs(num_bits=bits, symmetric=symmetric, strategy="group" if group else "channel",
                            group_size=group or None)
    values = dequantize(codes, scale.float(), zero, args=args, dtype=torch.float32)
    parts = {"weight_packed": words, "weight_scale": scale, "weight_shape": torch.tensor([ROWS, K])}
    if zero is not None:
        parts["weight_zero_point"] = pack_to_int32(zero, bits, packed_dim=0)
    keep(case, values, **parts)


def plain(case, dtype, scale, **args):
    codes = torch.from_numpy(rng.integers(-127, 128, (ROWS, K))).to(torch.int8)
    codes = codes if dtype == torch.int8 else (codes.float() / 8).to(dtype)
    values = dequantize(codes, scale, None, args=QuantizationArgs(num_bits=8, **args), dtype=torch.float32)
    keep(case, values, weight=codes, weight_scale=scale)


gptq("gptq_v1", 4, 32, True, 1)
gptq("gptq_v2", 4, 32, False, 2)
gptq("gptq_2bits", 2, 64, False, 1)
gptq("gptq_3bits", 3, 64, False, 1)
gptq("gptq_8bits", 8, 32, True, 1)
gptq("gptq_order", 4, 32, True, 1, order=True)
awq("awq", 32)
packed("packed", 4, 32, True)
packed("packed_channel", 4, None, False)
packed("packed_8bits", 8, 32, True)
per_row = torch.from_numpy(rng.uniform(0.001, 0.02, (ROWS, 1))).to(torch.bfloat16).float()
plain("int8", torch.int8, per_row, strategy="channel")
plain("float8", torch.float8_e4m3fn, torch.tensor([2.0**-7]), strategy="tensor", type="float")
plain("float8_rows", torch.float8_e4m3fn, torch.ldexp(per_row.sign(), torch.arange(ROWS)[:, None] % 5 - 8),
      strategy="channel", type="float")
# Blocks of 24 rows and 32 columns, the last one of fewer rows.
codes = (torch.from_numpy(rng.normal(0, 40, (ROWS, K))).float()).to(torch.float8_e4m3fn)
scale = torch.from_numpy(rng.uniform(0.0005, 0.002, (2, K // 32))).float()
values = codes.float() * scale.repeat_interleave(24, 0)[:ROWS].repeat_interleave(32, 1)
keep("blocks", values.half(), weight=codes, weight_scale_inv=scale)
save_file(tensors, OUT, metadata=digests)

#!/usr/bin/env python3
"""Writes the golden files of the quant tests beside itself.

usage: make.py [LIBGGML]
Needs numpy and gguf from PyPI. LIBGGML is a built libggml-base of llama.cpp; with it the error of its
encoders without importance matrix (what llama-quantize does) is measured and recorded too. Without it
the recorded figures are kept.

NAME.bin: inputs (f32), their encoding by gguf-py, its decoding (f32); for types that gguf-py
cannot encode only blocks and their decoding. digests.txt: FNV-1a of larger runs over generated numbers, which
tests/tensor/golden.rs generates in the same way.
"""
import ctypes
import pathlib
import sys
import importlib.metadata

import numpy as np
import gguf
from gguf import GGMLQuantizationType as T

HERE = pathlib.Path(__file__).parent
TYPES = {name.lower(): getattr(T, name) for name in (
    "F16", "BF16", "Q4_0", "Q8_0", "Q4_K", "Q6_K", "Q4_1", "Q5_0", "Q5_1", "Q2_K", "Q3_K", "Q5_K", "IQ4_NL", "IQ4_XS",
    "MXFP4", "NVFP4", "Q1_0", "TQ1_0", "TQ2_0", "IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S")}
# Where the 16-bit scales lie in a block.
SCALES = {"f16": [0], "q4_0": [0], "q8_0": [0], "q4_k": [0, 2], "q6_k": [208], "q4_1": [0, 2], "q5_0": [0],
          "q5_1": [0, 2], "q2_k": [80, 82], "q3_k": [108], "q5_k": [0, 2], "iq4_nl": [0], "iq4_xs": [0], "q1_0": [0], "tq1_0": [52], "tq2_0": [64], "iq1_s": [0], "iq1_m": [54],
          "iq2_xxs": [0], "iq2_xs": [0], "iq2_s": [0], "iq3_xxs": [0], "iq3_s": [0]}
# What gguf-py cannot encode.
OWN = ("q4_k", "q6_k", "q2_k", "q3_k", "q5_k", "iq4_nl", "iq4_xs")
# What leyden decodes and does not encode.
READ = ("nvfp4", "q1_0", "tq1_0", "tq2_0", "iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs", "iq3_s")


def random(n, seed):
    """splitmix64 of seed * 2^32 + i."""
    with np.errstate(over="ignore"):
        z = (np.arange(n, dtype=np.uint64) + np.uint64(seed << 32)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def values(n, seed):
    """Bell-shaped values (the sum of four 16-bit numbers), a power of two apart from run to run of 32."""
    z = random(n, seed)
    bell = sum(((z >> np.uint64(16 * i)) & np.uint64(0xFFFF)).astype(np.int64) for i in range(4)) - 131070
    power = (random(n // 32, seed + 1) & np.uint64(7)).astype(np.int32).repeat(32) - 20
    return np.ldexp(bell.astype(np.float32), power).astype(np.float32)


def edge_values():
    """Eight blocks of 32 with the cases that encoders trip over."""
    x = np.zeros((8, 32), np.float32)
    x[1] = values(32, 50)
    x[2, :2] = [-1.5, 1.5]                # equal magnitudes: the first decides the sign
    x[3, 31] = 3.0                        # all but one zero
    x[4] = -0.0
    x[4, 7] = 1e-6                        # the scale is a subnormal half
    x[5] = (np.arange(32) - 16) / 2       # halves between codes
    x[6] = values(32, 51) * np.float32(2.0**13)
    x[7] = np.float32(2.0**-9) * np.arange(32).astype(np.float32) ** 2
    return x.ravel()


def blocks(name, n, seed):
    """Random blocks with finite scales."""
    size = gguf.GGML_QUANT_SIZES[TYPES[name]][1]
    b = random((n * size + 7) // 8, seed).view(np.uint8)[: n * size].reshape(n, size).copy()
    for at in SCALES.get(name, []):
        b[:, at + 1] &= 0xBF              # exponent below 16
    if name == "bf16":
        b[:, 1] &= 0xBF
    return b


def fnv(data):
    h = 0xCBF29CE484222325
    for byte in np.ascontiguousarray(data).tobytes():
        h = ((h ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return f"{h:016x}"


def encode(name, x):
    return gguf.quants.quantize(x, TYPES[name]).view(np.uint8).ravel()


def decode(name, b):
    if name == "bf16":
        return gguf.quants.dequantize(b.reshape(1, -1), T.BF16).astype(np.float32).ravel()
    if name == "q1_0":                    # Not in gguf-py: a sign each, from the lowest bit on.
        b = b.reshape(-1, 18)
        d = b[:, :2].copy().view(np.float16).astype(np.float32)
        bits = np.unpackbits(b[:, 2:], axis=1, bitorder="little").astype(bool)
        return np.where(bits, d, -d).ravel()
    return gguf.quants.dequantize(np.ascontiguousarray(b).ravel(), TYPES[name]).astype(np.float32).ravel()


def reference_rmse(lib, name, x):
    """The error of llama.cpp's encoder, measured on what gguf-py decodes."""
    lib = ctypes.CDLL(lib)
    lib.ggml_quantize_chunk.restype = ctypes.c_size_t
    lib.ggml_quantize_chunk.argtypes = [ctypes.c_int] + [ctypes.c_void_p] * 2 + [ctypes.c_int64] * 3 + [ctypes.c_void_p]
    len_, size = gguf.GGML_QUANT_SIZES[TYPES[name]]
    out = np.zeros(x.size // len_ * size, np.uint8)
    lib.ggml_quantize_chunk(int(TYPES[name]), x.ctypes.data, out.ctypes.data, 0, x.size // 256, 256, None)
    lib.ggml_version.restype = ctypes.c_char_p
    rmse = np.sqrt(np.mean((decode(name, out).astype(np.float64) - x) ** 2))
    return f"{rmse:.6e}", lib.ggml_version().decode()


def main():
    for name in TYPES:
        if name in OWN + READ:
            b = blocks(name, 2, 60)
            data = b.tobytes() + decode(name, b).tobytes()
        else:
            x = edge_values()
            b = encode(name, x)
            data = x.tobytes() + b.tobytes() + decode(name, b).tobytes()
        assert len(data) <= 4096
        (HERE / f"{name}.bin").write_bytes(data)

    old = (HERE / "digests.txt").read_text().splitlines() if (HERE / "digests.txt").exists() else []
    lines = [f"made-with numpy {np.__version__}, gguf {importlib.metadata.version('gguf')}"]
    for name in TYPES:
        if name not in OWN + READ:
            lines.append(f"encode {name} {fnv(encode(name, values(65536, 1)))}")
        lines.append(f"decode {name} {fnv(decode(name, blocks(name, 512, 3)))}")
    halves = np.arange(65536, dtype=np.uint16).view(np.float16).astype(np.float32)
    halves[np.isnan(halves)] = np.nan
    bits = halves.view(np.uint32)
    bits[np.isnan(halves)] = 0x7FC00000
    lines.append(f"all-halves {fnv(bits)}")
    floats = (np.arange(1 << 20, dtype=np.uint64) * np.uint64(4093)).astype(np.uint32).view(np.float32)
    floats = floats[~np.isnan(floats)]
    with np.errstate(over="ignore"):
        lines.append(f"to-half {fnv(floats.astype(np.float16))}")
    lines.append(f"to-bf16 {fnv(encode('bf16', floats[: floats.size // 2 * 2]))}")
    if len(sys.argv) > 1:
        for name in OWN:
            rmse, version = reference_rmse(sys.argv[1], name, values(65536, 1))
            lines.append(f"rmse {name} {rmse} ggml {version}")
    else:
        lines += [line for line in old if line.startswith("rmse ")]
    (HERE / "digests.txt").write_text("\n".join(lines) + "\n")


main()

#!/usr/bin/env python3
"""Writes files by the safetensors library, for tests/tensor/safetensors_files.rs.

usage: make_safetensors.py
Needs numpy and safetensors from PyPI; made with 0.8.0. Tensor `w` holds 0, 1/4, 2/4 ... in F32, F16 and BF16;
the other types are there to be listed.
"""
import pathlib

import numpy as np
from safetensors import TensorSpec, serialize_file

HERE = pathlib.Path(__file__).parent
W = np.arange(12, dtype=np.float32).reshape(3, 4) / 4
BF16 = (W.view(np.uint32) >> 16).astype(np.uint16)


KEPT = []


def tensor(dtype, array):
    KEPT.append(array)  # the library takes an address
    return TensorSpec(dtype=dtype, shape=array.shape, data_ptr=array.ctypes.data, data_len=array.nbytes)


serialize_file(
    {
        "w.f32": tensor("float32", W),
        "w.f16": tensor("float16", W.astype(np.float16)),
        "w.bf16": tensor("bfloat16", BF16),
        "scalar": tensor("float32", np.array(2.5, np.float32)),
        "empty": tensor("float32", np.zeros((0, 4), np.float32)),
        "ids": tensor("int64", np.arange(3)),
        "flags": tensor("bool", np.array([True, False])),
        "f8": tensor("float8_e4m3fn", np.arange(5, dtype=np.uint8)),
    },
    str(HERE / "library.safetensors"),
    {"format": "pt", "é\n": "\"quoted\""},
)

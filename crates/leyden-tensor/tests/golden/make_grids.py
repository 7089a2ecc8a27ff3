#!/usr/bin/env python3
"""Writes the codebooks of the IQ1, IQ2 and IQ3 formats to src/quant/grids.bin.

usage: make_grids.py
Needs numpy and gguf from PyPI, whose tables (MIT) they are.
"""
import pathlib

import numpy as np
from gguf import quants

OUT = pathlib.Path(__file__).parents[2] / "src" / "quant" / "grids.bin"
# In the order of the file, with the bits of a value.
BOOKS = ((quants.IQ2_XXS, 2), (quants.IQ2_XS, 2), (quants.IQ2_S, 2), (quants.IQ1_S, 2), (quants.IQ3_XXS, 4), (quants.IQ3_S, 4))

data = b""
for book, bits in BOOKS:
    book.init_grid()
    levels = list(book.grid_map)
    points = book.grid.reshape(book.grid_shape)
    numbers = [sum(levels.index(value) << (bits * j) for j, value in enumerate(point)) for point in points]
    data += np.array(numbers, "<u2").tobytes()
OUT.write_bytes(data)

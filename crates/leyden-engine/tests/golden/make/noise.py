"""Weights that follow from a formula, so that tests make the same ones."""

import numpy as np


def noise(n, seed, base, scale):
    """So many values around a base, spread evenly over a range of that width."""
    i = np.arange(n, dtype=np.uint64)
    x = (i * np.uint64(747796405) + np.uint64(seed * 2891336453 % 2**64)) % np.uint64(2**32)
    x = ((x ^ (x >> np.uint64(15))) * np.uint64(2246822519)) % np.uint64(2**32)
    x = x ^ (x >> np.uint64(13))
    value = ((x >> np.uint64(8)).astype(np.float64) / 2**24 - 0.5) * scale
    return (value.astype(np.float32) + np.float32(base)).astype(np.float32)

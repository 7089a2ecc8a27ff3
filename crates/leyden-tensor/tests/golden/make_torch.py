"""A checkpoint as torch.save writes it: tied matrices, a part of a larger storage, several types, a parameter.

    python3 make_torch.py tied.bin

Needs torch. `tests/tensor/torch_files.rs` knows the values: they count up from the number that is given.
"""

import collections
import sys

import torch


def count(start, *shape, dtype=torch.float32):
    n = 1
    for size in shape:
        n *= size
    return (torch.arange(n) + start).to(dtype).reshape(shape)


embedding = torch.nn.Parameter(count(1, 4, 3))
large = count(100, 5, 2, dtype=torch.float16)
state = collections.OrderedDict([
    ("embeddings.weight", embedding), ("decoder.weight", embedding.detach()), ("part.weight", large[2:4]),
    ("half.bias", count(7, 3, dtype=torch.bfloat16)), ("position_ids", count(0, 1, 4, dtype=torch.int64)),
])
state._metadata = collections.OrderedDict([("", {"version": 1})])
torch.save(state, sys.argv[1])
torch.save({"turned.weight": count(0, 2, 3).T}, sys.argv[1].replace("tied", "turned"))

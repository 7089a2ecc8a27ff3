"""Grids of integers: weights in 8 bits with a scale per row, in 8 or 4 bits with a scale per 32 inputs.

Scales are numbers of half precision, so that files with such scales have exactly the trained values. In 4 bits the
scale of a group is its value of largest magnitude divided by -8, as in Q4_0; in 8 bits it is the largest magnitude
divided by 127.
"""

import contextlib

import torch


def grid(weight, bits, group):
    """Returns the integers [outputs, inputs] in int8 and the scales [outputs, groups] of a matrix in floats."""
    rows, columns = weight.shape
    size = group or columns
    if columns % size:
        raise ValueError(f"{columns} inputs are no multiple of {size}")
    x = weight.detach().float().reshape(rows, columns // size, size)
    if bits == 4:
        at = x.abs().argmax(2, keepdim=True)
        scale, low, high = x.gather(2, at) / -8.0, -8, 7
    else:
        scale, low, high = x.abs().amax(2, keepdim=True) / 127.0, -127, 127
    scale = scale.half().float()
    inverse = torch.where(scale == 0, torch.zeros_like(scale), 1.0 / scale)
    codes = (x * inverse).round().clamp(low, high)
    return codes.to(torch.int8).reshape(rows, columns), scale.squeeze(2)


def values(codes, scales):
    """Returns the matrix of integers and scales in F32; the products are exact."""
    rows, columns = codes.shape
    groups = scales.shape[1]
    return (codes.float().reshape(rows, groups, columns // groups) * scales.unsqueeze(2)).reshape(rows, columns)


def round_to_grid(weight, bits, group):
    """Returns a matrix rounded to its grid, in F32."""
    return values(*grid(weight, bits, group))


def round_activations(x):
    """Returns `x` [..., inputs] rounded to 8 bits with one scale per token; gradients pass unchanged."""
    with torch.no_grad():
        scale = x.abs().amax(-1, keepdim=True).clamp_min(1e-12) / 127.0
        error = (x / scale).round() * scale - x
    return x + error


class Quantiser:
    """Rounded weights in place of the trained ones, for the time of a forward and backward pass.

    Gradients with respect to the rounded weights are applied to the trained ones (straight-through estimator).
    """

    def __init__(self, matrices, bits, group):
        self.matrices, self.bits, self.group = matrices, bits, group
        self.trained = {name: torch.empty_like(w) for name, w in matrices.items()}

    @contextlib.contextmanager
    def rounded(self):
        """Rounds all matrices, and restores the trained weights at the end."""
        with torch.no_grad():
            for name, weight in self.matrices.items():
                self.trained[name].copy_(weight)
                weight.copy_(round_to_grid(weight, self.bits, self.group))
        try:
            yield
        finally:
            with torch.no_grad():
                for name, weight in self.matrices.items():
                    weight.copy_(self.trained[name])

    def hook_activations(self, modules):
        """Rounds the inputs of modules; returns the hooks."""
        return [m.register_forward_pre_hook(lambda _, inputs: (round_activations(inputs[0]), *inputs[1:])) for m in modules]

"""Masks of pruned matrices: patterns, schedule, and what keeps zeros zero."""

import torch


def schedule(stage, steps):
    """Returns the steps before which masks are renewed, each with its sparsity.

    Sparsity rises by a cubic curve over the first part of the steps; the last renewal has the target.
    """
    ramp = int(max(1.0, min(stage.ramp * steps, steps - 1.0)))
    updates = min(stage.updates, ramp)
    rise = stage.sparsity - stage.start
    at = {0: stage.start} if stage.start > 0 else {}
    for i in range(1, updates + 1):
        at[round(ramp * i / updates)] = stage.sparsity - rise * (1 - i / updates) ** 3
    return at


def fits(shape, pattern):
    """Returns true if a matrix of this shape consists of whole blocks of the pattern."""
    if pattern == "any":
        return True
    if pattern == "4x1":
        return shape[0] % 4 == 0
    return shape[1] % (4 if pattern == "1x4" else int(pattern.split(":")[1])) == 0


def magnitude_mask(weight, sparsity, pattern):
    """Returns the mask [outputs, inputs] of the weights that stay: those in the blocks of greatest magnitude."""
    rows, columns = weight.shape
    square = weight.detach().float().square()
    if ":" in pattern:
        n, m = map(int, pattern.split(":"))
        keep = max(n, round(m * (1 - sparsity)))
        groups = square.reshape(-1, m)
        order = torch.sort(groups, dim=1, descending=True, stable=True).indices[:, :keep]
        return torch.zeros_like(groups, dtype=torch.bool).scatter_(1, order, True).reshape(rows, columns)
    if pattern == "1x4":
        return _largest(square.reshape(rows, columns // 4, 4).sum(2), sparsity).repeat_interleave(4, 1)
    if pattern == "4x1":
        return _largest(square.reshape(rows // 4, 4, columns).sum(1), sparsity).repeat_interleave(4, 0)
    return _largest(square, sparsity)


def _largest(scores, sparsity):
    flat = scores.flatten()
    drop = round(sparsity * flat.numel())
    if drop == 0:
        return torch.ones_like(scores, dtype=torch.bool)
    mask = flat > torch.kthvalue(flat, drop).values
    if int(mask.sum()) < flat.numel() - drop and float(flat.max()) > 0:
        # Equal scores at the limit: the first ones go.
        order = torch.sort(flat, stable=True).indices
        mask = torch.ones_like(flat, dtype=torch.bool)
        mask[order[:drop]] = False
    return mask.reshape(scores.shape)


class Masks:
    """Masks of the matrices of a model, by the names of their weights."""

    def __init__(self, matrices, keep_zeros):
        self.matrices = matrices
        self.masks = {name: w.detach() != 0 for name, w in matrices.items()} if keep_zeros else {}
        self.masks = {name: mask for name, mask in self.masks.items() if not bool(mask.all())}

    def renew(self, sparsity, pattern):
        """Chooses the masks again by the weights of now; weights that are zero stay so."""
        for name, weight in self.matrices.items():
            if fits(weight.shape, pattern):
                self.masks[name] = magnitude_mask(weight, sparsity, pattern)
        self.apply()

    def apply(self):
        """Sets masked weights to zero."""
        with torch.no_grad():
            for name, mask in self.masks.items():
                self.matrices[name].masked_fill_(~mask, 0.0)

    def apply_to_gradients(self):
        """Sets the gradients of masked weights to zero."""
        for name, mask in self.masks.items():
            grad = self.matrices[name].grad
            if grad is not None:
                grad.masked_fill_(~mask, 0.0)

    def sparsity(self):
        """Returns the share of zeros among all weights of the matrices."""
        zeros = sum(int((w.detach() == 0).sum()) for w in self.matrices.values())
        return zeros / max(1, sum(w.numel() for w in self.matrices.values()))

    def state(self):
        """Returns the masks for a checkpoint."""
        return self.masks

    def load(self, state):
        """Takes the masks of a checkpoint."""
        self.masks = state

"""Heads for the clauses of contracts, for bench/contracts.py: training on vectors of windows."""

import numpy as np

HIDDEN = 384
STEPS, BATCH, RATE, DECAY = 1500, 512, 2e-3, 1e-2
# Weight of a clause's presence in the loss.
PRESENT = 2.0


class Head:
    """Two layers: tanh(x P + p) W + w, `[n, hidden]` to `[n, clauses]`."""

    def __init__(self, x, clauses, random):
        self.mean, self.scale = x.mean(0), x.std(0) + 1e-6
        normal = lambda *shape: (random.standard_normal(shape) / shape[0] ** 0.5).astype(np.float32)
        self.layers = [normal(x.shape[1], HIDDEN), np.zeros(HIDDEN, np.float32), normal(HIDDEN, clauses), np.zeros(clauses, np.float32)]

    def forward(self, x):
        p, p0, w, w0 = self.layers
        hidden = np.tanh((x - self.mean) / self.scale @ p + p0)
        return hidden, hidden @ w + w0

    def probabilities(self, x):
        return 1 / (1 + np.exp(-self.forward(x)[1]))

    def train(self, x, y, random):
        """Adam with decoupled decay on batches of which half are windows with a clause."""
        first, second = [np.zeros_like(one) for one in self.layers], [np.zeros_like(one) for one in self.layers]
        some, none = np.flatnonzero(y.any(1)), np.flatnonzero(~y.any(1))
        for step in range(1, STEPS + 1):
            at = np.concatenate([random.choice(some, BATCH // 2), random.choice(none, BATCH // 2)])
            hidden, logits = self.forward(x[at])
            error = (1 / (1 + np.exp(-logits)) - y[at]) * np.where(y[at], PRESENT, 1.0) / len(at)
            p, p0, w, w0 = self.layers
            back = error @ w.T * (1 - hidden * hidden)
            gradients = [((x[at] - self.mean) / self.scale).T @ back, back.sum(0), hidden.T @ error, error.sum(0)]
            rate = RATE * (1 - step / (STEPS + 1))
            for i, gradient in enumerate(gradients):
                first[i] += 0.1 * (gradient - first[i])
                second[i] += 0.01 * (gradient * gradient - second[i])
                change = first[i] / (1 - 0.9**step) / (np.sqrt(second[i] / (1 - 0.99**step)) + 1e-8)
                decay = DECAY * self.layers[i] if self.layers[i].ndim == 2 else 0.0
                self.layers[i] = (self.layers[i] - rate * (change + decay)).astype(np.float32)


def of_contracts(scores, owner, contracts):
    """Best score of each clause in each contract, `[contracts, clauses]`."""
    best = np.zeros((contracts, scores.shape[1]), np.float32)
    np.maximum.at(best, owner, scores)
    return best


def thresholds(scores, truth, f1):
    """Threshold of each clause with the best F1."""
    found = []
    for one, there in zip(scores.T, truth.T):
        levels = np.quantile(one, np.linspace(0.02, 0.98, 49))
        found.append(float(max(levels, key=lambda level: f1(there, one >= level))))
    return found

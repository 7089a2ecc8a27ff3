"""A plain float64 evaluation of a small `llama` GGUF: weights decoded by gguf-py, nothing else rounded.

It shows how far a peer's rounding (activations, KV cache, flash attention) moves its logits.
"""
import gguf
import numpy as np


class Exact:
    def __init__(self, path):
        r = gguf.GGUFReader(str(path))
        meta = lambda k: r.fields[k].contents()
        self.layers = meta("llama.block_count")
        self.heads = meta("llama.attention.head_count")
        self.kv = meta("llama.attention.head_count_kv")
        self.eps = meta("llama.attention.layer_norm_rms_epsilon")
        self.theta = meta("llama.rope.freq_base") if "llama.rope.freq_base" in r.fields else 10000.0
        self.w = {t.name: gguf.dequantize(t.data, t.tensor_type).astype(np.float64).reshape(t.shape[::-1]) for t in r.tensors}
        self.dim = self.w["token_embd.weight"].shape[1]
        self.head = self.dim // self.heads

    def _norm(self, x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.eps) * self.w[name]

    def _rope(self, x):
        half = self.head // 2
        freq = self.theta ** (-np.arange(half) * 2.0 / self.head)
        a = np.arange(x.shape[0])[:, None] * freq[None]
        c, s = np.cos(a)[:, None], np.sin(a)[:, None]
        u, v = x[..., 0::2], x[..., 1::2]
        return np.stack((u * c - v * s, u * s + v * c), -1).reshape(x.shape)

    def forced(self, ids, outputs_from=0):
        """Logits at the positions of `ids` from `outputs_from` on."""
        n, d, g = len(ids), self.head, self.heads // self.kv
        x = self.w["token_embd.weight"][ids]
        mask = np.triu(np.full((n, n), -np.inf), 1)
        for i in range(self.layers):
            p = f"blk.{i}."
            h = self._norm(x, p + "attn_norm.weight")
            q = self._rope((h @ self.w[p + "attn_q.weight"].T).reshape(n, self.heads, d))
            k = self._rope((h @ self.w[p + "attn_k.weight"].T).reshape(n, self.kv, d))
            v = (h @ self.w[p + "attn_v.weight"].T).reshape(n, self.kv, d)
            out = np.empty((n, self.heads, d))
            for j in range(self.heads):
                s = q[:, j] @ k[:, j // g].T / np.sqrt(d) + mask
                e = np.exp(s - s.max(-1, keepdims=True))
                out[:, j] = (e / e.sum(-1, keepdims=True)) @ v[:, j // g]
            x = x + out.reshape(n, -1) @ self.w[p + "attn_output.weight"].T
            h = self._norm(x, p + "ffn_norm.weight")
            a = h @ self.w[p + "ffn_gate.weight"].T
            x = x + (a / (1.0 + np.exp(-a)) * (h @ self.w[p + "ffn_up.weight"].T)) @ self.w[p + "ffn_down.weight"].T
        x = self._norm(x[outputs_from:], "output_norm.weight")
        return x @ self.w.get("output.weight", self.w["token_embd.weight"]).T

    def greedy(self, ids, n):
        ids = list(ids)
        tokens = []
        for _ in range(n):
            tokens.append(int(self.forced(ids, len(ids) - 1)[0].argmax()))
            ids.append(tokens[-1])
        return tokens

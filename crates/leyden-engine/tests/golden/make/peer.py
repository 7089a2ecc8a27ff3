"""llama.cpp through the low-level API of the `llama_cpp` package (llama-cpp-python 0.3.36)."""
import ctypes

import llama_cpp as L
import numpy as np

THREADS = 2
FLASH = {"auto": -1, "off": 0, "on": 1}

_quiet = L.llama_log_callback(lambda level, text, data: None)


class Peer:
    """One model and one context; F16 KV cache, which is llama.cpp's default."""

    def __init__(self, path, n_ctx=1024, n_seq=1, flash="auto", threads=THREADS, repack=True):
        L.llama_log_set(_quiet, ctypes.c_void_p(0))
        L.llama_backend_init()
        mp = L.llama_model_default_params()
        mp.use_extra_bufts = repack
        self.model = L.llama_model_load_from_file(str(path).encode(), mp)
        if not self.model:
            raise SystemExit(f"llama.cpp cannot load {path}")
        self.vocab = L.llama_model_get_vocab(self.model)
        self.n_vocab = L.llama_vocab_n_tokens(self.vocab)
        cp = L.llama_context_default_params()
        cp.n_ctx = n_ctx * n_seq
        cp.n_batch = n_ctx * n_seq
        cp.n_ubatch = 512
        cp.n_seq_max = n_seq
        cp.n_threads = cp.n_threads_batch = threads
        cp.flash_attn_type = FLASH[flash]
        self.ctx = L.llama_init_from_model(self.model, cp)
        self.n_seq = n_seq
        self.batch = L.llama_batch_init(n_ctx * n_seq, 0, 1)

    def close(self):
        L.llama_batch_free(self.batch)
        L.llama_free(self.ctx)
        L.llama_model_free(self.model)

    def bos(self):
        return L.llama_vocab_bos(self.vocab)

    def encode(self, text, special=True):
        """Ids of `text` with the model's own BOS rule."""
        raw = text if isinstance(text, bytes) else text.encode("utf-8")
        out = (L.llama_token * (len(raw) + 8))()
        n = L.llama_tokenize(self.vocab, raw, len(raw), out, len(out), True, special)
        if n < 0:
            raise SystemExit("llama_tokenize: buffer too small")
        return list(out[:n])

    def decode(self, ids):
        """The bytes of `ids`, special tokens left out."""
        buf = ctypes.create_string_buffer(256)
        out = b""
        for i in ids:
            n = L.llama_token_to_piece(self.vocab, i, buf, len(buf), 0, False)
            out += buf.raw[: max(n, 0)]
        return out

    def clear(self):
        L.llama_memory_clear(L.llama_get_memory(self.ctx), True)

    def eval(self, sequences, start=0, outputs_from=0):
        """Decode equally long `sequences` in one batch; logits [sequence, position, vocab]."""
        b, n = self.batch, 0
        for s, ids in enumerate(sequences):
            for k, t in enumerate(ids):
                b.token[n], b.pos[n] = t, start + k
                b.n_seq_id[n], b.seq_id[n][0] = 1, s
                b.logits[n] = int(k >= outputs_from)
                n += 1
        b.n_tokens = n
        if L.llama_decode(self.ctx, b) != 0:
            raise SystemExit("llama_decode failed")
        out = []
        for s, ids in enumerate(sequences):
            rows = []
            for k in range(outputs_from, len(ids)):
                p = L.llama_get_logits_ith(self.ctx, s * len(ids) + k)
                rows.append(np.ctypeslib.as_array(p, (self.n_vocab,)).copy())
            out.append(np.stack(rows))
        return np.stack(out)

    def forced(self, ids):
        """Logits at every position of `ids`, decoded as one batch into an empty cache."""
        self.clear()
        return self.eval([ids])[0]

    def greedy(self, ids, n):
        """`n` greedy tokens after `ids`, end of text ignored, and the logits that chose them."""
        self.clear()
        row = self.eval([ids], outputs_from=len(ids) - 1)[0, 0]
        tokens, rows, at = [], [], len(ids)
        for _ in range(n):
            rows.append(row)
            tokens.append(int(row.argmax()))
            if len(tokens) < n:
                row = self.eval([[tokens[-1]]], start=at)[0, 0]
                at += 1
        return tokens, np.stack(rows)

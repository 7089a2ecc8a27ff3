#!/usr/bin/env python3
"""Writes reference.json: features, encoder states, logits and greedy tokens by transformers for a tiny Whisper.

usage: make.py            needs numpy, torch and transformers (made with transformers 5.24.0, torch 2.15.0)
Weights and audio follow from formulas, which the test has too: nothing else is stored.
"""
import json, os
import numpy as np
import torch
from transformers import WhisperConfig, WhisperFeatureExtractor, WhisperForConditionalGeneration

torch.set_num_threads(1)
N = 16000 * 7
i = np.arange(N, dtype=np.float64)
# A chirp that grows, a pause, and a low tone.
audio = 0.4 * np.sin(2 * np.pi * (200 + i * 0.02) * i / 16000) * (i / N) * ((i < 60000) | (i > 80000)) + 0.1 * np.sin(2 * np.pi * 110 * i / 16000)
audio = audio.astype(np.float32)


def values(name, n):
    """Returns n values between -1 and 1 that depend on the name."""
    seed = sum((k + 1) * ord(c) for k, c in enumerate(name))
    k = np.arange(n, dtype=np.uint64)
    x = (k * np.uint64(2654435761) + np.uint64(seed) * np.uint64(40503)) % np.uint64(1 << 32)
    x = (x ^ (x >> np.uint64(15))) * np.uint64(2246822519) % np.uint64(1 << 32)
    x = x ^ (x >> np.uint64(13))
    return (x.astype(np.float64) / (1 << 31) - 1).astype(np.float32)


def model(bins):
    config = WhisperConfig(vocab_size=1900, num_mel_bins=bins, d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=2, encoder_ffn_dim=256, decoder_ffn_dim=256, max_source_positions=1500, max_target_positions=64, pad_token_id=256, bos_token_id=256, eos_token_id=256, decoder_start_token_id=257)
    model = WhisperForConditionalGeneration(config).eval()
    with torch.no_grad():
        for name, tensor in model.model.named_parameters():
            x = torch.from_numpy(values(name, tensor.numel())).reshape(tensor.shape)
            norm = "layer_norm" in name and name.endswith("weight")
            tensor.copy_(1 + 0.3 * x if norm else x * (0.25 if tensor.dim() > 1 else 0.1))
    return model


out = {}
for bins in (80, 128):
    features = WhisperFeatureExtractor(feature_size=bins)(audio, sampling_rate=16000, return_tensors="pt").input_features
    net = model(bins)
    ids = [257] + [int(7 * k * k % 250) for k in range(20)]
    with torch.no_grad():
        encoded = net.model.encoder(features).last_hidden_state
        logits = net(encoder_outputs=(encoded,), decoder_input_ids=torch.tensor([ids])).logits[0]
    # Every hundredth frame, every 77th position, every 50th token of every fourth position.
    out[str(bins)] = {
        "features": [[round(float(x), 6) for x in features[0, :, t]] for t in range(0, 3000, 100)],
        "encoded": [[round(float(x), 6) for x in encoded[0, t]] for t in range(0, 1500, 77)],
        "ids": ids,
        "logits": [[round(float(x), 5) for x in logits[t, ::50]] for t in range(0, len(ids), 4)],
    }
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "reference.json"), "w") as file:
    json.dump(out, file)

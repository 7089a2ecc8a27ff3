#!/usr/bin/env python3
"""What an encoder's vectors lose by ways to quantise activations to 8-bit integers, and by leyden's `--int8`.

    python3 bench/int8_activations.py all-MiniLM-L6-v2 QUESTIONS.txt [--leyden target/release/leyden] [--texts 400]

Needs torch and transformers. QUESTIONS has a text on each line, of which every few are taken. Matrices of the layers get one scale for
each output row, their inputs what the row of the table says, all of it computed in floats; the rest of the model stays as it is. Printed
are the mean and the least cosine to the vectors in floats.
"""

import argparse
import json
import subprocess

import torch
from transformers import AutoModel, AutoTokenizer


def rounded(x):
    """Rows of values with one scale each, to 127 levels of each sign."""
    scale = x.abs().amax(-1, keepdim=True) / 127
    return (x / torch.where(scale > 0, scale, 1)).round() * scale


def in_groups(x, size):
    return rounded(x.reshape(*x.shape[:-1], -1, size)).reshape(x.shape)


def with_outliers(x, outliers):
    y = x.clone()
    y[..., outliers] = 0
    y = rounded(y)
    y[..., outliers] = rounded(x[..., outliers])
    return y


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("questions")
    parser.add_argument("--leyden")
    parser.add_argument("--texts", type=int, default=400)
    options = parser.parse_args()
    lines = [line.strip() for line in open(options.questions) if line.strip()]
    texts = lines[:: max(1, len(lines) // options.texts)][: options.texts]
    tokenizer = AutoTokenizer.from_pretrained(options.model)
    model = AutoModel.from_pretrained(options.model, attn_implementation="eager").eval()
    layers = [m for m in model.encoder.modules() if isinstance(m, torch.nn.Linear)]
    weights = [m.weight.data.clone() for m in layers]

    @torch.no_grad()
    def vectors():
        found = []
        for first in range(0, len(texts), 32):
            batch = tokenizer(texts[first : first + 32], padding=True, truncation=True, return_tensors="pt")
            states = model(**batch).last_hidden_state
            mask = batch["attention_mask"].unsqueeze(-1)
            found.append(torch.nn.functional.normalize((states * mask).sum(1) / mask.sum(1)))
        return torch.cat(found)

    def hooked(hook, run):
        """Runs with `hook(number, input)` on the input of each matrix."""
        hooks = [m.register_forward_pre_hook(lambda _, x, i=i: hook(i, x[0])) for i, m in enumerate(layers)]
        result = run()
        for one in hooks:
            one.remove()
        return result

    squares = [0] * len(layers)

    def add_squares(i, x):
        squares[i] = squares[i] + x.double().square().sum((0, 1))

    @torch.no_grad()
    def random_tokens():
        ids = torch.randint(model.config.vocab_size, (4, 32), generator=torch.Generator().manual_seed(1))
        model(input_ids=ids)

    hooked(add_squares, random_tokens)
    outliers = [s.argsort(descending=True)[:16] for s in squares]
    ways = {
        "weights alone": lambda _, x: x,
        "one scale for each token": lambda _, x: rounded(x),
        "one scale for each 64 values": lambda _, x: in_groups(x, 64),
        "one for each token, and one for its 16 outlier channels": lambda i, x: with_outliers(x, outliers[i]),
    }
    floats = vectors()
    found = {}
    for m, w in zip(layers, weights):
        m.weight.data = rounded(w)
    for name, way in ways.items():
        found[name] = hooked(lambda i, x, way=way: (way(i, x),), vectors)
    if options.leyden:
        asked = "".join(text + "\n" for text in texts)
        command = [options.leyden, "embed", options.model, "--int8", "--file", "/dev/stdin", "--json"]
        out = subprocess.run(command, input=asked, capture_output=True, text=True, check=True).stdout
        rows = [json.loads(line)["embedding"] for line in out.splitlines()]
        found["leyden --int8"] = torch.nn.functional.normalize(torch.tensor(rows))
    print(f"{len(texts)} texts: mean, least cosine to the vectors in floats")
    for name, vector in found.items():
        cosines = (vector * floats).sum(1)
        print(f"{cosines.mean():.5f} {cosines.min():.5f} {name}")


if __name__ == "__main__":
    main()

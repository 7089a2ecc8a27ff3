#!/usr/bin/env python3
"""Measures encoders on one and two threads, in turns with onnxruntime (INT8) and OpenVINO (INT8 by NNCF).

    python3 bench/encoders.py LEYDEN BASE [--rounds N] [--seconds S] [--threads 1,2] [--shapes minilm,bert-base] > RESULT.json

LEYDEN is the program; BASE a folder with all-MiniLM-L6-v2, whose tokenizer all models get. Needs torch, transformers, onnx,
onnxruntime, openvino and nncf. Weights are random: speed does not depend on them. What is measured is the states of texts of
128 tokens in batches of 1, 8 and 32, and of a stream of texts of mixed lengths (TEXTS, a file with one on a line, if given by
--stream) in batches of 32: sequences per second, the median of the rounds, each of which runs every program for some seconds.
The peers get padded batches of token ids in their own process; leyden is asked over HTTP, as texts, and answers with vectors,
so that its figures include tokenizing, pooling and JSON.
"""

import argparse
import datetime
import http.client
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

SHAPES = {
    "minilm": dict(hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536),
    "bert-base": dict(hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=3072),
}
TOKENS = 128
BATCHES = (1, 8, 32)


def make_model(shape, base, folder):
    """A folder with random weights of a shape, and its graph for the peers."""
    import torch
    import transformers

    torch.manual_seed(1)
    config = transformers.BertConfig(vocab_size=30522, max_position_embeddings=512, **SHAPES[shape])
    model = transformers.BertModel(config, add_pooling_layer=False).eval()
    model.save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
        shutil.copy(os.path.join(base, name), folder)
    ids = torch.ones((2, 16), dtype=torch.long)

    class States(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, input_ids, attention_mask):
            return self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state

    path = os.path.join(folder, "model.onnx")
    dynamic = {"input_ids": {0: "n", 1: "t"}, "attention_mask": {0: "n", 1: "t"}}
    model.set_attn_implementation("eager")
    torch.onnx.export(States(), (ids, ids), path, input_names=list(dynamic), output_names=["states"],
                      dynamic_axes=dynamic, opset_version=17, dynamo=False)
    return path


def padded(batch):
    import numpy as np

    longest = max(map(len, batch))
    ids = np.zeros((len(batch), longest), dtype=np.int64)
    mask = np.zeros_like(ids)
    for i, tokens in enumerate(batch):
        ids[i, :len(tokens)] = tokens
        mask[i, :len(tokens)] = 1
    return {"input_ids": ids, "attention_mask": mask}


def onnxruntime_int8(path, threads):
    import onnxruntime
    from onnxruntime.quantization import QuantType, quantize_dynamic

    quantised = path.replace(".onnx", ".int8.onnx")
    if not os.path.exists(quantised):
        quantize_dynamic(path, quantised, weight_type=QuantType.QInt8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(quantised, options, providers=["CPUExecutionProvider"])
    return lambda batch: session.run(None, batch)


def openvino_int8(path, threads, calibration):
    import nncf
    import openvino

    core = openvino.Core()
    quantised = path.replace(".onnx", ".nncf.xml")
    if not os.path.exists(quantised):
        model = core.read_model(path)
        data = nncf.Dataset(calibration, lambda batch: batch)
        openvino.save_model(nncf.quantize(model, data, model_type=nncf.ModelType.TRANSFORMER, subset_size=16), quantised)
    compiled = core.compile_model(quantised, "CPU", {
        "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY", "ENABLE_CPU_PINNING": False})
    request = compiled.create_infer_request()
    return lambda batch: request.infer(batch)


class Leyden:
    def __init__(self, program, folder, threads, int8):
        options = ["serve", folder, "--port", "0", "--threads", str(threads)] + (["--int8"] if int8 else [])
        self.server = subprocess.Popen([program, *options], stderr=subprocess.PIPE, text=True)
        for line in self.server.stderr:
            if "http://" in line:
                address = line.split("http://")[1].split()[0].rstrip(",/")
                break
        self.connection = http.client.HTTPConnection(address)

    def __call__(self, texts):
        body = json.dumps({"inputs": texts})
        self.connection.request("POST", "/embed", body, {"Content-Type": "application/json"})
        answer = self.connection.getresponse()
        data = answer.read()
        assert answer.status == 200, data

    def close(self):
        self.server.terminate()
        self.server.wait()


def speed(run, batches, seconds):
    """Sequences per second."""
    run(batches[0])
    count, start, i = 0, time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        run(batches[i % len(batches)])
        count += len(batches[i % len(batches)]["input_ids"]) if isinstance(batches[0], dict) else len(batches[i % len(batches)])
        i += 1
    return count / (time.perf_counter() - start)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("leyden")
    parser.add_argument("base")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--shapes", default="minilm,bert-base")
    parser.add_argument("--stream")
    options = parser.parse_args()
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_file(os.path.join(options.base, "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    # A text of exactly so many tokens: each of these words is one.
    words = "the a of to and in that it was for on are as with his they at be this from have or by one had not".split()
    text = lambda seed: " ".join(words[(seed * 7 + i * 5) % len(words)] for i in range(TOKENS - 2))
    assert len(tokenizer.encode(text(0)).ids) == TOKENS
    loads = {f"{n} x {TOKENS}": [[text(k * n + i) for i in range(n)] for k in range(4)] for n in BATCHES}
    if options.stream:
        lines = [line.strip() for line in open(options.stream, encoding="utf-8") if line.strip()][:512]
        loads["mixed stream"] = [lines[i:i + 32] for i in range(0, len(lines) - 31, 32)]
    ids = {name: [padded([tokenizer.encode(t).ids for t in batch]) for batch in batches] for name, batches in loads.items()}
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if "model name" in line), platform.processor())
    result = {"machine": cpu, "cpus": os.cpu_count(), "date": datetime.date.today().isoformat(), "commit": commit,
              "rounds": options.rounds, "seconds": options.seconds, "unit": "sequences per second", "runs": []}
    with tempfile.TemporaryDirectory() as top:
        for shape in options.shapes.split(","):
            folder = os.path.join(top, shape)
            os.makedirs(folder)
            path = make_model(shape, options.base, folder)
            for threads in map(int, options.threads.split(",")):
                calibration = ids[f"8 x {TOKENS}"]
                programs = {
                    "leyden int8": Leyden(options.leyden, folder, threads, True),
                    "leyden f32": Leyden(options.leyden, folder, threads, False),
                    "onnxruntime int8": onnxruntime_int8(path, threads),
                    "openvino int8": openvino_int8(path, threads, calibration),
                }
                for load, batches in loads.items():
                    found = {name: [] for name in programs}
                    for _ in range(options.rounds):
                        for name, run in programs.items():
                            given = batches if isinstance(run, Leyden) else ids[load]
                            found[name].append(speed(run, given, options.seconds))
                    row = {name: round(statistics.median(values), 1) for name, values in found.items()}
                    ranges = {name: [round(min(values), 1), round(max(values), 1)] for name, values in found.items()}
                    result["runs"].append({"shape": shape, "threads": threads, "load": load, "median": row, "range": ranges})
                    print(shape, threads, load, row, file=sys.stderr)
                for run in programs.values():
                    if isinstance(run, Leyden):
                        run.close()
    json.dump(result, sys.stdout, indent=1)
    print()


main()

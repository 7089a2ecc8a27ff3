#!/usr/bin/env python3
"""Measures encoders on one and two threads, in turns with onnxruntime (INT8) and OpenVINO (INT8 by NNCF).

    python3 bench/encoders.py LEYDEN BASE [--rounds N] [--seconds S] [--threads 1,2] [--shapes minilm,bert-base] > RESULT.json

LEYDEN is the example `encoder_bench` (cargo build --release -p leyden --example encoder_bench); BASE a folder with
all-MiniLM-L6-v2, whose tokenizer all models get. Needs torch, transformers, onnx, onnxruntime, openvino and nncf. Weights are
random: speed does not depend on them. What is measured is the states of texts of 128 tokens in batches of 1, 8 and 32, and of a
stream of texts of mixed lengths (a file with one on a line, if given by --stream) in batches of 32: sequences per second, the
median of the rounds, each of which runs every program for some seconds. All get token ids in a process of their own, the peers
padded ones; leyden's figures include pooling. A share is that of the matrices' multiplications in the most that the
instructions make in the same run (AMX, VNNI; of floats FMA).
"""

import argparse
import datetime
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
    path = os.path.join(folder, "model.onnx")
    if os.path.exists(path):
        return path
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


def text(seed):
    """A text of TOKENS tokens: each of its words is one."""
    words = "the a of to and in that it was for on are as with his they at be this from have or by one had not".split()
    return " ".join(words[(seed * 7 + i * 5) % len(words)] for i in range(TOKENS - 2))


def token_batches(tokenizer, sizes, stream):
    """Token ids of batches of these sizes, and of the lines of a file in batches of 32, by name."""
    assert len(tokenizer.encode(text(0)).ids) == TOKENS
    loads = {f"{n} x {TOKENS}": [[text(k * n + i) for i in range(n)] for k in range(4)] for n in sizes}
    if stream:
        lines = [line.strip() for line in open(stream, encoding="utf-8") if line.strip()][:512]
        loads["mixed stream"] = [lines[i:i + 32] for i in range(0, len(lines) - 31, 32)]
    return {name: [[tokenizer.encode(t).ids for t in batch] for batch in batches] for name, batches in loads.items()}


def timed(run, batches, seconds):
    """Sequences per second, after a run that is not counted."""
    run(batches[0])
    count, start, i = 0, time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        batch = batches[i % len(batches)]
        run(batch)
        count += len(batch["input_ids"])
        i += 1
    return count / (time.perf_counter() - start)


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
    return openvino_of(quantised, threads, {})


def openvino_of(path, threads, hints):
    import openvino

    compiled = openvino.Core().compile_model(path, "CPU", {
        "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY", "ENABLE_CPU_PINNING": False, **hints})
    request = compiled.create_infer_request()
    return lambda batch: request.infer(batch)


class Leyden:
    """The example `encoder_bench`: the library in a process of its own, which is asked to run for some seconds."""

    def __init__(self, program, folder, threads, int8):
        self.program = subprocess.Popen([program, folder, str(threads)] + (["--int8"] if int8 else []),
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def speed(self, batches, seconds):
        """Sequences per second, and multiplications of matrices as a share of the most that the instructions make."""
        print(json.dumps({"seconds": seconds, "batches": batches}), file=self.program.stdin, flush=True)
        found = json.loads(self.program.stdout.readline())
        return found["sequences_per_second"], found["macs"] / found["peak"]

    def close(self):
        self.program.stdin.close()
        self.program.wait()


class Peer:
    def __init__(self, run):
        self.run = run

    def speed(self, batches, seconds):
        """Sequences per second; batches were padded before."""
        return timed(self.run, [padded(batch) for batch in batches], seconds), None

    def close(self):
        pass


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("leyden")
    parser.add_argument("base")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--shapes", default="minilm,bert-base")
    parser.add_argument("--stream")
    parser.add_argument("--models", help="where the models are made, to be used again")
    parser.add_argument("--programs", default="leyden int8,leyden f32,onnxruntime int8,openvino int8,openvino f32,openvino bf16")
    options = parser.parse_args()
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_file(os.path.join(options.base, "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    ids = token_batches(tokenizer, BATCHES, options.stream)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if "model name" in line), platform.processor())
    result = {"machine": cpu, "cpus": os.cpu_count(), "date": datetime.date.today().isoformat(), "commit": commit,
              "rounds": options.rounds, "seconds": options.seconds, "unit": "sequences per second", "runs": []}
    with tempfile.TemporaryDirectory() as temporary:
        top = options.models or temporary
        for shape in options.shapes.split(","):
            folder = os.path.join(top, shape)
            os.makedirs(folder, exist_ok=True)
            path = make_model(shape, options.base, folder)
            for threads in map(int, options.threads.split(",")):
                calibration = [padded(batch) for batch in ids[f"8 x {TOKENS}"]]
                make = {
                    "leyden int8": lambda: Leyden(options.leyden, folder, threads, True),
                    "leyden f32": lambda: Leyden(options.leyden, folder, threads, False),
                    "onnxruntime int8": lambda: Peer(onnxruntime_int8(path, threads)),
                    "openvino int8": lambda: Peer(openvino_int8(path, threads, calibration)),
                    "openvino f32": lambda: Peer(openvino_of(path, threads, {"INFERENCE_PRECISION_HINT": "f32"})),
                    "openvino bf16": lambda: Peer(openvino_of(path, threads, {"INFERENCE_PRECISION_HINT": "bf16"})),
                }
                programs = {name: make[name]() for name in options.programs.split(",")}
                for load, batches in ids.items():
                    found, shares = {name: [] for name in programs}, {}
                    for _ in range(options.rounds):
                        for name, program in programs.items():
                            speed, share = program.speed(batches, options.seconds)
                            found[name].append(speed)
                            if share is not None:
                                shares.setdefault(name, []).append(share)
                    row = {name: round(statistics.median(values), 1) for name, values in found.items()}
                    ranges = {name: [round(min(values), 1), round(max(values), 1)] for name, values in found.items()}
                    shares = {name: round(statistics.median(values), 3) for name, values in shares.items()}
                    run = {"shape": shape, "threads": threads, "load": load, "median": row, "range": ranges, "peak_share": shares}
                    result["runs"].append(run)
                    print(shape, threads, load, row, shares, file=sys.stderr)
                for program in programs.values():
                    program.close()
    json.dump(result, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Measures sparse encoders in INT8, in turns with DeepSparse, OpenVINO and onnxruntime on the same weights.

    python3 bench/sparse_encoders.py LEYDEN BASE WORK [--shapes minilm,bert-base] [--sparsity 0,80,90] [--patterns random,1x4,4x1]
        [--folder NAME=PATH ...] [--threads 1,2] [--batches 1,8,32] [--stream FILE] [--deepsparse PYTHON] > RESULT.json

LEYDEN is the example `encoder_bench`; BASE a folder with all-MiniLM-L6-v2, whose tokenizer all models get; WORK the folder of
models, kept for the next run. `--folder` adds a fine-tuned checkpoint (BERT). DeepSparse 1.8.0 needs CPython 3.11, so it runs in a
process of its own, by the interpreter that `--deepsparse` names. Needs numpy, safetensors, tokenizers, onnx, onnxruntime,
openvino and nncf. Graphs are built here from the checkpoint, in operators of ONNX's opset 13. The INT8 graph of DeepSparse is
QuantizeLinear, MatMulInteger, Cast, Mul with one scale per matrix, the form that it computes with sparse kernels; onnxruntime
gets its own dynamic quantisation, OpenVINO NNCF's. A pattern is random, blocks of 1 output and 4 inputs (1x4) or of 4 outputs
and 1 input (4x1).
"""

import argparse
import datetime
import json
import os
import shutil
import statistics
import subprocess
import sys

import numpy as np

from encoders import SHAPES, onnxruntime_int8, openvino_int8, text, timed, token_batches


def masked(w, sparsity, pattern, rng):
    """Returns `w` [outputs, inputs] with so much of it set to zero, at random places or random blocks."""
    rows, cols = w.shape
    block = {"random": (1, 1), "1x4": (1, 4), "4x1": (4, 1)}[pattern]
    mask = rng.random((rows // block[0], cols // block[1])) >= sparsity / 100
    return w * np.repeat(np.repeat(mask, block[0], 0), block[1], 1)


def make_folder(shape, sparsity, pattern, base, folder):
    """Writes a checkpoint of BERT with random weights."""
    if os.path.exists(os.path.join(folder, "model.safetensors")):
        return
    from safetensors.numpy import save_file

    os.makedirs(folder, exist_ok=True)
    rng = np.random.default_rng(1)
    sizes = SHAPES[shape]
    h, ff = sizes["hidden_size"], sizes["intermediate_size"]
    t = {}
    normal = lambda *s: (rng.standard_normal(s, dtype=np.float32) * 0.04).astype(np.float16)
    norm = lambda name: t.update({name + ".weight": np.ones(h, np.float16), name + ".bias": np.zeros(h, np.float16)})
    t["embeddings.word_embeddings.weight"] = normal(30522, h)
    t["embeddings.position_embeddings.weight"] = normal(512, h)
    t["embeddings.token_type_embeddings.weight"] = normal(2, h)
    norm("embeddings.LayerNorm")
    for i in range(sizes["num_hidden_layers"]):
        at = f"encoder.layer.{i}."
        for name, rows, cols in (("attention.self.query", h, h), ("attention.self.key", h, h), ("attention.self.value", h, h),
                                 ("attention.output.dense", h, h), ("intermediate.dense", ff, h), ("output.dense", h, ff)):
            w = normal(rows, cols)
            t[at + name + ".weight"] = masked(w, sparsity, pattern, rng).astype(np.float16) if sparsity else w
            t[at + name + ".bias"] = normal(rows)
        norm(at + "attention.output.LayerNorm")
        norm(at + "output.LayerNorm")
    save_file(t, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
    config = dict(architectures=["BertModel"], model_type="bert", vocab_size=30522, max_position_embeddings=512, type_vocab_size=2,
                  hidden_act="gelu", layer_norm_eps=1e-12, pad_token_id=0, torch_dtype="float16", position_embedding_type="absolute", **sizes)
    json.dump(config, open(os.path.join(folder, "config.json"), "w"), indent=1)
    for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
        if os.path.exists(os.path.join(base, name)):
            shutil.copy(os.path.join(base, name), folder)


class Graph:
    """ONNX graph of BERT's hidden states; `scales` gives the activation's range of each quantised product."""

    def __init__(self, folder, ranges=None):
        from safetensors.numpy import load_file

        self.t = {k.removeprefix("bert."): v.astype(np.float32) for k, v in load_file(os.path.join(folder, "model.safetensors")).items()}
        self.c = json.load(open(os.path.join(folder, "config.json")))
        self.ranges, self.nodes, self.weights, self.products, self.count = ranges, [], {}, [], 0

    def node(self, op, inputs, **attributes):
        from onnx import helper

        self.count += 1
        out = f"{op.lower()}_{self.count}"
        self.nodes.append(helper.make_node(op, inputs, [out], name=out, **attributes))
        return out

    def const(self, value, kind=np.float32):
        value = np.asarray(value, kind)
        name = f"const_{value.dtype}_{value.shape}_{value.tobytes().hex()[:64]}" if value.size < 9 else f"w_{len(self.weights)}"
        self.weights[name] = value
        return name

    def quantised(self, x, key):
        low, high = min(self.ranges[key][0], 0.0), max(self.ranges[key][1], 0.0)
        scale = max(high - low, 1e-6) / 255
        zero = int(np.clip(np.round(-low / scale), 0, 255))
        zero = self.const(zero, np.uint8)
        return self.node("QuantizeLinear", [x, self.const(scale), zero]), zero, scale

    def linear(self, x, name):
        w = self.t[name + ".weight"].T.copy()
        self.products.append((name, x))
        if self.ranges is None:
            y = self.node("MatMul", [x, self.const(w)])
        else:
            q, zero, scale = self.quantised(x, name)
            own = max(np.abs(w).max(), 1e-6) / 127
            wq = np.clip(np.round(w / own), -127, 127)
            y = self.node("MatMulInteger", [q, self.const(wq, np.int8), zero, self.const(0, np.int8)])
            y = self.node("Mul", [self.node("Cast", [y], to=1), self.const(scale * own)])
        return self.node("Add", [y, self.const(self.t[name + ".bias"])])

    def product(self, a, b, name):
        """Product of two activations."""
        self.products += [(name + ".a", a), (name + ".b", b)]
        if self.ranges is None:
            return self.node("MatMul", [a, b])
        (qa, za, sa), (qb, zb, sb) = self.quantised(a, name + ".a"), self.quantised(b, name + ".b")
        y = self.node("Cast", [self.node("MatMulInteger", [qa, qb, za, zb])], to=1)
        return self.node("Mul", [y, self.const(sa * sb)])

    def norm(self, x, name):
        mean = self.node("ReduceMean", [x], axes=[-1])
        d = self.node("Sub", [x, mean])
        var = self.node("ReduceMean", [self.node("Pow", [d, self.const(2.0)])], axes=[-1])
        std = self.node("Sqrt", [self.node("Add", [var, self.const(self.c["layer_norm_eps"])])])
        y = self.node("Mul", [self.node("Div", [d, std]), self.const(self.t[name + ".weight"])])
        return self.node("Add", [y, self.const(self.t[name + ".bias"])])

    def gelu(self, x):
        e = self.node("Erf", [self.node("Div", [x, self.const(np.sqrt(2.0))])])
        return self.node("Mul", [self.node("Mul", [x, self.node("Add", [e, self.const(1.0)])]), self.const(0.5)])

    def build(self, path, watch=False):
        import onnx
        from onnx import TensorProto, helper, numpy_helper

        heads, h = self.c["num_attention_heads"], self.c["hidden_size"]
        ids = self.node("Gather", [self.const(self.t["embeddings.word_embeddings.weight"]), "input_ids"])
        types = self.node("Gather", [self.const(self.t["embeddings.token_type_embeddings.weight"]), "token_type_ids"])
        length = self.node("Gather", [self.node("Shape", ["input_ids"]), self.const(1, np.int64)], axis=0)
        last = self.node("Unsqueeze", [length, self.const([0], np.int64)])
        places = self.node("Slice", [self.const(self.t["embeddings.position_embeddings.weight"]), self.const([0], np.int64), last, self.const([0], np.int64)])
        x = self.norm(self.node("Add", [self.node("Add", [ids, types]), places]), "embeddings.LayerNorm")
        mask = self.node("Cast", [self.node("Unsqueeze", ["attention_mask", self.const([1, 2], np.int64)])], to=1)
        mask = self.node("Mul", [self.node("Sub", [self.const(1.0), mask]), self.const(-10000.0)])
        split, merged = self.const([0, 0, heads, h // heads], np.int64), self.const([0, 0, h], np.int64)
        for i in range(self.c["num_hidden_layers"]):
            at = f"encoder.layer.{i}."
            part = lambda n, perm: self.node("Transpose", [self.node("Reshape", [self.linear(x, at + "attention.self." + n), split])], perm=perm)
            q, k, v = part("query", [0, 2, 1, 3]), part("key", [0, 2, 3, 1]), part("value", [0, 2, 1, 3])
            s = self.node("Div", [self.product(q, k, at + "qk"), self.const(np.sqrt(h / heads))])
            p = self.node("Softmax", [self.node("Add", [s, mask])], axis=-1)
            o = self.node("Reshape", [self.node("Transpose", [self.product(p, v, at + "pv")], perm=[0, 2, 1, 3]), merged])
            x = self.norm(self.node("Add", [self.linear(o, at + "attention.output.dense"), x]), at + "attention.output.LayerNorm")
            f = self.linear(self.gelu(self.linear(x, at + "intermediate.dense")), at + "output.dense")
            x = self.norm(self.node("Add", [f, x]), at + "output.LayerNorm")
        if "classifier.weight" in self.t:
            first = self.node("Gather", [x, self.const(0, np.int64)], axis=1)
            dense = lambda v, n: self.node("Add", [self.node("MatMul", [v, self.const(self.t[n + ".weight"].T.copy())]), self.const(self.t[n + ".bias"])])
            x = dense(self.node("Tanh", [dense(first, "pooler.dense")]), "classifier")
        outputs = [x] + ([name for _, name in dict((n, (k, n)) for k, n in self.products).values()] if watch else [])
        make = lambda n, kind: helper.make_tensor_value_info(n, kind, ["n", "t"])
        graph = helper.make_graph(
            self.nodes, "bert", [make(n, TensorProto.INT64) for n in ("input_ids", "attention_mask", "token_type_ids")],
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs],
            [numpy_helper.from_array(v, k) for k, v in self.weights.items()])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)
        onnx.save(model, path)


def make_graphs(folder, batches):
    """Writes the folder's graphs in floats and in DeepSparse's INT8 form, with ranges of activations from some batches."""
    import onnxruntime

    f32, int8, watched = (os.path.join(folder, n) for n in ("f32.onnx", "deepsparse-int8.onnx", "watched.onnx"))
    if os.path.exists(int8):
        return f32, int8
    Graph(folder).build(f32)
    graph = Graph(folder)
    graph.build(watched, watch=True)
    session = onnxruntime.InferenceSession(watched, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    ranges = {}
    for batch in batches:
        found = dict(zip(names, session.run(None, batch)))
        for key, name in graph.products:
            values = found[name]
            low, high = ranges.get(key, (0.0, 0.0))
            ranges[key] = (min(low, float(values.min())), max(high, float(values.max())))
    os.remove(watched)
    Graph(folder, ranges).build(int8)
    return f32, int8


def padded(batch, to=None):
    longest = to or max(map(len, batch))
    ids = np.zeros((len(batch), longest), dtype=np.int64)
    mask = np.zeros_like(ids)
    for i, tokens in enumerate(batch):
        ids[i, :len(tokens)] = tokens
        mask[i, :len(tokens)] = 1
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}


class Process:
    """Program that answers a line of batches with a line of its speed."""

    def __init__(self, command):
        self.program = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def speed(self, batches, seconds):
        print(json.dumps({"seconds": seconds, "batches": batches}), file=self.program.stdin, flush=True)
        line = self.program.stdout.readline()
        return json.loads(line)["sequences_per_second"] if line.strip() else None

    def close(self):
        self.program.stdin.close()
        self.program.wait()


class Peer:
    def __init__(self, run):
        self.run = run

    def speed(self, batches, seconds):
        return timed(self.run, [padded(batch) for batch in batches], seconds)

    def close(self):
        pass


def serve_deepsparse(path, threads):
    """Runs as a process of its own: an engine for each shape of batches, as its pipelines with buckets of lengths do."""
    from deepsparse import Engine

    engines = {}

    def engine(n, t):
        if (n, t) not in engines:
            engines[n, t] = Engine(model=path, batch_size=n, num_cores=threads, input_shapes=[[n, t]] * 3)
        return engines[n, t]

    def run(batch):
        engine(*batch["input_ids"].shape).run([batch["input_ids"], batch["attention_mask"], batch["token_type_ids"]], val_inp=False)

    own = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        asked = json.loads(line)
        # Lengths rounded up to 16, so that a stream needs few engines.
        batches = [padded(b, -(-max(map(len, b)) // 16) * 16) for b in asked["batches"]]
        for batch in batches:
            engine(*batch["input_ids"].shape)
        print(json.dumps({"sequences_per_second": timed(run, batches, asked["seconds"])}), file=own, flush=True)


def main():
    if len(sys.argv) == 4 and sys.argv[1] == "--serve-deepsparse":
        return serve_deepsparse(sys.argv[2], int(sys.argv[3]))
    parser = argparse.ArgumentParser()
    parser.add_argument("leyden")
    parser.add_argument("base")
    parser.add_argument("work")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--batches", default="1,8,32")
    parser.add_argument("--shapes", default="minilm,bert-base")
    parser.add_argument("--sparsity", default="0,80,90")
    parser.add_argument("--patterns", default="random")
    parser.add_argument("--folder", action="append", default=[])
    parser.add_argument("--stream")
    parser.add_argument("--deepsparse", help="Python 3.11 with deepsparse 1.8.0")
    parser.add_argument("--programs", default="leyden,deepsparse,openvino,onnxruntime")
    options = parser.parse_args()
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_file(os.path.join(options.base, "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    ids = token_batches(tokenizer, map(int, filter(None, options.batches.split(","))), options.stream)
    calibration = [padded([tokenizer.encode(text(i)).ids for i in range(8)])]
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if "model name" in line), "unknown")
    result = {"machine": cpu, "cpus": os.cpu_count(), "date": datetime.date.today().isoformat(), "commit": commit,
              "rounds": options.rounds, "seconds": options.seconds, "unit": "sequences per second", "runs": []}
    folders = {}
    for shape in filter(None, options.shapes.split(",")):
        for sparsity in map(int, options.sparsity.split(",")):
            for pattern in options.patterns.split(",") if sparsity else ["random"]:
                name = f"{shape} {sparsity} % {pattern}" if sparsity else f"{shape} dense"
                folder = os.path.join(options.work, name.replace(" ", "_").replace("%", "p"))
                make_folder(shape, sparsity, pattern, options.base, folder)
                folders[name] = folder
    for pair in options.folder:
        name, folder = pair.split("=", 1)
        copy = os.path.join(options.work, name)
        if not os.path.exists(copy):
            shutil.copytree(folder, copy)
        folders[name] = copy
    for name, folder in folders.items():
        f32, int8 = make_graphs(folder, calibration)
        for threads in map(int, options.threads.split(",")):
            make = {
                "leyden": lambda: Process([options.leyden, folder, str(threads), "--int8"]),
                "deepsparse": lambda: Process([options.deepsparse, __file__, "--serve-deepsparse", int8, str(threads)]),
                "openvino": lambda: Peer(openvino_int8(f32, threads, calibration)),
                "onnxruntime": lambda: Peer(onnxruntime_int8(f32, threads)),
            }
            programs = {p: make[p]() for p in options.programs.split(",") if p != "deepsparse" or options.deepsparse}
            for load, batches in ids.items():
                found = {p: [] for p in programs}
                for _ in range(options.rounds):
                    for p, program in programs.items():
                        found[p].append(program.speed(batches, options.seconds))
                kept = {p: v for p, v in found.items() if None not in v}
                row = {p: round(statistics.median(v), 1) for p, v in kept.items()}
                ranges = {p: [round(min(v), 1), round(max(v), 1)] for p, v in kept.items()}
                result["runs"].append({"model": name, "threads": threads, "load": load, "median": row, "range": ranges})
                print(name, threads, load, row, file=sys.stderr, flush=True)
            for program in programs.values():
                program.close()
    json.dump(result, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()

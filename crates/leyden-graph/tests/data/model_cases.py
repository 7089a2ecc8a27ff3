"""Computes graphs with onnxruntime for the runner in tests/graphs: model_cases.py OUT SHARED [MODELS].

SHARED is the folder of test data, MODELS one with larger models, where there is one. Of each graph: OUT/NAME.io.onnx,
a model whose initialisers are the inputs in0, in1, ... and the outputs out0, out1, ... OUT/models.json has the paths.
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import numpy_helper

rng = np.random.default_rng(1)


def floats(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def words(n):
    ids = rng.integers(1000, 20000, (2, n)).astype(np.int64)
    mask = np.ones_like(ids)
    mask[1, n * 3 // 4 :] = 0
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}


def cases(shared, models):
    vision = shared / "vision"
    yield "mnist", vision / "mnist/mnist.onnx", lambda: {"input": floats(1, 1, 28, 28)}
    yield "mnist-external", vision / "mnist/mnist-external/mnist.onnx", lambda: {"input": floats(1, 1, 28, 28)}
    for name in ["version-RFB-320", "version-RFB-320_simplified", "version-slim-320_simplified"]:
        yield name, vision / f"ultraface/{name}.onnx", lambda: {"input": floats(1, 3, 240, 320) * 0.5}
    for name in ["silero_vad", "silero_vad_16k_op15"]:
        inputs = lambda: {"input": floats(1, 576) * 0.1, "state": floats(2, 1, 128) * 0.1, "sr": np.array(16000, np.int64)}
        yield name, shared / f"audio/silero-vad/{name}.onnx", inputs
    inputs = lambda: {"input": floats(1, 256) * 0.1, "state": floats(2, 1, 128) * 0.1, "sr": np.array(8000, np.int64)}
    yield "silero_vad_8k", shared / "audio/silero-vad/silero_vad.onnx", inputs
    if models is None:
        return
    yield "minilm-int8", models / "minilm-int8.onnx", lambda: words(32)
    yield "ocr-detect", models / "ocr/detect.onnx", lambda: {"x": floats(1, 3, 320, 480)}
    yield "ocr-recognise", models / "ocr/recognise.onnx", lambda: {"x": floats(2, 3, 48, 320)}
    yield "ocr-orient", models / "ocr/orient.onnx", lambda: {"x": floats(1, 3, 48, 192)}
    yield "magika", models / "magika/model.onnx", lambda: {"bytes": rng.integers(0, 257, (2, 2048)).astype(np.int32)}
    phonemes = [1, 0] + [v for p in [20, 61, 24, 59, 100, 3, 35, 62, 122, 24, 17, 10] for v in (p, 0)] + [2]
    yield "piper", models / "en_US-joe-medium.onnx", lambda: {
        "input": np.array([phonemes], np.int64),
        "input_lengths": np.array([len(phonemes)], np.int64),
        "scales": np.array([0, 1, 0], np.float32),
    }
    yield "kokoro", models / "kokoro-82m-int8.onnx", lambda: {
        "tokens": np.array([[0, 50, 83, 54, 156, 57, 135, 16, 65, 85, 46, 0]], np.int64),
        "style": floats(1, 256) * 0.1,
        "speed": np.ones(1, np.float32),
    }
    for path in sorted(models.glob("more/*.onnx")):
        inputs = path.with_suffix(".npz")
        if inputs.exists():
            yield path.stem, path, lambda: dict(np.load(inputs))


def main(out, shared, models):
    out.mkdir(parents=True, exist_ok=True)
    listed = []
    folders = sorted((shared / "onnx_test_cases").iterdir())
    stored = [(f.name, f / "model.onnx", lambda f=f: np.load(f / "io.npz")) for f in folders if (f / "io.npz").exists()]
    for name, path, inputs in stored + list(cases(shared, models)):
        if not path.exists():
            continue
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        found = inputs()
        wanted = [i.name for i in session.get_inputs()]
        feed = {k: found[k] for k in wanted if k in found}
        if len(feed) < len(wanted):
            arrays = [found[k] for k in found]
            feed = {k: arrays[i] for i, k in enumerate(wanted)}
        graph = onnx.GraphProto(name="io")
        for i, k in enumerate(wanted):
            graph.initializer.append(numpy_helper.from_array(np.array(feed[k], order="C"), f"in{i}"))
        for i, value in enumerate(session.run(None, feed)):
            graph.initializer.append(numpy_helper.from_array(np.asarray(value), f"out{i}"))
        (out / f"{name}.io.onnx").write_bytes(onnx.ModelProto(ir_version=8, graph=graph).SerializeToString())
        listed.append({"name": name, "path": str(path), "inputs": wanted})
    (out / "models.json").write_text(json.dumps(listed))


main(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]) if len(sys.argv) > 3 else None)

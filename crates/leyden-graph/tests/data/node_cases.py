"""Writes ONNX's own node tests for the runner in tests/graphs: node_cases.py OUT.

Of each test: OUT/NAME.onnx, and OUT/NAME.K.io.onnx for each of its K sets of data, a model whose initialisers are the
inputs in0, in1, ... and the outputs out0, out1, ...; a sequence's values are in0.0, in0.1, ... OUT/tests.json lists the
tests with the relative and absolute tolerance, and those that could not be written with the reason.
"""

import json
import sys
import warnings
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests

warnings.filterwarnings("ignore")


def tensors(name, value, info):
    """Returns the initialisers of a value."""
    if isinstance(value, onnx.TensorProto):
        tensor = onnx.TensorProto()
        tensor.CopyFrom(value)
        tensor.name = name
        return [tensor]
    if isinstance(value, (list, tuple)):
        return [t for i, v in enumerate(value) for t in tensors(f"{name}.{i}", v, None)] + [
            numpy_helper.from_array(np.array(len(value), np.int64), f"{name}.len")
        ]
    if isinstance(value, dict) or value is None:
        raise TypeError(f"{name} is {type(value).__name__}")
    array = np.asarray(value)
    if info is not None and info.type.HasField("tensor_type"):
        kind = info.type.tensor_type.elem_type
        if kind == onnx.TensorProto.STRING:
            return [onnx.helper.make_tensor(name, kind, array.shape, [str(v).encode() for v in array.flatten()])]
    if array.dtype.kind in "OUS":
        texts = [v if isinstance(v, bytes) else str(v).encode() for v in array.flatten()]
        return [onnx.helper.make_tensor(name, onnx.TensorProto.STRING, array.shape, texts)]
    return [numpy_helper.from_array(array, name)]


def main(out):
    out.mkdir(parents=True, exist_ok=True)
    tests, left = [], {}
    for test in load_model_tests(kind="node"):
        try:
            (out / f"{test.name}.onnx").write_bytes(test.model.SerializeToString())
            for k, (inputs, outputs) in enumerate(test.data_sets):
                graph = onnx.GraphProto(name="io")
                for prefix, values, infos in [
                    ("in", inputs, test.model.graph.input),
                    ("out", outputs, test.model.graph.output),
                ]:
                    for i, value in enumerate(values):
                        graph.initializer.extend(tensors(f"{prefix}{i}", value, infos[i] if i < len(infos) else None))
                model = onnx.ModelProto(ir_version=8, graph=graph)
                (out / f"{test.name}.{k}.io.onnx").write_bytes(model.SerializeToString())
            tests.append({"name": test.name, "sets": len(test.data_sets), "rtol": test.rtol, "atol": test.atol})
        except Exception as e:
            left[test.name] = f"{type(e).__name__}: {e}"
    (out / "tests.json").write_text(json.dumps({"tests": tests, "left": left}))
    print(len(tests), "tests,", len(left), "left out")


main(Path(sys.argv[1]))

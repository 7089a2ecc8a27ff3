"""ONNX exports of tiny encoders, and what onnxruntime computes with them.

    python3 onnx_encoders.py ../../fixtures/onnx ../onnx_encoders.json

Needs torch, transformers, onnx, onnxscript, onnxruntime and numpy. `tests/model/onnx_encoders.rs` reads both.
"""

import json
import logging
import pathlib
import sys

import numpy as np
import onnx
import onnxruntime
import torch
import transformers
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static
from onnxruntime.transformers import optimizer
from onnxruntime.transformers.float16 import convert_float_to_float16

VOCAB = 48
BERT = {
    "vocab_size": VOCAB, "hidden_size": 32, "intermediate_size": 32, "num_attention_heads": 2, "num_hidden_layers": 1,
    "max_position_embeddings": 24, "type_vocab_size": 2, "layer_norm_eps": 1e-12, "pad_token_id": 0, "hidden_act": "gelu",
}
ROBERTA = {**BERT, "max_position_embeddings": 26, "type_vocab_size": 1, "layer_norm_eps": 1e-5, "pad_token_id": 1}
MPNET = {key: value for key, value in {**ROBERTA, "relative_attention_num_buckets": 32}.items() if key != "type_vocab_size"}
DISTIL = {
    "vocab_size": VOCAB, "dim": 32, "hidden_dim": 32, "n_heads": 2, "n_layers": 1, "max_position_embeddings": 24,
    "activation": "gelu",
}
NAMES = {str(i): name for i, name in enumerate(["lost card", "card arrival", "top up"])}
TEXTS = [[3, 17, 29, 5, 44, 11, 38, 2, 9, 21, 7], [3, 40, 8, 33]]

# Class, configuration, how attention is written, whether by torch.export, version of the operations.
EXPORTS = {
    "bert": ("BertModel", BERT, "sdpa", False, 17),
    "bert-layers": ("BertModel", {**BERT, "num_hidden_layers": 2, "intermediate_size": 16}, "eager", False, 17),
    "bert-old": ("BertModel", {**BERT, "hidden_act": "gelu_new"}, "eager", False, 14),
    "bert-tokens": ("BertForTokenClassification", {**BERT, "id2label": NAMES}, "eager", False, 17),
    "roberta-rank": ("RobertaForSequenceClassification", {**ROBERTA, "id2label": {"0": "LABEL_0"}}, "sdpa", False, 17),
    "mpnet": ("MPNetModel", MPNET, "eager", False, 17),
    "distilbert-labels": ("DistilBertForSequenceClassification", {**DISTIL, "id2label": NAMES}, "sdpa", True, 20),
    "electra": ("ElectraModel", {**BERT, "embedding_size": 16}, "eager", False, 14),
}


class Outputs(torch.nn.Module):
    """The first result alone."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask, token_type_ids=None):
        types = {} if token_type_ids is None else {"token_type_ids": token_type_ids}
        return self.model(input_ids=input_ids, attention_mask=attention_mask, **types)[0]


def export(name, path):
    cls, config, attention, by_export, opset = EXPORTS[name]
    torch.manual_seed(len(name))
    made = getattr(transformers, cls.split("For")[0].removesuffix("Model") + "Config")(**config)
    made.return_dict = True
    options = {"add_pooling_layer": False} if cls in ("BertModel", "MPNetModel") else {}
    model = getattr(transformers, cls)(made, **options).eval()
    model.set_attn_implementation(attention)
    for parameter in model.parameters():
        scale = 0.3 if parameter.dim() == 1 else 0.4
        parameter.data = torch.randn(parameter.shape) * scale + (1.0 if parameter.data.eq(1).all() else 0.0)
    ids = torch.tensor([TEXTS[0], TEXTS[0][::-1]])
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if config.get("type_vocab_size") == 2:
        inputs["token_type_ids"] = torch.zeros_like(ids)
    out = "logits" if "For" in cls else "last_hidden_state"
    axes = {0: "batch", 1: "sequence"}
    if by_export:
        dims = tuple({0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC} for _ in inputs)
        torch.onnx.export(Outputs(model), tuple(inputs.values()), path, input_names=list(inputs), output_names=[out], dynamo=True,
                          dynamic_shapes=dims, external_data=False, opset_version=opset)
    else:
        torch.onnx.export(Outputs(model), tuple(inputs.values()), path, input_names=list(inputs), output_names=[out], dynamo=False,
                          dynamic_axes={key: axes for key in [*inputs, out]}, opset_version=opset)
    return {**config, "model_type": made.model_type, "architectures": [cls]}


class Reader(CalibrationDataReader):
    """Texts that ranges of activations are taken from."""

    def __init__(self):
        self.rows = iter(TEXTS)

    def get_next(self):
        text = next(self.rows, None)
        return None if text is None else feed(text, ["input_ids", "attention_mask", "token_type_ids"])


def feed(text, names):
    values = {"input_ids": text, "attention_mask": [1] * len(text), "token_type_ids": [0] * len(text)}
    return {name: np.array([values[name]], dtype=np.int64) for name in names}


def derive(whole, folder):
    """Quantised forms of one graph, with how far their results may be from ours, of the length of a state."""
    path = {name: str(folder / f"bert-{name}.onnx") for name in ["int8", "uint8", "qdq", "f16"]}
    quantize_dynamic(whole, path["int8"], weight_type=QuantType.QInt8, per_channel=True)
    quantize_dynamic(whole, path["uint8"], weight_type=QuantType.QUInt8)
    quantize_static(whole, path["qdq"], Reader(), quant_format=QuantFormat.QDQ, weight_type=QuantType.QInt8)
    onnx.save(convert_float_to_float16(onnx.load(whole), keep_io_types=True), path["f16"])
    return {"int8": 0.03, "uint8": 0.03, "qdq": 0.1, "f16": 2e-3}


def fused(source, to, heads, width):
    """As Optimum's O2: attention, embeddings, norms and functions are one node each."""
    optimizer.optimize_model(source, "bert", num_heads=heads, hidden_size=width, opt_level=1).save_model_to_file(to)


def extended(source, to):
    """As a session of onnxruntime saves what it has made of a graph."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = to
    onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def all_int8(source, to):
    """As Optimum quantises: products of activations with each other, too."""
    quantize_dynamic(source, to, weight_type=QuantType.QInt8,
                     extra_options={"MatMulConstBOnly": False, "DefaultTensorType": onnx.TensorProto.FLOAT})


def derive_others(name, folder):
    """Graphs that optimisers and quantisers make of others, with how far their results may be from ours."""
    path = {kind: str(folder / f"{name}{kind}.onnx") for kind in ["", "-fused", "-fused-int8", "-extended", "-int8"]}
    if name == "electra":
        fused(path[""], path["-fused"], 2, 32)
        all_int8(path["-fused"], path["-fused-int8"])
        return {"-fused": 1e-4, "-fused-int8": 0.1}
    if name == "distilbert-labels":
        extended(path[""], path["-extended"])
        return {"-extended": 1e-4}
    if name == "mpnet":
        all_int8(path[""], path["-int8"])
        return {"-int8": 0.1}
    return {}


def bare(path):
    """Takes what a graph does not compute with out of its file, and gives values short names."""
    model = onnx.load(path)
    kept = {value.name for value in [*model.graph.input, *model.graph.output, *model.graph.initializer]} | {""}
    made = [name for node in model.graph.node for name in node.output if name not in kept]
    short = {name: f"v{i}" for i, name in enumerate(made)}
    for node in model.graph.node:
        node.input[:] = [short.get(name, name) for name in node.input]
        node.output[:] = [short.get(name, name) for name in node.output]
        node.name = "/".join(node.name.split("/")[-6:])
    for node in model.graph.node:
        node.doc_string = ""
        del node.metadata_props[:]
    for value in [*model.graph.value_info, *model.graph.input, *model.graph.output]:
        del value.metadata_props[:]
    del model.graph.value_info[:]
    del model.graph.metadata_props[:]
    del model.functions[:]
    onnx.save(model, path)


def results(path):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]
    rows = []
    for text in TEXTS:
        found = session.run(None, feed(text, names))[0][0]
        flat = found.reshape(-1, found.shape[-1])
        rows.append([[float(f"{x:.6g}") for x in row] for row in (flat if len(flat) == 1 else flat[[0, -1]])])
    return rows


def main():
    logging.disable(logging.WARNING)
    to, folder = pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    models = []
    for name in EXPORTS:
        path = folder / f"{name}.onnx"
        config = export(name, str(path))
        bare(path)
        models.append({"file": path.name, "config": config, "within": 1e-4, "results": results(path)})
        if name == "bert":
            for kind, within in derive(str(path), folder).items():
                made = folder / f"bert-{kind}.onnx"
                bare(made)
                models.append({"file": made.name, "config": config, "within": within, "results": results(made)})
        for kind, within in derive_others(name, folder).items():
            made = folder / f"{name}{kind}.onnx"
            bare(made)
            models.append({"file": made.name, "config": config, "within": within, "results": results(made)})
    head = {"format": 1, "peer": f"onnxruntime {onnxruntime.__version__}", "texts": TEXTS, "models": models}
    to.write_text(json.dumps(head, separators=(",", ":")).replace('{"file"', '\n{"file"') + "\n")


main()

"""Models of the tests: the embedded one, and encoders whose weights follow from a formula and whose results are those of
transformers (`crates/leyden-engine/tests/golden`)."""

from __future__ import annotations

import json
import os
import pathlib
import struct
from typing import Any, Callable, Iterator

import numpy as np
import pytest

import leyden

ROOT = pathlib.Path(__file__).resolve().parents[3]
GOLDEN = ROOT / "crates/leyden-engine/tests/golden/encoders.json"


def absent(reason: str) -> None:
    """Skips a test, or fails it where nothing may be absent."""
    if os.environ.get("LEYDEN_CI") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


def needs(module: str) -> Any:
    """Returns a module that a test compares with or uses."""
    try:
        return __import__(module)
    except ImportError:
        absent(f"the Python package {module} is absent")


@pytest.fixture(scope="session")
def story() -> Iterator[leyden.Model]:
    """The embedded model."""
    with leyden.Model(leyden.EMBEDDED, context=512) as model:
        yield model


def _noise(seed: int, n: int, base: float, scale: float) -> np.ndarray:
    i = np.arange(n, dtype=np.uint64)
    x = (i * np.uint64(747_796_405) + np.uint64(seed * 2_891_336_453 % 2**64)) % np.uint64(2**32)
    x = ((x ^ (x >> np.uint64(15))) * np.uint64(2_246_822_519)) % np.uint64(2**32)
    x = x ^ (x >> np.uint64(13))
    values = ((x >> np.uint64(8)).astype(np.float64) / 2**24 - 0.5) * scale
    return values.astype("<f4") + np.float32(base)


def _tensor(seed: int, name: str, shape: list[int]) -> bytes:
    ends = ("norm.weight", "norm1.weight", "norm2.weight", "_ln.weight")
    if len(shape) == 1:
        base, scale = (1.0, 0.4) if name.lower().endswith(ends) else (0.0, 0.4)
    else:
        base, scale = 0.0, 2.0 if "embeddings" in name else 4.0 / shape[1] ** 0.5
    return _noise(seed, int(np.prod(shape)), base, scale).astype("<f4").tobytes()


def _weights(model: dict[str, Any]) -> bytes:
    header, data = {}, b""
    for seed, (name, shape) in enumerate(model["tensors"], 1):
        start = len(data)
        data += _tensor(seed, name, shape)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [start, len(data)]}
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def _tokenizer(pairs: bool) -> dict[str, Any]:
    special = {f"w{i}": {"id": f"w{i}", "ids": [i], "tokens": [f"w{i}"]} for i in (2, 35, 90)}
    token = lambda i: {"SpecialToken": {"id": f"w{i}", "type_id": 0}}  # noqa: E731
    text = lambda id, kind: {"Sequence": {"id": id, "type_id": kind}}  # noqa: E731
    template = {
        "type": "TemplateProcessing",
        "single": [token(2), text("A", 0), token(90)],
        "pair": [token(2), text("A", 0), token(35), text("B", 1), token(90)],
        "special_tokens": special,
    }
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": True,
            "strip_accents": None,
            "lowercase": True,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": template if pairs else None,
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": "w0",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": {f"w{i}": i for i in range(96)},
        },
    }


@pytest.fixture(scope="session")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[leyden.Model, dict[str, Any]]]:
    """Returns a model of the goldens by name, with the results of transformers and its texts under `words`."""
    golden = json.loads(GOLDEN.read_text())
    made: dict[str, tuple[leyden.Model, dict[str, Any]]] = {}

    def load(name: str) -> tuple[leyden.Model, dict[str, Any]]:
        if name not in made:
            model = next(model for model in golden["models"] if model["name"] == name)
            folder = tmp_path_factory.mktemp("encoder")
            (folder / "model.safetensors").write_bytes(_weights(model))
            (folder / "config.json").write_text(json.dumps(model["config"]))
            own = model.get("entities", {}).get("tokenizer")
            (folder / "tokenizer.json").write_text(json.dumps(own or _tokenizer(name == "bert, rank")))
            words = [" ".join(f"w{i}" for i in ids) for ids in golden["texts"]]
            made[name] = (leyden.Model(folder), {**model, "words": words})
        return made[name]

    return load

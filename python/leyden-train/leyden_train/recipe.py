"""Recipes: YAML files read into dataclasses, with every key checked."""

import dataclasses
import difflib
import hashlib
import json
import os
import re
import typing

import yaml


class RecipeError(Exception):
    """An invalid recipe; the message names the key."""


@dataclasses.dataclass
class Data:
    """Rows for training and evaluation."""

    train: str
    eval: str
    text: str = "text"
    text_pair: str | None = None
    label: str = "label"
    labels: str | None = None
    max_tokens: int = 128


@dataclasses.dataclass
class Stage:
    """Keys of all stages; `from` is called `source` here."""

    name: str
    kind: str
    epochs: int
    source: str | None = None
    batch: int = 32
    lr: float = 5e-5
    warmup: float = 0.1
    decay: str = "linear"
    weight_decay: float = 0.01
    clip: float = 1.0
    dropout: float | None = None
    precision: str | None = None
    teacher: str | None = None
    distill: float = 0.7
    temperature: float = 2.0
    keep_zeros: bool = True
    matrices: list[str] = dataclasses.field(default_factory=list)
    export: str = "float32"


@dataclasses.dataclass
class Finetune(Stage):
    """Training of all weights that are not frozen."""


@dataclasses.dataclass
class Prune(Stage):
    """Training while more and more weights become zero."""

    sparsity: float = 0.8
    start: float = 0.0
    pattern: str = "any"
    ramp: float = 0.6
    updates: int = 50


@dataclasses.dataclass
class Qat(Stage):
    """Training with weights rounded to the integers of a grid."""

    bits: int = 8
    group: int | None = None
    activations: str = "float"


KINDS = {"finetune": Finetune, "prune": Prune, "qat": Qat}
EXPORTS = ("float32", "float16", "bfloat16", "compressed-tensors")
PRECISIONS = ("auto", "float32", "bfloat16")


@dataclasses.dataclass
class Recipe:
    """A whole recipe."""

    model: str
    output: str
    data: Data
    stages: list[Stage]
    seed: int = 0
    device: str = "auto"
    threads: int | None = None
    precision: str = "auto"
    freeze: list[str] = dataclasses.field(default_factory=list)
    checkpoint_seconds: float = 120.0

    def prefix(self, count):
        """Returns what the first `count` stages depend on, as a dictionary."""
        whole = dataclasses.asdict(self)
        for key in ("output", "threads", "checkpoint_seconds"):
            del whole[key]
        whole["stages"] = whole["stages"][:count]
        return whole

    def without_paths(self):
        """Returns the recipe as a dictionary in which paths are reduced to their last parts."""
        whole = dataclasses.asdict(self)
        names = {stage.name for stage in self.stages}
        last = lambda path: path and os.path.basename(os.path.normpath(path))
        whole["model"], whole["output"] = last(self.model), last(self.output)
        for key in ("train", "eval", "labels"):
            whole["data"][key] = last(whole["data"][key])
        for stage in whole["stages"]:
            for key in ("source", "teacher"):
                stage[key] = stage[key] if stage[key] in names else last(stage[key])
        return whole


def differences(a, b, at=""):
    """Returns the keys in which two dictionaries of a recipe differ."""
    if isinstance(a, dict) and isinstance(b, dict):
        return [key for k in {**a, **b} for key in differences(a.get(k), b.get(k), f"{at}.{k}" if at else k)]
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        return [key for i, (x, y) in enumerate(zip(a, b)) for key in differences(x, y, f"{at}[{i}]")]
    return [] if a == b else [at]


def load(path, settings=()):
    """Reads a recipe and applies `KEY=VALUE` settings."""
    try:
        with open(path, encoding="utf-8") as file:
            tree = yaml.safe_load(file)
    except (OSError, UnicodeDecodeError) as error:
        raise RecipeError(f"{path}: {error}") from error
    except yaml.YAMLError as error:
        raise RecipeError(f"{path}: not YAML: {error}") from error
    if not isinstance(tree, dict):
        raise RecipeError(f"{path}: a recipe is a mapping of keys, such as `model` and `stages`")
    for setting in settings:
        _set(tree, setting)
    return check(tree)


def _set(tree, setting):
    key, equals, value = setting.partition("=")
    if not equals:
        raise RecipeError(f"--set {setting}: write KEY=VALUE")
    try:
        value = yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise RecipeError(f"--set {setting}: the value is not YAML") from error
    *parents, last = key.split(".")
    at = tree
    for part in parents:
        if isinstance(at, list):
            at = next((s for s in at if isinstance(s, dict) and s.get("name") == part), None)
        elif isinstance(at, dict):
            at = at.setdefault(part, {})
        if at is None:
            raise RecipeError(f"--set {key}: no stage has the name {part!r}")
    if not isinstance(at, dict):
        raise RecipeError(f"--set {key}: {'.'.join(parents) or 'the recipe'} has no keys")
    at[last] = value


def check(tree):
    """Returns the recipe of a dictionary."""
    recipe = _build(Recipe, tree, "")
    if not recipe.stages:
        raise RecipeError("stages: at least one stage is needed")
    seen = []
    for i, stage in enumerate(recipe.stages):
        at = f"stages[{i}]"
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", stage.name):
            raise RecipeError(f"{at}.name: {stage.name!r} is no name of a folder (letters, digits, `.`, `_`, `-`)")
        if stage.name in seen:
            raise RecipeError(f"{at}.name: {stage.name!r} is used twice")
        _check_stage(stage, at)
        later = [s.name for s in recipe.stages[i:]]
        for key, value in (("from", stage.source), ("teacher", stage.teacher)):
            if value in later:
                raise RecipeError(f"{at}.{key}: the stage {value!r} must come before")
        if stage.source is None:
            stage.source = seen[-1] if seen else recipe.model
        seen.append(stage.name)
    _one_of(recipe.precision, PRECISIONS, "precision")
    _range(recipe.data.max_tokens, 2, 1 << 20, "data.max_tokens")
    _range(recipe.checkpoint_seconds, 0, 1e9, "checkpoint_seconds")
    if recipe.threads is not None:
        _range(recipe.threads, 1, 4096, "threads")
    for i, pattern in enumerate(recipe.freeze):
        _regex(pattern, f"freeze[{i}]")
    return recipe


def _check_stage(stage, at):
    # Without training, `qat` only rounds.
    _range(stage.epochs, 0 if isinstance(stage, Qat) else 1, 100_000, f"{at}.epochs")
    _range(stage.batch, 1, 1 << 20, f"{at}.batch")
    _range(stage.lr, 0, 10, f"{at}.lr")
    _range(stage.temperature, 1e-3, 1e3, f"{at}.temperature")
    _range(stage.clip, 0, 1e9, f"{at}.clip")
    _range(stage.weight_decay, 0, 1, f"{at}.weight_decay")
    for key in ("warmup", "distill"):
        _range(getattr(stage, key), 0, 1, f"{at}.{key}")
    if stage.dropout is not None:
        _range(stage.dropout, 0, 0.99, f"{at}.dropout")
    _one_of(stage.decay, ("linear", "cosine", "constant"), f"{at}.decay")
    _one_of(stage.export, EXPORTS, f"{at}.export")
    if stage.precision is not None:
        _one_of(stage.precision, PRECISIONS, f"{at}.precision")
    for i, pattern in enumerate(stage.matrices):
        _regex(pattern, f"{at}.matrices[{i}]")
    if isinstance(stage, Prune):
        for key in ("sparsity", "start", "ramp"):
            _range(getattr(stage, key), 0, 1, f"{at}.{key}")
        _range(stage.updates, 1, 1 << 20, f"{at}.updates")
        if stage.start > stage.sparsity or stage.sparsity == 1:
            raise RecipeError(f"{at}.sparsity: must be below 1 and not below `start`")
        pair = re.fullmatch(r"([1-9]\d{0,3}):([1-9]\d{0,3})", stage.pattern)
        if pair:
            n, m = int(pair[1]), int(pair[2])
            if n >= m or abs(1 - n / m - stage.sparsity) > 1e-3:
                raise RecipeError(f"{at}.sparsity: pattern {stage.pattern} means {1 - n / m:g}")
        elif stage.pattern not in ("any", "1x4", "4x1"):
            raise RecipeError(f"{at}.pattern: {stage.pattern!r} is none of any, 1x4, 4x1, N:M")
    if isinstance(stage, Qat):
        _one_of(stage.bits, (4, 8), f"{at}.bits")
        _one_of(stage.activations, ("float", "int8"), f"{at}.activations")
        if stage.group is None:
            stage.group = 32 if stage.bits == 4 else 0
        if stage.group not in ((32,) if stage.bits == 4 else (0, 32)):
            raise RecipeError(f"{at}.group: 4 bits have groups of 32; 8 bits 32, or 0 for whole rows")
        if stage.export in ("float16", "bfloat16"):
            raise RecipeError(f"{at}.export: {stage.export} would round the grid; use float32 or compressed-tensors")
    elif stage.export == "compressed-tensors":
        raise RecipeError(f"{at}.export: compressed-tensors is for stages of kind qat")


def _regex(pattern, at):
    try:
        re.compile(pattern)
    except re.error as error:
        raise RecipeError(f"{at}: {pattern!r} is no regular expression: {error}") from error


def _one_of(value, known, at):
    if value not in known:
        raise RecipeError(f"{at}: {value!r} is none of {', '.join(map(str, known))}")


def _range(value, low, high, at):
    if not low <= value <= high:
        raise RecipeError(f"{at}: {value} is not in {low} to {high}")


def _build(cls, tree, at):
    """Returns a dataclass of a mapping; unknown and missing keys are errors."""
    if not isinstance(tree, dict):
        raise RecipeError(f"{at or 'recipe'}: a mapping of keys is needed")
    place = lambda key: f"{at}.{key}" if at else str(key)
    tree = {("source" if issubclass(cls, Stage) and key == "from" else key): value for key, value in tree.items()}
    types = typing.get_type_hints(cls)
    shown = {("from" if name == "source" else name): name for name in types}
    values = {}
    for key, value in tree.items():
        if key not in types:
            others = [kind for kind, other in KINDS.items() if issubclass(cls, Stage) and key in typing.get_type_hints(other)]
            near = difflib.get_close_matches(str(key), shown, 1, 0.0)
            hint = f"it belongs to kind {' and '.join(others)}" if others else f"did you mean `{near[0]}`?"
            raise RecipeError(f"{place(key)}: unknown key; {hint}")
        values[key] = _value(types[key], value, place("from" if key == "source" else key))
    for field in dataclasses.fields(cls):
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if required and field.name not in values:
            raise RecipeError(f"{place(field.name)}: missing")
    return cls(**values)


def _value(kind, value, at):
    if typing.get_origin(kind) is list:
        if not isinstance(value, list):
            raise RecipeError(f"{at}: a list is needed")
        (inner,) = typing.get_args(kind)
        return [_value(inner, v, f"{at}[{i}]") for i, v in enumerate(value)]
    if kind is Stage:
        name = value.get("kind") if isinstance(value, dict) else None
        if name not in KINDS:
            raise RecipeError(f"{at}.kind: {name!r} is none of {', '.join(KINDS)}")
        return _build(KINDS[name], value, at)
    if dataclasses.is_dataclass(kind):
        return _build(kind, value, at)
    options = typing.get_args(kind) or (kind,)
    if value is None and type(None) in options:
        return None
    if float in options and not isinstance(value, bool):
        try:
            # YAML reads 3e-4 as text.
            return float(value)
        except (TypeError, ValueError):
            pass
    for option in options:
        if isinstance(value, option) and (option is bool or not isinstance(value, bool)):
            return value
    names = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
    raise RecipeError(f"{at}: {value!r} is not {' or '.join(names[o] for o in options if o in names)}")


def digest(value):
    """Returns a hash of a value that JSON can store."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()

"""Whole runs of a tiny model."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
import torch
import yaml
from safetensors.torch import load_file

from leyden_train import checkpoint, cli, export, models, quant, recipe, train
from leyden_train.data import DataError, read_rows
from leyden_train.progress import Progress

STAGES = ("dense", "sparse", "int8", "int4")


class StopAt(Progress):
    """Stops the run after some steps."""

    def __init__(self, steps):
        super().__init__(False)
        self.steps, self.run = steps, None

    def count(self, seconds, rows):
        self.steps -= 1
        if self.steps == 0:
            self.run.stopped = signal.SIGTERM
        return super().count(seconds, rows)


def run(tree, stop=None):
    progress = StopAt(stop) if stop else Progress(False)
    progress.run = train.Run(recipe.check(tree), progress)
    return progress.run.run()


def weights(tree):
    return {name: load_file(os.path.join(tree["output"], name, "model.safetensors")) for name in STAGES}


def same(a, b):
    return all(torch.equal(a[s][n], b[s][n]) for s in STAGES for n in a[s]) and all(a[s].keys() == b[s].keys() for s in STAGES)


def layers(tensors):
    return {n: t for n, t in tensors.items() if ".layer." in n and n.endswith("weight") and t.dim() == 2}


@pytest.fixture
def whole(tree, tmp_path):
    tree = {**tree, "output": str(tmp_path / "whole")}
    return tree, run(tree)


def test_stages_follow_one_another(whole):
    tree, log = whole
    found = weights(tree)
    assert [s["name"] for s in log["stages"]] == list(STAGES)
    assert log["stages"][0]["final"]["accuracy"] > log["stages"][0]["start"]["accuracy"]
    for name, w in layers(found["sparse"]).items():
        share = float((w == 0).float().mean())
        assert abs(share - 0.75) < 1e-3, name
        zeros = w == 0
        # The mask is kept, and all weights lie on the grid.
        for stage, bits, group in (("int8", 8, 0), ("int4", 4, 32)):
            other = found[stage][name]
            assert (other[zeros] == 0).all() and not torch.equal(other, w)
            assert torch.equal(quant.round_to_grid(other, bits, group), other), (stage, name)
    assert log["stages"][1]["final"]["zeros"] == pytest.approx(0.75, abs=1e-3)
    assert log["stages"][3]["final"]["zeros"] >= 0.75
    assert len(log["stages"][2]["epochs"]) == 2
    model = models.load(os.path.join(tree["output"], "int8"), ["blue", "green", "red"], True)
    assert model.config.id2label == {0: "blue", 1: "green", 2: "red"}
    # The finished run has nothing left to do.
    assert run(tree)["stages"] == log["stages"]
    assert json.load(open(os.path.join(tree["output"], "log.json")))["stages"] == log["stages"]


def test_interrupted_runs_give_the_same_bits(whole, tree):
    wanted = weights(whole[0])
    # 6 steps an epoch, 12 a stage: in the first epoch, in a ramp, at the end of a stage, in QAT.
    for stop in (3, 10, 11, 15, 9):
        with pytest.raises(train.Interrupted):
            run(tree, stop)
    log = run(tree)
    assert log["resumed"] == 5 and same(weights(tree), wanted)
    losses = lambda log: [[e["train_loss"] for e in s["epochs"]] for s in log["stages"]]
    assert losses(log) == losses(whole[1])


def test_killed_runs_go_on(whole, tree, tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text(yaml.safe_dump({**tree, "checkpoint_seconds": 0, "threads": 1}))
    log = os.path.join(tree["output"], "log.json")
    command = [sys.executable, "-m", "leyden_train", str(path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    # Kill it while it writes checkpoints of the second stage.
    for _ in range(2400):
        if process.poll() is not None or os.path.exists(log) and len(json.load(open(log))["stages"]) > 1:
            break
        time.sleep(0.05)
    process.kill()
    process.communicate()
    checkpoint.load(tree["output"])
    assert cli.main([str(path), "--resume"]) == 0
    assert same(weights(tree), weights(whole[0]))
    assert [n for n in os.listdir(tree["output"]) if n.endswith((".tmp", ".old"))] == []


def test_checkpoints_of_other_recipes_are_refused(tree):
    with pytest.raises(train.Interrupted):
        run(tree, 15)
    tree["stages"][3]["lr"] = 5e-4
    tree["stages"][0]["lr"] = 5e-4
    with pytest.raises(checkpoint.CheckpointError, match=r"different: stages\[0\].lr\."):
        run(tree)
    tree["stages"][0]["lr"] = 3e-3
    # Stages that have not begun may change.
    assert len(run(tree)["stages"]) == 4
    with open(os.path.join(tree["output"], checkpoint.NAME), "wb") as file:
        file.write(b"damaged")
    with pytest.raises(checkpoint.CheckpointError, match="--restart"):
        run(tree)


def test_resume_needs_a_checkpoint(tree):
    with pytest.raises(checkpoint.CheckpointError, match="no checkpoint"):
        train.Run(recipe.check(tree), Progress(False)).run(must_resume=True)


def test_integers_of_compressed_tensors(whole, tree):
    first, _ = whole
    trained = weights(first)
    for bits, name in ((8, "int8"), (4, "int4")):
        source = os.path.join(first["output"], name)
        stage = {"name": f"p{bits}", "kind": "qat", "epochs": 0, "bits": bits, "from": source, "export": "compressed-tensors"}
        run({**tree, "output": os.path.join(tree["output"], name), "stages": [stage]})
        folder = os.path.join(tree["output"], name, f"p{bits}")
        packed = load_file(os.path.join(folder, "model.safetensors"))
        config = json.load(open(os.path.join(folder, "config.json")))["quantization_config"]
        assert config["format"] == ("pack-quantized" if bits == 4 else "int-quantized")
        assert "classifier" in config["ignore"]
        for n, w in layers(trained[name]).items():
            stem = n.removesuffix(".weight")
            if bits == 8:
                codes = packed[n]
            else:
                words = packed[f"{stem}.weight_packed"].to(torch.int64) & 0xFFFFFFFF
                codes = ((words.unsqueeze(2) >> (4 * torch.arange(8)) & 15) - 8).reshape(w.shape)
                assert packed[f"{stem}.weight_shape"].tolist() == list(w.shape)
            assert torch.equal(quant.values(codes, packed[f"{stem}.weight_scale"].float()), w), n


def test_rows_with_errors_are_named(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"text": "a", "label": "b"}\n{"text": "a"}\n')
    with pytest.raises(DataError, match="line 2.*label"):
        list(read_rows(str(path), ("text", None, "label")))
    path = tmp_path / "rows.csv"
    path.write_text('text,label\n"a\nb",c\n')
    assert list(read_rows(str(path), ("text", None, "label"))) == [("a\nb", "c")]


def test_pauses_do_not_change_the_time_left():
    progress = Progress(False)
    for seconds in [1.0] * 9 + [600.0]:
        progress.count(seconds, 10)
    assert progress.left(1000, 0) == pytest.approx(100.0)


def test_folders_are_replaced_whole(tmp_path):
    path = str(tmp_path / "folder")
    for text in ("one", "two"):
        with checkpoint.new_folder(path) as folder:
            with open(os.path.join(folder, "file"), "w", encoding="utf-8") as file:
                file.write(text)
    with pytest.raises(RuntimeError):
        with checkpoint.new_folder(path):
            raise RuntimeError
    assert open(os.path.join(path, "file"), encoding="utf-8").read() == "two"
    assert os.listdir(tmp_path) == ["folder"]
    assert export.DTYPES["float32"] == torch.float32


def test_pairs_and_blocks(tree, place):
    rows = [json.loads(line) for line in open(place / "train.jsonl", encoding="utf-8")]
    path = os.path.join(os.path.dirname(tree["output"]), "pairs.csv")
    with open(path, "w", encoding="utf-8") as file:
        file.write("a,b,label\n" + "".join(f"{r['text']},{r['label']} w1,{r['label']}\n" for r in rows))
    stage = {**tree["stages"][1], "epochs": 1, "pattern": "4x1", "matrices": ["intermediate"]}
    del stage["teacher"]
    data = {"train": path, "eval": path, "text": "a", "text_pair": "b", "max_tokens": 12}
    tree = {**tree, "data": data, "stages": [stage]}
    this = train.Run(recipe.check(tree), Progress(False))
    this.run()
    inputs = this.train.inputs([0, 5], this.device)
    assert inputs["input_ids"].shape == inputs["token_type_ids"].shape and inputs["token_type_ids"].max() == 1
    found = load_file(os.path.join(tree["output"], "sparse", "model.safetensors"))
    for name, w in layers(found).items():
        zeros = w == 0
        if "intermediate" in name:
            blocks = zeros.reshape(-1, 4, w.shape[1]).sum(1)
            assert set(blocks.flatten().tolist()) == {0, 4} and abs(float(zeros.float().mean()) - 0.75) < 1e-3
        else:
            assert not zeros.any()

"""Recipes: unknown keys, wrong values, settings of the command line."""

import pytest
import yaml

from leyden_train import cli, recipe


def refused(tree, *parts):
    with pytest.raises(recipe.RecipeError) as error:
        recipe.check(tree)
    for part in parts:
        assert part in str(error.value)


def test_unknown_keys_are_refused_with_the_nearest_one(tree):
    refused({**tree, "modle": 1}, "modle: unknown key", "`model`")
    tree["stages"][1]["sparsty"] = 0.5
    refused(tree, "stages[1].sparsty", "`sparsity`")


def test_keys_of_other_kinds_are_named(tree):
    tree["stages"][0]["sparsity"] = 0.5
    refused(tree, "stages[0].sparsity", "kind prune")


def test_wrong_values_are_named(tree):
    for key, value, part in (
        ("epochs", "many", "a whole number"),
        ("epochs", 0, "not in 1"),
        ("lr", "fast", "a number"),
        ("lr", -1, "not in"),
        ("decay", "exponential", "linear"),
        ("kind", "distil", "finetune"),
        ("export", "compressed-tensors", "kind qat"),
        ("from", "int8", "must come before"),
        ("matrices", ["("], "no regular expression"),
        ("name", "../dense", "name of a folder"),
    ):
        stage = {**tree["stages"][0], key: value}
        refused({**tree, "stages": [stage, *tree["stages"][1:]]}, f"stages[0].{key}", part)
    for index, key, value in ((1, "pattern", "2x2"), (1, "pattern", "2:4"), (2, "bits", 3), (3, "group", 64), (3, "export", "float16")):
        stages = [dict(stage) for stage in tree["stages"]]
        stages[index][key] = value
        refused({**tree, "stages": stages}, f"stages[{index}].")


def test_missing_keys_are_named(tree):
    del tree["data"]["eval"]
    refused(tree, "data.eval: missing")


def test_settings_change_keys(tree, tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text(yaml.safe_dump(tree))
    found = recipe.load(str(path), ["stages.int8.lr=3e-4", "data.max_tokens=9"])
    assert found.stages[2].lr == 3e-4 and found.data.max_tokens == 9
    assert [stage.source for stage in found.stages[1:]] == ["dense", "sparse", "sparse"]
    assert found.stages[3].group == 32
    with pytest.raises(recipe.RecipeError, match="no stage has the name"):
        recipe.load(str(path), ["stages.int9.lr=1"])


def test_the_program_reports_a_bad_recipe(tmp_path, capsys):
    path = tmp_path / "recipe.yaml"
    path.write_text("model: [\n")
    assert cli.main([str(path)]) == 1
    assert "not YAML" in capsys.readouterr().err


def test_logs_have_no_paths(tree):
    shown = recipe.check(tree).without_paths()
    assert shown["model"] == "model" and shown["data"]["train"] == "train.jsonl"
    assert "/" not in str(shown)

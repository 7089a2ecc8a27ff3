"""The program `leyden-train`."""

import argparse
import json
import os
import sys

from . import __version__
from . import recipe as recipes


def arguments():
    """Returns the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="leyden-train", description="Fine-tunes, prunes and quantises an encoder by a recipe in YAML."
    )
    parser.add_argument("recipe", metavar="RECIPE.yaml")
    parser.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], help="change a key, such as stages.dense.lr=1e-4")
    begin = parser.add_mutually_exclusive_group()
    begin.add_argument("--resume", action="store_true", help="fail if there is no checkpoint to go on from")
    begin.add_argument("--restart", action="store_true", help="begin anew, and replace the output's checkpoint")
    parser.add_argument("--json", action="store_true", help="write events as JSON lines")
    parser.add_argument("--version", action="version", version=f"leyden-train {__version__}")
    return parser


def main(argv=None):
    """Runs the program, and returns its exit status."""
    args = arguments().parse_args(argv)
    try:
        recipe = recipes.load(args.recipe, args.set)
    except recipes.RecipeError as error:
        return _fail(error)
    # Threads that wait in a loop would take the processor from the others wherever it is shared.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    # Reading a recipe needs no PyTorch, so that mistakes in it are found at once.
    from . import checkpoint, data, models, progress, train

    shown = progress.Progress(args.json)
    known = (recipes.RecipeError, checkpoint.CheckpointError, data.DataError, models.ModelError, OSError)
    try:
        log = train.Run(recipe, shown).run(args.restart, args.resume)
    except train.Interrupted as error:
        shown.say(f"leyden-train: {error}")
        return 130
    except known as error:
        return _fail(error)
    table = [{"stage": s["name"], "kind": s["kind"], **s["final"]} for s in log["stages"]]
    if args.json:
        print(json.dumps({"event": "done", "stages": table}))
    else:
        print(f"{'stage':<16} {'accuracy':>9} {'before':>9} {'zeros':>7}")
        for row, stage in zip(table, log["stages"]):
            before = stage["start"]["accuracy"]
            print(f"{row['stage']:<16} {100 * row['accuracy']:8.2f}% {100 * before:8.2f}% {100 * row['zeros']:6.1f}%")
    return 0


def _fail(error):
    print(f"leyden-train: {error}", file=sys.stderr)
    return 1

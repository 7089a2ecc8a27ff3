"""Compares leyden's backend of lm-evaluation-harness with its `hf` backend, on ARC-Easy from a file.

    python bench/harness.py DATA.json MODEL.gguf HF_FOLDER [--items 500] [--batch 8]

DATA.json is the file of `../shared/data/eval/commonsense/ARC-Easy`; HF_FOLDER has the same weights, by `leyden convert
--type f32 MODEL.gguf HF_FOLDER`. Each backend runs in a process of its own with two threads; seconds are those of the
harness's evaluation, without loading. Results are one JSON object.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time
from typing import Any

TASK = """task: arc_easy_file
dataset_path: json
dataset_kwargs:
  data_files:
    test: {data}
output_type: multiple_choice
test_split: test
doc_to_text: "Question: {{{{question}}}}\\nAnswer:"
doc_to_target: "{{{{answer}}}}"
doc_to_choice: "{{{{choices}}}}"
metric_list:
  - metric: acc
    aggregation: mean
    higher_is_better: true
  - metric: acc_norm
    aggregation: mean
    higher_is_better: true
metadata:
  version: 1.0
"""


def questions(path: pathlib.Path, items: int) -> list[dict[str, Any]]:
    """Returns the first questions of a file, with their choices and the number of the right one."""
    found = []
    for row in json.loads(path.read_text())[:items]:
        text = row["instruction"].split("question: ", 1)[1].rsplit("\n\nAnswer format", 1)[0]
        question, answers = text.split("\n\nAnswer1: ", 1)
        choices = re.split(r" Answer\d: ", answers)
        found.append({"question": question, "choices": choices, "answer": int(row["answer"][6:]) - 1})
    return found


def evaluated(backend: str, path: str, folder: str, batch: int, threads: int) -> dict[str, Any]:
    """Runs a backend in this process."""
    import lm_eval
    from lm_eval.api.registry import get_model
    from lm_eval.tasks import TaskManager

    if backend == "leyden":
        import leyden.lm_eval  # noqa: F401

        arguments = f"pretrained={path},threads={threads}"
    else:
        import torch

        torch.set_num_threads(threads)
        arguments = f"pretrained={path},dtype=float32"
    import lm_eval.models  # noqa: F401

    model = get_model(backend).create_from_arg_string(arguments, {"batch_size": batch, "device": "cpu"})
    tasks = TaskManager(include_path=folder, include_defaults=False)
    start = time.perf_counter()
    made = lm_eval.simple_evaluate(
        model=model, tasks=["arc_easy_file"], task_manager=tasks, bootstrap_iters=0, log_samples=True
    )
    seconds = time.perf_counter() - start
    scores = made["results"]["arc_easy_file"]
    samples = sorted(made["samples"]["arc_easy_file"], key=lambda sample: sample["doc_id"])
    likelihoods = [[float(answer[0][0]) for answer in sample["resps"]] for sample in samples]
    return {"acc": scores["acc,none"], "acc_norm": scores["acc_norm,none"], "seconds": seconds, "scores": likelihoods}


def main() -> None:
    """Runs both backends, and compares them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("gguf")
    parser.add_argument("folder")
    parser.add_argument("--items", type=int, default=500)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--alone", choices=["leyden", "hf"])
    args = parser.parse_args()
    if args.alone:
        path = args.gguf if args.alone == "leyden" else args.folder
        print(json.dumps(evaluated(args.alone, path, str(args.data), args.batch, args.threads)))
        return
    with tempfile.TemporaryDirectory() as folder:
        rows = questions(args.data, args.items)
        data = pathlib.Path(folder) / "arc_easy.jsonl"
        data.write_text("".join(json.dumps(row) + "\n" for row in rows))
        (pathlib.Path(folder) / "arc_easy_file.yaml").write_text(TASK.format(data=data))
        made = {}
        for backend in ("leyden", "hf"):
            command = [sys.executable, __file__, folder, args.gguf, args.folder, "--alone", backend]
            command += ["--batch", str(args.batch), "--threads", str(args.threads)]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            made[backend] = json.loads(done.stdout.splitlines()[-1])
    ours, theirs = made["leyden"].pop("scores"), made["hf"].pop("scores")
    pairs = list(zip(ours, theirs))
    best = [max(range(len(row)), key=row.__getitem__) for row in ours], [
        max(range(len(row)), key=row.__getitem__) for row in theirs
    ]
    differences = sorted(abs(a - b) for x, y in pairs for a, b in zip(x, y))
    result = {
        "items": len(rows),
        **made,
        "same_answers": sum(a == b for a, b in zip(*best)),
        "median_difference_of_log_likelihoods": differences[len(differences) // 2],
        "largest_difference": differences[-1],
        "speed": made["hf"]["seconds"] / made["leyden"]["seconds"],
    }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()

"""Kills `leyden batch` at random moments until its output is complete, and compares it with an undisturbed run.

    python3 bench/batch_kills.py target/release/leyden --rows 20000 --kills 500 --task classify --labels king,fox,sea

Every row must be in the output once, in the order of the input, and equal to that of the undisturbed run. Prints a JSON
object with the number of kills and of rows that were done at each.
"""

import argparse
import json
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("leyden")
    parser.add_argument("--rows", type=int, default=20000)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--model", help="model; by default the embedded one")
    parser.add_argument("--task", default="complete")
    parser.add_argument("--seed", type=int, default=1)
    # Other options are those of `leyden batch`.
    args, others = parser.parse_known_args()
    draw = random.Random(args.seed)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        source, whole, out = folder / "in.jsonl", folder / "whole.jsonl", folder / "out.jsonl"
        with source.open("w") as file:
            for i in range(args.rows):
                file.write(json.dumps({"custom_id": f"r{i}", "text": f"Row {i} is about {draw.choice(['a king', 'a fox', 'the sea'])}."}) + "\n")
        options = ["--task", args.task, "-q"] + (["--model", args.model] if args.model else [])
        options += others
        if args.task in ("chat", "complete"):
            options += ["-n", "1"]
        start = time.monotonic()
        subprocess.run([args.leyden, "batch", source, whole, *options], check=True)
        undisturbed = time.monotonic() - start
        journal = pathlib.Path(f"{out}.unfinished")
        kills, in_write, begin = 0, 0, time.monotonic()
        # The whole run, spread over the kills, and the time of a start on top of each.
        span = 2 * undisturbed / args.kills
        while not out.exists():
            child = subprocess.Popen([args.leyden, "batch", source, out, *options])
            if kills < args.kills:
                size = journal.stat().st_size if journal.exists() else 0
                # Starts and resumption take a while; the kill comes at random after the run has gone on.
                limit = time.monotonic() + 60
                while child.poll() is None and time.monotonic() < limit:
                    if journal.exists() and journal.stat().st_size > size:
                        break
                    if draw.random() < 0.0005:
                        break
                    time.sleep(0.002)
                time.sleep(draw.uniform(0, span))
                if child.poll() is None:
                    child.send_signal(signal.SIGKILL)
                    kills += 1
                    in_write += bool(list(folder.glob(".leyden-*.tmp")))
            code = child.wait()
            if code not in (0, -signal.SIGKILL):
                print(f"exit code {code} after {kills} kills", file=sys.stderr)
                return 1
        wanted, found = whole.read_bytes().splitlines(), out.read_bytes().splitlines()
        ids = [json.loads(line)["custom_id"] for line in found]
        result = {
            "rows": args.rows,
            "kills": kills,
            "kills_while_output_was_written": in_write,
            "missing": args.rows - len(set(ids)),
            "twice": len(ids) - len(set(ids)),
            "in_order": ids == [f"r{i}" for i in range(args.rows)],
            "equal_to_undisturbed": found == wanted,
            "seconds": round(time.monotonic() - begin, 1),
            "seconds_undisturbed": round(undisturbed, 1),
        }
        print(json.dumps(result))
        return 0 if result["equal_to_undisturbed"] and not result["missing"] and not result["twice"] else 1


if __name__ == "__main__":
    sys.exit(main())

"""`leyden-ray IN OUT [options] -- OPTIONS OF LEYDEN BATCH`."""

import argparse
import json
import sys

from .batch import run
from .errors import LeydenError


def main(words=None):
    """Runs the command. Returns its exit code: 0 done, 1 failed or rows with errors, 2 wrong usage."""
    words = sys.argv[1:] if words is None else words
    at = words.index("--") if "--" in words else len(words)
    about = "Computes all rows of a file on a Ray cluster, each once, in order."
    parser = argparse.ArgumentParser(prog="leyden-ray", description=about)
    parser.add_argument("input", metavar="IN", help="input: .jsonl or .parquet, seen by all machines")
    parser.add_argument("output", metavar="OUT", help="output: .jsonl or .parquet, seen by all machines")
    parser.add_argument("--actors", type=int, default=2, metavar="N", help="largest number of processes (default 2)")
    parser.add_argument("--threads", type=int, default=1, metavar="T", help="threads, and processors, of each (default 1)")
    parser.add_argument("--unit-rows", type=int, default=1000, metavar="N", help="rows that are computed and kept as a whole (default 1000)")
    parser.add_argument("--address", metavar="A", help="address of the cluster; by default RAY_ADDRESS, else a local one is started")
    parser.add_argument("--program", metavar="P", help="the program leyden, on all machines")
    parser.add_argument("--restart", action="store_true", help="forget an interrupted run and replace OUT")
    parser.add_argument("--json", action="store_true", help="print the counts of the run as a JSON object")
    args = parser.parse_args(words[:at])
    if args.address:
        import ray

        ray.init(address=args.address, log_to_driver=False)
    finished = 0

    def progress(outcome):
        nonlocal finished
        finished += outcome["read"]
        print(f"\r{finished} rows", end="", file=sys.stderr, flush=True)

    try:
        report = run(
            args.input, args.output, words[at + 1 :], actors=args.actors, threads=args.threads, unit_rows=args.unit_rows,
            restart=args.restart, program=args.program, progress=progress if sys.stderr.isatty() else None,
        )  # fmt: skip
    except LeydenError as error:
        print(f"leyden-ray: {error}", file=sys.stderr)
        return 1
    if args.json:
        print(json.dumps(report.to_dict(), indent=1))
    else:
        kept = f", {report.kept_units} units kept" if report.kept_units else ""
        print(f"{report.rows} rows in {report.seconds:.1f} s, {report.failed} with errors{kept}", file=sys.stderr)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())

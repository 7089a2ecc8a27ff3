#!/usr/bin/env python3
"""Admission under a service level objective: a server with and without --slo, at multiples of its capacity.

    python3 bench/slo_load.py LEYDEN MODEL --slo 'ttft_p95=2s,user_tps>=5' [--times 2,5,10] [--seconds 25] [--rates 1,2,4]

LEYDEN is the program, MODEL a file. The capacity is the largest of the rates of --rates (requests per second) at which the
server without --slo keeps the objective; then both servers get each multiple of it, as a Poisson process, for the given
seconds. Figures of times and rates are those of `leyden load`, of the requests that were admitted; those that were refused
with 429 count as failed. Needs Linux and nothing but Python. Prints one JSON object.
"""

import argparse
import datetime
import json
import os
import re
import signal
import subprocess
import sys
import urllib.request


class Server:
    def __init__(self, program, model, options):
        self.command = [program, "serve", model, "--port", "0", "--log-format", "off", *options]
        self.process = subprocess.Popen(self.command, stderr=subprocess.PIPE, text=True)
        self.url = None
        for line in self.process.stderr:
            found = re.search(r"http://[0-9.]+:\d+", line)
            if found:
                self.url = found.group(0)
                break
        if self.url is None:
            sys.exit(f"the server did not start: {self.command}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()

    def state(self):
        with urllib.request.urlopen(self.url + "/api/ps", timeout=20) as answer:
            return json.load(answer)["models"][0].get("service_level")


def load(program, server, rate, seconds, args):
    command = [
        program, "load", "--url", server.url, "--rate", str(rate), "--duration", f"{seconds}s",
        "--warmup", f"{args.warmup}s", "--drain", f"{args.drain}s", "--prompt-tokens", args.prompt_tokens,
        "--output-tokens", args.output_tokens, "--ignore-eos", "--slo", args.slo, "--seed", str(args.seed), "--json",
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode not in (0, 1, 3):
        sys.exit(done.stderr)
    args.seed += 1
    summary = json.loads(done.stdout)["summary"]
    kept = {key: summary[key] for key in ("requests", "ttft_s", "itl_s", "user_tps", "requests_per_s", "output_tps")}
    # Requests that were due in the measured time and met every limit, whenever they ended.
    kept["good_per_s"] = summary["slo"]["goodput"] * summary["requests"]["measured"] / summary["seconds"]
    kept["verdict"] = summary["slo"]["verdict"]
    kept["errors"] = [{k: row[k] for k in ("class", "count", "example")} for row in summary["errors"]]
    print(f"{rate:8.2f}/s: ttft p95 {(kept['ttft_s'] or {}).get('p95')}, user_tps p5 {(kept['user_tps'] or {}).get('p5')}, "
          f"good {kept['good_per_s']:.2f}/s, {kept['requests']}", file=sys.stderr)
    return {"rate": rate, **kept}


def machine():
    shown = subprocess.run(["lscpu"], stdout=subprocess.PIPE, text=True, check=True).stdout
    wanted = ("Model name", "CPU(s)", "Thread(s) per core", "L3 cache", "Hypervisor vendor", "Flags")
    rows = dict(line.split(":", 1) for line in shown.splitlines() if ":" in line)
    found = {key: rows[key].strip() for key in wanted if key in rows}
    found["Flags"] = " ".join(f for f in found.get("Flags", "").split() if f.startswith(("avx", "amx", "fma")))
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("--slo", required=True)
    parser.add_argument("--times", default="2,5,10")
    parser.add_argument("--rates", default="1,2,3,4,6")
    parser.add_argument("--seconds", type=int, default=25)
    parser.add_argument("--rate-seconds", type=int, default=12)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--drain", type=int, default=8)
    parser.add_argument("--prompt-tokens", default="30..200")
    parser.add_argument("--output-tokens", default="24..96")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    out = {
        "about": {
            "command": " ".join([os.path.basename(sys.argv[0]), os.path.basename(args.model), *sys.argv[3:]]),
            "machine": machine(),
            "date": datetime.date.today().isoformat(),
        },
        "model": os.path.basename(args.model),
        "slo": args.slo,
        "without": [],
        "with": [],
    }
    capacity = None
    for rate in map(float, args.rates.split(",")):
        with Server(args.program, args.model, []) as server:
            run = load(args.program, server, rate, args.rate_seconds, args)
        out["without"].append({"times": None, **run})
        if run["verdict"] == "fail":
            break
        capacity = rate
    if capacity is None:
        sys.exit("the objective is missed at the lowest rate")
    out["capacity_per_s"] = capacity
    for times in map(float, args.times.split(",")):
        for key, options in (("with", ["--slo", args.slo]), ("without", [])):
            with Server(args.program, args.model, options) as server:
                run = load(args.program, server, capacity * times, args.seconds, args)
                out[key].append({"times": times, **run, "state": server.state()})
    print(json.dumps(out, indent=1))
    sys.stdout.flush()


if __name__ == "__main__":
    main()

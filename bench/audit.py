#!/usr/bin/env python3
"""Cost of the audit log: the throughput of a server with and without --audit, in turns.

    python3 bench/audit.py LEYDEN [MODEL] [--rounds 5] [--seconds 6] [--clients 8] [--tokens 64] [--embed] [--stream]

LEYDEN is the program, MODEL what `leyden serve` takes, by default the embedded model. Starts both servers on free ports at once;
in each round each is loaded alone for some seconds, in turns. With --embed the clients ask /v1/embeddings, else /v1/completions
with --tokens tokens. Needs nothing but Python. Prints one JSON object: answers per second of each round, the ratio of the medians,
processor time of the server per answer, and the mean wait for the audit log.
"""

import argparse
import http.client
import json
import os
import re
import statistics
import subprocess
import tempfile
import threading
import time


def start(arguments):
    process = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        found = re.search(r"listening on http://([0-9.:]+)", line)
        if found:
            threading.Thread(target=process.stderr.read, daemon=True).start()
            return process, found.group(1)
    raise SystemExit("the server did not start")


def load(address, path, body, clients, seconds):
    """Answers per second."""
    counts, end = [0] * clients, time.monotonic() + seconds

    def client(number):
        connection = http.client.HTTPConnection(address)
        while time.monotonic() < end:
            connection.request("POST", path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            data = answer.read()
            if answer.status != 200:
                raise RuntimeError(data.decode())
            counts[number] += 1

    begun = time.monotonic()
    threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / (time.monotonic() - begun)


def cpu_seconds(process):
    """Processor time of a server so far (Linux)."""
    with open(f"/proc/{process.pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def metric(address, name):
    connection = http.client.HTTPConnection(address)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    return float(re.search(rf"^{name} (\S+)$", text, re.MULTILINE).group(1))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("leyden")
    parser.add_argument("model", nargs="?")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--embed", action="store_true")
    parser.add_argument("--stream", action="store_true")
    parser.add_argument("--folder", help="folder for the log, on the disk to be measured")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        base = [given.leyden, "serve", "--port", "0", "--log-format", "off", "--lame-duck", "0"]
        base += [given.model] if given.model else []
        servers = {
            "without": start(base),
            "with": start(base + ["--audit", os.path.join(folder, "log")]),
        }
        if given.embed:
            path, body = "/v1/embeddings", {"input": "The quick brown fox jumps over the lazy dog."}
        else:
            path = "/v1/completions"
            body = {"prompt": "Once upon a time", "max_tokens": given.tokens, "ignore_eos": True, "stream": given.stream}
        body = json.dumps(body)
        rates = {name: [] for name in servers}
        used = {name: [] for name in servers}
        try:
            for address in [address for _, address in servers.values()]:
                load(address, path, body, given.clients, 1)
            for number in range(given.rounds):
                names = list(servers) if number % 2 == 0 else list(servers)[::-1]
                for name in names:
                    process, address = servers[name]
                    before = cpu_seconds(process)
                    rate = load(address, path, body, given.clients, given.seconds)
                    rates[name].append(round(rate, 2))
                    used[name].append(round(1000 * (cpu_seconds(process) - before) / (rate * given.seconds), 3))
            address = servers["with"][1]
            records = metric(address, "leyden_audit_records_total")
            waited = metric(address, "leyden_audit_wait_seconds_total")
        finally:
            for process, _ in servers.values():
                process.terminate()
                process.wait()
    medians = {name: statistics.median(all) for name, all in rates.items()}
    print(json.dumps({
        "rates": rates, "median": medians, "ratio": round(medians["with"] / medians["without"], 4),
        "cpu_ms_per_answer": {name: statistics.median(all) for name, all in used.items()},
        "records": int(records), "wait_ms_per_record": round(1000 * waited / max(records, 1), 3),
    }, indent=1))


if __name__ == "__main__":
    main()

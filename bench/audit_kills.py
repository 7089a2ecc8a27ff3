#!/usr/bin/env python3
"""Kills a server with an audit log again and again, and checks that the log has every answer that a client got.

    python3 bench/audit_kills.py LEYDEN [--kills 200] [--clients 4]

Each time the server is started on the same log, asked for short answers by some clients, half of them as streams, and killed with
SIGKILL at a random moment. At the end `leyden audit verify` must find no problem, and each answer that was received to its end must
have a record. Needs nothing but Python. Prints one JSON object.
"""

import argparse
import http.client
import json
import os
import random
import re
import subprocess
import tempfile
import threading
import time


def start(leyden, log):
    arguments = [leyden, "serve", "--port", "0", "--log-format", "off", "--threads", "1", "--audit", log]
    process = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True)
    said = ""
    for line in process.stderr:
        said += line
        found = re.search(r"listening on http://([0-9.:]+)", line)
        if found:
            threading.Thread(target=process.stderr.read, daemon=True).start()
            return process, found.group(1)
    raise SystemExit(f"the server did not start: {said}")


def client(address, number, got):
    connection = http.client.HTTPConnection(address)
    stream = number % 2 == 0
    body = json.dumps({"prompt": "Once", "max_tokens": 3, "stream": stream})
    for count in range(1_000_000):
        name = f"{address}-{number}-{count}-{random.getrandbits(48):012x}"
        try:
            headers = {"Content-Type": "application/json", "X-Request-Id": name.replace(":", "_")}
            connection.request("POST", "/v1/completions", body, headers)
            answer = connection.getresponse()
            data = answer.read()
        except (OSError, http.client.HTTPException):
            return
        if answer.status == 200 and (not stream or b"[DONE]" in data):
            got.append((headers["X-Request-Id"], "end" if stream else "whole"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("leyden")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--clients", type=int, default=4)
    given = parser.parse_args()
    got = []
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "log")
        for _ in range(given.kills):
            process, address = start(given.leyden, log)
            threads = [threading.Thread(target=client, args=(address, n, got)) for n in range(given.clients)]
            for thread in threads:
                thread.start()
            time.sleep(random.uniform(0.02, 0.4))
            process.kill()
            process.wait()
            for thread in threads:
                thread.join()
        process, _ = start(given.leyden, log)
        process.terminate()
        process.wait()
        verified = subprocess.run([given.leyden, "audit", "verify", log, "--json"], stdout=subprocess.PIPE, check=False)
        report = json.loads(verified.stdout)
        shown = subprocess.run([given.leyden, "audit", "show", log, "--json"], stdout=subprocess.PIPE, check=True)
        records = {(record["other"].get("client_id"), record["phase"]) for record in json.loads(shown.stdout)}
    lost = [answer for answer in got if answer not in records]
    cut = sum("cut off" in warning["what"] for warning in report["warnings"])
    print(json.dumps({
        "kills": given.kills, "answers": len(got), "records": report["entries"], "lost": len(lost),
        "problems": report["problems"], "unfinished_lines_cut": cut, "exit_code": verified.returncode,
    }, indent=1))
    raise SystemExit(1 if lost or report["problems"] else 0)


if __name__ == "__main__":
    main()

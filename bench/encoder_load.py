#!/usr/bin/env python3
"""Many clients at a server of vectors: whether each gets what it gets alone, how long it takes, and how memory goes.

    python3 bench/encoder_load.py LEYDEN MODEL TEXTS [--clients 200] [--requests 20000] [--words N] [--int8] [-- OPTIONS]

LEYDEN is the program, MODEL a folder or file, TEXTS a file with a text on each line or a CSV file whose first column is the
text. Starts a server on a free port with OPTIONS, asks /v1/embeddings for each text alone, then for texts in random order
from all clients at the same time, each of which asks again when it has its answer. An answer counts as equal if its vector is
that of the text alone to the last bit. Needs Linux and nothing but Python. Prints one JSON object.
"""

import argparse
import csv
import http.client
import json
import os
import random
import re
import subprocess
import sys
import threading
import time


def memory(pid):
    """Resident memory now and at most, in MB."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        found = dict(re.findall(r"(VmRSS|VmHWM):\s+(\d+) kB", file.read()))
    return {"rss": round(int(found["VmRSS"]) / 1000, 1), "peak": round(int(found["VmHWM"]) / 1000, 1)}


def size(path):
    """Bytes of weights, in MB."""
    files = [os.path.join(path, name) for name in os.listdir(path)] if os.path.isdir(path) else [path]
    wanted = (".safetensors", ".gguf", ".onnx", ".bin")
    return round(sum(os.path.getsize(file) for file in files if file.endswith(wanted)) / 1e6, 1)


def texts_of(path, words):
    with open(path, encoding="utf-8", newline="") as file:
        rows = [row[0] for row in csv.reader(file)][1:] if path.endswith(".csv") else file.read().splitlines()
    cut = [" ".join(row.split()[:words]) for row in rows]
    return sorted({text for text in cut if text})


def ask(connection, text):
    body = json.dumps({"input": text, "encoding_format": "base64"})
    connection.request("POST", "/v1/embeddings", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    data = answer.read()
    if answer.status != 200:
        raise RuntimeError(data.decode())
    return json.loads(data)["data"][0]["embedding"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("leyden")
    parser.add_argument("model")
    parser.add_argument("texts")
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--requests", type=int, default=20000)
    parser.add_argument("--words", type=int, help="as many words of each text at most")
    parser.add_argument("--int8", action="store_true")
    parser.add_argument("options", nargs="*")
    options = parser.parse_args()
    texts = texts_of(options.texts, options.words)
    command = [options.leyden, "serve", options.model, "--port", "0", "--host", "127.0.0.1", *options.options]
    server = subprocess.Popen(command + (["--int8"] if options.int8 else []), stderr=subprocess.PIPE, text=True)
    for line in server.stderr:
        if "http://" in line:
            address = line.split("http://")[1].split()[0].rstrip(",/")
            break
    else:
        sys.exit("the server did not start")
    threading.Thread(target=lambda: [None for _ in server.stderr], daemon=True).start()
    result = {"model": os.path.basename(options.model.rstrip("/")), "texts": len(texts), "clients": options.clients,
              "requests": options.requests, "file_mb": size(options.model), "loaded_mb": memory(server.pid)}
    connection = http.client.HTTPConnection(address)
    alone = [ask(connection, text) for text in texts]
    result["alone_mb"] = memory(server.pid)
    left, lock, took, wrong, failed = [options.requests], threading.Lock(), [], [], []

    def client(number):
        rng, own = random.Random(number), http.client.HTTPConnection(address)
        while True:
            with lock:
                if left[0] == 0:
                    return
                left[0] -= 1
            i = rng.randrange(len(texts))
            begin = time.perf_counter()
            try:
                vector = ask(own, texts[i])
            except (OSError, RuntimeError, http.client.HTTPException) as error:
                failed.append(str(error))
                own.close()
                continue
            took.append(time.perf_counter() - begin)
            if vector != alone[i]:
                wrong.append(i)

    threads = [threading.Thread(target=client, args=(n,)) for n in range(options.clients)]
    begin = time.perf_counter()
    for thread in threads:
        thread.start()
    # Resident memory at each twentieth of the requests.
    steps = []
    while any(thread.is_alive() for thread in threads):
        if len(took) >= options.requests * (len(steps) + 1) // 20:
            steps.append(memory(server.pid)["rss"])
        time.sleep(0.05)
    seconds = time.perf_counter() - begin
    took.sort()
    at = lambda share: round(took[min(len(took) - 1, int(share * len(took)))] * 1000, 1)
    result |= {"seconds": round(seconds, 1), "per_second": round(len(took) / seconds, 1), "failed": len(failed),
               "unequal": len(wrong), "p50_ms": at(0.5), "p95_ms": at(0.95), "p99_ms": at(0.99), "rss_mb": steps,
               "end_mb": memory(server.pid)}
    if failed:
        result["first_failure"] = failed[0]
    server.terminate()
    server.wait()
    print(json.dumps(result))


main()

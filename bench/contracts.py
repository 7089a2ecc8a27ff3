#!/usr/bin/env python3
"""Reads the 510 contracts of CUAD with leyden and compares what it finds with CUAD's labels: docs/contracts.md.

    python3 bench/contracts.py prepare CUAD WORK            pages.jsonl, parts.jsonl, types.txt
    python3 bench/contracts.py types WORK MINILM            type of each contract: by labels alone, and by a head on vectors
    python3 bench/contracts.py clauses WORK MINILM          clauses of each contract, by heads on vectors of its parts
    python3 bench/contracts.py extract WORK MODEL           parties, date and law as JSON, by a model that generates text
    python3 bench/contracts.py report WORK FILE             all results in one JSON file

CUAD is a folder with full_contract_txt.tar.gz, master_clauses.csv and doc_types.tsv. Steps are kept in WORK and not done again.
Needs numpy. `--leyden` names the program, `--threads` its threads (2), `--limit` the number of contracts.

Heads are logistic regressions with fixed settings. Every contract is judged by a head that was trained without it: five folds, in
which contracts of one company stay together. Intervals are 95 %, by Wilson for shares and by a bootstrap over contracts for F1.
"""

import argparse
import ast
import csv
import json
import os
import platform
import re
import resource
import subprocess
import sys
import tarfile
import time
import unicodedata
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import numpy as np

FOLDS = 5
PAGE_CHARS = 2500
PART_CHARS = 1000
SEED = 1
# Clauses with at least 60 contracts that have them and 60 that do not.
CLAUSES = [
    "Anti-Assignment", "Audit Rights", "Cap On Liability", "Exclusivity", "Governing Law", "Insurance", "License Grant",
    "Minimum Commitment", "Post-Termination Services", "Renewal Term", "Revenue/Profit Sharing", "Termination For Convenience",
]
DESCRIPTIONS = {
    "IP": "intellectual property", "Non-Compete/Non-Solicit": "non-competition", "Service": "services",
}
SCHEMA = {
    "type": "object", "required": ["parties", "agreement_date", "governing_law"], "additionalProperties": False,
    "properties": {
        "parties": {"type": "array", "minItems": 1, "maxItems": 4, "items": {"type": "string", "maxLength": 80}},
        "agreement_date": {"anyOf": [{"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"}, {"type": "null"}]},
        "governing_law": {"anyOf": [{"type": "string", "maxLength": 40}, {"type": "null"}]},
    },
}
INSTRUCTION = (
    "Read the contract below. Answer with JSON: the parties (full names), the agreement date (YYYY-MM-DD, null if it is not "
    "stated) and the governing law (state or country, null if it is not stated).\n\n"
)


def read_lines(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def write_lines(path, rows):
    with open(path + ".tmp", "w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    os.replace(path + ".tmp", path)


def save(path, value):
    with open(path + ".tmp", "w", encoding="utf-8") as file:
        json.dump(value, file, indent=1, ensure_ascii=False)
        file.write("\n")
    os.replace(path + ".tmp", path)


def key(name):
    """Name of a contract without its ending, and without what differs between CUAD's tables."""
    plain = unicodedata.normalize("NFKD", name.lower().rstrip("'"))
    return re.sub(r"[^a-z0-9]", "", re.sub(r"\.(txt|pdf)$", "", plain))


def prepare(options):
    cuad, work = options.cuad, options.work
    os.makedirs(work, exist_ok=True)
    with open(os.path.join(cuad, "doc_types.tsv"), encoding="utf-8") as file:
        types = {key(name): kind for name, kind in (line.rstrip("\n").split("\t") for line in file)}
    with open(os.path.join(cuad, "master_clauses.csv"), encoding="utf-8") as file:
        labels = {key(row["Filename"]): row for row in csv.DictReader(file)}
    pages, parts, missing = [], [], 0
    with tarfile.open(os.path.join(cuad, "full_contract_txt.tar.gz")) as archive:
        for member in sorted(archive.getmembers(), key=lambda one: one.name):
            name = os.path.basename(member.name)
            if not member.isfile() or key(name) not in types:
                continue
            text = archive.extractfile(member).read().decode("utf-8", "replace")
            row = labels.get(key(name))
            if row is None:
                missing += 1
                continue
            names = {column.lower(): column for column in row}
            clauses = {}
            for clause in CLAUSES:
                column = names[clause.lower()]
                clauses[clause] = ast.literal_eval(row[column]) if row[column].startswith("[") else []
            pages.append({
                "file": name, "type": types[key(name)], "page": " ".join(text[:PAGE_CHARS].split()),
                "company": re.split(r"[_,]", name)[0].lower(), "chars": len(text),
                "clauses": {clause: bool(found) for clause, found in clauses.items()},
                "parties": ast.literal_eval(row["Parties"]) if row["Parties"].startswith("[") else [],
                "agreement_date": row["Agreement Date-Answer"], "governing_law": row["Governing Law-Answer"],
            })
            for start in range(0, len(text), PART_CHARS):
                part = " ".join(text[start:start + PART_CHARS + 100].split())
                has = {
                    clause: any(" ".join(found.split())[:80] in part for found in all_found)
                    for clause, all_found in clauses.items()
                }
                parts.append({"file": name, "part": part, "clauses": [clause for clause, is_there in has.items() if is_there]})
    write_lines(os.path.join(work, "pages.jsonl"), pages)
    write_lines(os.path.join(work, "parts.jsonl"), parts)
    with open(os.path.join(work, "types.txt"), "w", encoding="utf-8") as file:
        for kind in sorted(set(page["type"] for page in pages)):
            file.write(f"{kind}\t{DESCRIPTIONS.get(kind, kind).lower()} agreement\n")
    print(f"{len(pages)} contracts, {len(parts)} parts, {missing} without labels")


class Run:
    """A run of the program, with its wall and processor time."""

    def __init__(self, options, arguments):
        self.command = [options.leyden, *arguments, "--threads", str(options.threads), "--quiet"]
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.time()
        subprocess.run(self.command, check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.wall = time.time() - start
        self.processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def speed(self, documents, threads):
        return {
            "documents": documents, "wall_s": round(self.wall, 2), "processor_s": round(self.processor, 2),
            "documents_per_hour_wall": round(documents / self.wall * 3600),
            "documents_per_hour_of_processors": round(documents * threads / self.processor * 3600),
        }


def wilson(right, all_of):
    if all_of == 0:
        return [0.0, 1.0]
    z, share = 1.96, right / all_of
    middle = (share + z * z / (2 * all_of)) / (1 + z * z / all_of)
    half = z / (1 + z * z / all_of) * (share * (1 - share) / all_of + z * z / (4 * all_of * all_of)) ** 0.5
    return [round(middle - half, 4), round(middle + half, 4)]


def share(right):
    right = [bool(one) for one in right]
    return {"share": round(sum(right) / max(len(right), 1), 4), "of": len(right), "interval": wilson(sum(right), len(right))}


def f1(truth, found):
    hit = np.sum(truth & found)
    return 0.0 if hit == 0 else 2 * hit / (np.sum(truth) + np.sum(found))


def f1_with_interval(truth, found, draws=1000):
    random, n = np.random.default_rng(SEED), len(truth)
    drawn = []
    for _ in range(draws):
        at = random.integers(0, n, n)
        drawn.append(f1(truth[at], found[at]))
    low, high = np.quantile(drawn, [0.025, 0.975])
    return {"f1": round(float(f1(truth, found)), 4), "interval": [round(float(low), 4), round(float(high), 4)]}


def folds(pages):
    """Fold of each contract: companies are spread at random, and stay together."""
    companies = sorted(set(page["company"] for page in pages))
    fold = dict(zip(companies, np.random.default_rng(SEED).permutation(len(companies)) % FOLDS))
    return np.array([fold[page["company"]] for page in pages])


def fit(vectors, targets, weights=None, steps=400, rate=0.5, decay=1e-3):
    """Logistic regression of one or more classes by full gradient steps with momentum; targets are shares of the classes."""
    x = np.hstack([vectors * 8, np.ones((len(vectors), 1))]).astype(np.float32)
    w = np.zeros((x.shape[1], targets.shape[1]), np.float32)
    speed = np.zeros_like(w)
    weights = np.ones((len(x), 1), np.float32) if weights is None else weights
    for _ in range(steps):
        speed = 0.9 * speed - rate * (x.T @ ((probabilities_of(x @ w) - targets) * weights) / weights.sum() + decay * w)
        w += speed
    return w


def probabilities_of(scores):
    if scores.shape[1] == 1:
        return 1 / (1 + np.exp(-scores))
    e = np.exp(scores - scores.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def predict(w, vectors):
    return probabilities_of(np.hstack([vectors * 8, np.ones((len(vectors), 1))]).astype(np.float32) @ w)


def vectors(options, source, column, name):
    """Vectors of a file's rows, and the speed of computing them."""
    path, speed_path = os.path.join(options.work, name + ".npy"), os.path.join(options.work, name + ".speed.json")
    rows = read_lines(source)
    if not os.path.exists(speed_path):
        run = Run(options, ["embed", options.model, "--file", source, "--column", column, "-o", path, "--truncate"])
        save(speed_path, run.speed(len(set(row["file"] for row in rows)), options.threads))
    with open(speed_path, encoding="utf-8") as file:
        return np.load(path), json.load(file)


def pages_of(options):
    pages = read_lines(os.path.join(options.work, "pages.jsonl"))
    if options.limit and options.limit < len(pages):
        chosen = np.random.default_rng(SEED).permutation(len(pages))[: options.limit]
        pages = [pages[i] for i in sorted(chosen)]
    source = os.path.join(options.work, f"pages-{len(pages)}.jsonl")
    write_lines(source, pages)
    return pages, source


def types(options):
    pages, source = pages_of(options)
    kinds = sorted(set(page["type"] for page in pages))
    truth = np.array([kinds.index(page["type"]) for page in pages])
    output = os.path.join(options.work, f"types-{len(pages)}.jsonl")
    labels = os.path.join(options.work, "types.txt")
    if os.path.exists(output):
        os.remove(output)
    run = Run(options, ["classify", options.model, "--labels-file", labels, "--file", source, "--column", "page",
                        "-o", output, "--truncate", "--top", "3"])
    found = read_lines(output)
    top = [[one["label"] for one in row["labels"]] for row in found]
    by_labels = {
        "right": share(row[0] == page["type"] for row, page in zip(top, pages)),
        "right_among_three": share(page["type"] in row for row, page in zip(top, pages)),
        "speed": run.speed(len(pages), options.threads),
    }
    x, speed = vectors(options, source, "page", f"pages-{len(pages)}")
    fold, guess = folds(pages), np.zeros((len(pages), len(kinds)))
    for k in range(FOLDS):
        train = fold != k
        guess[~train] = predict(fit(x[train], np.eye(len(kinds), dtype=np.float32)[truth[train]]), x[~train])
    order = np.argsort(-guess, 1)
    sure = guess.max(1) >= 0.5
    by_head = {
        "right": share(order[:, 0] == truth),
        "right_among_three": share((order[:, :3] == truth[:, None]).any(1)),
        "answered_at_0.5": share(sure), "right_of_answered": share((order[:, 0] == truth)[sure]),
        "macro_f1": round(float(np.mean([f1(truth == i, order[:, 0] == i) for i in range(len(kinds))])), 4),
        "speed": speed,
    }
    most = np.bincount(truth).max() / len(truth)
    save(os.path.join(options.work, "types.json"), {
        "contracts": len(pages), "types": len(kinds), "most_frequent_type": round(float(most), 4),
        "by_labels": by_labels, "by_head": by_head, "command": [os.path.basename(one) for one in run.command],
    })
    print(json.dumps({"by_labels": by_labels, "by_head": by_head}, indent=1))


def clauses(options):
    pages, _ = pages_of(options)
    wanted = {page["file"]: i for i, page in enumerate(pages)}
    parts = [part for part in read_lines(os.path.join(options.work, "parts.jsonl")) if part["file"] in wanted]
    source = os.path.join(options.work, f"parts-{len(pages)}.jsonl")
    write_lines(source, parts)
    x, speed = vectors(options, source, "part", f"parts-{len(pages)}")
    owner = np.array([wanted[part["file"]] for part in parts])
    fold, results = folds(pages), {}
    for clause in CLAUSES:
        truth = np.array([page["clauses"][clause] for page in pages])
        here = np.array([clause in part["clauses"] for part in parts])
        best = np.zeros(len(pages))
        found = np.zeros(len(pages), bool)
        for k in range(FOLDS):
            test = fold == k
            train_parts = ~test[owner]
            weight = np.where(here[train_parts], 0.5 / max(here[train_parts].mean(), 1e-6), 1.0)[:, None].astype(np.float32)
            w = fit(x[train_parts], here[train_parts][:, None].astype(np.float32), weight, steps=150)
            score = predict(w, x)[:, 0]
            most = np.zeros(len(pages))
            np.maximum.at(most, owner, score)
            # The threshold is that of the best F1 of the training contracts.
            levels = np.quantile(most[~test], np.linspace(0.02, 0.98, 49))
            level = max(levels, key=lambda level: f1(truth[~test], most[~test] >= level))
            best[test], found[test] = most[test], most[test] >= level
        results[clause] = {
            "contracts_with_it": int(truth.sum()), **f1_with_interval(truth, found),
            "right": share(truth == found), "always_yes_f1": round(float(f1(truth, np.ones_like(truth))), 4),
        }
        print(clause, results[clause], flush=True)
    mean = round(float(np.mean([one["f1"] for one in results.values()])), 4)
    save(os.path.join(options.work, "clauses.json"), {
        "contracts": len(pages), "parts": len(parts), "speed": speed, "mean_f1": mean, "clauses": results,
    })


def iso(date):
    found = re.fullmatch(r"(\d{1,2})/(\d{1,2})/(\d{2,4})", date.strip())
    if not found:
        return None
    month, day, year = (int(part) for part in found.groups())
    return f"{year + (2000 if year < 50 else 1900) if year < 100 else year:04}-{month:02}-{day:02}"


def words(text):
    return re.sub(r"[^a-z0-9 ]", "", text.lower()).strip()


def extract(options):
    pages, _ = pages_of(options)
    server = subprocess.Popen(
        [options.leyden, "serve", options.model, "--port", "18321", "--threads", str(options.threads), "--parallel", "8",
         "--log-format", "off", "--quiet"], stderr=subprocess.DEVNULL)
    url = "http://127.0.0.1:18321"
    try:
        for _ in range(600):
            try:
                urllib.request.urlopen(url + "/health", timeout=5)
                break
            except OSError:
                time.sleep(0.2)

        def ask(page):
            body = {
                "messages": [{"role": "user", "content": INSTRUCTION + page["page"]}], "temperature": 0, "max_tokens": 160,
                "response_format": {"type": "json_schema", "json_schema": {"name": "contract", "schema": SCHEMA, "strict": True}},
            }
            request = urllib.request.Request(
                url + "/v1/chat/completions", json.dumps(body).encode(), {"content-type": "application/json"})
            answer = json.load(urllib.request.urlopen(request, timeout=3600))
            choice = answer["choices"][0]
            try:
                return json.loads(choice["message"]["content"])
            except (ValueError, TypeError):
                return None

        start = time.time()
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(ask, pages))
        wall = time.time() - start
        with open(f"/proc/{server.pid}/stat", encoding="utf-8") as file:
            user, system = file.read().rsplit(")", 1)[1].split()[11:13]
        processor = (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
    finally:
        server.terminate()
        server.wait()
    write_lines(os.path.join(options.work, "extracted.jsonl"), [
        {"file": page["file"], "found": answer} for page, answer in zip(pages, answers)])
    parties, dates, laws = [], [], []
    for page, answer in zip(pages, answers):
        answer = answer or {"parties": [], "agreement_date": None, "governing_law": None}
        known = [words(name) for name in page["parties"] if len(words(name)) > 3]
        if known:
            parties += [any(words(name) and (words(name) in one or one in words(name)) for one in known) for name in answer["parties"]]
        date = iso(page["agreement_date"])
        if date:
            dates.append(answer["agreement_date"] == date)
        # A law that the page does not name cannot be found on it.
        law = words(page["governing_law"])
        if law and law in words(page["page"]):
            laws.append(words(answer["governing_law"] or "") == law)
    results = {
        "contracts": len(pages), "follow_the_schema": share(answer is not None for answer in answers),
        "named_parties_that_are_parties": share(parties), "agreement_date_right": share(dates),
        "governing_law_right_if_on_the_page": share(laws),
        "speed": {
            "documents": len(pages), "wall_s": round(wall, 1), "processor_s": round(processor, 1),
            "documents_per_hour_wall": round(len(pages) / wall * 3600),
            "documents_per_hour_of_processors": round(len(pages) * options.threads / processor * 3600),
        },
    }
    save(os.path.join(options.work, "extract.json"), results)
    print(json.dumps(results, indent=1))


def report(options):
    def model():
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next((line.split(":")[1].strip() for line in file if line.startswith("model name")), platform.machine())

    version = subprocess.run([options.leyden, "--version"], check=True, capture_output=True, text=True).stdout.strip()
    out = {"script": "bench/contracts.py", "leyden": version, "machine": model(), "processors": os.cpu_count(),
           "threads": options.threads, "note": options.note}
    for step in ["types", "clauses", "extract"]:
        path = os.path.join(options.work, step + ".json")
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                out[step] = json.load(file)
    save(options.file, out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    steps = parser.add_subparsers(dest="step", required=True)
    for name, arguments in [("prepare", ["cuad", "work"]), ("types", ["work", "model"]), ("clauses", ["work", "model"]),
                            ("extract", ["work", "model"]), ("report", ["work", "file"])]:
        step = steps.add_parser(name)
        for argument in arguments:
            step.add_argument(argument)
        step.add_argument("--leyden", default="leyden")
        step.add_argument("--threads", type=int, default=2)
        step.add_argument("--limit", type=int, default=0)
        step.add_argument("--note", default="")
    options = parser.parse_args()
    {"prepare": prepare, "types": types, "clauses": clauses, "extract": extract, "report": report}[options.step](options)


if __name__ == "__main__":
    sys.exit(main())

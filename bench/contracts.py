#!/usr/bin/env python3
"""Counts how well leyden reads the 510 contracts of CUAD, by CUAD's labels: docs/contracts.md has the story.

    python3 bench/contracts.py prepare CUAD WORK              folder of contracts, labels, rows to train the type on
    python3 bench/contracts.py run WORK/NAME.time.json COMMAND...   runs a command, and keeps its wall and processor time
    python3 bench/contracts.py types WORK NAME OUT...         counts types in outputs of `leyden batch --task classify`
    python3 bench/contracts.py type-heads WORK NAME OUT       the same by heads on vectors of `leyden batch --task embed`
    python3 bench/contracts.py clause-heads WORK NAME OUT     clauses by heads on vectors of `--task embed --window`
    python3 bench/contracts.py clause-examples WORK NAME EXAMPLES.npy OUT   the same by cosines with example texts
    python3 bench/contracts.py clauses WORK NAME OUT...       counts clauses in outputs of `--task classify --window`
    python3 bench/contracts.py facts WORK NAME OUT            counts parties, dates and laws in an output of `--task chat`
    python3 bench/contracts.py report WORK FILE               all results in one JSON file

CUAD is a folder with full_contract_txt.tar.gz, master_clauses.csv and doc_types.tsv. Needs numpy. Every contract is judged by
models that were trained without it and without other contracts of its company, in five folds. Intervals are 95 %, by Wilson
for shares and by a bootstrap over contracts for F1.
"""

import argparse
import ast
import csv
import glob
import json
import os
import platform
import re
import resource
import shutil
import subprocess
import sys
import tarfile
import time
import unicodedata

import contracts_clauses as clauses_of
import numpy as np

FOLDS = 5
PAGE_CHARS = 2500
SEED = 1
EXAMPLES = 10
# Clauses with at least 60 contracts of the first 200 that have them and 60 that do not.
CLAUSES = [
    "Anti-Assignment", "Audit Rights", "Cap On Liability", "Exclusivity", "Governing Law", "Insurance", "License Grant",
    "Minimum Commitment", "Post-Termination Services", "Renewal Term", "Revenue/Profit Sharing", "Termination For Convenience",
]
DESCRIPTIONS = {
    "IP": "intellectual property", "Non-Compete/Non-Solicit": "non-competition", "Service": "services",
}


def read_lines(*paths):
    rows = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            rows += [json.loads(line) for line in file]
    return rows


def write_lines(path, rows):
    with open(path + ".tmp", "w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    os.replace(path + ".tmp", path)


def save(path, value):
    with open(path + ".tmp", "w", encoding="utf-8") as file:
        json.dump(value, file, indent=1, ensure_ascii=False)
        file.write("\n")
    os.replace(path + ".tmp", path)


def plain(text):
    return " ".join(text.split())


# Preparation.


def key(name):
    """Name of a contract without its ending, and without what differs between CUAD's tables."""
    letters = unicodedata.normalize("NFKD", name.lower().rstrip("'"))
    return re.sub(r"[^a-z0-9]", "", re.sub(r"\.(txt|pdf)$", "", letters))


def prepare(options):
    cuad, work = options.cuad, options.work
    folder = os.path.join(work, "contracts")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(cuad, "doc_types.tsv"), encoding="utf-8") as file:
        types = {key(name): kind for name, kind in (line.rstrip("\n").split("\t") for line in file)}
    with open(os.path.join(cuad, "master_clauses.csv"), encoding="utf-8") as file:
        tables = {key(row["Filename"]): row for row in csv.DictReader(file)}
    labels, pages, count = [], {}, 0
    with tarfile.open(os.path.join(cuad, "full_contract_txt.tar.gz")) as archive:
        for member in sorted(archive.getmembers(), key=lambda one: one.name):
            if not member.isfile():
                continue
            name, data = os.path.basename(member.name), archive.extractfile(member).read()
            with open(os.path.join(folder, name), "wb") as file:
                file.write(data)
            count += 1
            row = tables.get(key(name))
            if row is None or key(name) not in types:
                continue
            columns = {column.lower(): column for column in row}
            quotes = lambda column: ast.literal_eval(row[column]) if row[column].startswith("[") else []
            pages[name] = data.decode("utf-8", "replace")[:PAGE_CHARS]
            labels.append({
                "path": name, "type": types[key(name)], "company": re.split(r"[_,]", name)[0].lower(),
                "clauses": {clause: quotes(columns[clause.lower()]) for clause in CLAUSES}, "parties": quotes("Parties"),
                "agreement_date": row["Agreement Date-Answer"], "governing_law": row["Governing Law-Answer"],
            })
    # Companies are spread over the folds at random, and stay together.
    companies = sorted(set(row["company"] for row in labels))
    fold = dict(zip(companies, np.random.default_rng(SEED).permutation(len(companies)) % FOLDS))
    for row in labels:
        row["fold"] = int(fold[row["company"]])
    write_lines(os.path.join(work, "labels.jsonl"), labels)
    examples = examples_of(labels)
    write_lines(os.path.join(work, "examples.jsonl"), examples)
    for k in range(FOLDS):
        part = os.path.join(work, "folds", str(k))
        os.makedirs(part, exist_ok=True)
        for row in labels:
            if row["fold"] == k:
                shutil.copy(os.path.join(folder, row["path"]), part)
        rows = lambda test: [{"text": pages[row["path"]], "type": row["type"]} for row in labels if (row["fold"] == k) == test]
        write_lines(os.path.join(work, f"train-{k}.jsonl"), rows(False))
        write_lines(os.path.join(work, f"test-{k}.jsonl"), rows(True))
        with open(os.path.join(work, f"clauses-{k}.txt"), "w", encoding="utf-8") as file:
            file.writelines(f"{one['clause']}\t{one['text']}\n" for one in examples if one["fold"] != k)
    with open(os.path.join(work, "types.txt"), "w", encoding="utf-8") as file:
        for kind in sorted(set(row["type"] for row in labels)):
            file.write(f"{kind}\t{DESCRIPTIONS.get(kind, kind).lower()} agreement\n")
    print(f"{count} contracts, {len(labels)} with labels")


def examples_of(labels):
    """Example texts of each clause, at most EXAMPLES of each fold; 60 to 500 characters, each of another contract."""
    random, examples = np.random.default_rng(SEED), []
    for clause in CLAUSES:
        for k in range(FOLDS):
            quotes = [[plain(one) for one in row["clauses"][clause]] for row in labels if row["fold"] == k]
            quotes = [[one for one in found if 60 <= len(one) <= 500] for found in quotes]
            quotes = [found[0] for found in quotes if found]
            for i in random.permutation(len(quotes))[:EXAMPLES]:
                examples.append({"clause": clause, "fold": k, "text": quotes[i]})
    return examples


def run(options):
    """Runs a command, and keeps its wall and processor time."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.time()
    status = subprocess.run(options.command).returncode
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    save(options.file, {
        "command": [os.path.basename(one) if os.sep in one else one for one in options.command], "status": status,
        "wall_s": round(time.time() - start, 2),
        "processor_s": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 2),
    })
    return status


# Figures.


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


def interval(count, n, draws=1000):
    """95 % interval by a bootstrap over n contracts of `count`, a function of drawn indices."""
    random = np.random.default_rng(SEED)
    low, high = np.quantile([count(random.integers(0, n, n)) for _ in range(draws)], [0.025, 0.975])
    return [round(float(low), 4), round(float(high), 4)]


def labels_of(options):
    return {row["path"]: row for row in read_lines(os.path.join(options.work, "labels.jsonl"))}


def keep(options, step, value):
    """Keeps a result under its name, and prints it."""
    value = {"step": step, **value}
    print(json.dumps(value, indent=1, ensure_ascii=False))
    save(os.path.join(options.work, options.name + ".result.json"), value)


# 1. Types.


def type_figures(truth, order, kinds, sure=None):
    first = [one[0] for one in order]
    figures = {
        "right": share(a == b for a, b in zip(truth, first)),
        "right_among_three": share(a in b[:3] for a, b in zip(truth, order)),
        "macro_f1": round(float(np.mean([
            f1(np.array([t == kind for t in truth]), np.array([t == kind for t in first])) for kind in kinds])), 4),
    }
    if sure is not None:
        figures["answered_at_0.5"] = share(sure)
        figures["right_of_answered"] = share(a == b for a, b, s in zip(truth, first, sure) if s)
    return figures


def types(options):
    known = labels_of(options)
    rows = [row for row in read_lines(*options.outputs) if row["path"] in known]
    truth = [known[row["path"]]["type"] for row in rows]
    # Cosines, which no softmax has made, are not compared with 0.5.
    sure = None if options.cosines else [row["score"] >= 0.5 for row in rows]
    kinds = sorted(set(row["type"] for row in known.values()))
    most = max(kinds, key=truth.count)
    keep(options, "types", {
        "contracts": len(rows), "errors": sum("error" in row for row in rows),
        "most_frequent_type": round(truth.count(most) / len(truth), 4),
        **type_figures(truth, [[one["label"] for one in row["labels"]] for row in rows], kinds, sure),
    })


def fit(x, targets, steps=400, rate=0.5, decay=1e-3):
    """Logistic regression of several classes by full gradient steps with momentum."""
    w = np.zeros((x.shape[1], targets.shape[1]), np.float32)
    speed = np.zeros_like(w)
    for _ in range(steps):
        speed = 0.9 * speed - rate * (x.T @ (softmax(x @ w) - targets) / len(x) + decay * w)
        w += speed
    return w


def softmax(scores):
    e = np.exp(scores - scores.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def type_heads(options):
    """Types by heads on vectors of first pages; each contract by the head of its fold."""
    known = labels_of(options)
    rows = [row for row in read_lines(*options.outputs) if row["path"] in known]
    x = np.array([row["embedding"] for row in rows], np.float32)
    x = np.hstack([x * 8, np.ones((len(x), 1), np.float32)])
    kinds = sorted(set(row["type"] for row in known.values()))
    truth = np.array([kinds.index(known[row["path"]]["type"]) for row in rows])
    fold, guess = np.array([known[row["path"]]["fold"] for row in rows]), np.zeros((len(rows), len(kinds)))
    for k in range(FOLDS):
        train = fold != k
        guess[~train] = softmax(x[~train] @ fit(x[train], np.eye(len(kinds), dtype=np.float32)[truth[train]]))
    order = [[kinds[i] for i in one] for one in np.argsort(-guess, 1)]
    keep(options, "types", {
        "contracts": len(rows), **type_figures([kinds[i] for i in truth], order, kinds, list(guess.max(1) >= 0.5))})


# 3. Facts.


def iso(date):
    found = re.fullmatch(r"(\d{1,2})/(\d{1,2})/(\d{2,4})", date.strip())
    if not found:
        return None
    month, day, year = (int(part) for part in found.groups())
    return f"{year + (2000 if year < 50 else 1900) if year < 100 else year:04}-{month:02}-{day:02}"


def words(text):
    return re.sub(r"[^a-z0-9 ]", "", text.lower()).strip()


def same_law(answer, law):
    """Returns true if an answer names the law: "the State of New York" for "New York"."""
    bare = lambda text: plain(re.sub(r"\b(the|laws?|of|state|commonwealth|province|republic)\b", " ", words(text or "")))
    # Labels such as "Ontario, Canada" are also right by their first part.
    return bare(answer) in (bare(law), bare(law.split(",")[0]))


def facts(options):
    known = labels_of(options)
    rows = [row for row in read_lines(*options.outputs) if row["path"] in known]
    parties, full, dates, no_dates, laws, seen = [], [], [], [], [], []
    for row in rows:
        label = known[row["path"]]
        answer = json.loads(row["output"]) if "output" in row else {"parties": [], "agreement_date": None, "governing_law": None}
        names = [words(name) for name in label["parties"] if len(words(name)) > 3]
        given = [words(name) for name in answer["parties"]]
        same = lambda a, b: bool(a) and bool(b) and (a in b or b in a)
        if names:
            parties += [any(same(one, name) for name in names) for one in dict.fromkeys(given)]
            # Full names: a name of one word is mostly a role such as "Distributor".
            full += [any(same(one, name) for one in given if " " in one) for name in dict.fromkeys(names) if " " in name]
        date = iso(label["agreement_date"])
        (dates if date else no_dates).append(answer["agreement_date"] == date)
        law = label["governing_law"].strip()
        if law:
            laws.append(same_law(answer["governing_law"], law))
            found = next((one for one in row.get("labels", []) if one["label"] == "Governing Law"), None)
            part = row["text"][:PAGE_CHARS] + (row["text"][found["start"]:found["end"]] if found else "")
            seen.append(words(law.split(",")[0]) in words(plain(part)))
    most = [label["governing_law"].strip() for label in (known[row["path"]] for row in rows) if label["governing_law"].strip()]
    keep(options, "facts", {
        "contracts": len(rows), "follow_the_schema": share("output" in row for row in rows),
        "named_parties_that_are_parties": share(parties), "full_names_that_are_named": share(full),
        "agreement_date_right": share(dates), "no_date_where_none_is_labelled": share(no_dates),
        "governing_law_right": share(laws), "law_stands_in_what_was_read": share(seen),
        "law_right_where_it_stands_there": share(right for right, there in zip(laws, seen) if there),
        "most_frequent_law": round(max(most.count(law) for law in most) / len(most), 4) if most else None,
        "tokens": [sum(row.get(name) or 0 for row in rows) for name in ("prompt_tokens", "completion_tokens")],
    })


# 2. Clauses.


def clause_truth(rows, known):
    return np.array([[bool(known[row["path"]]["clauses"][clause]) for clause in CLAUSES] for row in rows])


def window_vectors(options, known):
    """Vectors of all windows, the clauses that each window has, and the contract of each, by an output of --task embed --window."""
    rows = [row for row in read_lines(*options.outputs) if row["path"] in known]
    x, y, owner = [], [], []
    for i, row in enumerate(rows):
        quotes = {name: [plain(one)[:80] for one in found] for name, found in known[row["path"]]["clauses"].items()}
        for window in row["windows"]:
            part = plain(row["text"][window["start"]:window["end"]])
            x.append(window["embedding"])
            y.append([any(one in part for one in quotes[clause]) for clause in CLAUSES])
            owner.append(i)
    return rows, np.array(x, np.float32), np.array(y), np.array(owner)


def clause_heads(options):
    """Heads of five folds: three folds train, the next gives the thresholds, and the last is judged."""
    known = labels_of(options)
    rows, x, y, owner = window_vectors(options, known)
    truth, fold = clause_truth(rows, known), np.array([known[row["path"]]["fold"] for row in rows])
    found = np.zeros(truth.shape, bool)
    for k in range(FOLDS):
        random = np.random.default_rng(SEED + k)
        level, test = fold == (k + 1) % FOLDS, fold == k
        train = ~(level | test)[owner]
        head = clauses_of.Head(x[train], len(CLAUSES), random)
        head.train(x[train], y[train], random)
        best = clauses_of.of_contracts(head.probabilities(x), owner, len(rows))
        found[test] = best[test] >= clauses_of.thresholds(best[level], truth[level], f1)
    keep(options, "clauses", {"contracts": len(rows), "windows": len(owner), **clause_figures(truth, found)})


def clause_examples(options):
    """The same by the nearest example, as --labels-file does: thresholds by the four other folds. Needs vectors of examples.jsonl."""
    known = labels_of(options)
    rows, x, _, owner = window_vectors(options, known)
    examples, e = read_lines(os.path.join(options.work, "examples.jsonl")), np.load(options.examples)
    truth, fold = clause_truth(rows, known), np.array([known[row["path"]]["fold"] for row in rows])
    cosines, found = x @ e.T, np.zeros(truth.shape, bool)
    for k in range(FOLDS):
        of = [[i for i, one in enumerate(examples) if one["clause"] == clause and one["fold"] != k] for clause in CLAUSES]
        best = clauses_of.of_contracts(np.stack([cosines[:, some].max(1) for some in of], 1), owner, len(rows))
        # A contract that gave an example would find it again: thresholds are those of scores by the examples of other folds.
        others = np.zeros(truth.shape, np.float32)
        for j in range(FOLDS):
            of = [[i for i, one in enumerate(examples) if one["clause"] == clause and one["fold"] not in (j, k)] for clause in CLAUSES]
            scores = clauses_of.of_contracts(np.stack([cosines[:, some].max(1) for some in of], 1), owner, len(rows))
            others[fold == j] = scores[fold == j]
        levels = clauses_of.thresholds(others[fold != k], truth[fold != k], f1)
        save(os.path.join(options.work, f"thresholds-{k}.json"), dict(zip(CLAUSES, levels)))
        found[fold == k] = best[fold == k] >= levels
    keep(options, "clauses", {"contracts": len(rows), "windows": len(owner), "examples": len(examples), **clause_figures(truth, found)})


def clause_figures(truth, found):
    n, clauses = len(truth), {}
    for i, clause in enumerate(CLAUSES):
        t, g = truth[:, i], found[:, i]
        clauses[clause] = {
            "contracts_with_it": int(t.sum()), "f1": round(float(f1(t, g)), 4),
            "interval": interval(lambda at, t=t, g=g: f1(t[at], g[at]), n),
            "always_yes_f1": round(float(f1(t, np.ones_like(t))), 4), "right": share(t == g),
        }
    mean = lambda at: np.mean([f1(truth[at, i], found[at, i]) for i in range(len(CLAUSES))])
    return {"mean_f1": round(float(mean(np.arange(n))), 4), "interval": interval(mean, n), "clauses": clauses}


def clauses(options):
    """Clauses in outputs of --task classify --labels-file --window, with the thresholds of `clause-examples`."""
    known = labels_of(options)
    rows = [row for row in read_lines(*options.outputs) if row["path"] in known]
    levels = []
    for k in range(FOLDS):
        with open(os.path.join(options.work, f"thresholds-{k}.json"), encoding="utf-8") as file:
            levels.append(json.load(file))
    scores = [{one["label"]: one["score"] for one in row["labels"]} for row in rows]
    found = np.array([[one[clause] >= levels[known[row["path"]]["fold"]][clause] for clause in CLAUSES] for row, one in zip(rows, scores)])
    keep(options, "clauses", {"contracts": len(rows), **clause_figures(clause_truth(rows, known), found)})


def report(options):
    def machine():
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            facts = dict(line.split(":", 1) for line in file.read().split("\n\n")[0].splitlines() if ":" in line)
        facts = {name.strip(): value.strip() for name, value in facts.items()}
        return f"{facts.get('model name', platform.machine())}, family {facts.get('cpu family')}, model {facts.get('model')}"

    version = subprocess.run([options.leyden, "--version"], check=True, capture_output=True, text=True).stdout.strip()
    out = {"script": "bench/contracts.py", "date": options.date, "leyden": version, "machine": machine(),
           "processors": os.cpu_count(), "note": options.note, "results": {}, "times": {}, "training": []}
    for kind, ending in [("results", ".result.json"), ("times", ".time.json")]:
        for path in sorted(glob.glob(os.path.join(options.work, "*" + ending))):
            with open(path, encoding="utf-8") as file:
                out[kind][os.path.basename(path)[:-len(ending)]] = json.load(file)
    for path in sorted(glob.glob(os.path.join(options.work, "train-*", "log.json"))):
        with open(path, encoding="utf-8") as file:
            out["training"].append(json.load(file))
    save(options.file, out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    steps = parser.add_subparsers(dest="step", required=True)
    outputs = lambda step: step.add_argument("outputs", nargs="+", metavar="OUT")
    for name, arguments, more in [
        ("prepare", ["cuad", "work"], None), ("run", ["file"], None), ("types", ["work", "name"], outputs),
        ("type-heads", ["work", "name"], outputs), ("clause-heads", ["work", "name"], outputs),
        ("clause-examples", ["work", "name", "examples"], outputs),
        ("clauses", ["work", "name"], outputs), ("facts", ["work", "name"], outputs), ("report", ["work", "file"], None),
    ]:
        step = steps.add_parser(name)
        for argument in arguments:
            step.add_argument(argument)
        if more:
            more(step)
        if name == "run":
            step.add_argument("command", nargs=argparse.REMAINDER)
        if name == "types":
            step.add_argument("--cosines", action="store_true", help="scores are cosines, not probabilities")
        if name == "report":
            step.add_argument("--leyden", default="leyden")
            step.add_argument("--date", default=time.strftime("%Y-%m-%d"))
            step.add_argument("--note", default="")
    options = parser.parse_args()
    return globals()[options.step.replace("-", "_")](options)


if __name__ == "__main__":
    sys.exit(main())

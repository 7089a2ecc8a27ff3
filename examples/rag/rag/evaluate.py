"""Measures the pipeline on FairytaleQA (Xu et al., ACL 2022; Apache-2.0): `python -m rag.evaluate DATA WORK [options]`.

DATA is the data set as a .tar.gz or a folder. Every section of the stories of its test split is a document; a question is answered by one
section, which must be among the first five. Scores and answers are kept in WORK as they come, so an evaluation that was ended goes on
with the same command; `--seconds` ends it.
"""

import argparse
import csv
import io
import json
import pathlib
import random
import sys
import tarfile
import time
from concurrent.futures import ThreadPoolExecutor

from . import answers, pipeline
from .chunks import divide
from .service import Service
from .stores import open_store

DEPTH = 5


def read(data, split="test"):
    """Returns the sections `{(story, section): text}` and the questions `(story, section, question, answers)` of a split."""
    path = pathlib.Path(data)
    if path.is_dir():
        files = {str(f.relative_to(path)): f.read_text(encoding="utf-8") for f in path.rglob("*.csv")}
    else:
        with tarfile.open(path) as archive:
            files = {m.name.removeprefix("./"): archive.extractfile(m).read().decode() for m in archive if m.name.endswith(".csv")}
    sections, questions = {}, []
    for name in sorted(files):
        folder, story = name.rsplit("/", 1)
        if folder.endswith(f"data-by-train-split/section-stories/{split}"):
            for row in csv.DictReader(io.StringIO(files[name])):
                sections[story.removesuffix("-story.csv"), row["section"]] = row["text"]
        elif folder.endswith(f"data-by-train-split/questions/{split}"):
            for row in csv.DictReader(io.StringIO(files[name])):
                # `local` questions are about one section.
                if row["local-or-sum"] == "local" and row["cor_section"].isdigit():
                    known = [row[f"answer{i}"] for i in range(1, 7) if row.get(f"answer{i}")]
                    questions.append((story.removesuffix("-questions.csv"), row["cor_section"], row["question"], known))
    if not sections or not questions:
        raise ValueError(f"{data}: no section or question of the split {split}")
    return sections, [q for q in questions if q[:2] in sections]


def interval(hits, stories, draws=2000, seed=1):
    """Returns the mean and its 95 % interval, by bootstrap over stories: questions of one story are not independent."""
    of = {}
    for hit, story in zip(hits, stories, strict=True):
        of.setdefault(story, []).append(hit)
    groups, draw, means = list(of.values()), random.Random(seed), []
    for _ in range(draws):
        taken = [hit for group in draw.choices(groups, k=len(groups)) for hit in group]
        means.append(sum(taken) / len(taken))
    means.sort()
    return {"mean": sum(hits) / len(hits), "low": means[int(0.025 * draws)], "high": means[int(0.975 * draws)], "questions": len(hits)}


class Kept:
    """Results by key in a file of JSON lines: what is there is not computed again."""

    def __init__(self, path):
        self.path, self.known = path, {}
        if path.exists():
            for line in path.read_text().splitlines():
                key, value = json.loads(line)
                self.known[key] = value

    def get(self, key, compute):
        """Returns the result of a key, computed now if it is not known."""
        if key not in self.known:
            self.known[key] = compute()
            with open(self.path, "a") as file:
                file.write(json.dumps([key, self.known[key]]) + "\n")
        return self.known[key]


def retrieve(store, service, questions, work, candidates, reranked, limit):
    """Returns recall at 5 by method, with intervals; reranking of the first `reranked` questions."""
    kept, vectors = Kept(work / "scores.jsonl"), vectors_of(service, [q[2] for q in questions], work)
    found = {name: [] for name in ("vectors", "words", "fused")}
    for (_, _, question, _), vector in zip(questions, vectors):
        near, by_words = store.by_vector(vector, candidates), store.by_words(question, candidates)
        found["vectors"].append(near)
        found["words"].append(by_words)
        found["fused"].append(pipeline.fuse([near, by_words])[:candidates])
    out = {name: recall(lists, questions) for name, lists in found.items()}
    for name in ("vectors", "fused"):
        lists, most = [], min(reranked, len(questions))
        for i in range(most):
            if time.monotonic() > limit:
                break
            pool = found[name][i][:candidates]
            keys = [f"{questions[i][2]}|{chunk.id}" for chunk in pool]
            fresh = [n for n, key in enumerate(keys) if key not in kept.known]
            for n, score in zip(fresh, service.scores(questions[i][2], [pool[n].text for n in fresh]) if fresh else ()):
                kept.get(keys[n], lambda score=score: score)
            scores = [kept.known[key] for key in keys]
            lists.append((pool, pipeline.reorder(pool, scores)))
        some = questions[: len(lists)]
        if lists:
            out[f"{name}, these questions"] = recall([pool for pool, _ in lists], some)
            out[f"{name} + rerank"] = recall([best for _, best in lists], some)
            out[f"{name} + rerank, gain"] = gain([pool for pool, _ in lists], [best for _, best in lists], some)
    return out


def vectors_of(service, texts, work):
    """Returns the vectors of texts; those that are kept in WORK are not computed again."""
    kept = Kept(work / "vectors.jsonl")
    fresh = [text for text in dict.fromkeys(texts) if text not in kept.known]
    for i in range(0, len(fresh), 64):
        for text, vector in zip(fresh[i : i + 64], service.vectors(fresh[i : i + 64])):
            kept.get(text, lambda vector=vector: vector)
    return [kept.known[text] for text in texts]


def hit(chunks, question):
    """Returns whether the question's section is among the first five chunks."""
    return any(chunk.path == f"{question[0]}/{question[1]}" for chunk in chunks[:DEPTH])


def recall(lists, questions):
    """Returns the share of questions with a hit, with its interval."""
    return interval([hit(chunks, q) for chunks, q in zip(lists, questions)], [q[0] for q in questions])


def gain(before, after, questions):
    """Returns the mean difference of hits in pairs, with its interval."""
    pairs = [int(hit(b, q)) - int(hit(a, q)) for a, b, q in zip(before, after, questions)]
    return interval(pairs, [q[0] for q in questions])


def answer(store, service, questions, work, limit, workers=4):
    """Returns rates of answers to these questions, with quotes chosen among sentences and with free quotes."""
    kept, out = Kept(work / "answers.jsonl"), {}

    def one(question, exact):
        chunks = pipeline.search(store, service, question[2], DEPTH, rerank=False)
        began = time.monotonic()
        try:
            made = answers.answer(service, question[2], chunks, exact)
        except ValueError as error:
            return {"error": str(error)}
        places = [c.path for c in made.citations]
        return {
            "answer": made.text, "exact": len(made.citations), "wrong": len(made.wrong), "found": hit(chunks, question),
            "cites_section": f"{question[0]}/{question[1]}" in places, "f1": f1(made.text, question[3]),
            "seconds": time.monotonic() - began,
        }  # fmt: skip

    for mode in ("chosen", "free"):

        def work_on(question, mode=mode):
            key = f"{mode}|{question[2]}"
            if key not in kept.known and time.monotonic() > limit:
                return None
            return kept.known[key] if key in kept.known else (key, one(question, mode == "chosen"))

        with ThreadPoolExecutor(workers) as pool:
            made = []
            for result in pool.map(work_on, questions):
                made.append(kept.get(result[0], lambda r=result: r[1]) if isinstance(result, tuple) else result)
        done = [(m, q[0]) for m, q in zip(made, questions) if m and "error" not in m]
        if done:
            cited = [(m, s) for m, s in done if m["exact"] + m["wrong"]]
            right = [(m, s) for m, s in done if m["found"]]
            quotes = sum(m["exact"] + m["wrong"] for m, _ in done)
            out[mode] = {
                "answers": len(done), "errors": sum(bool(m) and "error" in m for m in made), "quotes": quotes,
                "exact_quotes": sum(m["exact"] for m, _ in done) / max(quotes, 1),
                "answers_with_citation": interval([m["exact"] > 0 for m, _ in done], [s for _, s in done]),
                "all_quotes_exact": interval([m["wrong"] == 0 for m, _ in cited], [s for _, s in cited]) if cited else None,
                "cites_section_if_found": interval([m["cites_section"] for m, _ in right], [s for _, s in right]) if right else None,
                "token_f1": interval([m["f1"] for m, _ in done], [s for _, s in done]),
                "seconds": sorted(m["seconds"] for m, _ in done)[len(done) // 2],
            }  # fmt: skip
    return out


def f1(text, known):
    """Returns the best F1 of words with a known answer, as for SQuAD."""
    best = 0.0
    for answer_ in known:
        a, b = _words(text), _words(answer_)
        common = sum(min(a.count(w), b.count(w)) for w in set(a))
        best = max(best, 2 * common / (len(a) + len(b)) if common else 0.0)
    return best


def _words(text):
    return [w for w in "".join(c.lower() if c.isalnum() else " " for c in text).split() if w not in ("a", "an", "the")]


def main(words=None):
    """Runs an evaluation and prints its figures as JSON."""
    parser = argparse.ArgumentParser(prog="python -m rag.evaluate", description=__doc__.splitlines()[0])
    parser.add_argument("data")
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("--url", default="http://127.0.0.1:8080/v1")
    parser.add_argument("--embed", default="all-MiniLM-L6-v2")
    parser.add_argument("--chat", default="qwen2.5-coder-0.5b-instruct-q4_k_m")
    parser.add_argument("--rerank")
    parser.add_argument("--likelihood")
    parser.add_argument("--store", help="default: a LanceDB folder in WORK")
    parser.add_argument("--split", default="test")
    parser.add_argument("--candidates", type=int, default=10)
    parser.add_argument("--reranked", type=int, default=200, help="questions to rerank, a fixed sample (default 200)")
    parser.add_argument("--answered", type=int, default=50, help="questions to answer, a fixed sample (default 50)")
    parser.add_argument("--seconds", type=float, default=1e9, help="time after which nothing more is computed")
    args = parser.parse_args(words)
    limit = time.monotonic() + args.seconds
    args.work.mkdir(parents=True, exist_ok=True)
    service = Service(args.url, embed=args.embed, chat=args.chat, rerank=args.rerank, likelihood=args.likelihood)
    sections, questions = read(args.data, args.split)
    random.Random(7).shuffle(questions)
    chunks = [chunk for (story, number), text in sections.items() for chunk in divide(f"{story}/{number}", text)]
    store = open_store(args.store or str(args.work / "lance"))
    store.write(chunks, vectors_of(service, [chunk.text for chunk in chunks], args.work))
    out = {"stories": len({s for s, _ in sections}), "sections": len(sections), "chunks": len(chunks), "questions": len(questions)}
    out["recall_at_5"] = retrieve(store, service, questions, args.work, args.candidates, args.reranked if service.reranks else 0, limit)
    if args.answered:
        out["answers"] = answer(store, service, questions[: args.answered], args.work, limit)
    store.close()
    print(json.dumps(out, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())

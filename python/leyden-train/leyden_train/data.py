"""Rows of CSV and JSON lines, their tokens, and batches of similar lengths."""

import csv
import json
import random

import torch


class DataError(Exception):
    """Rows that cannot be used; the message names the file and line."""


def read_rows(path, columns):
    """Yields the values of `columns` of each row of a `.csv`, `.tsv` or `.jsonl` file, as tuples of texts."""
    wanted = [c for c in columns if c is not None]
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            if path.endswith((".jsonl", ".ndjson")):
                for number, line in enumerate(file, 1):
                    if line.strip():
                        try:
                            row = json.loads(line)
                        except json.JSONDecodeError as error:
                            raise DataError(f"{path}: line {number}: not JSON: {error}") from error
                        yield _pick(row if isinstance(row, dict) else {}, wanted, path, number)
            elif path.endswith((".csv", ".tsv")):
                reader = csv.DictReader(file, delimiter="\t" if path.endswith(".tsv") else ",")
                for row in reader:
                    yield _pick(row, wanted, path, reader.line_num)
            else:
                raise DataError(f"{path}: rows are read from .csv, .tsv and .jsonl")
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path}: {error}") from error


def _pick(row, wanted, path, number):
    for column in wanted:
        if row.get(column) is None:
            raise DataError(f"{path}: line {number}: no value for the column {column!r}")
    return tuple(str(row[column]) for column in wanted)


def read_labels(path):
    """Reads a JSON list of labels."""
    try:
        with open(path, encoding="utf-8") as file:
            labels = json.load(file)
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: {error}") from error
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise DataError(f"{path}: a JSON list of texts is needed")
    return labels


class Rows:
    """Tokens and labels of all rows of a file."""

    def __init__(self, path, data, tokenizer, labels):
        rows = list(read_rows(path, (data.text, data.text_pair, data.label)))
        if not rows:
            raise DataError(f"{path}: no rows")
        self.labels = labels if labels is not None else sorted({row[-1] for row in rows})
        index = {label: i for i, label in enumerate(self.labels)}
        unknown = next((row[-1] for row in rows if row[-1] not in index), None)
        if unknown is not None:
            raise DataError(f"{path}: the label {unknown!r} is not among the labels of the training rows")
        pairs = [row[1] for row in rows] if data.text_pair is not None else None
        encoded = tokenizer([row[0] for row in rows], pairs, truncation=True, max_length=data.max_tokens)
        self.tokens = encoded["input_ids"]
        self.types = encoded.get("token_type_ids") if pairs else None
        self.targets = torch.tensor([index[row[-1]] for row in rows])
        self.pad = tokenizer.pad_token_id or 0

    def __len__(self):
        return len(self.tokens)

    def inputs(self, rows, device):
        """Returns the model's inputs for some rows, padded to the longest of them."""
        longest = max(len(self.tokens[i]) for i in rows)
        fill = lambda lists, value: torch.tensor(
            [lists[i] + [value] * (longest - len(lists[i])) for i in rows], device=device
        )
        ids = fill(self.tokens, self.pad)
        lengths = torch.tensor([[len(self.tokens[i])] for i in rows], device=device)
        inputs = {"input_ids": ids, "attention_mask": (torch.arange(longest, device=device) < lengths).long()}
        if self.types is not None:
            inputs["token_type_ids"] = fill(self.types, 0)
        return inputs

    def in_order(self, batch):
        """Returns batches of all rows, the longest first."""
        order = sorted(range(len(self)), key=lambda i: (-len(self.tokens[i]), i))
        return [order[i : i + batch] for i in range(0, len(order), batch)]

    def shuffled(self, batch, seed):
        """Returns batches of all rows in random order; rows of a batch have similar lengths."""
        rng = random.Random(seed)
        order = list(range(len(self)))
        rng.shuffle(order)
        pool = batch * 16
        batches = []
        for start in range(0, len(order), pool):
            some = sorted(order[start : start + pool], key=lambda i: len(self.tokens[i]))
            batches.extend(some[i : i + batch] for i in range(0, len(some), batch))
        rng.shuffle(batches)
        return batches

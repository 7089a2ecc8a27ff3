#!/usr/bin/env python3
"""Goldens of a published encoder: what sentence-transformers computes with it.

    python3 real_encoder.py MODELS OUT.json

MODELS holds minilm/all-MiniLM-L6-v2.
"""
import json
import pathlib
import sys

from sentence_transformers import SentenceTransformer

FOLDER = "minilm/all-MiniLM-L6-v2"
TEXTS = [
    "The invoice of last month was paid twice; please refund one of the two payments.",
    "How do I change the address on my card?",
    "A cat sleeps on a warm mat beside the window.",
    "In 1998 the town had 12,450 inhabitants, of whom a third worked in the harbour.",
    "The patient was given 5 mg of the drug twice a day for a week.",
    "def add(a, b): return a + b",
    "Rivers carry sand and mud to the sea, where they build deltas.",
    "What is the capital of Portugal?",
    "The court found that the contract had ended before the goods were sent.",
    "She plays the violin, he the piano, and both sing badly.",
    "Temperatures will fall below zero tonight, with snow above 400 metres.",
    "My transfer to an account abroad is still pending after three days!",
    "Photosynthesis turns light, water and carbon dioxide into sugar and oxygen.",
    "The train to Leiden leaves from platform 4 at 10:35.",
    "Error: connection refused (os error 111)",
    "Shares of the company rose by 7.2 % after the quarterly report was published, while those of its two rivals, which had "
    "warned of losses a month before, fell to what they had cost in the spring of the year before last.",
]


def main():
    model = SentenceTransformer(str(pathlib.Path(sys.argv[1]) / FOLDER), device="cpu")
    rows = [{"text": text, "vector": [round(float(x) * 1e5) for x in vector]} for text, vector in zip(TEXTS, model.encode(TEXTS))]
    head = {"format": 1, "peer": "sentence-transformers 6.2.0", "folder": FOLDER, "unit": 1e-5, "rows": rows}
    pathlib.Path(sys.argv[2]).write_text(json.dumps(head, separators=(",", ":")).replace('{"text"', '\n{"text"') + "\n")


main()

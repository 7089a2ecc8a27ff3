#!/usr/bin/env python3
"""Writes english.bin beside it from misaki's us_gold.json and us_silver.json (Apache-2.0, hexgrad/misaki).

usage: make.py FOLDER, with both files in it

english.bin has the length of its first part (u32, little endian), then two zlib streams: lines of keys in byte order, each
as one byte of 32 plus the bytes shared with the key before it and the rest; and lines of values, each one pronunciation or
`TAG=pronunciation|...` where an empty pronunciation stands for null. Keys in both files have the value of the gold one.
"""
import json
import pathlib
import struct
import sys
import zlib


def value(entry):
    if isinstance(entry, str):
        return entry
    return "|".join(f"{tag}={phonemes or ''}" for tag, phonemes in entry.items())


folder = pathlib.Path(sys.argv[1])
entries = {}
for name in ("us_silver.json", "us_gold.json"):
    entries.update(json.loads((folder / name).read_text()))
keys, values, before = [], [], b""
for key in sorted(entries, key=str.encode):
    text = key.encode()
    shared = 0
    while shared < min(len(text), len(before), 90) and text[shared] == before[shared]:
        shared += 1
    keys.append(bytes([32 + shared]) + text[shared:])
    values.append(value(entries[key]).encode())
    before = text
first, second = (zlib.compress(b"\n".join(lines), 9) for lines in (keys, values))
target = pathlib.Path(__file__).with_name("english.bin")
target.write_bytes(struct.pack("<I", len(first)) + first + second)
print(f"{len(keys)} words, {target.stat().st_size} bytes")

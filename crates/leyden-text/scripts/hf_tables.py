#!/usr/bin/env python3
"""Writes src/tokenizer/hf/tables.rs: which characters belong to which class in the `tokenizers` library.

    pip install tokenizers unicodedata2 && python3 scripts/hf_tables.py

The library takes its classes from several crates, each with a Unicode version of its own. So the tables are read off its
behaviour, code point by code point. unicodedata2 must have at least the Unicode version of
the crate unicode-normalization.
"""

import pathlib
import re

import tokenizers
import unicodedata2
from tokenizers import Regex
from tokenizers import normalizers as nm
from tokenizers import pre_tokenizers as pt

SRC = pathlib.Path(__file__).parent.parent / "src/tokenizer"
ALL = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def regex_class(pattern):
    """The characters that a class of the library's regular expressions contains."""
    removed = pt.Split(Regex(pattern), "removed")
    found = set()
    for base in range(0, len(ALL), 4096):
        block = ALL[base : base + 4096]
        left = {c for word, _ in removed.pre_tokenize_str("".join(map(chr, block))) for c in word}
        found |= {c for c in block if chr(c) not in left}
    return found


def splits(pre_tokenizer):
    return {c for c in ALL if len(pre_tokenizer.pre_tokenize_str(f"a{chr(c)}a")) != 1}


def removes(normalizer):
    return {c for c in ALL if normalizer.normalize_str("a" + chr(c)) == "a"}


def bert(**options):
    off = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    return nm.BertNormalizer(**{**off, **options})


def combines(c):
    """Whether the library reorders the character among marks, in either direction."""
    nfd, x = nm.NFD().normalize_str, chr(c)
    low, high = f"a{x}\u0334", f"a\u0345{x}"
    return nfd(low) != low or nfd(high) != high


def not_normalized():
    """Characters that Unicode normalizes and the library, whose version is older, does not."""
    found = set()
    for c in ALL:
        x = chr(c)
        if unicodedata2.normalize("NFKD", x) != x:
            if nm.NFKD().normalize_str(x) == x:
                found.add(c)
        elif unicodedata2.combining(x) and not combines(c):
            found.add(c)
    return found


SUBSTITUTES = {
    (3, "Lu"): 0x1E00, (3, "Ll"): 0x1E01, (3, "Lm"): 0x2090, (3, "Lo"): 0x4E2D, (3, "M"): 0x20D0,
    (3, "N"): 0x2460, (3, "P"): 0x3002, (3, "S"): 0x2300,
    (4, "Lu"): 0x10400, (4, "Ll"): 0x10428, (4, "Lm"): 0x16B40, (4, "Lo"): 0x20000, (4, "M"): 0x1D165,
    (4, "N"): 0x1D7CE, (4, "P"): 0x10100, (4, "S"): 0x1F600, (4, "C"): 0xF0000,
}  # fmt: skip


def reclassified():
    """(first, last, substitute) where the library's regular expressions know another class than unicode_classes.rs."""
    runs = re.findall(r"\((0x[0-9a-f]+), (\w)\w+\)", (SRC / "unicode_classes.rs").read_text())
    ours, letter = {}, {"O": "C"}
    for (start, kind), (end, _) in zip(runs, [*runs[1:], ("0x110000", "")]):
        ours.update(dict.fromkeys(range(int(start, 16), int(end, 16)), letter.get(kind, kind)))
    theirs = {}
    for kind in ["L", "M", "N", "P", "S"]:
        theirs.update(dict.fromkeys(regex_class(rf"\p{{{kind}}}"), kind))
    kinds = {kind: regex_class(rf"\p{{{kind}}}") for kind in ["Lu", "Ll", "Lm", "Lo"]}
    rows = []
    for c in ALL:
        kind = theirs.get(c, "C")
        if kind == ours[c]:
            continue
        if kind == "L":
            kind = next(name for name, members in kinds.items() if c in members)
        substitute = SUBSTITUTES[len(chr(c).encode()), kind]
        if rows and rows[-1][1] == c - 1 and rows[-1][2] == substitute:
            rows[-1][1] = c
        else:
            rows.append([c, c, substitute])
    return rows


def ranges(members):
    rows = []
    for c in sorted(members):
        # Surrogates are not characters: a run goes on behind them.
        if rows and rows[-1][1] in (c - 1, c - 0x801):
            rows[-1][1] = c
        else:
            rows.append([c, c])
    return rows


def wrap(cells):
    lines = [""]
    for cell in cells:
        if len(lines[-1]) + len(cell) > 110:
            lines.append("")
        lines[-1] += (" " if lines[-1] else "") + cell + ","
    return "".join(f"    {line}\n" for line in lines)


def main():
    clean = {c for c in ALL if bert(clean_text=True).normalize_str(f"a{chr(c)}a") == "aa"}
    word = set(ALL) - splits(pt.Whitespace())
    tables = [
        ("WORD", r"Characters that match `\w` beside added tokens and in `Whitespace`.", word),
        ("PUNCTUATION", "Characters at which `Punctuation` and `BertPreTokenizer` split.", splits(pt.Punctuation("isolated"))),
        ("CONTROL", "Characters that `BertNormalizer` removes as control characters.", clean),
        ("NONSPACING", "Characters that `BertNormalizer` strips as accents.", removes(bert(strip_accents=True))),
        ("MARKS", "Characters that `StripAccents` removes.", removes(nm.StripAccents())),
        ("NOT_NORMALIZED", "Characters that NFC, NFD, NFKC and NFKD leave unchanged, though later versions of Unicode do not.", not_normalized()),
    ]  # fmt: skip
    out = f"//! Generated by `scripts/hf_tables.py` from tokenizers {tokenizers.__version__}; do not edit.\n"
    for name, doc, members in tables:
        rows = ranges(members)
        cells = wrap(f"(0x{a:x}, 0x{b:x})" for a, b in rows)
        out += f"\n/// {doc}\n#[rustfmt::skip]\npub(super) static {name}: [(u32, u32); {len(rows)}] = [\n{cells}];\n"
    rows = reclassified()
    cells = wrap(f"(0x{a:x}, 0x{b:x}, '\\u{{{s:x}}}')" for a, b, s in rows)
    out += (
        "\n/// Runs of characters whose class in regular expressions differs from `unicode_classes.rs`, each with a character\n"
        "/// of the same length in UTF-8 that has that class in both.\n"
        f"#[rustfmt::skip]\npub(super) static RECLASSIFIED: [(u32, u32, char); {len(rows)}] = [\n{cells}];\n"
    )
    (SRC / "hf/tables.rs").write_text(out)


main()

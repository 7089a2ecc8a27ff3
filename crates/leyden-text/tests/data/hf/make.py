#!/usr/bin/env python3
"""Trains small tokenizers of the kinds that real models have, and stores what the `tokenizers` library makes of texts.

    pip install tokenizers==0.23.3 sentencepiece protobuf
    python3 make.py ../shared/data/text/books NAME=tokenizer.json…

The tokenizers are trained on books whose copyright has ended. Writes beside itself: NAME.json, the tokenizers;
strings.json, 2,000 random strings (those of random_strings.json with more put in); characters.json, tokenizers that are a component each; and
golden.json. That holds for each of the latter a hash of the ids of every 1024 code points, each between `a` and `b`; and
for each of the others, also those named on the command line, a hash of every ten strings. Hashed are, for each string: the ids; the ids with special tokens as text; the text of the ids; the text of those ids
that are not special. Ids are 4 bytes each, little-endian, and 0xffffffff stands behind each of the four.

The ids are those of a vocabulary in which no word is a special token, so that only special tokens become one. With special
tokens as text they are those with `encode_special_tokens`.
"""

import base64
import copy
import json
import pathlib
import random
import struct
import sys
import tarfile
import tempfile

import sentencepiece
import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = pathlib.Path(__file__).parent
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace("{1,3}", "")
O200K = "|".join([
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+",
])  # fmt: skip
TEKKEN = O200K.replace("(?i:'s|'t|'re|'ve|'m|'ll|'d)?", "").replace("{1,3}", "")
DEEPSEEK3 = r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"
CLIP = r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"


def special(text, **options):
    return AddedToken(text, special=True, normalized=False, **options)


def byte_level(corpus, size, pre, normalizer=None, tokens=(), words=(), **model):
    """BPE of bytes; `pre` cuts, and ByteLevel behind it spells the bytes."""
    t = Tokenizer(models.BPE(**model))
    t.normalizer = normalizer
    t.pre_tokenizer = pre
    t.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    t.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=size, show_progress=False, initial_alphabet=alphabet, limit_alphabet=256))
    t.add_special_tokens(list(tokens))
    t.add_tokens(list(words))
    return t


def spelled(*steps):
    return pre_tokenizers.Sequence([*steps, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def cut(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Split(pattern if isinstance(pattern, str) else pattern, behavior, invert)


def template(t, single, *names):
    t.post_processor = processors.TemplateProcessing(single=single, special_tokens=[(n, t.token_to_id(n)) for n in names])
    return t


def sentencepiece_bpe(corpus, size, normalizer, pre, decoder, words=()):
    """BPE of characters with bytes for the rest, as converted from SentencePiece."""
    bytes_ = [f"<0x{b:02X}>" for b in range(256)]
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    t.normalizer, t.pre_tokenizer, t.decoder = normalizer, pre, decoder
    trainer = trainers.BpeTrainer(vocab_size=size, show_progress=False, special_tokens=["<unk>", "<s>", "</s>", *bytes_], limit_alphabet=90)
    t.train_from_iterator(corpus, trainer)
    state = json.loads(t.to_str())
    # The trainer has made the bytes special tokens, which they are not.
    state["added_tokens"] = [a for a in state["added_tokens"] if a["content"] not in bytes_]
    t = Tokenizer.from_str(json.dumps(state))
    t.add_tokens(list(words))
    return template(t, "<s> $A", "<s>")


def unigram(corpus, size, normalizer, pre, tokens, byte_fallback=False):
    t = Tokenizer(models.Unigram())
    t.normalizer, t.pre_tokenizer, t.decoder = normalizer, pre, decoders.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=size, show_progress=False, unk_token="<unk>", special_tokens=[str(x) for x in tokens])
    t.train_from_iterator(corpus, trainer)
    state = json.loads(t.to_str())
    model = state["model"]
    model["byte_fallback"] = byte_fallback
    if byte_fallback:
        model["vocab"] += [[f"<0x{b:02X}>", -20.0] for b in range(256)]
    for entry in model["vocab"]:
        entry[1] = round(entry[1], 4)
    for entry, token in zip(state["added_tokens"], tokens):
        if isinstance(token, AddedToken):
            entry.update(lstrip=token.lstrip, rstrip=token.rstrip, normalized=token.normalized)
    return Tokenizer.from_str(json.dumps(state))


def charsmap():
    """A table of replacements of our own, compiled by SentencePiece."""
    rules = [("ﬁ", "fi"), ("½", "1⁄2"), ("\u00a0", " "), ("\u3000", " "), ("\t", " "), ("\n", " "), ("\r", " "), ("\u200b", ""),
             ("é", "e\u0301"), ("e\u0301", "é"), ("\u212b", "\u00c5"), ("…", "..."), ("Ａ", "A"), ("＜", "<"), ("ｶﾞ", "ガ"), ("ｶ", "カ"),
             ("ß", "ss"), ("👍🏽", "👍"), ("\u0301", ""), ("🇩🇪", "DE"), ("ﷺ", "صلى الله عليه وسلم"), ("\x07", "")]  # fmt: skip
    hexed = lambda text: " ".join(f"{ord(c):X}" for c in text)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "rules.tsv").write_text("".join(f"{hexed(a)}\t{hexed(b)}\n" for a, b in rules))
        (folder / "text").write_text("\n".join(["a b c d e"] * 50))
        sentencepiece.SentencePieceTrainer.train(
            input=str(folder / "text"), model_prefix=str(folder / "m"), vocab_size=12, model_type="char", minloglevel=2,
            normalization_rule_tsv=str(folder / "rules.tsv"), hard_vocab_limit=False,
        )  # fmt: skip
        from sentencepiece import sentencepiece_model_pb2 as pb

        proto = pb.ModelProto()
        proto.ParseFromString((folder / "m.model").read_bytes())
        return proto.normalizer_spec.precompiled_charsmap


def word_piece(corpus, size, **normal):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer(**normal)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece()
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    t.train_from_iterator(corpus, trainers.WordPieceTrainer(vocab_size=size, show_progress=False, special_tokens=names, limit_alphabet=80))
    return t


def families(corpus):
    chars = charsmap()
    precompiled = normalizers.Precompiled(chars)
    N, P, D = normalizers, pre_tokenizers, decoders
    ends = [special("<|endoftext|>"), special("<|im_start|>"), special("<|im_end|>")]

    t = byte_level(corpus, 700, spelled(cut(Regex(LLAMA3))), ignore_merges=True,
                   tokens=[special(f"<|{n}|>") for n in ["begin_of_text", "end_of_text", "start_header_id", "end_header_id", "eot_id"]])  # fmt: skip
    yield "llama3", template(t, "<|begin_of_text|> $A", "<|begin_of_text|>")
    yield "qwen2", byte_level(corpus, 600, spelled(cut(Regex(QWEN2))), N.NFC(), tokens=ends, words=[AddedToken("<think>", normalized=False)])
    yield "o200k", byte_level(corpus, 600, spelled(cut(Regex(O200K))), tokens=ends)
    yield "tekken", byte_level(corpus, 500, spelled(cut(Regex(TEKKEN))), tokens=[special("<s>"), special("</s>")])
    yield "deepseek", byte_level(
        corpus, 600,
        spelled(cut(Regex(r"\p{N}{1,3}")), cut(Regex("[一-龥぀-ゟ゠-ヿ]+")), cut(Regex(DEEPSEEK3))),
        N.Sequence([]), tokens=[special("<｜begin▁of▁sentence｜>"), special("<|eot_id|>")], words=[AddedToken("<think>")],
    )  # fmt: skip
    yield "deepseek_coder", byte_level(
        corpus, 500,
        P.Sequence([cut(Regex(r"[\r\n]")), cut(Regex(r"\s?\p{L}+")), cut(Regex(r"\s?\p{P}+")), cut(Regex("[一-龥ࠀ-一가-퟿]+")),
                    P.Digits(True), P.ByteLevel(add_prefix_space=False, use_regex=False)]),
    )  # fmt: skip
    yield "falcon", byte_level(
        corpus, 500,
        P.Sequence([P.Punctuation("contiguous"), P.ByteLevel(add_prefix_space=False), P.Digits(False), cut(Regex("[0-9][0-9][0-9]"))]),
        tokens=[special(">>TITLE<<"), special("<|endoftext|>")],
    )  # fmt: skip
    yield "gpt_neox", byte_level(corpus, 500, P.ByteLevel(add_prefix_space=False), N.NFC(), tokens=[special("<|endoftext|>")],
                                 words=[AddedToken(" " * n) for n in range(12, 1, -1)])  # fmt: skip
    yield "gpt2_prefix_space", byte_level(corpus, 450, P.ByteLevel(add_prefix_space=True), tokens=[AddedToken("<mask>", lstrip=True, special=True, normalized=False), special("<s>"), special("</s>")])
    yield "starcoder", byte_level(corpus, 500, P.Sequence([P.Digits(True), P.ByteLevel(add_prefix_space=False)]), tokens=ends)
    yield "bloom", byte_level(corpus, 450, spelled(cut(Regex(BLOOM))), tokens=[special("<s>"), special("</s>")])

    mark = N.Replace(" ", "▁")
    back = [D.Replace("▁", " "), D.ByteFallback(), D.Fuse()]
    strip = D.Sequence([*back, D.Strip(" ", 1, 0)])
    yield "llama2", sentencepiece_bpe(corpus, 700, N.Sequence([N.Prepend("▁"), mark]), None, strip, [AddedToken("<think>", rstrip=True)])
    yield "gemma", sentencepiece_bpe(corpus, 700, mark, cut(" ", "merged_with_previous"), D.Sequence(back),
                                     [AddedToken("\n" * n, normalized=False) for n in range(1, 5)] + [AddedToken("▁" * n, normalized=False) for n in range(2, 6)])  # fmt: skip
    yield "mistral", sentencepiece_bpe(corpus, 700, None, P.Metaspace(prepend_scheme="first", split=False), strip)
    yield "metaspace_first", sentencepiece_bpe(corpus, 600, N.NFKC(), P.Sequence([P.Punctuation("merged_with_next"), P.Metaspace(prepend_scheme="first")]), D.Metaspace())

    t = unigram(corpus, 500, precompiled, P.Metaspace(), ["<pad>", "</s>", "<unk>"])
    yield "t5", template(t, "$A </s>", "</s>")
    t = unigram(corpus, 500, N.Sequence([precompiled, N.Replace(Regex(" {2,}"), " ")]), P.Sequence([P.WhitespaceSplit(), P.Metaspace()]),
                ["<s>", "<pad>", "</s>", "<unk>", AddedToken("<mask>", lstrip=True, normalized=True)])  # fmt: skip
    yield "xlm_roberta", template(t, "<s> $A </s>", "<s>", "</s>")
    t = unigram(corpus, 500, N.Sequence([N.Replace("``", '"'), N.Replace("''", '"'), N.NFKD(), N.StripAccents(), N.Lowercase(), precompiled, N.Strip()]),
                P.Metaspace(), ["<pad>", "<unk>", "[CLS]", "[SEP]", AddedToken("[MASK]", lstrip=True, normalized=False)], byte_fallback=True)  # fmt: skip
    yield "albert", template(t, "[CLS] $A [SEP]", "[CLS]", "[SEP]")

    t = word_piece(corpus, 700)
    yield "bert_uncased", template(t, "[CLS] $A [SEP]", "[CLS]", "[SEP]")
    t = word_piece(corpus, 700, lowercase=False, strip_accents=False)
    t.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    t.decoder = D.WordPiece(cleanup=False)
    yield "bert_cased", t

    t = Tokenizer(models.BPE(unk_token="<|endoftext|>", end_of_word_suffix="</w>"))
    t.normalizer = N.Sequence([N.NFC(), N.Replace(Regex(r"\s+"), " "), N.Lowercase()])
    t.pre_tokenizer = P.Sequence([cut(Regex(CLIP), "removed", True), P.ByteLevel(add_prefix_space=False)])
    t.decoder = D.Sequence([D.Replace("</w>", " "), D.ByteLevel()])
    t.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=900, show_progress=False, initial_alphabet=P.ByteLevel.alphabet(), end_of_word_suffix="</w>", special_tokens=["<|startoftext|>", "<|endoftext|>"]))
    t.post_processor = processors.RobertaProcessing(("<|endoftext|>", 1), ("<|startoftext|>", 0), False, False)
    yield "clip", t
    t = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>", fuse_unk=False))
    t.normalizer, t.pre_tokenizer, t.decoder = N.BertNormalizer(), P.BertPreTokenizer(), D.BPEDecoder()
    t.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=600, show_progress=False, end_of_word_suffix="</w>", special_tokens=["<unk>"], limit_alphabet=60))
    yield "gpt1", t
    t = Tokenizer(models.BPE(unk_token="<unk>", continuing_subword_prefix="##", fuse_unk=True))
    t.normalizer, t.pre_tokenizer, t.decoder = N.Nmt(), P.Whitespace(), D.WordPiece()
    t.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=600, show_progress=False, continuing_subword_prefix="##", special_tokens=["<unk>", "</s>"], limit_alphabet=60))
    t.add_tokens([AddedToken("fox", single_word=True), AddedToken("café", single_word=True, normalized=True), AddedToken("=>", lstrip=True, rstrip=True)])
    yield "bpe_prefix", t
    t = Tokenizer(models.WordLevel(unk_token="<unk>"))
    t.normalizer = N.Sequence([N.NFD(), N.Strip(left=True, right=False), N.Lowercase()])
    t.pre_tokenizer = P.Sequence([P.CharDelimiterSplit("e"), P.Split(Regex("[aeiou]+"), "merged_with_next"), P.Split("th", "merged_with_previous"), P.Split("'", "contiguous", True), P.FixedLength(5)])
    t.train_from_iterator(corpus, trainers.WordLevelTrainer(vocab_size=600, show_progress=False, special_tokens=["<unk>", "<s>"]))
    yield "word_level", t


def characters():
    """Each tokenizer spells what its component leaves of characters, with `|` before every piece."""
    bytes_ = {f"<0x{b:02X}>": b for b in range(256)}
    for name, normalizer, pre in [
        *[(n, getattr(normalizers, n)(), None) for n in ["NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt", "Strip"]],
        ("BertCleaned", normalizers.BertNormalizer(lowercase=False), None),
        ("BertStripped", normalizers.BertNormalizer(clean_text=False, handle_chinese_chars=False), None),
        *[(n, None, getattr(pre_tokenizers, n)()) for n in ["Whitespace", "WhitespaceSplit", "Punctuation", "BertPreTokenizer", "ByteLevel"]],
        ("Digits", None, pre_tokenizers.Digits(True)),
        ("Llama3", None, cut(Regex(LLAMA3))),
        ("Qwen2", None, cut(Regex(QWEN2))),
        ("Gpt2", None, cut(Regex(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"))),
        ("O200k", None, cut(Regex(O200K))),
    ]:  # fmt: skip
        # Every piece begins with the token `|`, which so shows where the text was cut.
        t = Tokenizer(models.BPE({**bytes_, "<unk>": 256, "|": 257}, [], byte_fallback=True, unk_token="<unk>"))
        t.normalizer = normalizer
        steps = ([pre] if pre else []) + [pre_tokenizers.Metaspace("|", "always", False)]
        t.pre_tokenizer = pre_tokenizers.Sequence(steps)
        yield name, t


def fnv1a(data):
    state = 0x811C9DC5
    for byte in data:
        state = (state ^ byte) * 0x01000193 % 2**32
    return state


def defanged(state):
    """The same tokenizer, but no word is a special token."""
    state = copy.deepcopy(state)
    model = state["model"]
    names = {a["content"] for a in state["added_tokens"] if a["special"]}
    new = lambda text: "\U0010fffd" + text if text in names else text
    if isinstance(model["vocab"], dict):
        model["vocab"] = {new(text): id for text, id in model["vocab"].items()}
    else:
        model["vocab"] = [[new(text), score] for text, score in model["vocab"]]
    if model.get("unk_token"):
        model["unk_token"] = new(model["unk_token"])
    return Tokenizer.from_str(json.dumps(state))


def hashes(name, t, strings):
    state = json.loads(t.to_str())
    plain = defanged(state)
    # The added tokens are numbered otherwise there.
    ids_of = {plain.token_to_id(a["content"]): t.token_to_id(a["content"]) for a in state["added_tokens"]}
    specials = {t.token_to_id(a["content"]) for a in state["added_tokens"] if a["special"]}

    def encode(string, as_text):
        plain.encode_special_tokens = as_text
        return [ids_of.get(id, id) for id in plain.encode(string, add_special_tokens=False).ids]

    words = sum(encode(string, False) != t.encode(string, add_special_tokens=False).ids for string in strings)
    print(f"{name}: words become special tokens in {words} strings")
    end = b"\xff" * 4
    blocks = []
    for at in range(0, len(strings), 10):
        data = b""
        for string in strings[at : at + 10]:
            ids, as_text = encode(string, False), encode(string, True)
            data += struct.pack(f"<{len(ids)}I", *ids) + end + struct.pack(f"<{len(as_text)}I", *as_text) + end
            data += t.decode(ids, skip_special_tokens=False).encode() + end
            printed = [id for id in ids if id not in specials]
            data += (t.decode(printed, skip_special_tokens=False).encode() if printed else b"") + end
        blocks.append(f"{fnv1a(data):08x}")
    return " ".join(blocks)


def strings():
    rng = random.Random(20261122)
    more = ["[CLS]", "[MASK]", " [SEP] ", "<mask>", "  <mask> x", "<unk>", "<pad>", "<s>", "</s>", "<think>", "<think>  \n", "<|startoftext|>", ">>TITLE<<",
            "<｜begin▁of▁sentence｜>", "\ufffd", "▁", "▁▁▁", "Ġ", "##", "##ing", "fox", "foxes", "Fox", "=>", " => ", "'ſ", "I'ſ", "\U00010d4a", "\U00016d43x",
            "\u0897", "e\u0301", "a\u0323\u0302", "ﬁ½", "ﷺ", "〜", "\u1add\u0345", "ǆ", "İ", "ΑΣ", "th'th", "``x''", "12345678", "THE", "don't", "do not . , ' m", "<0x41>", "<0x0A>", "\x00"]  # fmt: skip
    texts = ["", " ", "\n"]
    for text in json.loads((HERE.parent / "random_strings.json").read_text())[:1997]:
        for _ in range(rng.randrange(4)):
            at = rng.randint(0, len(text))
            text = text[:at] + rng.choice(more) + text[at:]
        texts.append(text)
    return texts


def main():
    books, *named = sys.argv[1:]
    text = ""
    with tarfile.open(pathlib.Path(books) / "children.tar.gz") as tar:
        for member in sorted(tar.getmembers(), key=lambda m: m.name):
            if member.isfile() and member.name.endswith(".md") and len(text) < 1_500_000:
                text += tar.extractfile(member).read().decode()[2_000:200_000]
    corpus = text.split("\n\n")
    texts = strings()
    (HERE / "strings.json").write_text(json.dumps(texts, ensure_ascii=False, indent=0) + "\n")
    golden = {"tokenizers": tokenizers.__version__, "hashes": {}, "characters": {}}
    for name, t in families(corpus):
        path = HERE / f"{name}.json"
        path.write_text(json.dumps(json.loads(t.to_str()), ensure_ascii=False, separators=(",", ":")) + "\n")
        assert path.stat().st_size < 60_000, (name, path.stat().st_size)
        golden["hashes"][name] = hashes(name, t, texts)
    for argument in named:
        name, path = argument.split("=", 1)
        golden["hashes"][name] = hashes(name, Tokenizer.from_file(path), texts)
    # Planes that have more than one kind of character, and the compatibility ideographs.
    planes = [*range(0x20000), *range(0x2F800, 0x30000), *range(0xE0000, 0xE1000)]
    every = [c for c in planes if not 0xD800 <= c < 0xE000]
    components = {}
    for name, t in characters():
        components[name] = json.loads(t.to_str())
        blocks = []
        for at in range(0, len(every), 1024):
            ids = t.encode("".join(f"a{chr(c)}b" for c in every[at : at + 1024]), add_special_tokens=False).ids
            blocks.append(f"{fnv1a(struct.pack(f'<{len(ids)}I', *ids)):08x}")
        golden["characters"][name] = " ".join(blocks)
    shared = {"vocab": {**{f"<0x{b:02X}>": b for b in range(256)}, "<unk>": 256, "|": 257}}
    for state in components.values():
        assert state["model"]["vocab"] == shared["vocab"]
        state["model"]["vocab"] = {}
    (HERE / "characters.json").write_text(json.dumps({"model": shared, "tokenizers": components}, ensure_ascii=False, indent=1) + "\n")
    (HERE / "golden.json").write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Encodes 2,000 random strings with llama.cpp.

    python3 random_ids.py SHARED_DATA

Needs the Python packages llama_cpp and gguf, and the folder with the vocabularies (`../shared` beside the checkout).
Writes beside itself:

* random_strings.json: the strings.
* random_ids.json: for each vocabulary the 32-bit FNV-1a hashes of the ids of each 20 strings. Hashed are the ids, 4 bytes
  each, little-endian, string by string: first those with special tokens parsed, then 0xffffffff, then those with
  special tokens as text, then 0xfffffffe. No BOS is added.

Beside the vocabularies as they are there are some with changed metadata (`set`), and two made up here, in which (nearly)
every pair of bytes or of characters is a token: they show where each pre-tokenizer cuts. The test makes the same ones.
"""

import base64
import json
import pathlib
import random
import struct
import sys
import tempfile

import gguf
import llama_cpp

HERE = pathlib.Path(__file__).parent
COUNT = 2000
BLOCK = 20

VOCABULARIES = (
    "bert-bge command-r deepseek-coder deepseek-llm falcon gemma-4 gpt-2 llama-bpe llama-spm mpt phi-3 qwen2 qwen35 refact starcoder"
).split()
VARIANTS = [
    ("llama-spm", {"tokenizer.ggml.add_space_prefix": False}),
    ("bert-bge", {"tokenizer.ggml.normalizer.lowercase": False}),
    ("bert-bge", {"tokenizer.ggml.normalizer.strip_accents": False}),
    ("unigram", {"tokenizer.ggml.add_space_prefix": False}),
    ("unigram", {"tokenizer.ggml.remove_extra_whitespaces": False}),
    ("unigram", {"tokenizer.ggml.remove_extra_whitespaces": False, "tokenizer.ggml.add_space_prefix": False}),
    ("pairs", {"general.name": "Modern-Bert"}),
    ("pairs", {"general.name": "phi3 and so on"}),
    ("pairs", {"general.architecture": "jina-bert-v3"}),
]
BYTE_LEVEL_RULES = (
    "gpt-2 phi-2 jina-es jina-de jina-v1-en gigachat a.x-4.0 mellum exaone4 modern-bert roberta-bpe mpt olmo jais trillion "
    "granite-docling jina-v2-es jina-v2-de jina-v2-code starcoder refact command-r smollm codeshell exaone minerva-7b mellum2 "
    "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano glm4 glm5 dbrx smaug-bpe chatglm-bpe qwen2 "
    "deepseek-r1-qwen kormo f2llmv2 megrez stablelm2 hunyuan solar-open grok-2 bailingmoe bailingmoe2 llada-moe minicpm5 ufakzeka "
    "seed-coder laguna jais-2 qwen35 exaone-moe gpt-4o llama4 kanana2 talkie minimax-m2 granite-embed-multi-97m tekken youtu "
    "tiny_aya cohere2moe afmoe deepseek-llm deepseek-coder deepseek-v3 hunyuan-dense hy_v4 joyai-llm spark2_5 falcon bloom "
    "poro-chat gpt3-finnish viking superbpe chameleon kimi-k2"
).split()
RAW_RULES = "gemma4 granite-embed-multi-311m sarvam-moe".split()

WORDS = (
    "the quick brown fox jumps Hello WORLD naïve café Straße Ærø İstanbul ǅ ﬁne żółć привет МИР ещё ελληνικά Σίσυφος "
    "שלום עברית العربية كِتَابٌ हिन्दी क्षेत्र ภาษาไทย ខ្មែរ தமிழ் 中文 日本語 ひらがな カタカナ ｶﾀｶﾅ 한국어 ᄀᆞ ქართული հայերեն አማርኛ Ꭰ 𐐀𐐨 𝒜𝓫 "
    "don't I'll we'RE they'Ve it'S 'tis o'clock 'd 'LL 'ſ ’s fn main() { println!(\"{}\",x); } foo_bar camelCase XMLHttpRequest i++ != "
    "<= => ÉcoleÉTÉ aБВ ㄅㄆ ㄱㄴ ㈠ 豈 ﷺ №5 ｆｕｌｌ　ｗｉｄｔｈ e\u0301te\u0301 o\u0308\u0323 \u0301x ▁ ▁▁x a▁b ##ing IMGIMGABCZ IMGIMGZ <sentinel:12> "
    "http://a.b/c?d=e#f /usr/bin// \\frac{1}{2} x² ａｂ’Ｓ unaffable 1st 2nd"
).split(" ")
EMOJI = "😀 🦙 👍🏽 👩‍👩‍👧‍👦 🏳️‍🌈 🇩🇪🇫🇷 ☺️ ✈ 1️⃣ 🫠 🪿 ❤️‍🔥".split(" ")
SPACES = [" ", "  ", "   ", "\t", "\n", "\n\n", "\r\n", " \n", "\n ", "\u00a0", "\u3000", "\u2028", "\u0085", "\u2003", "\u200b", "\ufeff"]
DIGITS = ["0", "7", "42", "365", "1984", "31415", "1234567890", "3.14", "1,000", "٣٤٥", "१२३", "²³", "Ⅷ", "½", "๑๒", "𝟙𝟚", "六"]
SPECIAL = [
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|eot_id|>", "<|begin_of_text|>", "<|start_header_id|>", "<|eot_id",
    "[PAD151646]", "<|reserved_special_token_0|>", "</s>", "<s>", "<|", "|>", "<think>", "<unk>", "<pad>", "<mask>", "[MASK]",
    "[CLS]", "[SEP]", "[UNK]", "<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>", "<turn|>", "<|turn>", "<|assistant|>",
    "<|user|>", "<|end|>", "<0x0A>", "<fim_prefix>", "<filename>", "<|START_OF_TURN_TOKEN|>", "<PAD>", "<｜end▁of▁sentence｜>",
    ">>TITLE<<", "<extra_id_0>", "<extra",
]
PUNCTUATION = list("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~…—«»‹›¿¡€£¥©®°№†‡•·、。「」！？") + ["...", "!!", "--", "==", "'''"]
MARKS = ["\u0301", "\u0308", "\u20e3", "\ufe0f", "\u200d", "\u093e", "\u0e31", "\u064b"]


def any_char(rng):
    while True:
        plane = rng.choice([0x80, 0x800, 0x3000, 0x10000, 0x20000, 0x110000])
        cp = rng.randrange(plane)
        if not 0xD800 <= cp < 0xE000:
            return chr(cp)


def piece(rng):
    kind = rng.randrange(22)
    if kind < 7:
        return rng.choice(["", " ", " ", " "]) + rng.choice(WORDS)
    if kind < 8:
        return rng.choice(EMOJI)
    if kind < 11:
        return "".join(rng.choice(SPACES) for _ in range(rng.randint(1, 4)))
    if kind < 13:
        return rng.choice(["", " "]) + rng.choice(DIGITS)
    if kind < 15:
        return rng.choice(PUNCTUATION) * rng.randint(1, 3)
    if kind < 17:
        return rng.choice(["", "", " ", "\n"]) + rng.choice(SPECIAL) + rng.choice(["", "", " ", "\n\n"])
    if kind < 18:
        return chr(rng.randrange(0x20)) + rng.choice(["", "\x7f", "\x1b[0m", "\u0301", "\u200d", "\u202e", "\ufffd"])
    if kind < 19:
        return rng.choice("aé中 \n1!") * rng.randint(2, 70)
    if kind < 20:
        return rng.choice("aZé中 ") + "".join(rng.choice(MARKS) for _ in range(rng.randint(1, 3)))
    if kind < 21:
        # Random bytes, read as UTF-8.
        return bytes(rng.randrange(256) for _ in range(rng.randint(1, 8))).decode("utf-8", "replace")
    return "".join(any_char(rng) for _ in range(rng.randint(1, 5)))


def alphabet():
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    letters = {byte: chr(byte) for byte in printable}
    for n, byte in enumerate(byte for byte in range(256) if byte not in letters):
        letters[byte] = chr(0x100 + n)
    return letters


LETTERS = alphabet()


def spell(text):
    return "".join(LETTERS[byte] for byte in text)


def byte_level_pairs():
    """Every byte and every pair of bytes is a token; so are some words that no merges lead to."""
    tokens = [LETTERS[byte] for byte in range(256)]
    merges = []
    for k in range(65536):
        left, right = divmod(k * 40503 % 65536, 256)
        tokens.append(LETTERS[left] + LETTERS[right])
        merges.append(f"{LETTERS[left]} {LETTERS[right]}")
    tokens += [spell(word.encode()) for word in ["Hello", " the", " привет", " \n\n", "中文", "365", "don't"]]
    types = [1] * len(tokens)
    for text, kind in [("<mask>", 3), ("[MASK]", 3), ("<|im_end|>", 3), ("<unk>", 2), ("<|endoftext|>", 3), ("<s>", 3), ("</s>", 3), ("<think>", 4)]:
        tokens.append(text)
        types.append(kind)
    return "gpt2", tokens, types, merges


def raw_pairs():
    """Printable ASCII and some other characters, every pair of them, runs of line feeds, and the bytes."""
    tokens = [f"<0x{byte:02X}>" for byte in range(256)]
    types = [6] * 256
    chars = [chr(c) for c in range(0x21, 0x7F)] + list("▁é中и")
    n = len(chars)
    tokens += chars
    merges = []
    for k in range(n * n):
        left, right = divmod(k * 4391 % (n * n), n)
        tokens.append(chars[left] + chars[right])
        merges.append(f"{chars[left]} {chars[right]}")
    tokens += ["\n", "\n\n", "\n\n\n", "\n\n\n\n\n"]
    merges.append("\n \n")
    types += [1] * (len(tokens) - len(types))
    for text, kind in [("<mask>", 3), ("<|im_end|>", 3), ("  ", 4)]:
        tokens.append(text)
        types.append(kind)
    return "gpt2", tokens, types, merges


def o200k(path):
    """The vocabulary of a tiktoken file; a merge of two parts for each token, by merging with the ranks below its own."""
    ranks = {}
    for line in path.read_text().splitlines():
        token, rank = line.split()
        ranks[base64.b64decode(token)] = int(rank)
    tokens = [spell(token) for token in ranks]
    assert list(ranks.values()) == list(range(len(ranks)))
    merges = []
    for token, rank in ranks.items():
        parts = [token[i : i + 1] for i in range(len(token))]
        while len(parts) > 2:
            joined = [ranks.get(a + b, rank) for a, b in zip(parts, parts[1:])]
            best = min(joined)
            assert best < rank
            at = joined.index(best)
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        if len(parts) == 2:
            merges.append(" ".join(spell(part) for part in parts))
    return "gpt2", [*tokens, "<|endoftext|>", "<|endofprompt|>"], [1] * len(tokens) + [3, 3], merges


def write(path, vocabulary, pre):
    model, tokens, types, merges = vocabulary
    writer = gguf.GGUFWriter(path, "gpt2")
    for key, value in [("context_length", 8), ("embedding_length", 8), ("block_count", 1), ("feed_forward_length", 8),
                       ("attention.head_count", 1)]:
        writer.add_uint32(f"gpt2.{key}", value)
    writer.add_float32("gpt2.attention.layer_norm_epsilon", 1e-5)
    writer.add_tokenizer_model(model)
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges(merges)
    # Both must exist; the tests add neither.
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)
    close(writer)


def changed(source, path, changes):
    """Copies a vocabulary with other metadata."""
    reader = gguf.GGUFReader(source)
    old = reader.fields["general.architecture"].contents()
    architecture = changes.get("general.architecture", old)
    writer = gguf.GGUFWriter(path, architecture)
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key == "general.architecture" or key in changes:
            continue
        key = key.replace(f"{old}.", f"{architecture}.", 1) if key.startswith(f"{old}.") else key
        kind = field.types[0]
        if kind == gguf.GGUFValueType.ARRAY:
            if "precompiled_charsmap" in key:
                writer.add_precompiled_charsmap(bytes(field.contents()))
            else:
                writer.add_array(key, field.contents())
        else:
            writer.add_key_value(key, field.contents(), kind)
    for key, value in changes.items():
        if key != "general.architecture":
            (writer.add_bool if isinstance(value, bool) else writer.add_string)(key, value)
    close(writer)


def close(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def fnv1a(data, state=0x811C9DC5):
    for byte in data:
        state = (state ^ byte) * 0x01000193 % 2**32
    return state


def hashes(path, strings):
    llama = llama_cpp.Llama(str(path), vocab_only=True, verbose=False)
    result = []
    for start in range(0, COUNT, BLOCK):
        state = fnv1a(b"")
        for string in strings[start : start + BLOCK]:
            parsed = llama.tokenize(string.encode(), add_bos=False, special=True)
            text = llama.tokenize(string.encode(), add_bos=False, special=False)
            ids = [*parsed, 0xFFFFFFFF, *text, 0xFFFFFFFE]
            state = fnv1a(struct.pack(f"<{len(ids)}I", *ids), state)
        result.append(f"{state:08x}")
    add_bos = bool(llama_cpp.llama_vocab_get_add_bos(llama_cpp.llama_model_get_vocab(llama.model)))
    return {"add_bos": add_bos, "hashes": " ".join(result)}


def main():
    shared = pathlib.Path(sys.argv[1])
    rng = random.Random(20261122)
    strings = ["".join(piece(rng) for _ in range(rng.randint(1, 9))) for _ in range(COUNT)]
    (HERE / "random_strings.json").write_text(json.dumps(strings, ensure_ascii=False, indent=0) + "\n")

    folder = pathlib.Path(tempfile.mkdtemp())
    pairs, raw = byte_level_pairs(), raw_pairs()
    paths = {name: shared / f"data/tokenizers/ggml-vocab/ggml-vocab-{name}.gguf" for name in VOCABULARIES}
    paths["storyteller"] = shared / "demo-model/storyteller-f16.gguf"
    paths["unigram"] = HERE / "unigram.gguf"
    paths["o200k"] = folder / "o200k.gguf"
    write(paths["o200k"], o200k(shared / "data/tokenizers/tiktoken/o200k_base.tiktoken"), "gpt-4o")
    vocabularies = []
    for name, path in paths.items():
        print(name, flush=True)
        vocabularies.append({"name": name, **hashes(path, strings)})
    paths["pairs"] = folder / "pairs.gguf"
    write(paths["pairs"], pairs, "gpt-2")
    for name, changes in VARIANTS:
        print(name, changes, flush=True)
        path = folder / "changed.gguf"
        changed(paths[name], path, changes)
        vocabularies.append({"name": name, "set": changes, **hashes(path, strings)})
    rules = []
    for base, vocabulary, names in [("pairs", pairs, BYTE_LEVEL_RULES), ("raw_pairs", raw, RAW_RULES)]:
        for name in names:
            print(name, flush=True)
            path = folder / "rule.gguf"
            write(path, vocabulary, name)
            result = {"vocabulary": base, **hashes(path, strings)}
            same = next((rule for rule in rules if all(rule[key] == value for key, value in result.items())), None)
            if same:
                same["names"].append(name)
            else:
                rules.append({"names": [name], **result})
    body = {"llama_cpp": llama_cpp.__version__, "block": BLOCK, "vocabularies": vocabularies, "rules": rules}
    (HERE / "random_ids.json").write_text(json.dumps(body, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()

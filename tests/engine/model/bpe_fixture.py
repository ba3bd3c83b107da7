#!/usr/bin/env python3
"""Writes bpe_fixture.json for byte_bpe_test.cpp: small byte-level BPE vocabularies trained by the `tokenizers` package with
the three patterns of FIXTURE, texts with the ids that the package gives, and the words that `regex` cuts them into.

PRE_TOKENIZERS has every pre-tokeniser that the engine knows, as the tokenizer.json of published models has it.

    pip install tokenizers==0.23.3 regex && python tests/engine/model/bpe_fixture.py OUT.json [TEXTS] [SEED]
"""
import json
import pathlib
import random
import sys
import unicodedata

import regex
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|"
TAIL = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
PATTERNS = {
    "gpt-2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "llama-bpe": CONTRACTIONS + r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}" + TAIL,
    "qwen2": CONTRACTIONS + r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}" + TAIL,
    "qwen35": CONTRACTIONS + r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}" + TAIL.replace(r"\p{L}\p{N}", r"\p{L}\p{M}\p{N}"),
    "gpt-4o": r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
              r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
              r"\p{N}{1,3}" + TAIL.replace(r"+[\r\n]*", r"+[\r\n/]*"),
}
FIXTURE = ("gpt-2", "llama-bpe", "qwen2")
# Written with escapes where a letter and its canonical equivalent look alike.
DEEPSEEK_LETTERS = (
    "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373\u0376\u0377"
    "\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5"
    "\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d"
    "\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4"
    "\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d"
    "\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4"
    "\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06"
    "\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb"
    "\U00010c80-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943")
DEEPSEEK_PUNCTUATION = "!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002"
EAST_ASIAN = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"


def splits(*patterns):
    return [pre_tokenizers.Split(Regex(pattern), behavior="isolated") for pattern in patterns]


def gpt2_bytes():
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)


def plain_bytes():
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)


PRE_TOKENIZERS = {
    **{name: [*splits(pattern), plain_bytes()] for name, pattern in PATTERNS.items()},
    "starcoder": [pre_tokenizers.Digits(individual_digits=True), gpt2_bytes()],
    "falcon": [pre_tokenizers.Punctuation("contiguous"), gpt2_bytes(), pre_tokenizers.Digits(individual_digits=False),
               *splits("[0-9][0-9][0-9]")],
    "deepseek-llm": [*splits("[\r\n]", rf"\s?[{DEEPSEEK_LETTERS}]+", rf"\s?[{DEEPSEEK_PUNCTUATION}]+", r"\s+$", EAST_ASIAN),
                     pre_tokenizers.Digits(individual_digits=True), plain_bytes()],
    "deepseek-coder": [*splits("[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", EAST_ASIAN), pre_tokenizers.Digits(individual_digits=True),
                       plain_bytes()],
}
ALIASES = {
    "gpt-2": ["phi-2", "mpt", "olmo", "gigachat", "mellum", "exaone4"],
    "llama-bpe": ["llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "lfm2"],
    "qwen2": ["deepseek-r1-qwen", "stablelm2", "megrez"],
    "gpt-4o": ["llama4", "kanana2"],
    "starcoder": ["refact", "command-r", "smollm", "codeshell"],
}


def byte_alphabet():
    """-> {the character that GPT-2 writes for a byte: the byte}"""
    own = [byte for byte in range(256) if 0x21 <= byte <= 0x7e or 0xa1 <= byte <= 0xac or 0xae <= byte]
    others = [byte for byte in range(256) if byte not in own]
    return {chr(byte): byte for byte in own} | {chr(256 + i): byte for i, byte in enumerate(others)}


def words_of(name, text, alphabet=byte_alphabet()):
    """The words that the package cuts a text into, as bytes."""
    pieces = pre_tokenizers.Sequence(PRE_TOKENIZERS[name]).pre_tokenize_str(text)
    return [bytes(alphabet[character] for character in piece) for piece, _ in pieces]
ADDED = ["<|begin|>", "<|end|>", "<|end|>x", "[note]"]
PIECES = ["'s", "'T", "'rE", "'ve", "'M", "'ll", "'D", "'\u017f", "'", " ", "  ", "   ", "\t", "\n", "\r\n", "\n\n",
          "\u00a0", "\u2003", "\u3000", "\u2028", "\x85", "\x1c", "1", "12", "1234567", "\u00b2", "\u0665", "\u216b", "the",
          "Once upon", "na\u00efve", "e\u0301", "\u4f60\u597d", "\u65e5\u672c\u8a9e", "\ud55c", "\U0001f642",
          "\U0001f468\u200d\U0001f469", "\u05d0", "\u0627\u064e", "\u0939\u093f", "...", "!?", "--", "_", "$", "\u20ac", "\x00",
          "\ufffd", "\U00010330", "\U0001d7d8", "a", "Z", "\u00df", "\ufb01", "\u01c5"]


def random_text(rng, pieces=PIECES):
    out = []
    for _ in range(rng.randint(1, 14)):
        kind = rng.random()
        if kind < 0.7:
            out.append(rng.choice(pieces))
        elif kind < 0.85:
            out.append(rng.choice(ADDED + ["<|", "|>", "[not"]))
        else:
            point = chr(rng.choice([rng.randrange(0x20, 0x3000), rng.randrange(0x3000, 0xD800), rng.randrange(0xE000, 0x1FFFF)]))
            if unicodedata.category(point) != "Cn":  # the two packages know different versions of Unicode
                out.append(point)
    return "".join(out)


def train(name, corpus):
    tokenizer = Tokenizer(models.BPE(ignore_merges=name == "llama-bpe"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(PRE_TOKENIZERS[name])
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=700, initial_alphabet=alphabet, show_progress=False))
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in ADDED])
    return tokenizer


def main(path, count=150, seed=1):
    rng = random.Random(seed)
    story = (pathlib.Path(__file__).parents[3] / "configs/models/embedded/eval.txt").read_text()
    texts = [random_text(rng) for _ in range(count)] + [story[:400], "  " + story[400:500].replace(" ", "  ")]
    result = {"texts": texts, "models": {}}
    for name in FIXTURE:
        tokenizer = train(name, [story] + [random_text(rng) for _ in range(300)])
        raw = json.loads(tokenizer.to_str())["model"]
        vocab = {**raw["vocab"], **{t: tokenizer.token_to_id(t) for t in ADDED}}
        result["models"][name] = {
            "tokens": [token for token, _ in sorted(vocab.items(), key=lambda item: item[1])],
            "added": len(ADDED),
            "merges": [" ".join(m) if isinstance(m, list) else m for m in raw["merges"]],
            "ids": [tokenizer.encode(text, add_special_tokens=False).ids for text in texts],
            "words": [[m.group() for m in regex.finditer(PATTERNS[name], text)] for text in texts],
        }
    pathlib.Path(path).write_text(json.dumps(result, separators=(",", ":")))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))

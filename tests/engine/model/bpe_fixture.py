#!/usr/bin/env python3
"""Writes bpe_fixture.json for byte_bpe_test.cpp: small byte-level BPE vocabularies trained by the `tokenizers` package with
the three published patterns, texts with the ids that the package gives, and the words that `regex` cuts them into.

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
}
ADDED = ["<|begin|>", "<|end|>", "<|end|>x", "[note]"]
PIECES = ["'s", "'T", "'rE", "'ve", "'M", "'ll", "'D", "'\u017f", "'", " ", "  ", "   ", "\t", "\n", "\r\n", "\n\n",
          "\u00a0", "\u2003", "\u3000", "\u2028", "\x85", "\x1c", "1", "12", "1234567", "\u00b2", "\u0665", "\u216b", "the",
          "Once upon", "na\u00efve", "e\u0301", "\u4f60\u597d", "\u65e5\u672c\u8a9e", "\ud55c", "\U0001f642",
          "\U0001f468\u200d\U0001f469", "\u05d0", "\u0627\u064e", "\u0939\u093f", "...", "!?", "--", "_", "$", "\u20ac", "\x00",
          "\ufffd", "\U00010330", "\U0001d7d8", "a", "Z", "\u00df", "\ufb01", "\u01c5"]


def random_text(rng):
    out = []
    for _ in range(rng.randint(1, 14)):
        kind = rng.random()
        if kind < 0.7:
            out.append(rng.choice(PIECES))
        elif kind < 0.85:
            out.append(rng.choice(ADDED + ["<|", "|>", "[not"]))
        else:
            point = chr(rng.choice([rng.randrange(0x20, 0x3000), rng.randrange(0x3000, 0xD800), rng.randrange(0xE000, 0x1FFFF)]))
            if unicodedata.category(point) != "Cn":  # the two packages know different versions of Unicode
                out.append(point)
    return "".join(out)


def train(name, corpus):
    tokenizer = Tokenizer(models.BPE(ignore_merges=name == "llama-bpe"))
    split = pre_tokenizers.Split(Regex(PATTERNS[name]), behavior="isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
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
    for name, pattern in PATTERNS.items():
        tokenizer = train(name, [story] + [random_text(rng) for _ in range(300)])
        raw = json.loads(tokenizer.to_str())["model"]
        vocab = {**raw["vocab"], **{t: tokenizer.token_to_id(t) for t in ADDED}}
        result["models"][name] = {
            "tokens": [token for token, _ in sorted(vocab.items(), key=lambda item: item[1])],
            "added": len(ADDED),
            "merges": [" ".join(m) if isinstance(m, list) else m for m in raw["merges"]],
            "ids": [tokenizer.encode(text, add_special_tokens=False).ids for text in texts],
            "words": [[m.group() for m in regex.finditer(pattern, text)] for text in texts],
        }
    pathlib.Path(path).write_text(json.dumps(result, separators=(",", ":")))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))

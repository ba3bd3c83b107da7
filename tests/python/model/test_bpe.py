"""Byte-level BPE against the `tokenizers` package, trained here, and its words against `regex` with the published patterns."""
import json
import random
import sys

import gguf
import pytest
import regex
import vitro
from conftest import ROOT
from vitro.base import native as _native

sys.path.insert(0, str(ROOT / "tests" / "engine" / "model"))
from bpe_fixture import ADDED, PATTERNS, random_text, train  # noqa: E402

STORY = (ROOT / "configs" / "models" / "embedded" / "eval.txt").read_text()


def texts(seed, count):
    rng = random.Random(seed)
    return [random_text(rng) for _ in range(count)] + [STORY[:2000]]


def write_gguf(tokenizer, name, path):
    raw = json.loads(tokenizer.to_str())["model"]
    vocabulary = {**raw["vocab"], **{token: tokenizer.token_to_id(token) for token in ADDED}}
    tokens = [token for token, _ in sorted(vocabulary.items(), key=lambda item: item[1])]
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(name)
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.NORMAL] * (len(tokens) - len(ADDED)) + [gguf.TokenType.CONTROL] * len(ADDED))
    writer.add_token_merges([" ".join(merge) if isinstance(merge, list) else merge for merge in raw["merges"]])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.mark.parametrize("name", PATTERNS)
def test_ids_are_those_of_the_tokenizers_package(name, tmp_path):
    tokenizer = train(name, [STORY, *texts(seed=7, count=300)])
    path = tmp_path / "tokenizer.gguf"
    write_gguf(tokenizer, name, path)
    for text in texts(seed=len(name), count=400):
        assert vitro.tokenize(path, text) == tokenizer.encode(text, add_special_tokens=False).ids, repr(text)


@pytest.mark.parametrize("name", PATTERNS)
def test_words_are_those_of_the_published_pattern(name):
    for text in texts(seed=11, count=3000):
        words = [word.decode() for word in _native.call("pretokenise", name, text.encode())]
        assert words == [match.group() for match in regex.finditer(PATTERNS[name], text)], repr(text)

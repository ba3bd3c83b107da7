"""Byte-level BPE against the `tokenizers` package, trained here; words against the package and against `regex`."""
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
from bpe_fixture import ADDED, ALIASES, PATTERNS, PIECES, PRE_TOKENIZERS, random_text, train, words_of  # noqa: E402

STORY = (ROOT / "configs" / "models" / "embedded" / "eval.txt").read_text()
# What tells the later patterns apart: case within words, marks, slashes, punctuation and digits of other scripts, letters that one of the
# patterns does not know.
MORE = PIECES + ["HTTPServer", "iPhone", "A\u02b0", "\u00aaB", "\u0301", "\u0301x", "x\u0301\u0302", "//", "\n/", "a/b", "\u00bd",
                 "123\u00b2",
                 "\u00f2", "\u043c", "\uff01", "\uff21", "\u300c", "\u3002", "\u2018", "\u1f7d", "\u03ce", "\u212a", "\u10d0", "\u1c90",
                 "\ud7a3",
                 "\u0e01", "\u0800", "`", "^", "+=", "don\u2019t", "I'LL", "\u06f5\u06f6", "\u2460", "  \n  ", " \u3000"]


def texts(seed, count, pieces=PIECES):
    rng = random.Random(seed)
    return [random_text(rng, pieces) for _ in range(count)] + [STORY[:2000]]


def words(name, text):
    return [bytes(word) for word in _native.call("pretokenise", name, text.encode())]


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


@pytest.mark.parametrize("name", PRE_TOKENIZERS)
def test_ids_are_those_of_the_tokenizers_package(name, tmp_path):
    tokenizer = train(name, [STORY, *texts(seed=7, count=300, pieces=MORE)])
    path = tmp_path / "tokenizer.gguf"
    write_gguf(tokenizer, name, path)
    for text in texts(seed=len(name), count=400, pieces=MORE):
        assert vitro.tokenize(path, text) == tokenizer.encode(text, add_special_tokens=False).ids, repr(text)


@pytest.mark.parametrize("name", PRE_TOKENIZERS)
def test_words_are_those_of_the_tokenizers_package(name):
    for text in texts(seed=13, count=3000, pieces=MORE):
        assert words(name, text) == words_of(name, text), repr(text)


@pytest.mark.parametrize("name", PRE_TOKENIZERS)
def test_each_character_beside_a_letter_a_digit_and_a_space_is_cut_as_the_package_cuts_it(name):
    rng = random.Random(17)
    points = [*range(0x20, 0x2100), *rng.sample([p for p in range(0x2100, 0x20000) if not 0xd800 <= p < 0xe000], 3000)]
    for point in points:
        text = f"a{chr(point)}B {chr(point)}1{chr(point)} {chr(point)}\n"
        assert words(name, text) == words_of(name, text), hex(point)


@pytest.mark.parametrize("name", PATTERNS)
def test_words_are_those_of_the_published_pattern(name):
    for text in texts(seed=11, count=3000):
        found = [word.decode() for word in words(name, text)]
        assert found == [match.group() for match in regex.finditer(PATTERNS[name], text)], repr(text)


@pytest.mark.parametrize("name", ALIASES)
def test_an_alias_means_the_same_pattern(name):
    for text in texts(seed=19, count=100, pieces=MORE):
        expected = words_of(name, text)
        for alias in ALIASES[name]:
            assert words(alias, text) == expected, (alias, text)

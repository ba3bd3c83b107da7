#!/usr/bin/env python3
"""Writes the dictionaries of the fuzz targets, from the words that the readers themselves compare with.

    python tools/fuzz_dictionaries.py tests/fuzz

A dictionary (libFuzzer's format, one "word" a line) spares a fuzzer from guessing a key letter by letter.
"""
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
# Target: sources whose texts in quotes are keys, names and values of what it reads.
SOURCES = {
    "gguf_fuzz": ["engine/model/gguf*.cpp", "engine/model/model_*.cpp", "engine/model/role.cpp", "engine/model/tokenizer.cpp",
                  "engine/model/byte_bpe.cpp", "engine/model/sentencepiece.cpp", "engine/model/pretokeniser.cpp",
                  "engine/model/neuron_order.cpp"],
    "lora_fuzz": ["engine/model/lora_*.cpp", "engine/model/gguf_parser.cpp", "engine/model/role.cpp"],
    "pack_fuzz": ["engine/model/pack*.cpp", "engine/model/bundle_*.cpp", "engine/model/role.cpp"],
    "recording_fuzz": ["traces/recording*.cpp"],
    "experiment_fuzz": ["engine/faults/fault_plan.cpp", "engine/torture/torture.cpp", "engine/app/plan.cpp"],
}
SCHEMAS = {"experiment_fuzz": ["experiment"], "yaml_fuzz": ["plan"]}
# What no source has in quotes.
MORE = {"gguf_fuzz": ["GGUF", "PWRI", "blk.0.", "blk.1."], "lora_fuzz": ["GGUF", "blk.0.", ".lora_a", ".lora_b"],
        "pack_fuzz": ["\0", "{\"", "\":", "\",\""],
        "yaml_fuzz": ["include: ", "- ", ": ", "? ", "&a ", "*a", "<<: *a", "!!str ", "!!binary ", "|\n ", ">-\n ",
                      "---\n", "...\n", "'", "\"",
                      "\\u0000", "\\ud83d\\ude00", "~", "null", "true", "false", ".inf", ".nan", "1e999", "0x1F", "0o7", "\ufeff", "# ",
                      "%YAML"],
        "experiment_fuzz": ["DEVICE", "MODEL", "6 MiB", "25%", "10 us", "4 GB/s", "2 GHz"],
        "answer_fuzz": ["\1\0\0\0", "\2\0\0\0", "\3\0\0\0", "\4\0\0\0", "\x1f", "\x0f", "\xff\xff\xff\xff", "\0\0\0\x80"]}
_TEXT = re.compile(r'(?<![\w\'\\])"([A-Za-z][\w.\-]{1,40})"')


def words(target):
    found = set()
    for pattern in SOURCES.get(target, []):
        files = sorted(ROOT.glob(pattern))
        assert files, f"{pattern}: no such file"
        for file in files:
            code = re.sub(r"^#include.*$|//.*$", "", file.read_text(), flags=re.MULTILINE)
            found.update(_TEXT.findall(code))
    for name in SCHEMAS.get(target, []):
        found.update(_of_schema(json.loads((ROOT / "docs" / "schema" / f"{name}.json").read_text())))
    return sorted(found) + MORE.get(target, [])


def _of_schema(tree):
    if isinstance(tree, dict):
        for key, value in tree.items():
            if key == "properties":
                yield from value
            if key == "enum":
                yield from (word for word in value if isinstance(word, str))
            yield from _of_schema(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from _of_schema(value)


def dictionary(target):
    """-> the text of its file."""
    def escaped(word):
        data = word.encode("latin-1") if all(ord(char) < 256 for char in word) else word.encode()
        return "".join(chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\x{byte:02X}" for byte in data)
    lines = [f'"{escaped(word)}"' for word in dict.fromkeys(words(target)) if word]
    return "# By tools/fuzz_dictionaries.py.\n" + "\n".join(lines) + "\n"


TARGETS = sorted({*SOURCES, *SCHEMAS, *MORE})


def main(folder):
    for target in TARGETS:
        (pathlib.Path(folder) / f"{target}.dict").write_text(dictionary(target))


if __name__ == "__main__":
    main(sys.argv[1])

#!/usr/bin/env python3
"""Feeds any bytes to the readers of strangers' files that are written in Python, guided by the lines that they reach.

    pip install atheris==3.0.0
    PYTHONPATH=python python tools/fuzz_python.py TARGET [libFuzzer's options] CORPUS_FOLDER

TARGET: safetensors, sentencepiece, tokenizer, trace_json, trace_perfetto, result, results (a folder as it comes back from a phone:
result.json, a NUL byte, samples.jsonl). Only ConfigError may come out. libFuzzer prints what breaks that, and keeps the input.
"""
import atexit
import json
import shutil
import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["vitro"]):
    from vitro.errors import ConfigError
    from vitro.model import exported_tokenizer, safetensors
    from vitro.running.result import load_result
    from vitro.trace.trace import load_trace
    from vitro.validate import compare, energy

FOLDER = Path(tempfile.mkdtemp(dir="/dev/shm"))
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)


def written(name, data):
    path = FOLDER / name
    path.write_bytes(data)
    return path


def read_safetensors(data):
    for tensor in safetensors.read_header(written("model.safetensors", data)):
        tensor.load()
        tensor.floats()


def read_sentencepiece(data):
    made = exported_tokenizer.sentencepiece(written("tokenizer.model", data))
    assert len(made.tokens) == len(made.types) == len(made.scores)


def read_trace(data, name):
    trace = load_trace(written(name, data))
    trace.tracks()
    trace.summary()


def read_result(data):
    result = load_result(written("result.json", data))
    repr(result)
    result._repr_html_()
    result.to_frame()


def read_results(data):
    text, _, samples = data.partition(b"\0")
    run = FOLDER / "back" / "exp" / "run-1"
    run.mkdir(parents=True, exist_ok=True)
    (run / "result.json").write_bytes(text)
    (run / "samples.jsonl").write_bytes(samples)
    (run / "when.json").write_text(json.dumps({"began_s": 10.0, "ended_s": 20.0}))
    for results in compare.read_host_results(FOLDER / "back").values():
        for result in results:
            energy.measured(result, energy.read(run))


TARGETS = {"safetensors": read_safetensors, "sentencepiece": read_sentencepiece,
           "tokenizer": lambda data: exported_tokenizer.byte_bpe(written("tokenizer.json", data), None),
           "trace_json": lambda data: read_trace(data, "trace.json"), "trace_perfetto": lambda data: read_trace(data, "trace.pftrace"),
           "result": read_result, "results": read_results}


def main():
    if len(sys.argv) < 2 or sys.argv[1] not in TARGETS:
        sys.exit(f"usage: fuzz_python.py TARGET [options] FOLDER; targets: {', '.join(TARGETS)}")
    read = TARGETS[sys.argv[1]]

    def one(data):
        try:
            read(data)
        except ConfigError:
            pass

    atheris.Setup([sys.argv[0], *sys.argv[2:]], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()

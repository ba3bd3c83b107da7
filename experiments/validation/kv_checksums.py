"""What checksums of keys and values in flash cost on this computer: processor time and time per token, with and without, by turns.

    .venv/bin/python experiments/validation/kv_checksums.py [--tokens 4096] [--turns 5] [--threads 1] [--folder DIR] [--json]

Makes a random model of 8 layers in f16 with 4 KV heads for 16 heads, and a saved sequence, with which each run goes on, all keys and values
in flash. A run of one token is taken off one of OUTPUTS + 1, so that what remains is decode. docs/design/kv-flash.md has the result.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))
import oracle  # noqa: E402  writes the random model

DEVICE = ROOT / "build" / "release" / "engine" / "app" / "vitro-device"
SHAPE = {"layers": 8, "width": 1024, "heads": 16, "kv_heads": 4, "ffn": 2816}
OUTPUTS = 32


def experiment(folder, threads, kv, workload):
    return {"experiment": "kv_checksums", "machine": "host", "model": {"gguf": str(folder / "model.gguf")},
            "engine": {"threads": threads, "prefill_chunk": 256, "kv": {"block_tokens": 32, "format": "f16"} | kv},
            "workload": {"stop_at_eos": False} | workload}


def decode(folder, options, outputs, checksums):
    kv = {"dram_tokens": 0, "checksums": checksums, "scratch": str(folder)}
    return run(experiment(folder, options.threads, kv, {"restore_kv": str(folder / "saved"), "output_tokens": outputs}), folder)


def run(tree, folder):
    """-> (processor time, time, result)"""
    file = folder / "experiment.json"
    file.write_text(json.dumps(tree))
    began = time.monotonic()
    child = subprocess.Popen([DEVICE, "run", file, "--cache", folder], stdout=subprocess.PIPE, text=True)
    answer = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    if status:
        raise SystemExit(f"vitro-device ended with {status}")
    return usage.ru_utime + usage.ru_stime, time.monotonic() - began, json.loads(answer)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="for the model and the scratch file; on flash")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    spent = {False: [], True: []}  # by checksums: (processor time, time) of a token, in ms
    tokens = {}
    with tempfile.TemporaryDirectory(dir=options.folder or Path.home()) as name:
        folder = Path(name)
        shape = oracle.Shape(**SHAPE, context=options.tokens + OUTPUTS + 2)
        oracle.write_gguf(oracle.random_model(shape, 1), folder / "model.gguf")
        saved = {"save_kv": str(folder / "saved"), "prompt_tokens": options.tokens, "output_tokens": 1}
        run(experiment(folder, os.cpu_count(), {}, saved), folder)
        for turn in range(options.turns):
            for checksums in (turn % 2 == 1, turn % 2 == 0):
                one, many = (decode(folder, options, outputs, checksums) for outputs in (1, OUTPUTS + 1))
                spent[checksums].append([1000 * (many[i] - one[i]) / OUTPUTS for i in range(2)])
                tokens[checksums] = many[2]["tokens"]
                if checksums:
                    held = [result["metrics"]["kv_flash"]["bytes_verified"] for _, _, result in (one, many)]
    answer = {"prompt_tokens": options.tokens, "threads": options.threads, "turns": options.turns, "equal": tokens[False] == tokens[True],
              "verified_bytes_per_token": (held[1] - held[0]) // OUTPUTS}
    for i, what in enumerate(("processor", "elapsed")):
        off, on = ([turn[i] for turn in spent[checksums]] for checksums in (False, True))
        answer |= {f"{what}_ms_off": statistics.median(off), f"{what}_ms_on": statistics.median(on),
                   f"{what}_more": statistics.median(b / a for a, b in zip(off, on)) - 1, f"{what}_ms": [off, on]}
    if options.json:
        print(json.dumps(answer))
    else:
        for key, value in answer.items():
            print(f"{key:>25}  {value}")
    raise SystemExit(0 if answer["equal"] else 1)


if __name__ == "__main__":
    main()

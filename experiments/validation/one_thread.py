#!/usr/bin/env python3
"""What another checkout's build and this one decode with one thread, by turns: the ratio of each round has the same neighbours.

    python experiments/validation/one_thread.py --before ../older-checkout --rounds 15

Both checkouts need a built extension module. The model is made here (200 M parameters) and quantised to three formats.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parents[2]
FORMATS = ("q4_0", "q4_k", "q8_0")


def vitro(checkout, *words):
    """-> what the command of that checkout prints."""
    run = subprocess.run([sys.executable, "-m", "vitro", *map(str, words)], cwd=checkout, capture_output=True, text=True,
                         env=os.environ | {"PYTHONPATH": str(checkout / "python")})
    if run.returncode:
        sys.exit(f"{checkout}: vitro {' '.join(map(str, words))} failed:\n{run.stderr[-2000:]}")
    return run.stdout


def speeds(checkout, folder, model, threads):
    """-> (decode, prefill) in tokens/s."""
    experiment = folder / "one_thread.yaml"
    experiment.write_text(json.dumps({"experiment": "one_thread", "machine": "host", "model": {"gguf": str(model)},
                                      "engine": {"policy": "dense", "activations": "int8", "threads": threads},
                                      "workload": {"prompt_tokens": 64, "output_tokens": 48, "stop_at_eos": False}}))
    metrics = json.loads(vitro(checkout, "run", experiment, "--json"))["metrics"]
    return metrics["decode_tokens_per_s"], metrics["prefill_tokens_per_s"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, required=True, help="the other checkout")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    sides = {"before": options.before.resolve(), "now": HERE}
    found = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        vitro(HERE, "make-model", folder / "model.gguf", "--preset", "200m", "--no-check")
        for format_ in FORMATS:
            vitro(HERE, "quantize", folder / "model.gguf", folder / f"{format_}.gguf", "--scheme", format_)
        for turn in range(options.rounds):
            for format_ in FORMATS:
                for side in list(sides)[::1 if turn % 2 else -1]:
                    rate = speeds(sides[side], folder, folder / f"{format_}.gguf", options.threads)
                    found.setdefault((format_, side), []).append(rate)
    print("| format | | before | now | ratio, median and range |\n|---|---|---|---|---|")
    for format_ in FORMATS:
        for index, what in enumerate(("decoding", "prompt")):
            before, now = ([rate[index] for rate in found[format_, side]] for side in sides)
            ratios = sorted(b / a for a, b in zip(before, now))
            print(f"| {format_} | {what} | {statistics.median(before):.1f} | {statistics.median(now):.1f} | "
                  f"{statistics.median(ratios):.2f} ({ratios[0]:.2f}-{ratios[-1]:.2f}) |")


if __name__ == "__main__":
    main()

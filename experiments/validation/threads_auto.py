#!/usr/bin/env python3
"""Decoding and prompts with `engine.threads: auto` and with one thread, by turns: the table of docs/design/core-balance.md.

    python experiments/validation/threads_auto.py --rounds 21

Models are the embedded ones and made ones (q4_0; FFNs of four times the width, heads of 64, a vocabulary of 8,192). Needs the built
extension module and two idle cores. `auto` is never slower than one thread where it takes one, since the two runs are then the same: such
rows show the noise.
"""
import argparse
import re
import statistics
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))
from vitro.base.cores import usable_cores  # noqa: E402
from vitro.model import files  # noqa: E402
from vitro.model.dense import BENCHMARK, make_dense  # noqa: E402
from vitro.running import experiments  # noqa: E402

EMBEDDED = ROOT / "configs" / "models" / "embedded"
MADE = {384: 4, 512: 6, 640: 8, 768: 12}  # width: layers
PHASES = ("decode_tokens_per_s", "prefill_tokens_per_s")


def models(folder):
    """-> {name: file}."""
    found = {"stories-reglu-3m, f16": EMBEDDED / "stories-reglu-3m.f16.gguf", "stories-moe-6m, f16": EMBEDDED / "stories-moe-6m.f16.gguf"}
    found["stories-reglu-3m, q4_0"] = folder / "stories.gguf"
    files.quantize(EMBEDDED / "stories-reglu-3m.f16.gguf", found["stories-reglu-3m, q4_0"], "q4_0")
    for width, layers in MADE.items():
        made = folder / "made.f16.gguf"
        make_dense(replace(BENCHMARK, width=width, layers=layers, ffn=4 * width, heads=width // 64, kv_heads=width // 64, vocab=8192), made)
        found[f"made, q4_0: width {width}, {layers} layers"] = folder / f"{width}.gguf"
        files.quantize(made, folder / f"{width}.gguf", "q4_0")
    return found


def speeds(model, threads, tokens):
    """-> tokens/s of PHASES, and how many cores the run took."""
    experiment = {"experiment": "threads_auto", "machine": "host", "model": {"gguf": str(model)},
                  "engine": {"policy": "dense", "activations": "int8"} | ({} if threads is None else {"threads": threads}),
                  "workload": {"prompt_tokens": 64, "output_tokens": tokens, "stop_at_eos": False}}
    result = experiments.run(experiment)
    cores = [int(found[1]) for note in result["notes"] if (found := re.match(r"(\d+) of \d+ cores", note))]
    return [result.metric(phase) for phase in PHASES], cores[0] if cores else usable_cores()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--tokens", type=int, default=180)
    options = parser.parse_args()
    if options.rounds < 3:
        parser.error(f"--rounds: {options.rounds} (expected 3 or more)")
    with tempfile.TemporaryDirectory() as folder:
        print("| model | cores by `auto` | decoding | prompt |\n|---|---|---|---|")
        for name, file in models(Path(folder)).items():
            found, cores = {None: [], 1: []}, None
            for turn in range(options.rounds):
                for threads in (None, 1)[::1 if turn % 2 else -1]:
                    rates, taken = speeds(file, threads, options.tokens)
                    found[threads].append(rates)
                    cores = taken if threads is None else cores
            cells = []
            for phase in range(len(PHASES)):
                ratios = [auto[phase] / one[phase] for auto, one in zip(found[None], found[1], strict=True)]
                low, middle, high = statistics.quantiles(ratios, n=4)
                cells.append(f"{middle:.2f} ({low:.2f}-{high:.2f})")
            print(f"| {name} | {cores} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()

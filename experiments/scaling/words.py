"""Accuracy against latency of test-time scaling on words.yaml: does the chosen story contain the words that it should?

    python experiments/scaling/words.py [--out DIR] [--tasks 24] [--seeds 2] [--timed 3]

Accuracy is that of the host, which computes the tokens of the simulated phone (every timed run is held against that); latency, from
prompt to answer, is simulated for --timed of them, on a core beside the NPU and on two cores. Writes
accuracy.png and results.json, and prints the table of docs/design/test-time-scaling.md.
"""
import argparse
import collections
import itertools
import json
import math
import re
import statistics
import sys
from pathlib import Path

import matplotlib.figure
import matplotlib.ticker
import vitro

HERE = Path(__file__).resolve().parent
SAMPLES = (1, 2, 4, 8, 16)
PROMPTS = ("Once upon a time, there was a little girl named Lily.", "One day, a boy named Tim went outside.",
           "Once upon a time, there was a big bear.", "Tom and Sue were friends.")
WORDS = (("dog", "park"), ("happy", "tree"), ("ball", "friend"), ("mom", "smiled"), ("bird", "sad"), ("box", "toy"))
CHECKED, LIKELY, BEAMS = "Best-of-N, words checked", "Best-of-N, log-probability", "beam search, words checked"
UNITS = {"CPU and NPU": ["cpu0", "npu"], "two cores": ["cpu0", "cpu1"]}
COLOURS = {CHECKED: "#2f6f9f", BEAMS: "#e0915a", LIKELY: "#9aa5b1"}


def words_in(text, words):
    return sum(re.search(rf"\b{word}\b", text) is not None for word in words) / len(words)


def run(machine, units, method, samples, task, seed):
    prompt, words = task
    scaling = {"method": "best_of_n", "samples": samples, "scorer": {"kind": "log_probability"}}
    if method != LIKELY:
        scaling["scorer"] = {"kind": "regex", "patterns": [rf"\b{word}\b" for word in words]}
    if method == BEAMS:
        scaling |= {"method": "beam_search", "width": max(1, samples // 4), "step": {"until": ".", "max_tokens": 24}}
    return vitro.run(HERE / "words.yaml", machine=machine, overrides={
        "engine.units": units, "workload.prompt": json.dumps(prompt), "workload.seed": seed, "workload.scaling": scaling})


def answers(task, seed):
    """{(method, N): (text, tokens that were generated)} on the host. More samples keep the ones before, so that one run of the most
    samples answers Best-of-N for every N, and a single beam is a single sample (tests/engine/app/scaling/search_test.cpp)."""
    found = {}
    stories = run("host", ["cpu0"], LIKELY, SAMPLES[-1], task, seed)["scaling"]["samples"]
    for n in SAMPLES:
        tokens = sum(len(story["tokens"]) for story in stories[:n])
        found[CHECKED, n] = max(stories[:n], key=lambda story: words_in(story["text"], task[1]))["text"], tokens
        found[LIKELY, n] = max(stories[:n], key=lambda story: story["score"])["text"], tokens
        beams = run("host", ["cpu0"], BEAMS, n, task, seed) if n > 1 else None
        found[BEAMS, n] = (beams.text, beams.metric("scaling.generated_tokens")) if beams else found[CHECKED, 1]
    return found


def latencies(task, seed, expected):
    """{(method, N, units): ms} on the simulated phone, which has to give the host's answers. The two judges of Best-of-N cost alike."""
    found = {}
    for method, n, units in itertools.product((CHECKED, BEAMS), SAMPLES, UNITS):
        simulated = run("sim", UNITS[units], method, n, task, seed)
        if simulated.text != expected[method, n][0]:
            raise SystemExit(f"{method}, N = {n}, {task}: host and simulated phone disagree")
        found[method, n, units] = simulated.metric("scaling.latency_ms")
    return found | {(LIKELY, n, units): found[CHECKED, n, units] for n in SAMPLES for units in UNITS}


def measure(tasks, seeds, timed):
    cases = list(itertools.product(range(1, seeds + 1), tasks))
    right, tokens, times = (collections.defaultdict(list) for _ in range(3))
    for index, (seed, task) in enumerate(cases):
        found = answers(task, seed)
        for key, (text, count) in found.items():
            right[key].append(words_in(text, task[1]) == 1)
            tokens[key].append(count)
        if index % (len(cases) // timed) == 0:
            for key, ms in latencies(task, seed, found).items():
                times[key].append(ms)
        print(f"{index + 1} of {len(cases)}", file=sys.stderr, flush=True)
    rows = []
    for method, n in itertools.product(COLOURS, SAMPLES):
        share = sum(right[method, n]) / len(cases)
        rows.append({"method": method, "samples": n, "accuracy": share, "error": math.sqrt(share * (1 - share) / len(cases)),
                     "latency_ms": {units: statistics.mean(times[method, n, units]) for units in UNITS},
                     "generated_tokens": sum(tokens[method, n]) / len(cases), "tasks": len(cases)})
    return rows


def draw(rows, path):
    figure = matplotlib.figure.Figure(figsize=(7.2, 4.2), layout="constrained")
    ax = figure.subplots()
    for (method, colour), units in itertools.product(COLOURS.items(), UNITS):
        cores = units == "two cores"
        if cores and method == LIKELY:
            continue
        mine = [row for row in rows if row["method"] == method]
        x, y, error = [row["latency_ms"][units] for row in mine], [row["accuracy"] for row in mine], [row["error"] for row in mine]
        ax.errorbar(x, y, yerr=error, fmt="s--" if cores else "o-", color=colour, label=f"{method}; {units}", markersize=4, capsize=2,
                    linewidth=1 if cores else 1.8, alpha=0.55 if cores else 1)
        for row in mine[-1:] if cores else mine:
            ax.annotate(f"{row['samples']}", (row["latency_ms"][units], row["accuracy"]), xytext=(4, 5), textcoords="offset points",
                        fontsize=8, color=colour)
    ax.set(xlabel="latency of the answer on the simulated OnePlus 12, ms (numbers: samples side by side)",
           ylabel="stories that contain both words", ylim=(0, None), xlim=(0, None))
    ax.yaxis.set_major_formatter(matplotlib.ticker.PercentFormatter(1))
    ax.grid(color="#e4e7eb", linewidth=0.7)
    ax.set_axisbelow(True)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    ax.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=130)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out/words"))
    parser.add_argument("--tasks", type=int, default=24)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--timed", type=int, default=3)
    args = parser.parse_args()
    tasks = list(itertools.product(PROMPTS, WORDS))[:args.tasks]
    args.out.mkdir(parents=True, exist_ok=True)
    rows = measure(tasks, args.seeds, args.timed)
    print(f"| method | N | accuracy | {' | '.join(f'ms, {units}' for units in UNITS)} | tokens |\n|---|---|---|{'---|' * len(UNITS)}---|")
    for row in rows:
        print(f"| {row['method']} | {row['samples']} | {row['accuracy']:.0%} ± {row['error']:.0%} | "
              f"{' | '.join(f'{ms:.1f}' for ms in row['latency_ms'].values())} | {row['generated_tokens']:.0f} |")
    (args.out / "results.json").write_text(json.dumps(rows, indent=1) + "\n")
    draw(rows, args.out / "accuracy.png")
    print(f"picture: {args.out / 'accuracy.png'}")


if __name__ == "__main__":
    main()

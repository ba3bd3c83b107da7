"""Accuracy against latency of test-time scaling on words.yaml: does the chosen story contain the words that it should?

    python experiments/scaling/words.py [--out DIR] [--tasks 24] [--seeds 2] [--timed 4]

Accuracy is that of the host, which computes the tokens of the simulated phone (every timed run is held against that); latency, from
prompt to answer, is simulated for --timed of them. Writes accuracy.png and results.json, and prints the table of
docs/test-time-scaling.md.
"""
import argparse
import itertools
import json
import math
import re
from pathlib import Path

import matplotlib.figure
import matplotlib.ticker
import vitro

HERE = Path(__file__).resolve().parent
SAMPLES = (1, 2, 4, 8, 16)
PROMPTS = ("Once upon a time, there was a little girl named Lily.", "One day, a boy named Tim went outside.",
           "Once upon a time, there was a big bear.", "Tom and Sue were friends.")
WORDS = (("dog", "park"), ("happy", "tree"), ("ball", "friend"), ("mom", "smiled"), ("bird", "sad"), ("box", "toy"))
METHODS = {
    "Best-of-N, words checked": lambda n: {"method": "best_of_n", "samples": n},
    "beam search, words checked": lambda n: {"method": "beam_search", "samples": n, "width": max(1, n // 4),
                                             "step": {"until": ".", "max_tokens": 24}},
    "Best-of-N, log-probability": lambda n: {"method": "best_of_n", "samples": n},
}
COLOURS = dict(zip(METHODS, ("#2f6f9f", "#e0915a", "#aab4bd")))


def patterns(words):
    return [rf"\b{word}\b" for word in words]


def run(machine, method, samples, task, seed):
    prompt, words = task
    scorer = {"kind": "log_probability"} if method.endswith("log-probability") else {"kind": "regex", "patterns": patterns(words)}
    return vitro.run(HERE / "words.yaml", machine=machine, overrides={
        "workload.prompt": json.dumps(prompt), "workload.seed": seed, "workload.scaling": METHODS[method](samples) | {"scorer": scorer}})


def measure(method, samples, tasks, seeds, timed):
    right, latency, tokens = [], [], []
    for index, (seed, task) in enumerate(itertools.product(range(1, seeds + 1), tasks)):
        result = run("host", method, samples, task, seed)
        right.append(all(re.search(pattern, result.text) for pattern in patterns(task[1])))
        tokens.append(result["scaling"]["generated_tokens"])
        if index % (len(tasks) * seeds // timed) == 0:
            simulated = run("sim", method, samples, task, seed)
            if simulated.tokens != result.tokens:
                raise SystemExit(f"{method}, N = {samples}, {task}: host and simulated phone disagree")
            latency.append(simulated["scaling"]["latency_ms"])
    share = sum(right) / len(right)
    return {"method": method, "samples": samples, "accuracy": share, "error": math.sqrt(share * (1 - share) / len(right)),
            "latency_ms": sum(latency) / len(latency), "generated_tokens": sum(tokens) / len(tokens), "tasks": len(right)}


def draw(rows, path):
    figure = matplotlib.figure.Figure(figsize=(7.2, 4.2), layout="constrained")
    ax = figure.subplots()
    for method, colour in COLOURS.items():
        mine = [row for row in rows if row["method"] == method]
        x, y, error = ([row[key] for row in mine] for key in ("latency_ms", "accuracy", "error"))
        ax.errorbar(x, y, yerr=error, fmt="o-", color=colour, label=method, markersize=5, capsize=2, linewidth=1.5)
        for row in mine:
            ax.annotate(f"{row['samples']}", (row["latency_ms"], row["accuracy"]), xytext=(4, 5), textcoords="offset points", fontsize=8,
                        color=colour)
    ax.set(xlabel="latency of the answer on the simulated OnePlus 12, ms (numbers: samples side by side)",
           ylabel="stories that contain both words", ylim=(0, 1.02), xlim=(0, None))
    ax.yaxis.set_major_formatter(matplotlib.ticker.PercentFormatter(1))
    ax.grid(color="#e4e7eb", linewidth=0.7)
    ax.set_axisbelow(True)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    ax.legend(frameon=False, loc="lower right")
    figure.savefig(path, dpi=130)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out/words"))
    parser.add_argument("--tasks", type=int, default=24)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--timed", type=int, default=4)
    args = parser.parse_args()
    tasks = list(itertools.product(PROMPTS, WORDS))[:args.tasks]
    args.out.mkdir(parents=True, exist_ok=True)
    rows = []
    print("| method | N | accuracy | latency, ms | tokens |\n|---|---|---|---|---|")
    for method, samples in itertools.product(METHODS, SAMPLES):
        row = measure(method, samples, tasks, args.seeds, args.timed)
        rows.append(row)
        print(f"| {method} | {samples} | {row['accuracy']:.0%} ± {row['error']:.0%} | {row['latency_ms']:.1f} | "
              f"{row['generated_tokens']:.0f} |", flush=True)
    (args.out / "results.json").write_text(json.dumps(rows, indent=1) + "\n")
    draw(rows, args.out / "accuracy.png")
    print(f"picture: {args.out / 'accuracy.png'}")


if __name__ == "__main__":
    main()

"""Draws docs/images/mnn-grid.png from the sweep of experiments/papers/mnn/grid.yaml: mnn_grid_picture.py RESULTS.csv OUT.png"""
import sys

import pandas
from matplotlib.figure import Figure

from vitro.plot.style import WORK, styled

MODELS = {"qwen2-1.5b": "Qwen2-1.5B", "qwen2-7b": "Qwen2-7B", "llama-3.1-8b": "Llama3-8B"}
COLORS = dict(zip(("MNN-LLM", "llama.cpp", "fastllm", "MLC-LLM"), WORK))
MARKERS = dict(zip(COLORS, "osD^"))
METRICS = {"prefill_tokens_per_s": "prompt", "decode_tokens_per_s": "decoding"}


def read(path):
    table = pandas.read_csv(path)
    names = table["label"].str.extract(r"^(?P<system>[^,]+), (?P<unit>[^,]+)(?:, (?P<reading>like for like|as published))?, model")
    table = table.join(names.fillna("as published")).rename(columns={"workload.prompt_tokens": "prompt"})
    return table.assign(model=table["model"].str.extract(r"([^/]+)\.yaml$")[0])


@styled
def draw(table):
    figure = Figure(figsize=(9.6, 6.4), layout="constrained")
    for row, unit in zip(figure.subplots(2, 2, sharex=True), ("CPU", "GPU")):
        part = table[table.unit == unit]
        systems = list(part.system.unique())
        for axes, (metric, what) in zip(row, METRICS.items()):
            for system in part.system.unique():
                for reading, color in (("like for like", "none"), ("as published", COLORS[system])):
                    points = part[(part.system == system) & (part.reading == reading)]
                    alone = len(points) == len(part[part.system == system])
                    if len(points):
                        axes.scatter(range(9), points[metric], marker=MARKERS[system], s=42, edgecolors=COLORS[system], facecolors=color,
                                     label=system if alone else f"{system}, {reading}")
            axes.set_yscale("log")
            axes.set_title(f"{'Four cores' if unit == 'CPU' else 'GPU'}, {what}: tokens/s")
            axes.legend(loc="upper right", fontsize=6.5)
            axes.set_ylim(top=axes.get_ylim()[1] * 3)
            axes.set_xticks(range(9), [f"{prompt}\n{MODELS[model]}" if prompt == 256 else str(prompt)
                                       for model in MODELS for prompt in (64, 256, 1024)], fontsize=7)
    return figure


if __name__ == "__main__":
    draw(read(sys.argv[1])).savefig(sys.argv[2], dpi=110)

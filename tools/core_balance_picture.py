"""Draws docs/images/core-balance.png: core_balance_picture.py SWEEP.csv HOST.json OUT.png

SWEEP.csv: the results of experiments/papers/mnn/balance.yaml, a simulated phone. HOST.json: experiments/validation/uneven_cores.py --json,
two cores of a computer, of which the second one is shared with a process that never sleeps.
"""
import json
import statistics
import sys
from pathlib import Path

import pandas

from vitro.plot.style import HOST, OTHER, axes_of, styled

COLORS = {"even": OTHER, "rates": HOST}


@styled
def draw(table, host):
    figure, (prompt, decode, real) = axes_of(rows=3, height=7.8)
    table = table.assign(cores=table["engine.units"].str.count("cpu"), balance=table["engine.placement.balance"])
    one = table[table.cores == 1].iloc[0]
    for axes, metric, title in ((prompt, "prefill_tokens_per_s", "Prompt of 256 tokens"), (decode, "decode_tokens_per_s", "Decoding")):
        for balance, color in COLORS.items():
            part = table[table.balance == balance].sort_values("cores")
            axes.plot(part.cores, part[metric] / one[metric], marker="o", color=color, label=balance)
        axes.set_title(f"Simulated phone. {title}: speed-up over the prime core")
        axes.set_ylim(bottom=0)
        axes.legend(loc="upper left")
        axes.set_xlabel("cores: 1 prime, then 5 of the second class, then 2 of the third")
    bars(real, host["tokens_per_s"])
    return figure


def bars(axes, speeds):
    """Medians of ratios by turns to one thread, with quartiles."""
    for at, (phase, ways) in enumerate(speeds.items()):
        for side, (balance, color) in zip((-0.2, 0.2), COLORS.items(), strict=True):
            low, middle, high = statistics.quantiles([a / b for a, b in zip(ways[balance], ways["one"], strict=True)], n=4)
            axes.bar(at + side, middle, width=0.36, color=color, label=balance if at == 0 else None)
            axes.errorbar(at + side, middle, yerr=[[middle - low], [high - middle]], color="black", capsize=3)
    axes.axhline(1, color=OTHER, linewidth=0.8)
    axes.set_ylim(0, 1.4)
    axes.set_xticks(range(len(speeds)), [{"decode": "decoding", "prompt": "prompt of 512 tokens"}[phase] for phase in speeds])
    axes.set_title("Two cores of a computer, one of them shared: speed-up over the free one")
    axes.legend(loc="upper left")


if __name__ == "__main__":
    draw(pandas.read_csv(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text())).savefig(sys.argv[3], dpi=110)

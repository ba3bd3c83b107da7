"""Draws docs/images/core-balance.png from the sweep of experiments/papers/mnn/balance.yaml: core_balance_picture.py RESULTS.csv OUT.png"""
import sys

import pandas

from vitro.plot.style import HOST, OTHER, axes_of, styled


@styled
def draw(table):
    figure, (prompt, decode) = axes_of(rows=2, height=5.2, sharex=True)
    table = table.assign(cores=table["engine.units"].str.count("cpu"), balance=table["engine.placement.balance"])
    one = table[table.cores == 1].iloc[0]
    for axes, metric, title in ((prompt, "prefill_tokens_per_s", "Prompt of 256 tokens"), (decode, "decode_tokens_per_s", "Decoding")):
        for balance, color in (("even", OTHER), ("rates", HOST)):
            part = table[table.balance == balance].sort_values("cores")
            axes.plot(part.cores, part[metric] / one[metric], marker="o", color=color, label=balance)
        axes.set_title(f"{title}: speed-up over the prime core")
        axes.set_ylim(bottom=0)
        axes.legend(loc="upper left")
    decode.set_xlabel("cores: 1 prime, then 5 of the second class, then 2 of the third")
    return figure


if __name__ == "__main__":
    draw(pandas.read_csv(sys.argv[1])).savefig(sys.argv[2], dpi=110)

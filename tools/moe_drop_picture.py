"""Measures the likelihood of a text on the embedded mixture while experts drop rows, and draws docs/images/moe-drops.png:
moe_drop_picture.py TEXT OUT.png [OUT.csv]. TEXT is cut in two: the first tenth calibrates, the rest is scored."""
import sys
import tempfile
from pathlib import Path

import pandas

import vitro
from vitro.model.quality import paired
from vitro.plot.style import axes_of, styled

MODEL = Path(__file__).parents[1] / "configs" / "models" / "embedded" / "stories-moe-6m.f16.gguf"
RANKS = {"attention_output": "L2 norm of attention output", "router_weight": "router weight", "random": "random"}
CAPACITIES = (44, 36, 28, 24, 20, 16, 12, 8)
CHUNK = 128
# Graphs for every expert, in one shape: the capacity alone decides what is dropped.
ENGINE = {"engine.policy": "npumoe", "engine.units": ["cpu0"], "engine.moe.units": ["cpu1"], "engine.prefill_chunk": CHUNK,
          "engine.moe.tiers": "off", "engine.moe.residency": "off"}


def measure(text):
    whole = Path(text).read_text()
    with tempfile.TemporaryDirectory() as folder:
        seen, scored, recording = Path(folder) / "seen.txt", Path(folder) / "scored.txt", Path(folder) / "experts.vtrc"
        seen.write_text(whole[:len(whole) // 10])
        scored.write_text(whole[len(whole) // 10:])
        vitro.perplexity(MODEL, seen, overrides={"engine.record": str(recording)})
        engine = {**ENGINE, "engine.moe.calibration": str(recording)}
        base = vitro.perplexity(MODEL, scored)
        cases = [(rank, "drop", capacity) for rank in RANKS for capacity in CAPACITIES] + [("router_weight", "cpu", c) for c in CAPACITIES]
        return pandas.DataFrame([_row(scored, engine, base, *case) for case in cases])


def _row(text, engine, base, rank, overflow, capacity):
    answer = vitro.perplexity(MODEL, text, overrides={**engine, "engine.moe.rank": rank, "engine.moe.overflow": overflow,
                                                      "engine.moe.capacity": capacity})
    pair, experts = paired(answer, base), answer["experts"]
    return {"rank": rank if overflow == "drop" else "cpu", "capacity": capacity, "drop_rate": experts["token_drop_rate"],
            "padded_share": experts["padded_share"], "nll": answer["nll"], "difference": pair["difference"],
            "standard_error": pair["standard_error"], "chunks": pair["chunks"], "tokens": answer["tokens"]}


@styled
def draw(table):
    figure, (axes,) = axes_of(rows=1, height=4.2)
    for rank, name in RANKS.items():
        part = table[table["rank"] == rank].sort_values("drop_rate")
        axes.errorbar(100 * part.drop_rate, part.difference, yerr=part.standard_error, marker="o", capsize=2, label=name)
    part = table[table["rank"] == "cpu"]
    axes.errorbar(100 * part.drop_rate, part.difference, yerr=part.standard_error, marker="s", linestyle="none", label="overflow: cpu")
    axes.axvspan(10.63, 21.77, alpha=0.12, label="NPUMoE, Table 3")
    axes.set_xlabel("dropped (row, expert) pairs, %")
    axes.set_ylabel("more NLL per token than the dense policy")
    axes.legend(loc="upper left")
    return figure


if __name__ == "__main__":
    rows = measure(sys.argv[1])
    if len(sys.argv) > 3:
        rows.to_csv(sys.argv[3], index=False)
    print(rows.to_string(index=False))
    draw(rows).savefig(sys.argv[2], dpi=110)

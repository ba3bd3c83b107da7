"""Derives the activation profiles of configs/models/ from PowerInfer-2's workload figures, and prints them.

    python experiments/papers/pi2/calibrate.py [--hit-rate]

Five steps, four of them from figures that figures.yaml marks `use: input` or `calibrate`; no speed enters.
  fraction     activated parameters, less attention and head, over the FFN parameters that a token may touch
  skew         the largest at which under 1 % of the neurons are highly activated at batch 1, where "highly" is the frequency that
               75 % of them reach at batch 32
  precision    of the predictors: the share of bundles whose Gate, Up and Down are needed together
  expert_persistence  how often consecutive tokens of Mixtral 8x7B have an expert in common, which the law of the draws gives back
  persistence  by bisection, until the cache of Bamboo-7B hits, and that of Mixtral-47B misses, as often as the paper says (--hit-rate:
               simulates, minutes)
"""
import argparse
import json
from functools import cache
from math import comb
from pathlib import Path

import vitro
import yaml
from vitro.reproducing import paper_map
from vitro.reproducing.paper import Runs

HERE = Path(__file__).resolve().parent
MODELS = HERE.parents[2] / "configs" / "models"


def figure(name):
    tree = yaml.safe_load((HERE.parent / "figures.yaml").read_text())
    entry = next(entry for entry in tree["entries"] if entry["id"] == name)
    if entry.get("use") not in ("input", "calibrate"):
        raise SystemExit(f"{name} may not set a parameter")
    return entry["value"]


def fraction(shape, activated):
    """Of the FFN neurons that a token may touch, the share that makes `activated` parameters with attention and head."""
    head = shape["width"] // shape["heads"]
    attention = shape["layers"] * 2 * shape["width"] * head * (shape["heads"] + shape["kv_heads"])
    reachable = shape["layers"] * 3 * shape["width"] * shape["ffn"] * shape.get("experts_used", 1)
    return (activated - attention - shape["width"] * shape["vocab"]) / reachable


def frequency(mean, skew, rank):
    """p(rank), 0 < rank <= 1, of a power law capped at 1 with that mean (traces/draw.hpp)."""
    def average(scale):
        cap = min(1.0, scale ** (1 / skew))
        return cap + scale / (1 - skew) * (1 - cap ** (1 - skew))
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if average(middle) < mean else (low, middle)
    return min(1.0, high * rank ** -skew)


def skew(mean):
    few, many = figure("pi2_hot_share_batch1") / 100, figure("pi2_hot_share_batch32") / 100

    def hottest_is_below_level(value):
        level = 1 - (1 - frequency(mean, value, many)) ** 32
        return frequency(mean, value, few) <= level
    low, high = 0.01, 0.99
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if hottest_is_below_level(middle) else (low, middle)
    return low


def predictor_rank(shape):
    """From the bytes of all predictors at 4.5 bits per weight; whole blocks of 32."""
    per_rank = shape["layers"] * (shape["width"] + shape["ffn"] * shape["experts"]) * 4.5 / 8
    return round(figure("pi2_mem7gb_predictors") * 1e9 / per_rank / 32) * 32


def precision():
    return figure("pi2_coactivation_gate_up_down") / 100


# Jiang et al. 2024, "Mixtral of Experts" (arXiv 2401.04088), table 5, first or second choice: percent of the tokens that have an expert
# in common with the token before, at layers 0, 15 and 31 (at random 46 %).
SHARED_EXPERTS = {"ArXiv": (46.5, 62.3, 52.9), "DM Mathematics": (44.9, 67.0, 44.5), "Github": (49.9, 66.9, 49.2),
                  "Gutenberg": (49.5, 63.1, 52.2), "PhilPapers": (46.9, 61.9, 51.3), "PubMed Abstracts": (48.6, 61.6, 51.8),
                  "StackExchange": (48.2, 64.6, 53.6), "Wikipedia (en)": (49.8, 62.1, 51.8)}
SHARED_AT = (0, 15, 31)


def published_share(layers):
    """The mean over texts and layers; between the layers of the table straight lines."""
    points = [sum(column) / len(SHARED_EXPERTS) for column in zip(*SHARED_EXPERTS.values())]

    def at(layer):
        i = 0 if layer <= SHARED_AT[1] else 1
        return points[i] + (points[i + 1] - points[i]) * (layer - SHARED_AT[i]) / (SHARED_AT[i + 1] - SHARED_AT[i])
    return sum(map(at, range(layers))) / layers / 100


def shared_experts(repeated, experts):
    """The chance that two tokens' best two of equally popular experts have one in common, when each score is the same for both
    tokens with the chance `repeated` and drawn anew otherwise (traces/draw.cpp, route)."""
    return 1 - sum(comb(experts, kept) * repeated ** kept * (1 - repeated) ** (experts - kept) * _nothing_shared(kept, experts - kept)
                   for kept in range(experts + 1))


@cache
def _nothing_shared(kept, fresh):
    """Scores in descending order are any order of `kept` common ones, `fresh` of the first token alone and as many of the second's.
    Each token takes the first two that are its own; a common one that both would take is an expert in common."""
    def walk(common, first, second, mine, other):
        """What is left of each kind; mine, other: (taken of its own scores, taken of the common ones) by each token."""
        open_mine, open_other = sum(mine) < 2, sum(other) < 2
        if not open_mine and not open_other:
            return comb(fresh - mine[0], other[0]) / comb(fresh, other[0])  # experts of different scores may still be the same
        chance = 0.0
        if common and open_mine != open_other:
            chance += common * walk(common - 1, first, second, (mine[0], mine[1] + open_mine), (other[0], other[1] + open_other))
        if first:
            chance += first * walk(common, first - 1, second, (mine[0] + open_mine, mine[1]), other)
        if second:
            chance += second * walk(common, first, second - 1, mine, (other[0] + open_other, other[1]))
        return chance / (common + first + second)
    return walk(kept, fresh, fresh, (0, 0), (0, 0))


def expert_persistence(shape, stretch):
    """Percent. Two tokens have a score in common when both repeat that of one stretch."""
    wanted, low, high = published_share(shape["layers"]), 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        common = shared_experts(middle * middle * (1 - 1 / stretch), shape["experts"])
        low, high = (middle, high) if common < wanted else (low, middle)
    return 100 * low


def persistence(tokens=160):
    """Percent. The cache sees the paper's ablation step: cores alone, no pipeline."""
    wanted, low, high = figure("pi2_bamboo_cache_hit_rate") / 100, 80.0, 100.0
    while high - low > 0.5:
        middle = (low + high) / 2
        rate = vitro.run(HERE / "decode.yaml", overrides={
            "engine": str(HERE.parents[2] / "configs" / "engines" / "powerinfer2_cpu.yaml"), "engine.clusters.pipeline": "none",
            "engine.numerics": "false",
            "memory.ffn_in_dram": "50%", "model.profile.persistence": f"{middle}%", "workload.prompt_tokens": 16,
            "workload.output_tokens": tokens,
        }).metrics["cache_hit_rate"]
        print(f"persistence {middle:.1f} %: hit rate {rate:.4f}", flush=True)
        low, high = (middle, high) if rate < wanted else (low, middle)
    return (low + high) / 2


def mixtral_persistence(choices=(95.2, 97, 98, 98.5, 99, 99.5)):
    """Percent, the choice whose miss rate is nearest. The run is that of the row: planned, half of the FFNs in DRAM, 200 tokens."""
    wanted, mapped = figure("pi2_mixtral_miss_rate_mean"), paper_map.load("pi2", HERE)
    runs, words, found = Runs(mapped, 1, None), "pi2 mixtral off50 long", {}
    for choice in choices:
        more = {"model.profile.persistence": f"{choice}%"}
        runs.execute([(words, "", more)])
        found[choice] = 100 - 100 * runs.result(words, "", more)["metrics"]["cache_hit_rate"]
        print(f"Mixtral-47B, persistence {choice} %: {found[choice]:.2f} % miss", flush=True)
    return min(found, key=lambda choice: abs(found[choice] - wanted))


def fractions(shapes):
    """{model: shape} -> {model: share of the neurons that fire}; of sparse Qwen2 no source speaks, so it is taken as Bamboo."""
    activated = figure("pi2_mixtral_activated_params") * 1e9
    bamboo = fraction(shapes["bamboo-7b"], activated)
    return {"bamboo-7b": bamboo, "qwen2-7b-sparse": bamboo, "mistral-7b-silu": 1 - figure("pi2_silu_sparsity") / 100,
            "llama-13b-sparse": fraction(shapes["llama-13b-sparse"], activated * figure("pi2_llama13b_vs_bamboo_activated")),
            "turbosparse-mixtral-47b": fraction(shapes["turbosparse-mixtral-47b"], activated)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hit-rate", action="store_true")
    arguments = parser.parse_args()
    shapes = {path.stem: yaml.safe_load(path.read_text())["shape"] for path in MODELS.glob("*.yaml")}
    found = fractions(shapes)
    mixtral = yaml.safe_load((MODELS / "turbosparse-mixtral-47b.yaml").read_text())
    print(json.dumps({"fraction": found, "skew": skew(found["bamboo-7b"]), "precision": precision(),
                      "expert_persistence": expert_persistence(mixtral["shape"], mixtral["profile"]["stretch"]),
                      "predictor_rank": predictor_rank(shapes["turbosparse-mixtral-47b"])}, indent=2))
    if arguments.hit_rate:
        print(f"persistence: {persistence():.1f} %")
        print(f"persistence of Mixtral-47B: {mixtral_persistence()} %")


if __name__ == "__main__":
    main()

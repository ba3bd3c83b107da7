"""Takes PowerInfer-2's headline factors apart: its speed over LLMFlash's and llama.cpp's like for like, then with one property after the
other that makes the compared system what it was as published (map.yaml): reads in flight, cache, kernels.

    python experiments/papers/pi2/factors.py [--picture docs/images/pi2-factors.png]

prints a table for Bamboo-7B with half of its FFN weights in flash, and draws it. What a step gains depends on the order of steps.
"""
import argparse
from pathlib import Path

from vitro.plot.style import axes_of, styled
from vitro.reproducing import paper_map
from vitro.running import experiments

FOLDER = Path(__file__).parent
STEPS = {"policy": [], "and its reads in flight": ["engine.clusters.io_depth"],
         "and its cache": ["engine.clusters.eviction", "engine.clusters.window"], "and its kernels": ["device"]}
COMPARED = [("decoding over LLMFlash", "llmflash", "off50 long", "decode_tokens_per_s", "4.6 (Table 6)"),
            ("decoding over llama.cpp", "llamacpp", "off50", "decode_tokens_per_s", "24.6 (mean of five models)"),
            ("prompts over LLMFlash", "llmflash", "off50 prefill512", "prefill_tokens_per_s", "49.0 (mean of five models)"),
            ("prompts over llama.cpp", "llamacpp", "off50 prefill512", "prefill_tokens_per_s", "44.2 (mean of five models)")]


def speed(mapped, words, metric, more, plans):
    overrides = mapped.overrides(words) | more
    options = overrides.pop("plan", mapped.plan(words))
    if options is not None:
        overrides["engine.plan"] = plans.path_for(experiments.compose(mapped.experiment, overrides=overrides).given, options)
    return experiments.run(mapped.experiment, overrides=overrides).data["metrics"][metric]


def factors():
    """-> [(what, [(step, PowerInfer-2's speed over the other's)], published)]; steps that change nothing of a system are left out."""
    from vitro.reproducing.plans import Plans
    fair, published, plans, rows = paper_map.load("pi2", FOLDER, "fair"), paper_map.load("pi2", FOLDER), Plans(), []
    for what, system, words, metric, said in COMPARED:
        run = f"{system} bamboo {words}"
        given, final = fair.overrides(run), published.overrides(run)
        ours, more, steps = speed(fair, f"pi2 bamboo {words}", metric, {}, plans), {}, []
        for step, keys in STEPS.items():
            changed = {key: final[key] for key in keys if final.get(key) != given.get(key)}
            if changed or not keys:
                more |= changed
                steps.append((step, ours / speed(fair, run, metric, more, plans)))
        rows.append((what, steps, said))
    return rows


@styled
def picture(rows):
    figure, (axis,) = axes_of(height=0.45 * len(rows) + 1)
    for place, (_, steps, _) in enumerate(reversed(rows)):
        before = 1.0
        for step, ratio in steps:
            index = list(STEPS).index(step)
            axis.barh(place, ratio - before, left=before, color=f"C{index}", label=step if place == len(rows) - 1 else None)
            before = ratio
        axis.text(before * 1.03, place, f"{before:.1f}", va="center", fontsize=8)
    axis.set_yticks(range(len(rows)), [f"{what}\npublished: {said}" for what, _, said in reversed(rows)])
    axis.set_xscale("log")
    axis.set_xlabel("speed of PowerInfer-2 over the compared system")
    axis.legend(title="what differs", fontsize=8)
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--picture", metavar="FILE")
    asked = parser.parse_args()
    rows = factors()
    print("| PowerInfer-2 | " + " | ".join(STEPS) + " | published |\n|" + "---|" * (len(STEPS) + 2))
    for what, steps, said in rows:
        found = dict(steps)
        print(f"| {what} | " + " | ".join(f"{found[step]:.2f}" if step in found else "" for step in STEPS) + f" | {said} |")
    if asked.picture:
        picture(rows).savefig(asked.picture, dpi=150, bbox_inches="tight")


if __name__ == "__main__":
    main()

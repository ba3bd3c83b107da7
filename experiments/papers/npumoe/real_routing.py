"""What the embedded mixture's own routing says beside NPUMoE's Table 3 and section 5.8: docs/design/moe.md has the tables.

    python experiments/papers/npumoe/real_routing.py

Drops and padding with capacities as published, calibrated on a quarter of one text and run on the rest of it or of the other; and Overlap@K
of prompts, of generated tokens, and of the latter by the former. About a minute.
"""
import itertools
import tempfile
from pathlib import Path

import vitro
from vitro.trace import hot_experts

ROOT = Path(__file__).resolve().parents[3]
MODEL = ROOT / "configs/models/embedded/stories-moe-6m.f16.gguf"
TEXTS = {"stories": ROOT / "configs/models/embedded/eval.txt", "licence": ROOT / "LICENSE"}
PUBLISHED = {"engine.policy": "npumoe", "engine.units": ["cpu0"], "engine.moe.units": ["cpu1"], "engine.moe.base_of": "rows",
             "engine.moe.max_drop": "100%", "engine.moe.max_padding": "100%", "engine.moe.graph_rows": 1}
CASES = [*((chunk, 1, "off") for chunk in (8, 16, 32, 64)), (128, 8, "off"), (128, 8, "on")]  # chunk, shape_multiple, residency
WORDS = {"stories": 60, "licence": 27}  # of a prompt: a hundred tokens, more or less
PROMPTS, TOKENS = 24, 96


def drops(folder):
    for name, path in TEXTS.items():
        text = path.read_text()
        (folder / f"{name}.begin").write_text(text[:len(text) // 4])
        (folder / f"{name}.rest").write_text(text[len(text) // 4:])
        vitro.perplexity(MODEL, folder / f"{name}.begin", overrides={"engine.record": str(folder / f"{name}.vtrc")})
    for (chunk, multiple, residency), seen, run in itertools.product(CASES, TEXTS, TEXTS):
        changes = {"engine.prefill_chunk": chunk, "engine.moe.residency": residency, "engine.moe.shape_multiple": multiple,
                   "engine.moe.calibration": str(folder / f"{seen}.vtrc")}
        experts = vitro.perplexity(MODEL, folder / f"{run}.rest", overrides={**PUBLISHED, **changes})["experts"]
        print(f"chunk {chunk}, residency {residency}: calibrated on {seen}, run on {run}: dropped {experts['token_drop_rate']:.1%}, "
              f"padded {experts['padded_share']:.1%}, on cores {experts['cpu_share']:.1%}")


def generated(folder, seed):
    recordings = {}
    for name, path in TEXTS.items():
        words, many = path.read_text().split(), WORDS[name]
        prompts = [{"prompt": " ".join(words[at * many:(at + 1) * many])} for at in range(PROMPTS)]
        workload = {"requests": prompts, "output_tokens": TOKENS, "stop_at_eos": False, "sampling": {"temperature": 1}, "seed": seed}
        vitro.run(ROOT / "experiments/quickstart.yaml", overrides={"model.gguf": str(MODEL), "workload": workload,
                                                                   "engine.record": str(folder / f"{name}.vtrc")})
        recordings[name] = vitro.Recording.load(folder / f"{name}.vtrc")
    frame = hot_experts.overlaps(recordings)
    return frame[frame["tokens"] != hot_experts.ALL].assign(seed=seed)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        drops(Path(scratch))
        for seed in (1, 2, 3):
            table = generated(Path(scratch), seed)
            print(table[["seed", "calibrated_on", "asked_on", "kind", "tokens", "k", "mean"]].to_string(index=False))

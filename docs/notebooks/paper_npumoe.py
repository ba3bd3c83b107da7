# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # NPUMoE: a mixture of experts on static graphs
#
# A prompt of Phi-3.5-MoE on a simulated M2 Ultra. A neural engine runs graphs of fixed shapes, so experts get capacities by their
# expected load (tiers, T), several share a graph (groups, G), and hot ones stay on the engine (residency, R).
#
# Each row of `vitro.reproduce` is a formula over runs that `experiments/papers/npumoe/map.yaml` names, beside the published value. A row
# that is off stays off: nothing is fitted to these values. Results that are reserved for blind validation are in no file and in no
# picture.

# %%
import pandas
import vitro
from vitro import plot

NAMES = {"npumoe_ttft_p1024_c512.coreml_cpu": "over Core ML on cores", "npumoe_ttft_p1024_c512.coreml_naive": "over naive Core ML",
         "npumoe_ttft_p1024_c512.anemll": "over ANEMLL", "npumoe_group_gain_cap32.4x32": "four experts in a graph",
         "npumoe_group_gain_cap32.8x32": "eight experts in a graph"}
rows = vitro.reproduce("npumoe", only=["npumoe_ttft_p1024_c512", "npumoe_group_gain_cap32"], keep="out/papers/npumoe")["rows"]
pandas.DataFrame(rows)[["id", "expected", "simulated", "status", "why"]]

# %%
plot.published(rows, names=NAMES, unit="factor, time to the first token and groups of experts")

# %% [markdown]
# ## The mechanisms, one after another (Figure 17)
#
# The published ablation is of energy, in a unit that the paper does not state, so the picture shows our runs alone. The published factors
# are in the reproduction's table: energy of T and G over the base, and over T.

# %%
ablation = vitro.reproduce("npumoe", only=["npumoe_abl_tg_energy_vs_base", "npumoe_abl_tg_energy_vs_t"], keep="out/papers/npumoe")
pandas.DataFrame(ablation["rows"])[["id", "expected", "simulated", "status", "why"]]

# %%
base = {"engine": "vitro:engines/npumoe", "engine.numerics": False, "workload.prompt_tokens": 1024, "engine.prefill_chunk": 512}
STEPS = {"base": ("off", "off", "off"), "T": ("on", "off", "off"), "T + G": ("on", "on", "off"), "T + G + R": ("on", "on", "on")}
runs = {}
for name, (tiers, groups, residency) in STEPS.items():
    changes = {"engine.moe.tiers": tiers, "engine.moe.groups": groups, "engine.moe.residency": residency}
    runs[name] = vitro.run("vitro:experiments/papers/npumoe/prefill", overrides=base | changes)
pandas.DataFrame({name: run.metrics["experts"] for name, run in runs.items()}).loc[
    ["token_drop_rate", "padded_share", "cpu_share", "launches_per_layer", "graphs", "graphs_left_to_cores"]]

# %%
plot.bars(runs, "ttft_ms", label="time to the first token, ms")

# %%
plot.energy(runs)

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
# # A study of 200 points
#
# How much DRAM is a faster token worth? 200 points of a space of four keys, the front of speed and memory, and what the choice of an
# eviction rule is worth, with a confidence interval over seeds.
#
# The model is a shape of six layers with an assumed activation profile: it says how much work a token is. So that the study takes a minute,
# it is smaller than a real one.

# %%
import vitro
from vitro import plot

base = {
    "experiment": "study", "machine": "sim", "device": "vitro:devices/oneplus12",
    "model": {"format": "q4_0", "shape": {
        "family": "llama", "name": "six-layers", "layers": 6, "width": 2048, "heads": 16, "kv_heads": 16, "ffn": 5504, "vocab": 32000,
        "context": 2048, "norm_eps": 1e-5, "activation": "relu", "rope_base": 10000, "predictor_rank": 512}},
    "engine": {"policy": "neuron_cluster", "layout": "bundles", "units": ["cpu1", "cpu2", "cpu3", "cpu4"], "clusters": {"io_core": "cpu0"},
               "activations": "int8", "numerics": False,
               "profile": {"fraction": "27%", "skew": 0.38, "persistence": "93%", "stretch": 32, "ordered": True,
                           "predictor": {"recall": 1, "precision": 0.8}}},
    "workload": {"prompt_tokens": 4, "output_tokens": 12, "stop_at_eos": False, "seed": 1},
    "memory": {"ffn_in_dram": "50%"}}

# %%
design = {"design": "latin_hypercube", "samples": 200, "seed": 1, "over": {
    "memory.ffn_in_dram": {"from": "10%", "to": "90%"},
    "engine.clusters.io_depth": {"from": 1, "to": 32, "scale": "log", "whole": True},
    "engine.weights.eviction": ["step_lru", "lru", "lfu"],
    "engine.clusters.pipeline": ["cluster", "matrix", "none"]}}
vitro.sweep(base | {"sweep": design}, out="out/study", resume=True)
study = vitro.Study("out/study")
study

# %% [markdown]
# ## The front
#
# Points that no other one beats in speed without taking more memory:

# %%
objectives = {"decode_tokens_per_s": "maximize", "peak_memory_bytes": "minimize"}
front = study.front(objectives)
front[["point.memory.ffn_in_dram", "point.engine.clusters.io_depth", "point.engine.weights.eviction", "point.engine.clusters.pipeline",
       "decode_tokens_per_s"]].sort_values("decode_tokens_per_s").tail(10)

# %%
plot.pareto(study.to_frame(), objectives, by="point.engine.clusters.pipeline")

# %% [markdown]
# ## What is a pipeline worth?
#
# A mean over all other keys says which value tends to be better; it is no statement about one point.

# %%
study.pivot("engine.weights.eviction", "engine.clusters.pipeline", "decode_tokens_per_s")

# %% [markdown]
# ## Hits over the budget, with the optimal replacement
#
# A clean comparison varies one thing at a time. `report_bound` adds the hit rate of Belady's replacement on the same accesses.

# %%
grid = {"memory.ffn_in_dram": ["15%", "30%", "50%", "70%"], "engine.weights.eviction": ["step_lru", "lru", "lfu"],
        "engine.clusters.report_bound": [True]}
table = vitro.sweep(base | {"sweep": grid}, out="out/hits", resume=True)
plot.hit_curve(table, "memory.ffn_in_dram", by="engine.weights.eviction")

# %% [markdown]
# ## Is the difference real?
#
# The activations are drawn, so each point is one draw. Equal seeds draw equal activations for both rules: the differences of pairs vary
# less than the values. The interval is Student's t over these pairs.

# %%
seeds = {"memory.ffn_in_dram": ["50%"], "engine.weights.eviction": ["step_lru", "lfu"], "workload.seed": [1, 2, 3, 4, 5]}
vitro.sweep(base | {"sweep": seeds}, out="out/seeds", resume=True)
repeated = vitro.Study("out/seeds")
repeated.where({"engine.weights.eviction": "step_lru"}).compare(
    repeated.where({"engine.weights.eviction": "lfu"}), ["decode_tokens_per_s", "cache_hit_rate"])

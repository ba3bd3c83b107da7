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
# # PowerInfer-2: neuron clusters, one mechanism at a time
#
# Bamboo-7B on a simulated OnePlus 12 with half of its FFN weights in flash. The paper's Figure 14 adds one mechanism after another:
# bundles of a neuron's Gate, Up and Down rows, the neuron cache, the pipeline of computing and reading, and the NPU.
#
# Each row of `vitro.reproduce` is a formula over runs that `experiments/papers/pi2/map.yaml` names, beside the published value. A row
# that is off stays off: nothing is fitted to these values. Results that are reserved for blind validation are in no file and in no
# picture.

# %%
import pandas
import vitro
from vitro import plot

STEPS = {"pi2_abl_baseline": "no bundle, no cache, no pipeline", "pi2_abl_bundle": "+ bundles", "pi2_abl_cache": "+ neuron cache",
         "pi2_abl_pipeline": "+ cluster pipeline", "pi2_abl_xpu": "+ NPU (planned shares)"}
rows = vitro.reproduce("pi2", only=[*STEPS], keep="out/papers/pi2")["rows"]
pandas.DataFrame(rows)[["id", "expected", "simulated", "relative_error", "status"]]

# %%
plot.published(rows, names=STEPS, unit="decode, tokens/s")

# %% [markdown]
# ## The pipeline, switched on and off
#
# The same policy without a plan: four cores compute, the big one reads. The pipeline hides reads behind the computation of other
# clusters; with none, a layer waits for its last read.

# %%
base = {
    "experiment": "pipeline", "machine": "sim", "device": "vitro:devices/oneplus12", "model": "vitro:models/bamboo-7b",
    "engine": {"policy": "neuron_cluster", "layout": "bundles", "units": ["cpu1", "cpu2", "cpu3", "cpu4"],
               "clusters": {"io_core": "cpu0", "io_depth": 32}, "activations": "int8", "kv_format": "f16", "numerics": False},
    "workload": {"prompt_tokens": 8, "output_tokens": 12, "stop_at_eos": False, "seed": 1}, "memory": {"ffn_in_dram": "50%"}}
runs = {pipeline: vitro.run(base, overrides={"engine.clusters.pipeline": pipeline}, out=f"out/papers/pi2/{pipeline}")
        for pipeline in ("cluster", "matrix", "none")}
pandas.concat([run.to_frame().assign(pipeline=name) for name, run in runs.items()])[
    ["pipeline", "decode_tokens_per_s", "exposed_io_share", "cache_hit_rate", "energy_j_per_token"]]

# %%
traces = {name: vitro.load_trace(run.out) for name, run in runs.items() if name != "matrix"}
middle = {name: trace.end_us * 0.75 for name, trace in traces.items()}
plot.gantt(traces, begin_us=middle, end_us={name: at + 8000 for name, at in middle.items()})

# %%
plot.energy(runs)

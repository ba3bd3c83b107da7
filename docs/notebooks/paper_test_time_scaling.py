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
# # Test-time scaling: matrix tiles of the NPU are free until they are full
#
# Qwen2.5 on a simulated OnePlus 12. Decoding several samples of one prompt fills rows of the NPU's matrix tiles that a single sequence
# leaves empty. That pays only if dequantisation keeps up, for which the paper lays weights out in the tiles' order and coalesces groups
# (section 7.4).
#
# Each row of `vitro.reproduce` is a formula over runs that `experiments/papers/tts/map.yaml` names, beside the published value. A row
# that is off stays off: nothing is fitted to these values. Results that are reserved for blind validation are in no file and in no
# picture.

# %%
import pandas
import vitro
from vitro import plot

NAMES = {"tts_gemm_speedup": "over a scatter into tiles (all layers' matrices)", "tts_headline_gemm": "the largest of three matrices",
         "tts_gemm_coalesce_speedup": "over groups that are not coalesced"}
rows = vitro.reproduce("tts", only=[*NAMES], keep="out/papers/tts")["rows"]
pandas.DataFrame(rows)[["id", "expected", "simulated", "status", "source"]]

# %%
plot.published(rows, names=NAMES, unit="speed-up of a product by the layout of its weights")

# %% [markdown]
# ## One mechanism at a time (Figure 15)
#
# A product of one row: the time with each layout, and of moving the bytes alone, which no layout can be faster than.

# %%
products = vitro.sweep("vitro:experiments/papers/tts/decode", out="out/papers/tts/products", resume=True, overrides={
    "engine": "vitro:engines/tts", "engine.numerics": False, "engine.units": ["npu"],
    "workload": {"products": {"rows": 1, "format": "q4_0", "shapes": [{"columns": 8960, "depth": 1536}]}},
    "sweep": [{"label": "coalesced, by tables"} | {"seed": 1},
              {"label": "not coalesced", "engine.products": {"decode": "uncoalesced", "prefill": "uncoalesced"}},
              {"label": "conventional groups, scattered", "engine.products": {"decode": "scatter", "prefill": "scatter"}},
              {"label": "bytes moved, nothing computed", "engine.products": {"decode": "copy", "prefill": "copy"}}]})
plot.series(products, ["label"], "product_us.mean", ("a product", "us", 1))

# %% [markdown]
# ## What a batch costs
#
# Tokens per second of all samples together, and of one of them, with the batch. Energy per token falls, since the weights are read once
# for all.

# %%
batches = vitro.sweep("vitro:experiments/papers/tts/decode", out="out/papers/tts/batches", resume=True, overrides={
    "engine": "vitro:engines/tts", "engine.numerics": False, "model": "vitro:models/qwen2.5-1.5b",
    "sweep": {"workload.batch": [1, 2, 4, 8, 16]}})
batches[["workload.batch", "decode_tokens_per_s", "token_latency_ms.mean", "energy_j_per_token", "mean_power_w"]]

# %%
plot.series(batches, ["workload.batch"], "decode_tokens_per_s", ("all samples", "tokens/s", 1))

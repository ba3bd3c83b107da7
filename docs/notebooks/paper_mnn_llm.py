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
# # MNN-LLM: keys and values in flash, LoRA beside the base, fused moves
#
# Qwen2-7B on a simulated phone. Three mechanisms are switched on and off: keys and values that leave DRAM (section 4.1), the order of a
# LoRA product (5.5), and the fusion of operators that only move data (5.4).
#
# Each row of `vitro.reproduce` is a formula over runs that `experiments/papers/mnn/map.yaml` names, beside the published value. A row
# that is off stays off: nothing is fitted to these values. Results that are reserved for blind validation are in no file and in no
# picture.

# %%
import pandas
import vitro
from vitro import plot

results = ["mnn_kv_flash_extra_delay", "mnn_lora_memory_ratio", "mnn_geometry_gain", "mnn_gpu_decode_vs_llamacpp", "mnn_gpu_decode_vs_mlc"]
rows = vitro.reproduce("mnn", only=results, keep="out/papers/mnn")["rows"]
pandas.DataFrame(rows)[["id", "expected", "simulated", "unit", "status", "why"]]

# %%
plot.published([row for row in rows if row["unit"] == "x"],
               names={"mnn_gpu_decode_vs_llamacpp": "GPU decode over llama.cpp", "mnn_gpu_decode_vs_mlc": "GPU decode over MLC-LLM"},
               unit="largest factor over three models and three prompts")

# %% [markdown]
# ## Keys and values in flash (Figure 2)
#
# All keys and values of the prompt in DRAM, or in flash with and without a prefetch for the next layer. A step reads them all once, so
# what it takes grows with the context; the prefetch hides reads behind the layer before.

# %%
table = vitro.sweep("vitro:experiments/papers/mnn/decode", out="out/papers/mnn/kv", resume=True, overrides={
    "engine.numerics": False, "workload": {"prompt_tokens": 1024, "output_tokens": 3, "stop_at_eos": False, "seed": 1},
    "sweep": [{"label": "in DRAM", "workload.prompt_tokens": [1024, 2048, 4096, 8192]},
              {"label": "in flash, prefetched", "engine.kv_dram_tokens": 0, "workload.prompt_tokens": [1024, 2048, 4096, 8192]},
              {"label": "in flash, on demand", "engine.kv_dram_tokens": 0, "engine.kv_prefetch": False,
               "workload.prompt_tokens": [1024, 2048, 4096, 8192]}]})
table = table.assign(placement=table["label"].str.replace(r", prompt_tokens.*", "", regex=True))
table.pivot_table(index="workload.prompt_tokens", columns="placement", values="token_latency_ms.mean", sort=False)

# %%
plot.series(table[["workload.prompt_tokens", "placement", "token_latency_ms.mean", "machine"]], ["workload.prompt_tokens", "placement"],
            "token_latency_ms.mean", ("a decode step", "ms", 1))

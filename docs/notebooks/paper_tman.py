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
# # T-MAN: look-up tables on the vector unit, and a pipeline in front of the matrix unit
#
# Low-bit models on the NPU of a simulated OnePlus 12. Decoding looks sums up on HVX. Prompts dequantise by tables (two levels) and run on
# HMX, with transfers, vector and matrix work as three stages at once.
#
# Each row of `vitro.reproduce` is a formula over runs that `experiments/papers/tman/map.yaml` names, beside the published value. A row
# that is off stays off: nothing is fitted to these values. Results that are reserved for blind validation are in no file and in no
# picture.

# %%
import pandas
import vitro
from vitro import plot

NAMES = {"tman_mpgemv_2bit_vs_qnn": "2-bit GEMV over QNN", "tman_abl_lutdq_vs_convert": "dequantisation by tables over conversion",
         "tman_decode_vs_llmnpu": "decode over llm.npu"}
rows = vitro.reproduce("tman", only=[*NAMES, "tman_abl_pipeline_overhead"], keep="out/papers/tman")["rows"]
pandas.DataFrame(rows)[["id", "expected", "simulated", "unit", "status"]]

# %%
plot.published([row for row in rows if row["unit"] == "x"], names=NAMES, unit="factor")

# %% [markdown]
# ## The mechanisms, switched on and off (Figures 16 and 17)
#
# A 4096 x 4096 product of 4-bit weights: decoding by look-up or by dequantisation, and prompts with the stages one after the other
# (`npu.buffers: 0`) or overlapped.

# %%
square = {"columns": 4096, "depth": 4096}
base = {"engine": "vitro:engines/tman", "engine.numerics": False, "model": "vitro:models/qwen3-8b"}


def product(rows, methods, **more):
    """Microseconds of a product with so many rows."""
    workload = {"products": {"rows": rows, "format": "w4g64z", "shapes": [square]}}
    return vitro.run("vitro:experiments/papers/tman/decode", overrides={**base, "workload": workload, "engine.products": methods, **more})


cases = {
    "1 row: looked up": product(1, {"decode": "lut", "prefill": "scaled_tables"}),
    "1 row: dequantised by tables": product(1, {"decode": "scaled_tables", "prefill": "scaled_tables"}),
    "1 row: dequantised by conversion": product(1, {"decode": "convert", "prefill": "convert"}),
    "128 rows: three stages at once": product(128, {"decode": "lut", "prefill": "scaled_tables"}),
    "128 rows: one stage after another": product(128, {"decode": "lut", "prefill": "scaled_tables"}, **{"device.npu.buffers": 0}),
    "128 rows: converted, at once": product(128, {"decode": "convert", "prefill": "convert"})}
pandas.Series({name: run.metric("product_us.mean") for name, run in cases.items()}, name="us")

# %%
plot.bars(cases, "product_us.mean", label="a 4096 x 4096 product of 4-bit weights, us")

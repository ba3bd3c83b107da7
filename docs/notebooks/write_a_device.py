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
# # Write a device
#
# You change a phone's parameters, ask which of them matter for an experiment, and put a DRAM model of your own into it: a class in this
# notebook.

# %%
import pandas
import vitro
from vitro import plot

phone = vitro.Device("vitro:devices/oneplus12")
phone

# %% [markdown]
# Each parameter has a provenance. Most of what decides about a run should not be assumed:

# %%
parameters = phone.parameters()
parameters.groupby("kind").size()

# %% [markdown]
# ## What if?
#
# `override` gives another device; the new values are marked as assumed, with the source that you state.

# %%
experiment = "vitro:experiments/benchmarks/offload_7b"
short = {"workload.output_tokens": 4}
faster = phone.override({"ufs.link_bandwidth": "8 GB/s"}, source="what if the link of the flash doubled")
runs = {"as it is": vitro.run(experiment, overrides=short, device=phone),
        "faster link": vitro.run(experiment, overrides=short, device=faster)}
plot.bars(runs, "decode_tokens_per_s", label="decode, tokens/s")

# %% [markdown]
# ## Which assumption matters?
#
# Each assumed number of the cores and the flash, 20 % lower and higher, one at a time:

# %%
base = runs["as it is"].metric("decode_tokens_per_s")
names = [name for name in runs["as it is"]["assumed_parameters"] if name.startswith(("cpu.mid", "cpu.cache", "cpu.plan", "ufs.command"))]


def change(name, factor):
    """Relative change of the speed with one parameter multiplied."""
    return vitro.run(experiment, overrides=short, device=phone.scaled(name, factor)).metric("decode_tokens_per_s") / base - 1


moved = pandas.DataFrame([{"parameter": name, "low": change(name, 0.8), "high": change(name, 1.2)} for name in names])
plot.tornado(moved, metric="decode speed", top=8)

# %% [markdown]
# ## Where is the roof?
#
# Products of 1 to 128 rows on four cores and on the NPU, under the bandwidth of DRAM. Few rows are bound by the weights that they read.

# %%
UNITS = {"four cores": {"policy": "dense", "units": ["cpu1", "cpu2", "cpu3", "cpu4"], "activations": "int8", "numerics": False},
         "NPU": {"policy": "qnn", "numerics": False}}
points = []
for unit, engine in UNITS.items():
    for rows in (1, 4, 16, 32, 64, 128):
        products = {"rows": rows, "repeat": 4, "format": "q4_0", "shapes": [{"columns": 4096, "depth": 4096}]}
        run = vitro.run({"experiment": "roof", "machine": "sim", "model": "vitro:models/bamboo-7b", "engine": engine,
                         "workload": {"products": products}}, device=phone)
        operations, read = 2 * rows * 4096 ** 2, 4096 ** 2 * 4.5 / 8 + 2 * rows * 4096 * 4
        points.append({"unit": unit, "intensity": operations / read, "operations_per_s": operations / run.metric("product_us.mean") * 1e6})
known = parameters.set_index("parameter")["value"]
best = pandas.DataFrame(points).groupby("unit")["operations_per_s"].max()
plot.roofline(pandas.DataFrame(points), {
    "cores: 43.9 GB/s, best product": (best["four cores"], float(known["cpu.bandwidth"])),
    "NPU: DMA, best product": (best["NPU"], float(known["npu.dma_bandwidth"]))}, by="unit")

# %% [markdown]
# ## A DRAM model of your own
#
# A class with a table of parameters and one method: when is a request that is submitted now complete? This one has a single bus that serves
# requests in order of arrival. No phone has such a bus.


# %%
class OneBus(vitro.DramModel):
    """one request at a time, first come, first served"""

    parameters = {
        "bandwidth": vitro.Param("bandwidth"),
        "latency": vitro.Param("time", "100 ns", "a loaded LPDDR5 channel"),
    }

    def setup(self):
        self.free_at = 0

    def serve(self, now_ps, request):
        begin = max(now_ps, self.free_at)
        self.free_at = begin + round(request.length / self.params["bandwidth"] * 1e12)
        least = max(request.pace_ps, round(request.length / request.cap * 1e12))  # the agent's own pace, and its port's cap
        return max(self.free_at, begin + least) + self.params["latency"]


one_bus = phone.override({"dram": {"model": "OneBus", "bandwidth": "51 GB/s", "capacity": "12 GB", "available": "9 GB"}})
quickstart = "vitro:experiments/quickstart"
shared = vitro.run(quickstart, device=phone)
in_turn = vitro.run(quickstart, device=one_bus, models=[OneBus])
assert in_turn.tokens == shared.tokens  # time is the model's, values are not
plot.bars({"shared by rates": shared, "one bus": in_turn}, "decode_tokens_per_s", label="decode, tokens/s")

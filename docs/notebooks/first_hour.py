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
# # A first hour
#
# You run one experiment on a simulated phone, look at where its time and energy go, and change one thing.
# Names that begin with `vitro:` are files that come with vitro, so this works in any folder.

# %%
import pandas
import vitro

quickstart = "vitro:experiments/quickstart"
dense = vitro.run(quickstart)
dense

# %% [markdown]
# The model is a small story teller with real weights, held in DRAM. The text is what the engine computed:

# %%
print(dense["experiment_resolved"]["workload"]["prompt"] + dense.text)

# %% [markdown]
# ## Weights in flash
#
# The same model, mapped from flash under a budget that is smaller than the model. `out=` leaves a trace.

# %%
paged = vitro.run(quickstart, overrides={"engine.policy": "mmap", "memory.budget": "6 MiB"}, out="out/first/paged")
assert paged.tokens == dense.tokens  # a policy never changes what is generated
pandas.concat([dense.to_frame(), paged.to_frame()])[["policy", "decode_tokens_per_s", "ttft_ms", "exposed_io_share", "energy_j_per_token"]]

# %% [markdown]
# All metrics with their units, and every decode step:

# %%
paged.to_frame("metrics").dropna()

# %%
steps = paged.to_frame("steps")
steps.head()

# %% [markdown]
# ## Where does the time go?
#
# The trace has a span for each operation on each core and for each read of the flash.

# %%
trace = vitro.load_trace("out/first/paged")
trace

# %%
middle = trace.end_us / 2
vitro.plot.gantt(trace, begin_us=middle, end_us=middle + 2000)

# %%
vitro.plot.memory(trace, budget_bytes=paged.budget_bytes)

# %% [markdown]
# The spans are a table, so your own questions take a line:

# %%
kinds = trace.spans.assign(kind=trace.spans["name"].str.split().str[0])
kinds.groupby(["group", "kind"])["dur_us"].sum().sort_values(ascending=False).head()

# %% [markdown]
# ## Where does the energy go?

# %%
vitro.plot.energy({"in DRAM": dense, "paged from flash": paged})

# %% [markdown]
# ## One change, several values
#
# A sweep runs each point in a process of its own and keeps finished rows, whatever happens to the notebook.
# `vitro.Study` reads them.

# %%
vitro.sweep(quickstart, out="out/first/sweep", resume=True, overrides={"sweep": {
    "engine.policy": ["mmap"], "memory.budget": ["5.5 MiB", "6 MiB", "8 MiB"], "engine.weights.read_ahead": ["16 KiB", "128 KiB"]}})
study = vitro.Study("out/first/sweep")
study.pivot("memory.budget", "engine.weights.read_ahead", "decode_tokens_per_s")

# %%
small = study.where({"engine.weights.read_ahead": "16 KiB"})
small.compare(study.where({"engine.weights.read_ahead": "128 KiB"}), ["decode_tokens_per_s", "energy_j_per_token"])

# %% [markdown]
# ## What is assumed?
#
# Each hardware parameter says where its value comes from. A result lists those that nobody has measured.

# %%
device = vitro.Device("vitro:devices/oneplus12")
parameters = device.parameters()
parameters[parameters["parameter"].isin(paged["assumed_parameters"])][["parameter", "value", "unit", "source"]].head(8)

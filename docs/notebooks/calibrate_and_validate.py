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
# # Calibrate and validate this machine
#
# How far can a simulation be trusted? You measure the computer that this notebook runs on, simulate it, and compare the simulation with
# real runs of the same experiments. No run of a model goes into the calibration.
#
# On a busy machine real runs vary by more than the simulation errs; the comparison then says that it is inconclusive. With root,
# `vitro calibrate --realtime` keeps other processes out.

# %%
import json
from pathlib import Path

import pandas
import vitro
from vitro import plot
from vitro.base.trees import flatten
from vitro.cli import main as command  # what `vitro ...` runs in a terminal; returns its exit code

Path("out/host").mkdir(parents=True, exist_ok=True)
device = "out/host/host.yaml"
if command(["calibrate", "--quick", "--out", device]) != 0:
    print("This machine is too busy to be measured: the device is the recorded one of another machine. Its speeds will be off.")
    device = "vitro:experiments/validation/recorded/device"

# %%
host = vitro.Device(device)
host.parameters().query("kind == 'measured'")[["parameter", "value", "unit", "source"]].head(12)

# %% [markdown]
# ## Real runs beside simulated ones
#
# The suite's bounds are what noise can not touch: tokens, bytes and decisions are equal on both machines.

# %%
assert command(["validate", "vitro:experiments/validation/small", "--device", device, "--runs", "3", "--out", "out/host"]) == 0

# %%
answer = json.loads(Path("out/host/validate.json").read_text())
rows = pandas.DataFrame([{
    "experiment": row["id"], "measured": row["host"]["decode_tokens_per_s"], "predicted": row["sim"]["decode_tokens_per_s"],
    "low": flatten(row.get("band") or {}).get("decode_tokens_per_s", [None])[0],
    "high": flatten(row.get("band") or {}).get("decode_tokens_per_s", [None])[-1],
    "host against host": row["host_against_host"]} for row in answer["rows"]])
rows

# %%
plot.predicted(rows, by="experiment", unit="tokens/s, decode")

# %%
answer["summary"]["why"] or f"conclusive: one real run is {answer['summary']['host_against_host']:.1%} from the others"

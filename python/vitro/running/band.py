"""The error band of a prediction: what a calibrated device gives when its parameters are all off in one direction.

Spreads come from the device file's `calibration:` block (docs/guide/calibrate.md), never from a run that is predicted.
"""
import copy

from ..base import quantities
from ..base.trees import flatten

ASSUMED = 0.2  # how far an assumed parameter is taken to be off, relative


def corner(device, sign):
    """The device with every calibrated parameter off by its spread and every assumed one by ASSUMED, all of them in the direction
    that makes it slower (sign = 1) or faster (sign = -1). Sizes stay: they have no better or worse end."""
    tree = copy.deepcopy(device)
    spreads = (tree.pop("calibration", None) or {}).get("spread") or {}
    for prefix, block in _blocks(tree):
        for name, entry in block.items():
            if isinstance(entry, dict) and "kind" in entry:
                _shift(entry, name, sign * (ASSUMED if entry["kind"] == "assumed" else min(spreads.get(f"{prefix}.{name}", 0.0), 0.5)))
    return tree


def _blocks(device):
    for name in ("dram", "cpu", "ufs"):
        yield name, device.get(name) or {}
    for cluster in (device.get("cpu") or {}).get("clusters") or []:
        yield f"cpu.{cluster['class']}", cluster


def _slower(number, share, rate):
    return number / (1 + share) if rate else number * (1 + share)


def _shift_table(table, share, rate):
    """A table may have one for each kernel set, and one for each variant in it."""
    for key, number in table.items():
        if isinstance(number, dict):
            _shift_table(number, share, rate)
        elif key not in ("kind", "source", "note", "private_cache"):  # sizes stay
            table[key] = _slower(number, share, rate)


def _shift(entry, name, share):
    per_cycle = name.startswith("macs_per") or name.endswith("_per_cycle")
    if name == "miss_time":  # its kernels are relative to its distances
        entry.update({key: _slower(number, share, False) for key, number in entry.items() if key.replace(".", "", 1).isdigit()})
        return None
    if "value" not in entry:
        return _shift_table(entry, share, per_cycle)
    for dimension in ("bandwidth", "frequency", "time"):
        if (number := quantities.parse(entry["value"], dimension)) is not None:
            entry["value"] = quantities.written(_slower(number, share, dimension != "time"), dimension)
            return None
    if per_cycle or name.endswith("_cycles") or name.startswith("cycles_per"):
        entry["value"] = _slower(float(entry["value"]), share, per_cycle)
    return None


def band(metrics, slow, fast):
    """-> {metric: [low, high]} from the metrics of the prediction and of its two corners."""
    runs = [flatten(run) for run in (metrics, slow, fast)]
    found = {}
    for name in runs[0]:
        values = [run.get(name) for run in runs]
        if all(isinstance(value, (int, float)) for value in values):
            found[name] = [min(values), max(values)]
    return found


def band_of(answer, simulate):
    """The band of a result, from both corners of its calibrated device. simulate: a function of an experiment that gives its metrics.

    -> (band, notes). Without a calibration nothing is known, and the band is None.
    """
    experiment = answer.get("experiment_resolved") or {}
    device = experiment.get("device") or {}
    if answer.get("machine") != "sim" or not device.get("calibration"):
        return None, ["no error band: only a simulation of a device that `vitro calibrate` measured has one"]
    kept = {key: value for key, value in experiment.items() if key not in ("sweep", "expect")}
    return band(answer["metrics"], *(simulate(kept | {"device": corner(device, sign)}) for sign in (1, -1))), []

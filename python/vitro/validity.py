"""How far a prediction of a calibrated device can be trusted: where it goes beyond what was measured, and its error band.

Both come from the device file's `calibration:` block (docs/calibrate.md), never from a run that is predicted.
"""
import copy
import re

ASSUMED = 0.2  # how far an assumed parameter is taken to be off, relative
_UNITS = {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KiB": 2 ** 10, "MiB": 2 ** 20, "GiB": 2 ** 30, "TiB": 2 ** 40}


def beyond_calibration(result):
    """-> notes: what of the run lies outside the ranges that the calibration covered. Empty for a device without one."""
    experiment = result.get("experiment_resolved") or {}
    device = experiment.get("device")
    covers = (device.get("calibration") or {}).get("covers") if isinstance(device, dict) else None
    if not covers:
        return []
    engine, workload = experiment.get("engine") or {}, experiment.get("workload") or {}
    policy = engine.get("policy", "dense")
    units = len(engine["units"]) if engine.get("units") else int(engine.get("threads") or 1)
    notes = []

    def check(what, value, name, unit=""):
        low, high = covers[name]
        if value is not None and not low <= value <= high:
            notes.append(f"beyond the calibration: {what} {value:g}{unit} (measured: {low:g} to {high:g}{unit})")

    check("threads", units, "threads")
    check("rows of a batch", int(workload.get("batch") or 1), "batch_rows")
    held = (result.get("peak_memory") or {}).get("fixed", 0) + (result.get("peak_memory") or {}).get("cold", 0)
    if held and covers["working_set_mib"][1] < 1024:
        check("working set", held / 2 ** 20, "working_set_mib", " MiB")
    if policy == "mmap":
        check("reads", quantity(engine.get("read_ahead", "128 KiB")), "read_bytes", " B")
    notes += [f"beyond the calibration: no kernel of {name} was measured" for name in result.get("unpriced_calls") or []]
    return notes


def quantity(text):
    """Bytes of a size such as "128 KiB"; None for what is none."""
    match = re.fullmatch(r"\s*([0-9.]+)\s*([kMGT]?i?B)\s*", str(text))
    return float(match.group(1)) * _UNITS[match.group(2)] if match and match.group(2) in _UNITS else None


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
    number, _, unit = str(entry["value"]).partition(" ")
    if unit in ("GB/s", "MB/s", "GHz", "MHz") or per_cycle:
        moved = _slower(float(number), share, True)
    elif unit in ("us", "ns", "ms", "ps") or name.endswith("_cycles") or name.startswith("cycles_per"):
        moved = _slower(float(number), share, False)
    else:
        return None
    entry["value"] = f"{moved:.9f} {unit}" if unit else moved
    return None


def band(metrics, slow, fast):
    """-> {metric: [low, high]} from the metrics of the prediction and of its two corners."""
    from .result import flatten
    runs = [flatten(run) for run in (metrics, slow, fast)]
    found = {}
    for name in runs[0]:
        values = [run.get(name) for run in runs]
        if all(isinstance(value, (int, float)) for value in values):
            found[name] = [min(values), max(values)]
    return found


def with_band(result):
    """Runs the experiment on both corners of its calibrated device, and puts `prediction_band` into the result's data.
    Without a calibration nothing is known, and the band is null."""
    from . import api
    device = (result.get("experiment_resolved") or {}).get("device") or {}
    if result.get("machine") != "sim" or not device.get("calibration"):
        result.data["prediction_band"] = None
        result.data.setdefault("notes", []).append("no error band: only a simulation of a device that `vitro calibrate` measured has one")
        return result
    ends = []
    for sign in (1, -1):
        tree = result["experiment_resolved"] | {"device": corner(device, sign)}
        ends.append(api.run({key: value for key, value in tree.items() if key not in ("sweep", "expect")}).metrics)
    result.data["prediction_band"] = band(result.metrics, *ends)
    return result

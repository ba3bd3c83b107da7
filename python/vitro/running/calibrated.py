"""What of a run lies outside the ranges that the calibration of its device covered (docs/guide/calibrate.md)."""
from collections.abc import Mapping
from typing import Any

from ..base import quantities
from ..base.trees import values_of


def beyond_calibration(result: Mapping[str, Any]) -> list[str]:
    """-> notes: what of the run lies outside the ranges that the calibration covered. Empty for a device without one."""
    experiment = result.get("experiment_resolved") or {}
    device = experiment.get("device")
    covers = (device.get("calibration") or {}).get("covers") if isinstance(device, dict) else None
    if not covers:
        return []
    engine, workload = experiment["engine"], experiment["workload"]
    notes, placement = [], engine["placement"]

    def check(what: str, value: float | None, name: str, unit: str = "") -> None:
        low, high = covers[name]
        if value is not None and not low <= value <= high:
            notes.append(f"beyond the calibration: {what} {value:g}{unit} (measured: {low:g} to {high:g}{unit})")

    threads = len(placement["units"]) if "units" in placement else placement["threads"]
    check("threads", None if threads == "auto" else threads, "threads")  # auto: no more than the device has alike
    check("rows of a batch", workload.get("batch"), "batch_rows")
    held = (result.get("peak_memory") or {}).get("fixed", 0) + (result.get("peak_memory") or {}).get("cold", 0)
    if held and covers["working_set_mib"][1] < 1024:
        check("working set", held / 2 ** 20, "working_set_mib", " MiB")
    for text in values_of(engine, "read_ahead"):  # where pages are read
        check("reads", quantities.require(text, "bytes", "read_ahead"), "read_bytes", " B")
    notes += [f"beyond the calibration: no kernel of {name} was measured" for name in result.get("unpriced_calls") or []]
    return notes

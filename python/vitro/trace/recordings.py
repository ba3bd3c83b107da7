"""Recordings (engine.record): what fired in them, and their reads once more."""
from typing import Any

from ..base import native, process
from ..base.inputs import Experiment, Overrides, Path, as_overrides, as_source, existing
from ..errors import ConfigError


def firing_statistics(recording: Path, model: Path) -> list[dict[str, Any]]:
    """Which neurons of a model fired in a recording (engine.record), one dict per layer and expert.

    -> [{"layer", "expert" (-1: none), "tokens", "active", "hot_share", "repeated", "skew"}]: the mean share of neurons that fire
    for a token; of all firings, the share of the most active fifth; of a token's firing neurons, the share that fired for
    the token before it as well; the exponent of a drawn profile (engine.profile.skew) with that hot_share.
    """
    return native.call("firing_statistics", existing(recording), existing(model))


def token_statistics(recording: Path) -> dict[str, Any]:
    """How tokens of a recording differ, all FFNs of a token taken together.

    -> {"tokens", "spread": standard deviation over mean of the number of firing neurons, "shared": the part of it that all FFNs share
    (engine.profile.activity_spread, where layer_correlation is 100%), "layers_alike": mean correlation of two FFNs' numbers,
    "layer_spread", "neighbours_alike": spread of one FFN's number, and correlation with the next FFN's (activity_spread and
    layer_correlation), "lasting": that with the token before,
    "fresh": share of a token's firing neurons that did not fire for the token before, "fresh_spread": of their number}.
    """
    return native.call("token_statistics", existing(recording))


def workload_statistics(experiment: Experiment, *, overrides: Overrides = None, tokens: int = 256, layer: int = 0,
                        expert: int = 0) -> dict[str, Any]:
    """What the activation profile of an experiment comes out as, measured on draws for one FFN of its model.

    -> {"fraction", "repeated", "named", "recall", "coactivation", "cold_coactivation": shares, as docs/guide/traces.md defines them;
    "curve": [{"neurons", "probability", "firings"}], "batches": [{"sequences", "firing", "hot"}], "caches": [{"neurons", "hits"}],
    "experts": {"shared", "same_first"}: of a mixture, shares of tokens with an expert of the token before,
    "notes": what has to be known of these numbers: that they are of the default profile, or that runs compute what fires}
    An experiment that neither draws nor names a profile is refused: its weights say what fires.
    """
    return native.call("workload_statistics", *as_source(experiment), as_overrides(overrides), tokens, layer, expert)


def replay_io(recording: Path, *, machine: str = "sim", device: Path | None = None, file: Path | None = None, depth: int = 1,
              paced: bool = False) -> dict[str, Any]:
    """Issues the reads of a recording (engine.record) again and returns their cost.

    machine: "sim" with a device file, or "host" with a file to read from (in sim a file is optional).
    depth: reads in flight. paced: each read at its recorded time instead.
    -> {"reads", "bytes", "duration_s", "gb_per_s", "latency_us": {...}, "storage_path"}
    """
    if machine == "sim" and device is None:
        raise ConfigError("device: is missing (machine: sim needs a device file, such as configs/devices/oneplus12.yaml)")
    if machine == "host" and file is None:
        raise ConfigError("file: is missing (machine: host needs a file to read)")
    return process.call("replay_io", existing(recording), machine, existing(device) if device else "", existing(file) if file else "",
                        depth, paced)

"""The functions behind `import vitro`."""
import json
import os
import time
from pathlib import Path

from . import _native, outputs, process, validity
from .errors import ConfigError
from .places import Places
from .result import Result


def run(experiment, *, overrides=None, machine=None, device=None, models=(), scorer=None, out=None, progress=None):
    """Runs one experiment in a process of its own and returns its Result.

    experiment: a path, a YAML text, or a dict; relative paths inside the latter two resolve from the working directory.
    overrides: {"memory.budget": "6 MiB"} or ["memory.budget=6 MiB"]. machine: "host" or "sim", over the file's own.
    device: a vitro.Device or a path, over the file's own. models: classes of device models (vitro.DramModel ...) that it may name.
    scorer: a function of a vitro.scaling.Sample that returns a number, for workload.scaling: it takes the place of the scorer there.
    out: a folder for trace.json, decisions.jsonl and result.json. progress: called as progress(done, total).
    """
    source, name, is_path = as_source(experiment)
    if out is not None:
        out = outputs.folder(out, "out")  # made by the run itself: a wrong experiment leaves no folder behind
    began = time.perf_counter()
    changes = as_overrides(overrides, device) + (["workload.scaling.scorer={kind: python}"] if scorer is not None else [])
    answer = process.call("run", source, name, is_path, changes, machine, None if out is None else str(out), progress=progress,
                          models=models, scorer=scorer)
    answer["wall_s"] = round(time.perf_counter() - began, 6)  # the native side never looks at a wall clock for this
    if answer.get("machine") == "sim":
        answer.setdefault("notes", []).extend(validity.beyond_calibration(answer))
    if out is not None:
        (out / "result.json").write_text(json.dumps(answer, indent=2) + "\n")
    return Result(answer, out)


def resolve(experiment, *, overrides=None):
    """The experiment with every file, default and override applied, as a dict."""
    return _native.call("resolve", *as_source(experiment), as_overrides(overrides))


def places(experiment, *, overrides=None):
    """Where the values of an experiment were written."""
    return Places(_native.call("places", *as_source(experiment), as_overrides(overrides)))


def check_outputs(experiment, *, overrides=None):
    """Raises ConfigError when the experiment names something to be written that can not be. A run looks itself; this is for many."""
    _native.call("check_outputs", *as_source(experiment), as_overrides(overrides))


def perplexity(model, text, *, overrides=None, progress=None):
    """{"nll", "perplexity", "tokens", "chunks": [{"nll": the sum, "tokens"}]} of the text file under the model."""
    return process.call("perplexity", existing(model), existing(text), as_overrides(overrides), progress=progress)


def firing_statistics(recording, model):
    """Which neurons of a model fired in a recording (engine.record), one dict per layer and expert.

    -> [{"layer", "expert" (-1: none), "tokens", "active", "hot_share", "repeated", "skew"}]: the mean share of neurons that fire
    for a token; of all firings, the share of the most active fifth; of a token's firing neurons, the share that fired for
    the token before it as well; the exponent of a drawn profile (engine.profile.skew) with that hot_share.
    """
    return _native.call("firing_statistics", existing(recording), existing(model))


def token_statistics(recording):
    """How tokens of a recording differ, all FFNs of a token taken together.

    -> {"tokens", "spread": standard deviation over mean of the number of firing neurons, "shared": the part of it that all FFNs share
    (engine.profile.activity_spread), "layers_alike": mean correlation of two FFNs' numbers, "lasting": that with the token before,
    "fresh": share of a token's firing neurons that did not fire for the token before, "fresh_spread": of their number}.
    """
    return _native.call("token_statistics", existing(recording))


def workload_statistics(experiment, *, overrides=None, tokens=256, layer=0, expert=0):
    """What the activation profile of an experiment comes out as, measured on draws for one FFN of its model.

    -> {"fraction", "repeated", "named", "recall", "coactivation", "cold_coactivation": shares, as docs/traces.md defines them;
    "curve": [{"neurons", "probability", "firings"}], "batches": [{"sequences", "firing", "hot"}], "caches": [{"neurons", "hits"}],
    "experts": {"shared", "same_first"}: of a mixture, shares of tokens with an expert of the token before,
    "notes": what has to be known of these numbers: that they are of the default profile, or that runs compute what fires}
    An experiment that neither draws nor names a profile is refused: its weights say what fires.
    """
    return _native.call("workload_statistics", *as_source(experiment), as_overrides(overrides), tokens, layer, expert)


def replay_io(recording, *, machine="sim", device=None, file=None, depth=1, paced=False):
    """Issues the reads of a recording (engine.record) again and returns their cost.

    machine: "sim" with a device file, or "host" with a file to read from (in sim a file is optional).
    depth: reads in flight. paced: each read at its recorded time instead.
    -> {"reads", "bytes", "duration_s", "gb_per_s", "latency_us": {...}, "storage_path"}
    """
    if machine == "sim" and device is None:
        raise ConfigError("device: a simulation needs a device file, such as configs/devices/oneplus12.yaml")
    if machine == "host" and file is None:
        raise ConfigError("file: on host there has to be a file to read from")
    return process.call("replay_io", existing(recording), machine, existing(device) if device else "", existing(file) if file else "",
                        depth, paced)


def tokenize(model, text):
    """Token ids of `text` (str or bytes), without BOS."""
    return list(_native.call("tokenize", existing(model), text.encode() if isinstance(text, str) else text))


def quantize(source, target, scheme, *, progress=None):
    """Re-quantises a GGUF file."""
    process.call("quantize", existing(source), str(target), scheme, progress=progress)


def pack(source, target, layout, *, order=None, progress=None):
    """Packs a GGUF file for reading neuron by neuron or matrix by matrix. -> what lies where in it."""
    return process.call("pack", existing(source), str(target), layout, existing(order) if order else "", progress=progress)


def verify_packed(path, *, progress=None):
    """Reads all of a packed file; raises ConfigError that says what is damaged."""
    process.call("verify_packed", existing(path), progress=progress)


def as_source(experiment):
    """-> (source, name, is_path) as the extension module wants it."""
    if isinstance(experiment, dict):
        return json.dumps(experiment), "<dict>", False
    if isinstance(experiment, str) and ("\n" in experiment or ": " in experiment):
        return experiment, "<text>", False
    if not isinstance(experiment, (str, os.PathLike)) or not os.fspath(experiment):
        raise ConfigError(f"experiment: {experiment!r} (expected a path, a YAML text or a dict)")
    path = existing(experiment)
    return path, path, True


def as_overrides(overrides, device=None):
    """A dict or a list of key=value -> list of key=value. Values that are not texts are written as JSON, which is YAML.
    A device, a path or a vitro.Device, comes first, so that overrides may change it."""
    if device is not None:
        text = existing(device) if isinstance(device, (str, os.PathLike)) else json.dumps(device.tree)
        return [f"device={text}", *as_overrides(overrides)]
    if overrides is None:
        return []
    if hasattr(overrides, "items"):
        return [f"{key}={value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}" for key, value in
                overrides.items()]
    if isinstance(overrides, str):
        overrides = [overrides]
    for item in overrides:
        key, equals, _ = item.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f'override "{item}" is not of the form key=value (such as memory.budget=6 MiB)')
        _require_utf8(item, "override")
    return list(overrides)


def placed_overrides(values, places):
    """{"a.b": value} that a file has -> overrides with the file's name and line, by places: {"a.b": "exp.yaml:3"}. A text is that text,
    even where YAML would read more into it, as into a prompt with a colon."""
    return [f"@{places[key]}\n{key}={json.dumps(value, ensure_ascii=False)}" for key, value in values.items()]


def _require_utf8(text, what):
    """What comes from a command line holds bytes that are no text as lone surrogates."""
    if any("\ud800" <= char <= "\udfff" for char in text):
        raise ConfigError(f"{what} {text!r} is no UTF-8 text")


def existing(path):
    path = os.fspath(path)
    _require_utf8(path, "path")
    if not os.path.exists(path):
        raise ConfigError(f"{path}: no such file")
    if os.path.isdir(path):
        raise ConfigError(f"{path}: is a folder, not a file")
    return path

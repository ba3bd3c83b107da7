"""What each mechanism of a calibrated device is worth: predictions with one of them taken out, against a recorded run.

A recording (`vitro validate --record`) keeps what the machine did and the device file, and each experiment in a form that needs
no weights: shapes, where the policy's decisions do not depend on what is computed. So it can be judged again anywhere, at any time.
"""
import copy
import json
import shutil
import statistics
from pathlib import Path

from ..base import checkout
from ..base.whole_files import in_place
from ..errors import ConfigError
from ..running import experiments

MECHANISMS = {
    "flash queueing": "reads neither wait for each other nor share a link",
    "dispatch cost": "calls reach a core, and answers the policy, at once",
    "DRAM sharing": "each core reads as fast as if it were alone",
    "policy charge": "deciding costs nothing",
}
METRIC = "decode_tokens_per_s"


def without(device, mechanism):
    """The device file as a tree, without one of MECHANISMS."""
    tree = copy.deepcopy(device)
    clusters = tree["cpu"]["clusters"]

    def put(block, name, value):
        block[name] = {"value": value, "kind": "derived", "source": f"ablation of {mechanism}"}

    if mechanism == "flash queueing":
        put(tree["ufs"], "command_overhead", "0 us")
        put(tree["ufs"], "transfer_overhead", "0 us")
        put(tree["ufs"], "link_bandwidth", "1000 GB/s")
        put(tree["ufs"], "media_bandwidth", "1000 GB/s")
        put(tree["ufs"], "media_time", "0 us")
        tree["ufs"]["completions"] = "each"
    elif mechanism == "dispatch cost":
        for cluster in clusters:
            for name in ("wake_up", "hand_back", "call_overhead"):
                put(cluster, name, "0 us")
        put(tree["cpu"], "barrier_cycles", 0)
        for name in ("interrupt_latency_us", "interrupt_cost_us", "switch_cost_us"):
            tree["cpu"].get("wake_costs", {})[name] = 0
    elif mechanism == "DRAM sharing":
        for block in (tree["dram"], tree["cpu"]):
            put(block, "bandwidth", "10000 GB/s")
        for cluster in clusters:
            put(cluster, "cluster_bandwidth", "10000 GB/s")
    elif mechanism == "policy charge":
        for name in ("plan_step_cycles", "submit_cycles", "cache_lookup_cycles", "cache_update_cycles",
                     "checksum_cycles"):
            put(tree["cpu"], name, 0)
        tree["cpu"].get("wake_costs", {})["page_fault_cycles"] = 0
        put(tree["ufs"], "issue_fixed", "0 us")
    else:
        raise ConfigError(f'"{mechanism}" is not a mechanism (expected one of {", ".join(MECHANISMS)})')
    return tree


def recordable(case):
    """A case's experiment in a form that needs no file but those that ship with the project; None where there is none."""
    try:
        shipped = case.gguf.relative_to(checkout.root())
        return {"model": {"gguf": str(shipped)}, "base": case.base, "set": case.point}
    except ValueError:
        pass
    made = _preset_of(case.gguf)
    if made is None or experiments.follows_activations(experiments.compose(case.experiment, overrides=[*case.overrides, "machine=host"])):
        return None
    return {"model": shape_of(*made), "base": case.base, "set": case.point | {"engine.function": "draw"}}


def _preset_of(gguf):
    from ..model.make import PRESETS
    name, _, form = gguf.name.removeprefix("made-").removesuffix(".gguf").rpartition(".")
    return (name, form) if gguf.name.startswith("made-") and name in PRESETS else None


def shape_of(preset, form):
    """The shapes of a made model, as `model:` of an experiment has them."""
    from ..model.make import PRESETS, VOCAB
    spec = PRESETS[preset]
    return {"format": form, "shape": {
        "family": "llama", "name": f"made-{preset}", "layers": spec.layers, "width": spec.width, "heads": spec.heads,
        "kv_heads": spec.kv_heads, "ffn": spec.ffn, "vocab": VOCAB, "context": spec.context, "norm_eps": 1e-5, "activation": "relu",
        "rope_base": 10000}}


def record(answer, cases, device_file, folder):
    """Keeps a validation: device.yaml and validate.json, each row with its experiment."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(device_file, folder / "device.yaml")
    again = {case.id: recordable(case) for case in cases}
    rows = [{key: value for key, value in row.items() if key not in ("traces", "decisions")} | {"again": again[row["id"]]}
            for row in answer["rows"]]
    with in_place(folder / "validate.json") as unfinished:
        unfinished.write_text(json.dumps(answer | {"rows": rows}, indent=1) + "\n")


def predict(row, device):
    """The recorded experiment on a simulated device. -> its decode speed."""
    experiment = {"experiment": row["id"], "device": device, **copy.deepcopy(row["again"]["base"]), "model": dict(row["again"]["model"])}
    if "gguf" in experiment["model"]:
        experiment["model"]["gguf"] = str(checkout.root() / experiment["model"]["gguf"])
    return experiments.run(experiment, overrides=row["again"]["set"], machine="sim").metric(METRIC)


def judge(rows, device):
    """-> {"all": error, mechanism: error}: mean absolute relative error of decode speed, with everything and without each."""
    usable = [row for row in rows if row.get("again") and row["host"][METRIC]]
    if not usable:
        raise ConfigError("the results have no experiment with a recording (expected one that can be simulated without weights)")

    def error(tree):
        return statistics.fmean(abs(predict(row, tree) / row["host"][METRIC] - 1) for row in usable)

    return {"all": error(device)} | {mechanism: error(without(device, mechanism)) for mechanism in MECHANISMS}

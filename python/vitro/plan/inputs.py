"""What a plan is made from: the profile that was named, the cores of a device, and the memory that FFNs have."""
import hashlib
import json
import os
from pathlib import Path

from ..base import native, quantities
from ..errors import ConfigError
from .balance import Memory
from .settings import BATCHES, CONTEXT, LARGEST_STAGING

MIB = 2 ** 20
RECORDED_TOKENS = 4 * max(BATCHES)  # the least that a recording has to have: each sequence of a batch is a stretch of it


def profile_of(path, tree):
    """-> (drawn profile, recording, what to say of it)."""
    if path is not None:
        path = Path(path)
        if not path.is_file():
            raise ConfigError(f"--profile: {path} is not a file")
        content = path.read_bytes()
        about = {"file": path.name, "fingerprint": hashlib.sha256(content).hexdigest()[:16]}
        if content[:4] == b"VTRC":
            return None, path, {"kind": "recording"} | about
        found = native.call("load_device", str(path))  # any YAML file, as a tree
        found = found.get("profile") or (found.get("engine") or {}).get("profile") if isinstance(found, dict) else None
        if not found:
            raise ConfigError(f"--profile: {path} is not a profile (expected a recording by `vitro profile`, or a file with `profile:` or "
                              "`engine: {profile: ...}`)")
        return found, None, {"kind": "statistics"} | about
    found = tree["model"].get("profile") or (tree.get("engine") or {}).get("profile")
    if not found:
        weights = tree["model"].get("gguf")
        way = (f"`vitro profile {weights} TEXT -o PROFILE` records it on any text of {RECORDED_TOKENS} tokens or more, and `--profile "
               "PROFILE` plans with it" if weights else
               "expected a file with `profile:`, or a model file that has one (docs/guide/traces.md)")
        raise ConfigError(f"--profile: is missing, and the model does not state how often its neurons are active: {way}")
    return found, None, {"kind": "statistics", "file": "the model's own",
                         "fingerprint": hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()[:16]}


def core_classes(device_tree, machine, accelerator):
    """[(class, [names])], fastest first, as both machines number them; a core may stand in for an accelerator."""
    if machine == "host":
        return [("core", [name for name in map("cpu{}".format, range(len(os.sched_getaffinity(0)))) if name != accelerator])]
    classes, first = [], 0
    for cluster in (device_tree.get("cpu") or {}).get("clusters", []):
        count = cluster["cores"]
        count = int(count["value"] if isinstance(count, dict) else count)
        names = [name for name in map("cpu{}".format, range(first, first + count)) if name != accelerator]
        classes.append((cluster.get("class", "core"), names))
        first += count
    return [(name, cores) for name, cores in classes if cores]


DECISIONS = ("cache_lookup", "cache_update", "plan_step", "submit", "barrier")


def decision_costs(device_tree):
    """-> {kind: seconds of the policy's core}, as the device file prices the engine's own decisions."""
    cpu = device_tree["cpu"]
    hertz = quantities.require(_value(cpu["clusters"][0]["clock"]), "frequency", "cpu.clusters.clock")
    cycles = {kind: _value(cpu.get(f"{kind}_cycles")) for kind in DECISIONS}
    return {kind: float(count) / hertz for kind, count in cycles.items() if count is not None}


def core_sets(classes):
    """Without and with the fastest cores, down to each class: the slowest ones compute only beside all others. And with one core of the
    last class left for reading."""
    sets = []
    for end in range(1, len(classes) + 1):
        for begin in range(0, 2 if end > 1 else 1):
            sets.append([core for _, names in classes[begin:end] for core in names])
        if len(classes[end - 1][1]) > 1:
            sets.append([core for _, names in classes[:end] for core in names][:-1])
    if len(classes) == 1 and len(classes[0][1]) > 1:
        sets.append(classes[0][1][1:])
    return sets


def io_cores(classes, cores):
    """Cores that may issue the reads: the first of each class, the last that computes, and one that was left out for it."""
    left = [names[-1] for _, names in classes if names[-1] not in cores and set(names[:-1]) & set(cores)]
    return list(dict.fromkeys([*(names[0] for _, names in classes), cores[-1], *left]))


def _value(part):
    return part.get("value") if isinstance(part, dict) else part


def memory_of(tree, facts, machine, layout):
    memory, model, bundles = tree.get("memory") or {}, facts["model"], facts["layouts"][layout]
    fixed = facts["fixed_bytes"] + bundles["resident"]
    ffn = model["layers"] * max(1, model["experts"]) * bundles["blocks"] * bundles["kept"]
    if memory.get("ffn_in_dram") is not None:
        share = quantities.require(memory["ffn_in_dram"], "ratio", "memory.ffn_in_dram")
        return Memory(share, ffn, fixed, f"memory.ffn_in_dram: {memory['ffn_in_dram']}")
    budget, name = memory.get("budget"), "memory.budget"
    if budget is None and machine == "sim":
        budget, name = _value((tree["device"].get("dram") or {}).get("available")), "what the device says is available"
    if budget is None:
        return Memory(1.0, ffn, fixed, "no limit given")
    kept = tree["engine"]["kv"]
    heads = model["heads" if kept.get("per") == "query_head" else "kv_heads"]
    token = model["layers"] * heads * facts["kv"][kept["format"]]["pair_bytes"]
    # In flash but for these positions: they, two blocks on their way, and one layer of the rest are in DRAM.
    tokens = min(CONTEXT, kept.get("dram_tokens", CONTEXT) + 2 * kept["block_tokens"])
    kv = tokens * token + (CONTEXT - tokens) * token // model["layers"]
    beside = facts["runtime_bytes"] + kv + LARGEST_STAGING
    room = quantities.require(budget, "bytes", name) - fixed - beside
    if room < 0:
        raise ConfigError(f"{name}: {budget} is less than the {fixed / MIB:.0f} MiB of weights that are no FFN, and {beside / MIB:.0f} MiB "
                          "of runtime, KV cache and staging")
    return Memory(min(1.0, room / ffn), ffn, fixed, f"{name}: {budget}, less {fixed / MIB:.0f} MiB of other weights and {beside / MIB:.0f} "
                  "MiB of runtime, KV cache and staging")

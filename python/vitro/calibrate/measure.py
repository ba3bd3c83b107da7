"""`vitro calibrate`: this machine as a device file of the simulator (docs/guide/calibrate.md).

Probes run in processes of their own (calibrate_probes.py), parameters come from them alone (calibrate_fit.py), and the same
probes, asked of the simulated device, show what its models leave over.
"""
import dataclasses
import datetime
import json
import os
import platform
import re
from pathlib import Path

from ..base import process
from ..base.cache import cache_folder
from ..base.whole_files import in_place
from ..errors import ConfigError
from .fit import Fit, Value, covered
from .probes import GIB, MIB, Sample, is_steady, make_file, one_pass, plan

NOT_TIMES = ("storage cpu", "storage pages fresh")  # CPU time, and page faults, which the policy is charged for
STABLE = 0.05  # relative spread over passes that counts as stable


def machine():
    """What this machine says of itself: {"cpu", "kernel", "cores", "private_cache", "memory"}."""
    model = re.search(r"^(?:model name|Hardware|CPU part)\s*:\s*(.+)$", _read("/proc/cpuinfo"), re.MULTILINE)
    total = re.search(r"^MemTotal:\s*([0-9]+) kB", _read("/proc/meminfo"), re.MULTILINE)
    size = re.fullmatch(r"([0-9]+)K\s*", _read("/sys/devices/system/cpu/cpu0/cache/index2/size"))
    return {"cpu": model.group(1).strip() if model else platform.machine(), "kernel": platform.release(),
            "cores": len(os.sched_getaffinity(0)), "private_cache": int(size.group(1)) * 1024 if size else 0,
            "memory": int(total.group(1)) * 1024 if total else 0}


def _read(path):
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def calibrate(*, storage=None, quick=False, progress=None):
    """-> the device file as a tree, `calibration:` included."""
    with Calibration(storage=storage, quick=quick) as calibration:
        passes = 2 if quick else 5
        for turn in range(passes):
            calibration.one_pass(progress and (lambda done, total: progress(turn * total + done, passes * total)))
            if is_steady(calibration.samples, STABLE):
                break
        return calibration.device()


class Calibration:
    """Passes over all probes, whenever the caller has time for one; a context manager, for its file on the storage."""

    def __init__(self, *, storage=None, quick=False):
        self.folder = Path(storage) if storage else cache_folder()
        if not self.folder.is_dir():
            raise ConfigError(f"--storage: {self.folder} is not a folder")
        self.here, self.quick = machine(), quick

    def __enter__(self):
        size = 256 * MIB if self.quick else 2 * GIB
        self.file = make_file(self.folder, size)
        self.probes = plan(quick=self.quick, cores=self.here["cores"], file=self.file, file_bytes=size)
        self.samples, self.answers = {name: Sample() for name in self.probes}, {}
        return self

    def __exit__(self, *_):
        self.file.unlink()

    def one_pass(self, progress=None):
        one_pass(self.probes, self.samples, self.answers, progress and (lambda done: progress(done, len(self.probes))))

    def device(self):
        """What was measured so far, as a device file's tree."""
        fit = Fit(self.samples, counts_of(self.probes, self.answers))
        device = device_tree(fit, self.here, self.quick, self.samples, is_steady(self.samples, STABLE),
                             self.answers["storage random 4096 x1"]["path"])
        device["calibration"]["residuals"] = residuals(device, self.probes, self.samples, self.quick)
        return device


def counts_of(probes, answers):
    """What each probe's answer says of its work, and whether it timed each call by itself."""
    return {name: answers[name] | ({"each_call": True} if probes[name][1].get("each_call") else {}) for name in answers}


def device_tree(fit, here, quick, samples, steady, path):
    sizes = "384 MiB" if quick else "1 GiB"
    dram = fit.dram(here["cores"], sizes)
    misses = fit.misses()
    shared = fit.cores() | {
        "clock": fit.value(fit.clock / 1e9, "GHz", "a chain of dependent additions", "clock"),
        "core_bandwidth": dram.pop("core_bandwidth"), "cluster_bandwidth": dram["bandwidth"],
        "cache": Value(here["private_cache"] / 1024, "KiB", "second-level cache of a core, as the system tells it", kind="spec"),
        "miss_time": dataclasses.replace(misses, value={"private_cache": here["private_cache"] / MIB} | misses.value)}
    values = {}
    spreads = {}

    def block(prefix, entries):
        for name, value in entries.items():
            if isinstance(value, Value) and value.kind in ("measured", "derived", "fitted"):
                spreads[f"{prefix}.{name}"] = round(value.spread, 4)
        return {name: leaf(value) if isinstance(value, Value) else value for name, value in entries.items()}

    values["name"] = "host"
    values["description"] = f"{here['cpu']}, {here['cores']} cores, as measured"
    values["dram"] = {"model": "lpddr", "fidelity": "flow"} | block("dram", dram | {
        "capacity": Value(here["memory"] / 2 ** 20, "MiB", "/proc/meminfo", kind="spec"),
        "available": Value(0.9 * here["memory"] / 2 ** 20, "MiB", "what this system leaves to one application", kind="assumed")})
    clusters = [{"class": "big", "cores": 1} | block("cpu.big", shared | fit.hand_off(other=False))]
    if here["cores"] > 1:
        clusters.append({"class": "others", "cores": here["cores"] - 1} | block("cpu.others", shared | fit.hand_off(other=True)))
    values["cpu"] = {"model": "core", "fidelity": "flow"} | block("cpu", {"bandwidth": dram["bandwidth"]} | fit.policy()) | {
        "clusters": clusters}
    values["ufs"] = {"model": "ufs", "fidelity": "flow"} | block("ufs", fit.storage() | _storage_shape())
    values["calibration"] = {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"), "cpu": here["cpu"], "kernel": here["kernel"],
        "storage_path": path, "quick": quick, "passes": len(next(iter(samples.values())).values), "stable": steady, "stable_within": STABLE,
        "skipped": ["memory beyond 384 MiB (a last-level cache may hold a part of it), strides, ranges, buffered reads, two issuers"]
        if quick else [], "covers": covered(samples), "spread": spreads,
        "measured": {name: {"value": sample.median, "spread": round(sample.spread, 4)} for name, sample in samples.items()}}
    return values


def _storage_shape():
    """What a device behind a kernel's block layer does not show."""
    hidden = "hidden behind the block layer"
    return {"issue_cycles": Value(0, "", "all of it is in issue_fixed", kind="derived"),
            "issuer_switch": Value(0, "us", "one thread issues for all cores of this engine's host machine", kind="derived"),
            "queue_depth": Value(64, "", "transfers that the engine's host machine has in flight at most", kind="derived"),
            "queues": Value(1, "", "one ring for all cores of this engine's host machine", kind="derived"),
            "max_transfer": Value(1, "MiB", "transfers of the engine's host machine (docs/design/machine-host.md)", kind="derived"),
            "command_overhead": Value(0, "us", "part of transfer_overhead: one command is handled and moved after another", kind="derived"),
            "controller_cores": Value(1, "", "without work", kind="derived"),
            "map_cache_reach": Value(100000, "GB", hidden, kind="assumed"), "map_cache_miss": Value(0, "us", hidden, kind="assumed"),
            "map_fetches": Value(1, "", hidden, kind="assumed"), "media_time": Value(0, "us", "part of latency_random", kind="derived"),
            "media_channels": Value(64, "", "a lane for each read in flight", kind="assumed"),
            "media_dies": Value(64, "", "a lane for each read in flight", kind="assumed"),
            "media_unit": Value(1, "MiB", "a lane serves one transfer", kind="assumed"),
            "write_bandwidth": Value(1, "GB/s", "not measured: nothing here writes", kind="assumed"),
            "slc_buffer": Value(0, "GB", hidden, kind="assumed")}


def leaf(value):
    """As a device file has it."""
    said = f"{value.source}; spread {value.spread:.1%}" if value.kind == "measured" else value.source
    if isinstance(value.value, dict):
        return {"kind": value.kind, "source": said} | {key: _digits(number) for key, number in value.value.items()}
    number = _digits(value.value)
    return {"value": f"{number} {value.unit}" if value.unit else number, "kind": value.kind, "source": said}


def _digits(number):
    """Five significant digits, without an exponent that a unit string could not have."""
    return int(number) if number == int(number) else float(f"{number:.5g}") if abs(number) >= 1e-4 else float(f"{number:.9f}")


def residuals(device, probes, samples, quick):
    """The same probes asked of the simulated device: {name: simulated / measured - 1}, where a machine can be either."""
    tree = {key: value for key, value in device.items() if key != "calibration"}
    found = {}
    for name, (kind, args, reading) in probes.items():
        if kind not in ("kernel", "hand_off", "interrupt", "storage") or args.get("buffered") or "flush_rows" in args or name in NOT_TIMES:
            continue
        if quick and not _in_short_list(name):
            continue
        asked = {key: value for key, value in args.items() if key != "file"} | {"machine": "sim", "device": tree}
        asked["repetitions"] = 1
        asked.pop("fresh_pages", None)
        if kind == "kernel":
            asked.setdefault("units", ["cpu0"])
        else:
            asked.pop("repetitions")
        if kind == "storage":
            asked["units"] = ["cpu0"]
            asked["reads"] = min(asked["reads"], 400)
        found[name] = round(reading(process.call("probe", kind, json.dumps(asked))) / samples[name].median - 1, 4)
    return found


def _in_short_list(name):
    return name.startswith(("stream ", "hand_off ", "storage random")) or name.endswith(("x1", "x8"))


def write(device, path):
    """The tree as YAML: a line for each value."""
    import yaml

    class Line(dict):
        pass

    class Dumper(yaml.SafeDumper):
        pass

    Dumper.add_representer(Line, lambda dumper, line: dumper.represent_mapping("tag:yaml.org,2002:map", dict(line), flow_style=True))

    def lined(node):
        if isinstance(node, list):
            return [lined(item) for item in node]
        if not isinstance(node, dict):
            return node
        if "kind" in node or not any(isinstance(value, (dict, list)) for value in node.values()) and "model" not in node:
            return Line(node)
        return {key: lined(value) for key, value in node.items()}

    calibration = device["calibration"]
    head = (f"# {device['description']}. Written by `vitro calibrate` on {calibration['date']}: every value of kind `measured` is from\n"
            "# that run (its probes are under `calibration:`), and holds for this machine in the state that it was in.\n")
    text = yaml.dump(lined(device), Dumper=Dumper, sort_keys=False, width=4000, allow_unicode=True)
    with in_place(Path(path)) as unfinished:
        unfinished.write_text(head + text)

"""Microbenchmarks of a device: which ones an answer of map.yaml wants, their runs, and what they come to."""
import json

from ..execute.executor import execute_all
from ..execute.task import Task


def by_leaf(key, answer):
    """-> {row id: answer with one measure}: an answer may name a measure for each number of its figure."""
    if not isinstance(answer.get("measure"), dict):
        return {key: answer}
    return {f"{key}.{leaf}": {**answer, "measure": measure} for leaf, measure in answer["measure"].items()}


def wanted(answer):
    """-> [(probe, args, measure)]: none, one, or one and what it is held against."""
    parts = [answer] if "probe" in answer else []
    return [(part["probe"], part["args"], answer["measure"]) for part in parts + ([answer["against"]] if "against" in answer else [])]


def run_probes(requests, progress=None, *, on="local", workers=None, files=None):
    """requests: [(device, probe, args)]. -> {key: {"measures", "assumed_parameters", "event_hash"}}; equal requests run once.
    files: that the devices name, {path: SHA-256}."""
    unique = {request_key(*request): request for request in requests}
    tasks = [Task("characterize_probe", (device, probe, json.dumps(args)), files=files or {}) for device, probe, args in unique.values()]
    return dict(zip(unique, execute_all(tasks, progress=progress, on=on, workers=workers)))


def measured(answer, result):
    """The answer's number in SI units, {leaf: number} when its measure is a map; None when no probe gives it.
    result(probe, args) -> what the probe said."""
    if isinstance(answer.get("measure"), dict):
        return {leaf: measured({**answer, "measure": measure}, result) for leaf, measure in answer["measure"].items()}
    values = [result(probe, args)["measures"][measure] for probe, args, measure in wanted(answer)]
    if not values:
        return None
    if len(values) == 1:
        return values[0]
    first, second = values
    return {"ratio": first / second, "loss": 1 - first / second}[answer["as"]]


def parameter_of(device, dotted):
    """The node of a dotted name; a list of clusters is entered by their class. None when it is not there."""
    node = device
    for part in dotted.split("."):
        if isinstance(node, list):
            node = next((item for item in node if item.get("class") == part), None)
        else:
            node = node.get(part) if isinstance(node, dict) else None
    return node


def request_key(*request):
    """What run_probes answers under: (device, probe, args) as one text."""
    return json.dumps(request, sort_keys=True)


def locate(device, name):
    """Parameters of a core class are called cpu.big.x and stand in cpu.clusters. None: a default, which no file states."""
    found = parameter_of(device, name)
    if found is None and name.startswith("cpu."):
        found = parameter_of(device, "cpu.clusters." + name.removeprefix("cpu."))
    return found

"""How far measured rows move when an assumed parameter of the device does: what the answers hang on."""
import copy
import json

from .characterize import measured, parameter_of, run_probes, wanted

STEP = 0.2


def sensitivities(device, path, answers, values, results, progress=None):
    """-> [{"id", "parameter", "low", "high"}]: relative change of the row at -20 % and +20 %, rows that do not move left out."""
    cases = []
    for key, answer in answers.items():
        if values[key] is None:
            continue
        read = {name for probe, args, _ in wanted(answer) for name in results[_key(path, probe, args)]["assumed_parameters"]}
        cases += [(key, name) for name in sorted(read) if not name.startswith("power.") and locate(device, name) is not None]
    varied = {(name, factor): scaled(device, name, factor) for _, name in cases for factor in (1 - STEP, 1 + STEP)}
    requests = [(text, probe, args) for key, name in cases for factor in (1 - STEP, 1 + STEP)
                for text in [varied[name, factor]] for probe, args, _ in wanted(answers[key])]
    answered = run_probes(requests, progress)
    rows = []
    for key, name in cases:
        low, high = (measured(answers[key], lambda probe, args, text=varied[name, factor]: answered[_key(text, probe, args)]) / values[key] - 1
                     for factor in (1 - STEP, 1 + STEP))
        if abs(low) > 1e-6 or abs(high) > 1e-6:
            rows.append({"id": key, "parameter": name, "low": low, "high": high})
    return sorted(rows, key=lambda row: -max(abs(row["low"]), abs(row["high"])))


def locate(device, name):
    """Parameters of a core class are called cpu.big.x and stand in cpu.clusters. None: a default, which no file states."""
    found = parameter_of(device, name)
    if found is None and name.startswith("cpu."):
        found = parameter_of(device, "cpu.clusters." + name.removeprefix("cpu."))
    return found


def scaled(device, name, factor):
    """The device as JSON text with one parameter, or one table of them, multiplied."""
    tree = copy.deepcopy(device)
    parent, _, leaf = name.rpartition(".")
    holder = locate(tree, parent)
    holder[leaf] = _times(holder[leaf], factor)
    return json.dumps(_numbers(tree))


def _times(value, factor):
    if isinstance(value, dict):
        return {key: inner if key in ("kind", "source") else _times(inner, factor) for key, inner in value.items()}
    number, _, unit = str(value).partition(" ")
    return f"{float(number) * factor} {unit}" if unit else float(number) * factor


def _numbers(node):
    """YAML 1.1 takes 16.5e9 for a text; in JSON it has to be a number."""
    if isinstance(node, dict):
        return {key: _numbers(value) for key, value in node.items()}
    if isinstance(node, list):
        return [_numbers(value) for value in node]
    if isinstance(node, str):
        try:
            return float(node)
        except ValueError:
            return node
    return node


def _key(*request):
    return json.dumps(request, sort_keys=True)

"""How far measured rows move when an assumed parameter of the device does: what the answers hang on."""
import copy
import json
import re
from collections.abc import Mapping
from typing import Any

from .probes import by_leaf, locate, measured, request_key, run_probes, wanted

FACTORS = (0.8, 1.2)
VISIBLE = 0.0005  # smaller changes are left out
ENERGY = ("joules", "watts")  # measures that parameters of `power:` can move


def sensitivities(device, path, answers, results, progress=None, **where):
    """-> ([{"id", "parameter", "low", "high"}], [parameter]): relative change of the row at -20 % and +20 %, less than VISIBLE left
    out; and the assumed parameters that probes read and no row follows. where: as run_probes() takes it."""
    answers = {row: one for key, answer in answers.items() for row, one in by_leaf(key, answer).items()}
    values = {row: measured(one, lambda probe, args: results[request_key(path, probe, args)]) for row, one in answers.items()}
    cases = []
    for key, answer in answers.items():
        if values[key] is not None:
            read = {name for probe, args, _ in wanted(answer)
                    for name in results[request_key(path, probe, args)]["assumed_parameters"]}
            cases += [(key, name) for name in sorted(read) if _may_follow(answer, name) and locate(device, name) is not None]
    varied = {(name, factor): scaled(device, {name: factor}) for _, name in cases for factor in FACTORS}
    answered = run_probes([(varied[name, factor], probe, args) for key, name in cases for factor in FACTORS
                           for probe, args, _ in wanted(answers[key])], progress, **where)

    def change(key, name, factor):
        device_text = varied[name, factor]
        moved = measured(answers[key], lambda probe, args: answered[request_key(device_text, probe, args)])
        return moved / values[key] - 1

    rows = [dict(zip(("id", "parameter", "low", "high"), (key, name, *(change(key, name, factor) for factor in FACTORS))))
            for key, name in cases]
    moved = sorted((row for row in rows if _largest(row) > VISIBLE), key=lambda row: -_largest(row))
    return moved, sorted({name for _, name in cases} - {row["parameter"] for row in moved})


def _may_follow(answer, name):
    measures = answer["measure"].values() if isinstance(answer["measure"], dict) else [answer["measure"]]
    return not name.startswith("power.") or any(measure.startswith(ENERGY) for measure in measures)


def _largest(row):
    return max(abs(row["low"]), abs(row["high"]))


def scaled(device: dict[str, Any], factors: Mapping[str, float]) -> str:
    """The device as JSON text with parameters, or tables of them, multiplied: {name: factor}.

    Two ends hold. A share in % stays at most 100 %. A bare whole number may be a count, and there is nothing below one core or one channel:
    it stays at least 1. Such a parameter moves less than asked, or one way only. Bare fractions move both ways.
    """
    tree = copy.deepcopy(device)
    for name, factor in factors.items():
        parent, _, leaf = name.rpartition(".")
        holder = locate(tree, parent)
        holder[leaf] = _times(holder[leaf], factor)
    return json.dumps(_numbers(tree))


def _times(value, factor):
    if isinstance(value, dict):
        return {key: inner if key in ("kind", "source") else _times(inner, factor) for key, inner in value.items()}
    text, unit = re.fullmatch(r"([-+.\de]+)(.*)", str(value)).groups()
    number = float(text)
    moved = number * factor
    if unit.strip() == "%" and number <= 100:
        moved = min(moved, 100.0)
    if not unit and number.is_integer() and number >= 1:
        moved = max(moved, 1.0)
    return f"{moved}{unit}" if unit else moved


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

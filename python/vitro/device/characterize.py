"""`vitro characterize`: a device's microbenchmarks, asked through simulated requests, beside the published values.

figures.yaml holds what was published, map.yaml which probe answers it. A probe runs once however many rows want it, each in
a process of its own.
"""
from pathlib import Path

from ..base import checkout, fingerprints, inputs, native, terminal
from ..base.figures import BOUND_WITHIN, figure_text, is_range, leaves_of, relative_error
from ..base.trees import load_yaml
from ..errors import ConfigError
from ..execute import places
from .probes import measured, parameter_of, request_key, run_probes, wanted

PARTS = ("dram", "ufs", "cpu", "npu", "ane", "gpu", "power")
CLASSES = ("simulated", "bound", "contradictory", "given", "elsewhere", "not_modelled")
KINDS = ("microbench", "hw_spec")
WITHIN = 0.03         # of a published value

# Published units in the SI units that probes answer in.
_UNITS = {"GB/s": 1e9, "MB/s": 1e6, "GFLOPS": 1e9, "TFLOPS": 1e12, "tokens/s": 1, "K IOPS": 1e3, "us": 1e-6, "ms": 1e-3, "s": 1,
          "x": 1, "%": 0.01, "CPI / count": 1, "instruction packets": 1, "GB": 1e9, "W": 1, "mJ": 1e-3, "ms/token": 1e-3,
          "mJ/token": 1e-3}


def load_figures(folder=None):
    """-> ({id: entry of a hardware figure}, {id: how it is answered})."""
    folder = Path(folder or checkout.root() / "experiments" / "papers")
    tree = load_yaml(folder / "figures.yaml")
    figures = {entry["id"]: entry for entry in [*tree["entries"], *tree["reserved"]] if entry["kind"] in KINDS}
    answers = load_yaml(folder / "map.yaml")["entries"]
    for key in [key for key, answer in answers.items() if "leaves" in answer]:
        _split(key, figures, answers)
    return figures, answers


def _split(key, figures, answers):
    """Replaces a map of figures, each with an answer of its own, by one entry per leaf: `leaves: {a.b: {probe: ..., unit: ms}}`.
    `index` picks a number out of a leaf that is a tuple, `of` names the leaf when it is not the answer's own name."""
    figure, answer = figures.pop(key), answers.pop(key)
    common = {name: value for name, value in answer.items() if name != "leaves"}
    for leaf, own in answer["leaves"].items():
        value = parameter_of(figure["value"], own.get("of", leaf))
        value = value[own["index"]] if "index" in own else value
        figures[f"{key}.{leaf}"] = {**figure, "id": f"{key}.{leaf}", "value": value, "unit": own.get("unit", figure["unit"])}
        answers[f"{key}.{leaf}"] = {**common, **{name: value for name, value in own.items() if name not in ("of", "index", "unit")}}


def characterize(device, *, only=None, sensitivity=False, on="local", workers=None, progress=None):
    """-> {"schema", "device", "rows", "given"} and, if asked for, "sensitivity": how far each measured row moves when an
    assumed parameter of the device does, and "without_effect": those that move none. `only`: one of PARTS. on: as in sweep()."""
    places.check(on, workers)
    if only is not None and only not in PARTS:
        raise ConfigError(f'--only: "{only}" is not known (expected one of: {", ".join(PARTS)})')
    path = Path(inputs.existing(device))
    tree = native.call("load_device", str(path))  # with what it includes; paths of plug-ins absolute
    name = tree.get("name") if isinstance(tree, dict) else None
    if not isinstance(name, str):
        raise ConfigError(f"{path}: name: is missing (expected the name of a device)")
    figures, answers = load_figures()
    mine = {key: answer for key, answer in answers.items() if answer["device"] == name}
    for key, answer in own_answers(tree, {answer["part"] for answer in mine.values() if "probe" in answer}).items():
        mine[key], figures[key] = answer, {"id": key, "value": None, "unit": answer["unit"], "source": ""}
    mine = {key: answer for key, answer in mine.items() if only in (None, answer["part"])}
    asked, files = travelling(path, tree, on)
    where = {"on": on, "workers": workers, "files": files}
    results = run_probes([(asked, probe, args) for answer in mine.values() for probe, args, _ in wanted(answer)], progress, **where)
    found = {key: measured(answer, lambda probe, args: results[request_key(asked, probe, args)]) for key, answer in mine.items()}
    answer = {"schema": "vitro.characterize/1", "device": name,
              "rows": [row for key in mine if mine[key]["class"] != "given" for row in rows_of(figures[key], mine[key], found[key])],
              "given": [row for key in mine if mine[key]["class"] == "given" for row in given_rows(figures[key], mine[key], tree)]}
    if sensitivity:
        from .sensitivity import sensitivities
        answer["sensitivity"], answer["without_effect"] = sensitivities(tree, asked, mine, results, progress, **where)
    return answer


def travelling(path, tree, on):
    """-> (a device as probes get it, the files that it names): the path here, where messages then name lines; elsewhere what is in it."""
    from .sensitivity import scaled
    if on == "local":
        return str(path), {}
    return scaled(tree, {}), fingerprints.files_read({"device": tree})


def own_answers(device, published):
    """Microbenchmarks for the parts of a device that no published figure speaks of (`own:` of map.yaml)."""
    classes = [cluster["class"] for cluster in (device.get("cpu") or {}).get("clusters") or []]

    def filled(value):
        if isinstance(value, list):
            return [filled(item) for item in value]
        return {"$cores": classes, "$fastest": classes[0] if classes else ""}.get(value, value) if isinstance(value, str) else value

    own = load_yaml(checkout.root() / "experiments" / "papers" / "map.yaml")["own"]
    return {key: {**answer, "class": "unpublished", "args": {name: filled(value) for name, value in answer["args"].items()}}
            for key, answer in own.items() if answer["part"] not in published and ("needs" not in answer or device.get(answer["needs"]))}


def rows_of(figure, answer, value):
    """One row per numeric leaf; a leaf of a map is named `id.leaf`."""
    if figure.get("status") == "reserved":
        leaves = [(f".{leaf}", None) for leaf in figure.get("leaves", [])] or [("", None)]
        return [_row(figure, answer, suffix, None, value, "reserved") for suffix, _ in leaves]
    return [_row(figure, answer, suffix, expected, value.get(suffix[1:]) if isinstance(value, dict) else value)
            for suffix, expected in leaves_of(figure["value"])]


def _row(figure, answer, suffix, expected, value, status=None):
    simulated = None if value is None else value / answer.get("si", _UNITS.get(figure["unit"]))
    relation = "range" if is_range(expected) else answer.get("relation", "=")
    error = None if None in (expected, simulated) else relative_error(expected, simulated)
    why = "; ".join(filter(None, [f"read as: {answer['read_as']}" if "read_as" in answer else None, answer.get("why")]))
    if answer["class"] == "elsewhere":
        why = f"an outcome of a policy: {why}"
    return {"id": figure["id"] + suffix, "expected": expected, "simulated": simulated, "unit": figure["unit"], "relative_error": error,
            "source": figure["source"], "status": status or _status(answer["class"], relation, expected, error), "relation": relation,
            "why": why, "class": answer["class"], "part": answer["part"]}


def _status(kind, relation, expected, error):
    if kind in ("contradictory", "unpublished"):
        return kind
    if kind == "elsewhere" or expected is None or error is None:
        return "not modelled"
    holds = {"=": abs(error) <= WITHIN, "range": error == 0, "<": error <= BOUND_WITHIN, ">": error >= -BOUND_WITHIN}
    return "ok" if holds[relation] else "off"


def given_rows(figure, answer, device):
    """Published values that the device file states: no success of the model, but the file must not differ."""
    names = answer.get("parameter")
    if names is None:
        return [{"id": figure["id"], "why": answer["why"]}]
    if not isinstance(names, dict):
        return [_given(figure["id"], figure["value"], figure["unit"], names, device)]
    return [_given(f"{figure['id']}.{leaf}", figure["value"][leaf], figure["unit"], name, device) for leaf, name in names.items()]


def _given(name, expected, unit, parameter, device):
    stated = parameter_of(device, parameter)
    stated = stated.get("value") if isinstance(stated, dict) else stated
    number, _, own_unit = str(stated).partition(" ")
    low, high = expected if is_range(expected) else (expected, expected)
    agrees = stated is not None and low <= float(number) <= high and own_unit in ("", unit)
    return {"id": name, "parameter": parameter, "expected": expected, "unit": unit, "stated": stated, "agrees": agrees}


def show(answer):
    """Tables for reading: what was measured, then what was not."""
    if not answer["rows"]:
        print(f"{answer['device']}: no row: nothing published speaks of such a part of it, and no microbenchmark of our own does")
        return
    shown = [row for row in answer["rows"] if row["simulated"] is not None]
    cells = [(row["id"], figure_text(row), terminal.number(row["simulated"], 4), row["unit"],
              "–" if row["relative_error"] is None else f"{row['relative_error']:+.1%}", row["status"], row["why"]) for row in shown]
    counts = {status: sum(row["status"] == status for row in answer["rows"])
              for status in ("ok", "off", "contradictory", "not modelled", "unpublished")}
    terminal.table(f"{answer['device']}: published and simulated", ["id", ">published", ">simulated", "unit", ">error", "status", "why"],
                   cells, caption=", ".join(f"{count} {status}" for status, count in counts.items() if count))
    missing = [(row["id"], row["status"], row["why"]) for row in answer["rows"] if row["simulated"] is None]
    if missing:
        print()
        terminal.table("no simulated value", ["id", "status", "why"], missing)
    for row in answer["given"]:
        if not row.get("agrees", True):
            print(f"note: {row['parameter']} is {row['stated']}, published ({row['id']}): {row['expected']} {row['unit']}")
    if "sensitivity" in answer:
        print()
        terminal.table("assumed parameters at -20 % and +20 %", ["id", "parameter", ">-20 %", ">+20 %"],
                       [(row["id"], row["parameter"], f"{row['low']:+.1%}", f"{row['high']:+.1%}") for row in answer["sensitivity"]])
        if answer["without_effect"]:
            print("no row follows by 0.05 %: " + ", ".join(answer["without_effect"]))

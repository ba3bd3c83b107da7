"""The map of a reproduction, experiments/papers/<paper>/map.yaml: which runs and which formula answer a published result.

docs/guide/reproduce.md says what the file may hold. Here it is read, checked and made into one Question per row.
"""
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..base import checkout
from ..base.figures import leaves_of
from ..base.trees import load_yaml
from ..errors import ConfigError
from .formula import parse, runs_of

KINDS = ("system_result", "ablation")  # each needs an answer; workload statistics that are outcomes may have one
POINTS = 5  # how far a share in percent may be off; an entry may ask for less
FOLDS = ("mean", "min", "max", "straight_to", "range")
READINGS = ("published", "fair")  # compared systems as their papers had them; like for like: the same kernels, cores and reads in flight
_PATHS = ("device", "model", "engine", "workload")
_KEYS = {"runs", "formula", "each", "fold", "relation", "points", "read_as", "why", "diagnosis", "not_modelled", "holds", "consistent",
         "beside"}


@dataclass(frozen=True)
class Question:
    """One row: for each item of `each` a set of named runs; the formula over each, then the fold over all."""
    id: str
    entry: dict  # of figures.yaml; of a check its own
    expected: Any = None
    status: str | None = None  # reserved, contradictory; None: to be judged
    formula: Any = None
    runs: tuple = ()  # of (item, {name: words}), one per item of `each`
    answer: dict = field(default_factory=dict)
    beside: tuple = ()  # of (what is shown beside the row, formula)

    def diagnosed(self):
        """The same row with the runs that its diagnosis puts in the place of some, and its formula."""
        told = self.answer["diagnosis"]
        text = told.get("formula")
        if isinstance(text, dict):  # of a figure of several numbers, as the entry's own
            text = text.get(self.id.removeprefix(f"{self.entry['id']}."))
        formula = parse(str(text), self.id) if text is not None else self.formula
        return replace(self, formula=formula, runs=tuple((item, named | _filled(told.get("runs", {}), item)) for item, named in self.runs))


@dataclass(frozen=True)
class Map:
    path: Path
    experiment: Path
    parts: dict
    questions: tuple
    checks: tuple
    reading: str = READINGS[0]

    def overrides(self, words):
        """A run's words -> the overrides that they stand for; later words win."""
        merged = {}
        for part in self._parts_of(words):
            self._merge(merged, part)
            self._merge(merged, part.get(self.reading, {}))
        return merged

    def _merge(self, merged, part):
        for key, value in sorted(part.items(), key=lambda item: "." in item[0]):  # a whole before what lies in it
            if key in ("plan", *READINGS):
                continue
            for name in [name for name in merged if name == key or name.startswith(f"{key}.")]:
                del merged[name]
            merged[key] = str((self.path.parent / value).resolve()) if key in _PATHS and str(value).endswith(".yaml") else value

    def plan(self, words):
        """Options of the planner for a run that is to have a plan, else None."""
        return next((part["plan"] for part in reversed(self._parts_of(words)) if "plan" in part), None)

    def _parts_of(self, words):
        given = words.split()
        for word in given:
            if word not in self.parts:
                raise ConfigError(f'{self.path}: "{words}": "{word}" is not one of the parts ({", ".join(self.parts)})')
        return [self.parts[key] for key in [*given, *(key for key in self.parts if " " in key and set(key.split()) <= set(given))]]


def papers():
    return sorted(path.parent.name for path in (checkout.root() / "experiments" / "papers").glob("*/map.yaml"))


def load(paper, folder=None, reading=READINGS[0]):
    """-> Map. folder: of map.yaml, instead of the paper's own. reading: one of READINGS; what is said for one counts there alone."""
    if reading not in READINGS:
        raise ConfigError(f'--reading: there is no "{reading}" (expected one of: {", ".join(READINGS)})')
    if folder is None:
        if paper not in papers():
            raise ConfigError(f'--paper: there is no "{paper}" (there is {", ".join(papers())})')
        folder = checkout.root() / "experiments" / "papers" / paper
    path = Path(folder) / "map.yaml"
    tree = load_yaml(path)
    figures = load_yaml(path.parent / tree["figures"])
    published = {entry["id"]: entry for entry in [*figures["entries"], *figures["reserved"]]
                 if entry["id"].startswith(f"{paper}_") and (entry["kind"] in KINDS or entry.get("use") in ("check", "calibrate"))}
    answers = tree["entries"]
    for missing in [key for key, entry in published.items() if key not in answers and entry["kind"] in KINDS]:
        raise ConfigError(f"{path}: entries.{missing}: is missing (expected an answer to every result of the paper)")
    for unknown in [key for key in answers if key not in published]:
        raise ConfigError(f"{path}: entries.{unknown}: is not a result of figures.yaml")
    questions = tuple(question for key, answer in answers.items() for question in _questions(published[key], _read(answer, reading), path))
    checks = tuple(_question(key, {"id": key}, None, None, answer, answer.get("holds"), path)
                   for key, answer in ((key, _read(answer, reading)) for key, answer in tree.get("checks", {}).items()))
    # A map that only says why nothing answers has neither.
    experiment = (path.parent / tree["experiment"]).resolve() if "experiment" in tree else None
    made = Map(path, experiment, tree.get("parts", {}), questions, checks, reading)
    for question in (*questions, *checks):
        for variant in (question, question.diagnosed()) if "diagnosis" in question.answer else (question,):
            for _, runs in variant.runs:
                for words in runs.values():
                    made.overrides(words)
    return made


def _read(answer, reading):
    """An answer in one reading: values that are maps of readings are taken from there, or are absent in the others."""
    def split(value):
        return isinstance(value, dict) and value and set(value) <= set(READINGS)
    return {key: value[reading] if split(value) else value for key, value in answer.items() if not split(value) or reading in value}


def _filled(runs, item):
    return {key: words.replace("{}", str(item)) for key, words in runs.items()}


def _questions(figure, answer, path):
    """One per numeric leaf of the figure."""
    reserved = figure.get("status") == "reserved"
    if reserved:
        leaves = [(f".{leaf}", None) for leaf in figure.get("leaves", [])] or [("", None)]
    else:
        leaves = leaves_of(figure["value"])
    status = "reserved" if reserved else "contradictory" if figure.get("verdict") == "contradictory" else None
    for suffix, expected in leaves:
        formula = answer.get("formula")
        text = formula.get(suffix[1:]) if isinstance(formula, dict) else formula
        yield _question(figure["id"] + suffix, figure, expected, status, answer, text, path)


def _question(name, entry, expected, status, answer, text, path):
    where = f"{path}: {name}"
    for key in answer.keys() - _KEYS:
        raise ConfigError(f"{where}: {key}: is not known (expected one of: {', '.join(sorted(_KEYS))})")
    if text is None:
        if "not_modelled" not in answer:
            raise ConfigError(f"{where}: has neither a formula nor a reason (not_modelled)")
        return Question(name, entry, expected, status, answer=answer)
    if "points" in answer and not (entry["unit"] == "%" and isinstance(answer["points"], int | float) and 0 < answer["points"] <= POINTS):
        raise ConfigError(f"{where}: points: {answer['points']} (expected a number up to {POINTS}, of a result in percent)")
    if answer.get("fold", "mean") not in FOLDS or ("fold" in answer) != ("each" in answer):
        raise ConfigError(f"{where}: fold: goes with each, and is one of {', '.join(FOLDS)}")
    for run in sorted(runs_of(str(text)) - answer.get("runs", {}).keys()):
        raise ConfigError(f'{where}: "{text}": there is no run "{run}"')
    for run in sorted(answer.get("diagnosis", {}).get("runs", {}).keys() - answer.get("runs", {}).keys()):
        raise ConfigError(f'{where}: diagnosis.runs: there is no run "{run}" to replace')
    if "consistent" in answer and not (isinstance(answer["consistent"], str) and answer["consistent"]):
        raise ConfigError(f"{where}: consistent: {answer['consistent']!r} (expected a text: "
                          "which input is this value, or why it can not differ)")
    if "consistent" in answer and "diagnosis" in answer:
        raise ConfigError(f"{where}: has both consistent and a diagnosis (expected one: what is consistent is not judged)")
    if "diagnosis" in answer and (not answer["diagnosis"].keys() & {"runs", "set", "formula"} or "shows" not in answer["diagnosis"]):
        raise ConfigError(f"{where}: diagnosis: is incomplete (expected one of runs, set or formula, and shows)")
    for run in sorted(runs_of(str(answer.get("diagnosis", {}).get("formula", 1))) - answer.get("runs", {}).keys()):
        raise ConfigError(f'{where}: diagnosis.formula: there is no run "{run}"')
    beside = tuple((told, parse(str(formula), where)) for told, formula in answer.get("beside", {}).items())
    asked = {run for formula in answer.get("beside", {}).values() for run in runs_of(str(formula))}
    for run in sorted(asked - answer.get("runs", {}).keys()):
        raise ConfigError(f'{where}: beside: there is no run "{run}"')
    runs = tuple((item, _filled(answer.get("runs", {}), item)) for item in answer.get("each", [""]))
    return Question(name, entry, expected, status, parse(str(text), where), runs, answer, beside)

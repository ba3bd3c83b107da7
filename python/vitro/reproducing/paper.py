"""`vitro reproduce`: a paper's system results, asked of the simulated phone, beside the published values.

Each distinct run is simulated once, however many rows want it, in a process of its own.
"""
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ..base import fingerprints, no_code, quantities
from ..base.cores import usable_cores
from ..base.figures import relative_error
from ..base.inputs import Path, Progress
from ..base.trees import flatten
from ..errors import ConfigError
from ..execute import places
from ..execute.executor import execute
from ..execute.task import Outcome, Task
from ..running import experiments
from . import judge, paper_map
from .formula import Missing
from .kept import Kept
from .paper_map import Map, Question
from .plans import Plans

_Request = tuple[str, str, str]                        # words, end of the band, further overrides as JSON
_Asked = tuple[str, str, dict[str, Any]]               # the same before
_Resolved = tuple[str | None, dict[str, Any] | None, str | None]  # digest, overrides, error
_ENDS = {"low": -1, "high": 1}  # of the band of an assumed parameter


def reproduce(paper: str = "pi2", *, reading: str = paper_map.READINGS[0], only: str | Sequence[str] = (), jobs: int | None = None,
              diagnose: bool = False, keep: Path | None = None, folder: Path | None = None, on: str = "local",
              progress: Progress | None = None) -> dict[str, Any]:
    """-> {"schema": "vitro.reproduce/1", "paper", "reading", "rows", "checks", "summary"}; docs/guide/reproduce.md names the fields.

    reading: "published": compared systems have the properties that their papers give or imply; "fair": the same kernels, cores and reads
    in flight for all.
    only: an id, of a row, a whole figure or a check, or several; rows come in that order.
    diagnose: also executes the diagnosis of each row that is off.
    on: where runs are executed, as in sweep(). keep: a folder for results, from which equal runs of the same program are taken.
    """
    places.check(on, jobs, option="--jobs")  # before any plan is made
    mapped = paper_map.load(paper, folder, reading)
    wanted = [only] if isinstance(only, str) else list(only)
    for name in wanted:
        if not _chosen(mapped.questions, [name]) and not _chosen(mapped.checks, [name]):
            raise ConfigError(f'--only: "{name}" is neither a result nor a check of {paper}')
    questions, checks = ((_chosen(part, wanted) if wanted else part) for part in (mapped.questions, mapped.checks))
    runs = Runs(mapped, jobs, progress, Kept(keep), on)
    asked: list[_Asked] = [(words, end, {}) for question in questions for words in words_of(question) for end in ("", *_ENDS)]
    runs.execute(asked + [(words, "", {}) for check in checks for words in words_of(check)])
    rows = [_row(question, runs) for question in questions]
    if diagnose:
        _diagnose(questions, rows, runs)
    judged = [_check(check, runs) for check in checks]
    return {"schema": "vitro.reproduce/1", "paper": paper, "reading": reading, "rows": rows, "checks": judged,
            "summary": judge.summary(rows, judged), "runs": runs.about()}


def words_of(question: Question) -> list[str]:
    return [words for _, runs in question.runs for words in runs.values()]


def _chosen(questions: Sequence[Question], names: list[str]) -> list[Question]:
    """In the order of the names, each once."""
    found = [question for name in names for question in questions if question.id == name or question.id.startswith(f"{name}.")]
    return list({question.id: question for question in found}.values())


class Runs:
    """Results by (words, end of the band, further overrides); equal experiments run once."""

    def __init__(self, mapped: Map, jobs: int | None, progress: Progress | None, kept: Kept = Kept(None), on: str = "local") -> None:
        self.mapped, self.jobs, self.progress, self.kept, self.on = mapped, jobs, progress, kept, on
        self.requests = dict[_Request, str | None]()  # -> digest
        self.results, self.names = dict[str, dict[str, Any]](), dict[str, str]()  # by digest; words
        self.plans = Plans(kept)

    def execute(self, requests: list[_Asked]) -> None:
        todo = {}
        for (words, end, more), (digest, overrides, error) in zip(requests, self._resolve_all(requests)):
            self.requests[_key(words, end, more)] = digest
            if digest is None or digest in self.results:
                continue
            self.names.setdefault(digest, " ".join(filter(None, [words, end])))
            if error:
                self.results[digest] = {"error": error}
            elif (known := self.kept.tree(digest)) is not None:
                self.results[digest] = known
            else:
                todo[digest] = overrides
        if self.progress:
            self.progress(0, len(todo))
        tasks = (self._task(digest, overrides) for digest, overrides in todo.items())
        with places.opened(self.on, workers=self.jobs) as place:
            for done, (task, outcome) in enumerate(execute(tasks, place), 1):
                self.results[task.about] = found = _answer(outcome)
                if not found.get("failed"):
                    self.kept.put(f"{task.about}.json", json.dumps(found))
                if self.progress:
                    self.progress(done, len(todo))

    def _task(self, digest: str, overrides: dict[str, Any] | None) -> Task:
        composed = experiments.compose(self.mapped.experiment, overrides=overrides)
        files = fingerprints.files_read(composed.resolved) if self.on != "local" else {}
        return experiments.task_of(composed.tree, alone=composed.resolved["machine"] == "host", files=files, about=digest)

    def _resolve_all(self, requests: list[_Asked]) -> list[_Resolved]:
        """Plans take a while to make, so runs that need one wait beside each other."""
        with ThreadPoolExecutor(self.jobs or usable_cores()) as pool:
            return list(pool.map(lambda request: self._resolve(*request), requests))

    def _resolve(self, words: str, end: str, more: dict[str, Any]) -> _Resolved:
        """-> (digest, overrides, error). No digest: this run has no such end, its model has no band."""
        overrides = self.mapped.overrides(words) | more
        options = overrides.pop("plan", self.mapped.plan(words))
        try:
            composed = experiments.compose(self.mapped.experiment, overrides=overrides)
            resolved = composed.resolved
            if options is not None:
                overrides["engine.plan"] = self.plans.path_for(composed.given, options)
                resolved = experiments.resolve(self.mapped.experiment, overrides=overrides)
            if end:
                moved = band(resolved["model"], end)
                if not moved:
                    return None, None, None
                overrides |= moved
                resolved = experiments.resolve(self.mapped.experiment, overrides=overrides)
        except ConfigError as failure:
            if no_code.is_refusal(failure):
                raise
            return _digest([words, end, more]), None, str(failure)
        return _digest(resolved), overrides, None

    def result(self, words: str, end: str = "", more: dict[str, Any] | None = None) -> dict[str, Any]:
        digest = self.requests[_key(words, end, more or {})]
        return self.result(words, "", more) if digest is None else self.results[digest]

    def has_band(self, words: str) -> bool:
        return any(self.requests.get(_key(words, end, {})) is not None for end in _ENDS)

    def about(self) -> list[dict[str, Any]]:
        """What ran, for readers of the JSON: name, hash of the events, seconds."""
        return [{"run": name, **{key: self.results[digest].get(key) for key in ("event_hash", "wall_s", "error")},
                 "failed": self.results[digest].get("failed", False)} for digest, name in self.names.items()]


def _answer(outcome: Outcome) -> dict[str, Any]:
    """Of a run: its result, or why there is none."""
    if isinstance(outcome.error, ConfigError):  # such as a memory budget that is too small: nothing to measure
        return {"error": str(outcome.error)}
    if outcome.error is not None:
        return {"error": str(outcome.error), "failed": True}
    return experiments.completed(outcome.value, outcome.seconds)


def band(model: dict[str, Any], end: str) -> dict[str, str]:
    """Overrides that move a model's assumed parameters to one end of their bands: those with `band:` in its `provenance:`."""
    moved = {}
    for name, origin in (model.get("provenance") or {}).items():
        if "band" not in origin:
            continue
        value = model["profile"]
        for part in name.split("."):
            value = value[part]
        parts = re.fullmatch(r"\s*([0-9.]+)\s*(%?)\s*", str(value))
        if not parts:
            raise ConfigError(f"model.profile.{name}: {value} has no band (expected a number or a share, such as 12%)")
        number, unit = parts.groups()
        share = quantities.require(origin["band"], "ratio", f"model.provenance.{name}.band")
        moved[f"model.profile.{name}"] = f"{float(number) * (1 + _ENDS[end] * share):.6g}{unit}"
    return moved


def _digest(tree: Any) -> str:
    """Of a resolved experiment. A plan's keys are in their places, so where its file lies says nothing."""
    if isinstance(tree, dict):
        tree = tree | {"engine": {key: value for key, value in tree["engine"].items() if key != "plan"}}
    return hashlib.sha256(json.dumps(tree, sort_keys=True).encode()).hexdigest()[:16]


def _key(words: str, end: str, more: dict[str, Any]) -> _Request:
    return words, end, json.dumps(more, sort_keys=True)


def _value(question: Question, runs: Runs, end: str = "",
           more: dict[str, Any] | None = None) -> tuple[float | None, str, bool]:
    """-> (number or None, reason, whether every run did what it was asked)."""
    values, reason, whole = _values(question, runs, end, more)
    return None if values is None else _fold(question.answer.get("fold"), values), reason, whole


def _values(question: Question, runs: Runs, end: str = "",
            more: dict[str, Any] | None = None) -> tuple[list[tuple[Any, float]] | None, str, bool]:
    """-> ([(item of `each`, number)] or None, and as _value())."""
    values, short = [], set()
    for item, named in question.runs:
        def metric(name: str, key: str) -> float:
            words = named[name]
            result = runs.result(words, end, more)
            if "error" in result:
                raise Missing(f"{words}: {result['error']}")
            if (shortfall := _shortfall(result)) is not None:
                short.add(shortfall)
            found = flatten({**result, **result["metrics"], **_of_steps(result)}).get(key)
            if not isinstance(found, (int, float)):
                raise Missing(f"{words}: {key} is not measured")
            return found
        try:
            values.append((item, question.formula(metric)))
        except Missing as missing:
            return None, str(missing), False
    return values, "; ".join(sorted(short)), not short


def _of_steps(result: dict[str, Any]) -> dict[str, Any]:
    """Of the share of accesses of the weight cache that missed in each decode step: percentiles, by nearest rank."""
    steps = result.get("steps") or {}
    shares = sorted(1 - hits / accesses for hits, accesses in zip(steps.get("hits", ()), steps.get("accesses", ())) if accesses)
    return {"step_miss_rate": {f"p{p}": shares[-(-p * len(shares) // 100) - 1] for p in (50, 90, 99)}} if shares else {}


def _shortfall(result: dict[str, Any]) -> str | None:
    """A setting that an engine reads but does not follow yet must not pass for a mechanism."""
    engine = (result.get("experiment_resolved") or {}).get("engine") or {}
    if (engine.get("placement") or {}).get("splits") and not (result.get("counts") or {}).get("launches"):
        return "engine.placement.unit launched nothing on the accelerator, so this is the cores alone"
    return None


def _fold(fold: str | None, values: list[tuple[Any, Any]]) -> Any:
    numbers = [value for _, value in values]
    if fold is None:
        return numbers[0]
    if fold == "straight_to":
        return straight_to([(float(re.findall(r"[0-9.]+", str(item))[0]), value) for item, value in values])
    return {"mean": lambda: sum(numbers) / len(numbers), "min": lambda: min(numbers), "max": lambda: max(numbers),
            "range": lambda: numbers[0]}[fold]()


def straight_to(points: Sequence[tuple[float, float]], within: float = judge.WITHIN) -> float:
    """The largest x such that no point up to it is further than `within` from the straight line through them (least squares); 0 when
    not even the first three lie on one, since two always do."""
    for count in range(len(points), 2, -1):
        xs, ys = zip(*points[:count])
        middle_x, middle_y = sum(xs) / count, sum(ys) / count
        slope = sum((x - middle_x) * (y - middle_y) for x, y in points[:count]) / sum((x - middle_x) ** 2 for x in xs)
        if all(abs(middle_y + slope * (x - middle_x) - y) <= within * y for x, y in points[:count]):
            return xs[-1]
    return 0.0


def _row(question: Question, runs: Runs) -> dict[str, Any]:
    simulated, reason, whole = (None, question.answer.get("not_modelled"), False) if question.formula is None else _value(question, runs)
    status = judge.status_of(question, simulated, whole)
    row = {"id": question.id, "expected": question.expected, "simulated": simulated, "unit": question.entry["unit"],
           "relative_error": None if None in (question.expected, simulated) else relative_error(question.expected, simulated),
           "source": question.entry["source"], "status": status, "relation": judge.relation_of(question), "kind": question.entry["kind"],
           "diagnosed": "diagnosis" in question.answer}
    if simulated is not None and question.answer.get("fold") == "range":
        row |= _ends(question, runs)
    elif simulated is not None and any(runs.has_band(words) for words in words_of(question)):
        ends = [value for value in (_value(question, runs, end)[0] for end in _ENDS) if value is not None]
        row |= {"low": min([*ends, simulated]), "high": max([*ends, simulated])}
    if question.beside:
        row["beside"] = {told: _ends(replace(question, formula=formula), runs) for told, formula in question.beside}
    told = {"off": question.answer.get("diagnosis", {}).get("shows"), "consistent": question.answer.get("consistent")}.get(status)
    why = [f"read as: {question.answer['read_as']}" if "read_as" in question.answer else None, question.answer.get("why"), reason, told]
    return row | {"why": "; ".join(filter(None, why)), "runs": sorted(set(words_of(question)))}


def _ends(question: Question, runs: Runs) -> dict[str, float]:
    """Smallest and largest value over the items of `each`; empty where one is not measured."""
    values = [value for _, value in _values(question, runs)[0] or ()]
    return {"low": min(values), "high": max(values)} if values else {}


def _diagnose(questions: Sequence[Question], rows: list[dict[str, Any]], runs: Runs) -> None:
    """Runs again, with what the diagnosis changes, whatever is off and has one."""
    pairs = [(question.diagnosed(), row) for question, row in zip(questions, rows)
             if row["status"] == "off" and "diagnosis" in question.answer]
    runs.execute([(words, "", question.answer["diagnosis"].get("set", {})) for question, _ in pairs for words in words_of(question)])
    for question, row in pairs:
        changed = question.answer["diagnosis"]
        simulated, reason, _ = _value(question, runs, more=changed.get("set", {}))
        row["diagnosis"] = {**changed, "simulated": simulated, "why": reason,
                            "ok": simulated is not None and judge.holds(question, simulated)}


def _check(check: Question, runs: Runs) -> dict[str, Any]:
    value, reason, whole = _value(check, runs)
    holds = bool(value) if value is not None and whole else None
    return {"id": check.id, "holds": holds, "statement": check.answer["holds"], "runs": sorted(set(words_of(check))),
            "why": "; ".join(filter(None, [check.answer.get("why"), reason]))}

"""`vitro search`: a search for the best points of a space by several metrics, with Optuna.

    sweep:
      design: search
      trials: 64
      objectives: {decode_tokens_per_s: maximize, energy_j_per_token: minimize}
      constraints: {peak_memory_bytes: {max: 4.0e9}}     # optional: a point that breaks one is not on the front
      batch: 8                                           # points that are chosen together; 8 by default
      seed: 1
      over: {...}                                        # as in designs.py
      prune: {share: 25%, keep: 50%}                     # optional: short runs first, the best go on (halving.py)
      compare: {planner: {engine.plan: plan.yaml}}       # optional: points to be shown against the front (compared.py)

Points are proposed by a tree-structured Parzen estimator for several objectives (Ozaki et al. 2020) in batches. A batch is chosen from the
results of those before it alone, and told in its own order. So the same search has the same points whatever finishes first, and one that is
resumed goes the same way again, taking from the store what has run.
"""
import json
import math
import warnings
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..base import inputs, outputs
from ..base.dominance import front
from ..base.inputs import Experiment, Overrides, Path, Progress
from ..base.origins import with_origins
from ..base.whole_files import in_place
from ..errors import ConfigError
from ..execute.task import Limits
from ..policy import bring
from ..running import experiments
from . import compared, halving
from .designs import Axis, Range, axes
from .jobs import Job, Listed, run_points
from .parts import utc
from .sweep import table_of
from .table import write_table

if TYPE_CHECKING:
    import pandas

_KEYS = {"design", "trials", "objectives", "constraints", "batch", "seed", "over", "compare", "prune"}
_WAYS = ("maximize", "minimize")


@dataclass(frozen=True)
class Plan:
    """`sweep:` of a search, read. bounds: (metric, the sign of its excess, its limit): feasible where sign * (value - limit) <= 0."""

    trials: int
    batch: int
    seed: int
    objectives: dict[str, str]
    bounds: list[tuple[str, int, float]]
    space: dict[str, Axis]
    compare: dict[str, dict[str, Any]]
    prune: halving.Prune | None = None


def read(tree: Any) -> Plan:
    """Raises ConfigError, with the steps to what is wrong."""
    if not isinstance(tree, dict) or tree.get("design") != "search":
        raise ConfigError("sweep: is no search (expected {design: search, trials: 64, objectives: {...}, over: {...}})", ("sweep",))
    for key in tree:
        if key not in _KEYS:
            raise ConfigError(f"sweep.{key}: unknown key of a search (expected one of {', '.join(sorted(_KEYS))})", ("sweep", key))
    numbers: dict[str, Any] = {key: tree.get(key, default) for key, default in (("trials", None), ("batch", 8), ("seed", 1))}
    for key, number in numbers.items():
        if not isinstance(number, int) or isinstance(number, bool) or number < (key != "seed"):
            raise ConfigError(f"sweep.{key}: {number!r} (expected a whole number{' above 0' if key != 'seed' else ''})", ("sweep", key))
    objectives = tree.get("objectives")
    if not isinstance(objectives, dict) or not objectives or not all(way in _WAYS for way in objectives.values()):
        raise ConfigError(f"sweep.objectives: {objectives!r} (expected metrics with maximize or minimize, such as "
                          "{decode_tokens_per_s: maximize})", ("sweep", "objectives"))
    constraints, bounds = tree.get("constraints") or {}, []
    if not isinstance(constraints, dict):
        raise ConfigError(f"sweep.constraints: {constraints!r} (expected metrics with their bounds, such as {{ttft_ms: {{max: 500}}}})",
                          ("sweep", "constraints"))
    for metric, limits in constraints.items():
        if not isinstance(limits, dict) or not limits or not limits.keys() <= {"min", "max"}:
            raise ConfigError(f"sweep.constraints.{metric}: {limits!r} (expected {{max: number}} or {{min: number}})",
                              ("sweep", "constraints", metric))
        for side, limit in limits.items():
            try:
                number = math.nan if isinstance(limit, bool) else float(limit)
            except (TypeError, ValueError):
                number = math.nan
            if not math.isfinite(number):
                raise ConfigError(f"sweep.constraints.{metric}.{side}: {limit!r} is not a number (expected a finite one)",
                                  ("sweep", "constraints", metric, side))
            bounds.append((metric, 1 if side == "max" else -1, number))
    return Plan(**numbers, objectives=objectives, bounds=bounds, space=axes(tree.get("over"), ("sweep", "over")),
                compare=compared.read(tree.get("compare")), prune=halving.read(tree.get("prune")))


def search(experiment: Experiment, *, out: Path, workers: int | None = None, on: str = "local", resume: bool = False,
           trials: int | None = None, limits: Limits = Limits(), overrides: Overrides = None, machine: str | None = None,
           policies: Sequence[type] = (), progress: Progress | None = None) -> "pandas.DataFrame":
    """-> one row per trial, as sweep() gives them, with `feasible` and `front`: not dominated by any feasible trial. Also front.csv, and
    compared.csv of what `compare:` names: attrs["compared"] of the table has a map for each. With `prune:` a column `pruned`: such a row
    has the metrics of the short run that ended it, and is neither feasible nor on the front; attrs["tokens"] is how many tokens were
    generated for the trials, and how many without pruning.

    resume: takes from the store of `out` what has run. trials: over the file's own number; a longer search begins as the shorter one did.
    policies: as in run().
    """
    fixed = inputs.as_overrides(overrides) + bring.overrides(policies)
    whole = experiments.compose(experiment, overrides=fixed)
    with with_origins(lambda: whole.origins):
        plan = read(whole.resolved.get("sweep"))
    total, jobs, began = trials or plan.trials, list[Job](), utc()
    study, ended, started = _Study(plan), 0, False
    origins = {key: whole.origins.at("sweep", "over", key) for key in plan.space}

    def run(points: Listed, *, short: bool = False) -> list[Job]:
        nonlocal ended, started
        told = progress and (lambda done, _: progress(ended + (0 if short else done), total + len(plan.compare)))
        batch = run_points(experiment, points, out=out, overrides=fixed, workers=workers, on=on, resume=resume,
                           since=began if started else None, machine=machine, policies=policies, limits=limits, may_be_refused=True,
                           progress=told)
        ended, started = ended + (0 if short else len(batch)), True
        return batch

    beside = run(compared.listed(plan.compare, whole.origins)) if plan.compare else []
    placed = {halving.TOKENS: whole.origins.at("sweep", "prune")} | origins
    rungs = _Rungs(plan, whole.resolved["workload"], placed, run) if plan.prune else None
    while len(jobs) < total:
        before = len(jobs)
        points = study.ask(min(plan.batch, total - before))
        batch = rungs.run(points) if rungs else run([(None, point, origins) for point in points])
        for index, job in enumerate(batch):
            job.index = before + index
        jobs += batch
        ended = len(beside) + len(jobs)
        with with_origins(lambda: whole.origins):
            _require(jobs, plan, ended=len(jobs) >= total)
            study.tell([_metrics(job, plan) for job in batch])
    return _finish(jobs, beside, plan, whole.resolved, out, rungs)


class _Rungs:
    """Batches with short runs before. pruned: the jobs whose last run was one. tokens: generated, by key of the store; without: by point,
    had all run whole."""

    def __init__(self, plan: Plan, workload: dict[str, Any], origins: dict[str, str], run: Callable[..., list[Job]]) -> None:
        assert plan.prune
        self.plan, self.workload, self.origins, self.execute, self.shares = plan, workload, origins, run, plan.prune.shares
        self.rungs = [halving.Rung(plan.prune.keep, list(plan.objectives.values())) for _ in plan.prune.shares]
        self.pruned, self.tokens, self.without = set[Job](), dict[Any, int](), dict[Any, int]()

    def run(self, points: list[dict[str, Any]]) -> list[Job]:
        """-> a job for each point: of its whole run, or of the short one that ended it."""
        jobs, left = dict[int, Job](), list(range(len(points)))
        whole = [halving.tokens_of(point, self.workload) for point in points]
        texts = [json.dumps(point, sort_keys=True) for point in points]
        self.without |= {(text, texts[:index].count(text)): tokens for index, (text, tokens) in enumerate(zip(texts, whole))}
        for share, rung in zip(self.shares, self.rungs):
            counts = {index: halving.shortened(whole[index], share, self.workload.get("warmup_tokens") or 0) for index in left}
            short: Listed = [(None, points[index] | {halving.TOKENS: counts[index]}, self.origins) for index in left]
            ran = self.execute(short, short=True) if left else []
            self._count(ran, [counts[index] for index in left])
            found = [_metrics(job, self.plan) for job in ran]
            on = rung.go_on([None if metrics is None else
                             ([metrics[name] for name in self.plan.objectives], max([0.0, *excess(metrics, self.plan)]))
                             for metrics in found])
            for index, job, goes in zip(list(left), ran, on):
                if not goes:
                    job.point, jobs[index] = points[index], job
                    if job.metrics is not None:  # else it failed
                        self.pruned.add(job)
                    left.remove(index)
        last = self.execute([(None, points[index], self.origins) for index in left]) if left else []
        self._count(last, [whole[index] for index in left])
        for index, job in zip(left, last):
            jobs[index] = job
        return [jobs[index] for index in range(len(points))]

    def _count(self, jobs: list[Job], tokens: list[int]) -> None:
        self.tokens |= {job.key: count for job, count in zip(jobs, tokens) if job.identity}


class _Study:
    """Optuna, asked and told in batches."""

    def __init__(self, plan: Plan) -> None:
        try:
            import optuna
        except ImportError as error:
            raise ConfigError(f"vitro search: needs the package optuna, which can not be imported ({error})") from None
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.optuna, self.plan, self.open = optuna, plan, list[Any]()
        self.distributions = {key: self._distribution(axis) for key, axis in plan.space.items()}
        with warnings.catch_warnings():  # of what is called experimental there
            warnings.simplefilter("ignore")
            sampler = optuna.samplers.TPESampler(seed=plan.seed, multivariate=True, constant_liar=True,
                                                 constraints_func=(lambda trial: trial.user_attrs["excess"]) if plan.bounds else None)
            self.study = optuna.create_study(directions=list[Any](plan.objectives.values()), sampler=sampler)

    def _distribution(self, axis: Axis) -> Any:
        kinds = self.optuna.distributions
        if not isinstance(axis, Range):
            return kinds.CategoricalDistribution(list(range(len(axis))))
        if axis.whole:
            return kinds.IntDistribution(int(axis.low), int(axis.high), log=axis.log)
        return kinds.FloatDistribution(axis.low, axis.high, log=axis.log)

    def ask(self, count: int) -> list[dict[str, Any]]:
        """-> points"""
        self.open = [self.study.ask(self.distributions) for _ in range(count)]
        return [{key: axis.written(float(trial.params[key])) if isinstance(axis, Range) else axis[trial.params[key]]
                 for key, axis in self.plan.space.items()} for trial in self.open]

    def tell(self, results: list[dict[str, float] | None]) -> None:
        """results: {metric: value} of each point that was asked for, None for one that failed or lacks a metric."""
        for trial, metrics in zip(self.open, results):
            if metrics is None:
                trial.set_user_attr("excess", [1e300] * len(self.plan.bounds))
                self.study.tell(trial, state=self.optuna.trial.TrialState.FAIL)
                continue
            trial.set_user_attr("excess", excess(metrics, self.plan))
            self.study.tell(trial, [metrics[name] for name in self.plan.objectives])


def excess(metrics: dict[str, float], plan: Plan) -> list[float]:
    """By how much each bound is broken; 0 or less where it holds."""
    return [sign * (metrics[metric] - limit) for metric, sign, limit in plan.bounds]


def _named(plan: Plan) -> dict[str, tuple[str, str, str]]:
    """-> the metrics that the search looks at, with the steps to where each is named."""
    return {**{name: ("sweep", "constraints", name) for name, _, _ in plan.bounds},
            **{name: ("sweep", "objectives", name) for name in plan.objectives}}


def _require(jobs: list[Job], plan: Plan, *, ended: bool) -> None:
    """Raises ConfigError for a metric that no result has: at once where none has even the name of it, and else at the end, since one that
    does not apply to some points may apply to later ones."""
    results = [job.metrics for job in jobs if job.metrics is not None]
    for name, steps in _named(plan).items():
        values = [metrics.get(name) for metrics in results]
        of_another_kind = any(value is not None and (isinstance(value, bool) or not isinstance(value, (int, float))) for value in values)
        known = any(map(_is_number, values)) or not ended and any(_has(metrics, name) for metrics in results)
        if of_another_kind or (results and not known):
            raise ConfigError(f"{'.'.join(steps[:2])}: {name!r} is no number in the result of any point (expected a metric that the runs "
                              "have)", steps)


def _has(metrics: dict[str, Any], name: str) -> bool:
    """Also where it does not apply, or where what it is a part of does not."""
    return any(name == key or name.startswith(f"{key}.") for key in metrics)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _metrics(job: Job, plan: Plan) -> dict[str, float] | None:
    """What the search looks at, of a point. None where it failed, or where one of the metrics does not apply to it."""
    if job.metrics is None:
        return None
    found: dict[str, Any] = {name: job.metrics.get(name) for name in _named(plan)}
    return {name: float(value) for name, value in found.items()} if all(map(_is_number, found.values())) else None


def _judged(jobs: list[Job], plan: Plan, pruned: Collection[Job] = ()) -> list[tuple[list[float] | None, bool]]:
    """-> [(its objectives or None, whether it holds all constraints)]"""
    found = [None if job in pruned else _metrics(job, plan) for job in jobs]
    return [(None, False) if metrics is None else
            ([metrics[name] for name in plan.objectives], all(over <= 0 for over in excess(metrics, plan))) for metrics in found]


def _finish(jobs: list[Job], beside: list[Job], plan: Plan, base: dict[str, Any], out: Path,
            rungs: _Rungs | None) -> "pandas.DataFrame":
    from .report import write_search
    judged = _judged(jobs, plan, rungs.pruned if rungs else ())
    frame = table_of(jobs, stored=True)
    if rungs:
        frame["pruned"] = [job in rungs.pruned for job in jobs]
    frame["feasible"] = [holds for _, holds in judged]
    frame["front"] = front([values if holds else None for values, holds in judged], list(plan.objectives.values()))
    best = [values for (values, _), on_it in zip(judged, frame["front"]) if on_it and values is not None]
    shown = _judged(beside, plan)
    rows = compared.records(table_of(beside, stored=True), [values for values, _ in shown], [holds for _, holds in shown], best,
                            plan.objectives)
    frame.attrs |= {"objectives": dict(plan.objectives), "keys": list(plan.space), "compared": rows}  # results.parquet keeps them
    if rungs:
        frame.attrs["tokens"] = {"generated": sum(rungs.tokens.values()), "without": sum(rungs.without.values())}
    folder = outputs.folder(out, "out")
    write_table(frame, folder)
    with in_place(folder / "front.csv") as path:
        frame[frame["front"]].to_csv(path, index=False)
    compared.write(rows, folder)
    write_search(frame, (result and result.data for job in [*jobs, *beside] for result in [job.result]), base, folder)
    return frame

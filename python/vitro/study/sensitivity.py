"""`vitro sensitivity`: which assumed parameters of the device decide an experiment's metrics.

    vitro sensitivity experiments/offload.yaml --out out/which-matter

Every assumed parameter that a run of the experiment reads is taken to be off by at most `band` both ways, all of them at once.
`morris` (Morris 1991, with the mean of absolute effects of Campolongo et al. 2007) moves one at a time along random paths through that
space: paths x (parameters + 1) runs tell which ones matter. `sobol` (Saltelli et al. 2010) shares the variance out:
samples x (parameters + 2) runs, worth it for the few that Morris's method found. Both are SALib's.
"""
import fnmatch
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..base import inputs, outputs
from ..base.inputs import Experiment, Overrides, Path, Progress
from ..base.whole_files import in_place
from ..device.probes import locate
from ..device.sensitivity import scaled
from ..errors import ConfigError, RunError
from ..execute.task import Limits
from ..running import experiments
from ..running.result import Result
from .jobs import Job, run_points
from .table import as_records

if TYPE_CHECKING:
    import numpy
    import pandas

METHODS = ("morris", "sobol")
METRICS = ("decode_tokens_per_s", "ttft_ms", "token_latency_ms.p99", "energy_j_per_token")
VISIBLE = 0.0005  # smaller effects are left out of the table
READING = {"morris": "effect: mean absolute change of the metric over a parameter's whole band, plus or minus interval (95 %); "
                     "interaction: how much that change differs with the other parameters, or along the band",
           "sobol": "share: of the metric's variance, by the parameter alone; total: with all interactions; interval: 95 %, plus or minus; "
                    "spread: standard deviation of the metric over its mean"}
_LEVELS = 4  # of a Morris path: steps of two thirds of the range
_HERE = "vitro sensitivity"


@dataclass(frozen=True)
class Space:
    """Parameters that are moved together, each by a factor from 1 - band to 1 + band. fixed: those that no file states, which stay."""

    device: dict[str, Any]
    names: list[str]
    fixed: list[str]
    band: float

    def problem(self) -> dict[str, Any]:
        return {"num_vars": len(self.names), "names": self.names, "bounds": [[1 - self.band, 1 + self.band]] * len(self.names)}

    def point(self, factors: Sequence[float]) -> dict[str, Any]:
        return {"device": json.loads(scaled(self.device, dict(zip(self.names, factors))))}


def sensitivity(experiment: Experiment, *, out: Path | None = None, method: str = "morris", samples: int | None = None,
                band: float = 0.2, parameters: Sequence[str] = (), metrics: Sequence[str] = (), workers: int | None = None,
                on: str = "local", resume: bool = False, limits: Limits = Limits(), overrides: Overrides = None, seed: int = 1,
                policies: Sequence[type] = (), progress: Progress | None = None) -> "pandas.DataFrame":
    """-> one row per metric and parameter, the largest effect of each metric first. Effects are shares of the metric's value as the
    device file has it, for a parameter that moves through its whole band.

    samples: paths of `morris` (4 by default), base samples of `sobol` (32, a power of two). parameters: patterns such as "ufs.*" that
    names must match. metrics: METRICS that the runs have by default. policies: as in run(). Columns of morris: effect
    (mean of absolute effects), interval (95 %, plus or minus), interaction (spread of the effects: it depends on other parameters, or is
    not linear). Of sobol: share (of the
    variance, alone), share_interval, total (with all interactions), total_interval, spread (standard deviation over the metric's mean).
    attrs: `values` of the device as it is, `ends` (least and most of all runs), `runs`, `fixed` (parameters that no file states).
    """
    if method not in METHODS:
        raise ConfigError(f"{_HERE}: --method {method} (expected {' or '.join(METHODS)})")
    if not 0 < band < 1:
        raise ConfigError(f"{_HERE}: --band {band:g} (expected more than 0 and less than 1)")
    count = samples if samples is not None else 4 if method == "morris" else 32
    if count < 2 or (method == "sobol" and count & (count - 1)):
        raise ConfigError(f"{_HERE}: --samples {count} (expected {'2 or more' if method == 'morris' else 'a power of two above 1'})")
    fixed = inputs.as_overrides(overrides)
    base = experiments.run(experiment, overrides=[*fixed, "sweep=null"], policies=policies)
    settled = _settled(base.data["experiment_resolved"])
    space = space_of(base.data, parameters, band)
    wanted = _metrics(base, metrics, method)
    drawn = _drawn(method, space, count, seed)
    jobs = _run(settled, [space.point(row) for row in drawn], out, workers, on, resume, limits, policies, progress)
    rows, ends = [], {}
    for name in wanted:
        values = [_value(job, name) for job in jobs]
        ends[name] = [min(values), max(values)]
        rows += [{"metric": name} | row for row in _effects(method, space, drawn, values, base.metric(name), seed)]
    import pandas
    frame = pandas.DataFrame(rows)
    frame.attrs |= {"runs": len(jobs), "fixed": space.fixed, "method": method, "band": band,
                    "values": {name: base.metric(name) for name in wanted}, "ends": ends}
    if out is not None:
        with in_place(outputs.folder(out, "out") / "sensitivity.csv") as path:
            frame.to_csv(path, index=False)
    return frame


def space_of(result: Mapping[str, Any], patterns: Sequence[str], band: float) -> Space:
    """The assumed parameters that a run has read. Raises ConfigError where there is none, or none of a pattern."""
    resolved = result["experiment_resolved"]
    if result["machine"] != "sim":
        raise ConfigError(f"machine: {result['machine']} (expected sim: a real machine has no assumed parameters)")
    names = result["assumed_parameters"]
    for pattern in patterns:
        if not fnmatch.filter(names, pattern):
            raise ConfigError(f"{_HERE}: --parameter {pattern} matches none of {len(names)} assumed parameters (such as {names[0]})"
                              if names else f"{_HERE}: this run reads no assumed parameter")
    chosen = [name for name in names if not patterns or any(fnmatch.fnmatch(name, pattern) for pattern in patterns)]
    stated = [name for name in chosen if locate(resolved["device"], name) is not None]
    if not stated:
        raise ConfigError(f"{_HERE}: the device file states none of {', '.join(chosen) or 'the parameters'} (nothing to move)")
    return Space(resolved["device"], stated, [name for name in chosen if name not in stated], band)


def _metrics(base: Result, wanted: Sequence[str], method: str) -> list[str]:
    for name in wanted:
        value = base.metric(name)
        if not isinstance(value, (int, float)):
            raise ConfigError(f"{_HERE}: --metric {name} is no number of this run (such as {METRICS[0]})")
        if method == "morris" and not value:
            raise ConfigError(f"{_HERE}: --metric {name} is 0 with the device as it is, and effects of morris are shares of that (expected "
                              "another metric, or --method sobol)")
    return list(wanted) or [name for name in METRICS if isinstance(base.metric(name), (int, float)) and base.metric(name)]


def _settled(resolved: Mapping[str, Any]) -> dict[str, Any]:
    """What a plan has chosen stays as it is: it was made for the device as its file has it, and is that of no other one."""
    engine = {key: value for key, value in (resolved.get("engine") or {}).items() if key != "plan"}
    return {key: value for key, value in resolved.items() if key not in ("sweep", "expect")} | {"engine": engine}


def _run(experiment: Experiment, points: list[dict[str, Any]], out: Path | None, workers: int | None, on: str, resume: bool, limits: Limits,
         policies: Sequence[type], progress: Progress | None) -> list[Job]:
    """Every point runs once: paths cross, and so do samples."""
    keys = [hashlib.sha256(json.dumps(point, sort_keys=True).encode()).digest() for point in points]
    first = dict(reversed([(key, index) for index, key in enumerate(keys)]))
    unique = sorted(first.values())
    origins = {"device": experiments.compose(experiment).origins.at("device")}
    jobs = run_points(experiment, [(None, points[index], origins) for index in unique], out=out, overrides=[], workers=workers, on=on,
                      resume=resume, limits=limits, policies=policies, progress=progress)
    for job in jobs:
        if job.metrics is None:
            raise RunError(f"a run with other parameters failed: {job.error}")
    at = dict(zip(unique, jobs))
    return [at[first[key]] for key in keys]


def _value(job: Job, name: str) -> float:
    value = job.metrics and job.metrics.get(name)
    if not isinstance(value, (int, float)) or not math.isfinite(value):
        raise RunError(f"{name} is no number where other parameters hold")
    return float(value)


def _drawn(method: str, space: Space, count: int, seed: int) -> "numpy.ndarray":
    """-> rows of factors, one column per parameter."""
    try:
        import SALib as _
    except ImportError as error:
        raise ConfigError(f"{_HERE}: needs the package SALib, which can not be imported ({error}; expected `pip install "
                          "'vitro[sensitivity]'`)") from None
    if method == "morris":
        from SALib.sample import morris
        return morris.sample(space.problem(), count, num_levels=_LEVELS, seed=seed)
    from SALib.sample import sobol
    return sobol.sample(space.problem(), count, calc_second_order=False, seed=seed)


def _effects(method: str, space: Space, drawn: "numpy.ndarray", values: list[float], value: float, seed: int) -> list[dict[str, Any]]:
    import numpy
    ran = numpy.array(values)
    if method == "morris":
        from SALib.analyze import morris
        found = morris.analyze(space.problem(), drawn, ran, num_levels=_LEVELS, seed=seed)
        scale = abs(value)
        columns = {"effect": found["mu_star"] / scale, "interval": found["mu_star_conf"] / scale, "interaction": found["sigma"] / scale}
    elif not ran.std():
        columns = {name: numpy.zeros(len(space.names)) for name in ("share", "share_interval", "total", "total_interval", "spread")}
    else:
        from SALib.analyze import sobol
        found = sobol.analyze(space.problem(), ran, calc_second_order=False, seed=seed)
        columns = {"share": found["S1"], "share_interval": found["S1_conf"], "total": found["ST"], "total_interval": found["ST_conf"],
                   "spread": numpy.full(len(space.names), ran.std() / abs(ran.mean()))}
    first = "effect" if method == "morris" else "total"
    rows = [{"parameter": name} | {column: float(data[index]) for column, data in columns.items()}
            for index, name in enumerate(space.names)]
    return sorted(rows, key=lambda row: (-row[first], row["parameter"]))


def nothing_moves(metric: str, method: str) -> str:
    """What stands in the place of a table without a row."""
    least = f"{100 * VISIBLE:g} % or more"
    return f"{metric}: no parameter " + (f"moves it by {least}" if method == "morris" else f"makes {least} of its variance")


def table(frame: "pandas.DataFrame", metric: str, most: int) -> tuple[list[str], list[list[str]], int]:
    """-> (columns, cells) of one metric's largest effects, for a person, and how many parameters have none that shows."""
    rows = as_records(frame[frame["metric"] == metric])
    shown = [name for name in frame.columns if name not in ("metric", "parameter")]
    visible = [row for row in rows if max(abs(row[name]) for name in shown if name in ("effect", "share", "total")) >= VISIBLE][:most]
    return (["parameter", *(f">{name}" for name in shown)],
            [[row["parameter"], *(f"{row[name]:.1%}" for name in shown)] for row in visible], len(rows) - len(visible))

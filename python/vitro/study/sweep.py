"""Sweeps: every point of an experiment's `sweep:`, several at a time, resumable, in one table.

`sweep: {a.b: [1, 2], seed: [1, 2]}` is a grid; a list of such maps is the union of the grids, for combinations that
are no product: `sweep: [{engine.policy: dense}, {engine.policy: mmap, memory.budget: [4 MiB, 6 MiB]}]`. The value of a key that takes
a list is a list within the list: `engine.units: [[cpu0], [cpu0, cpu1]]`.
"""
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..base import inputs, outputs
from ..base.inputs import Experiment, Overrides, Path, Progress
from ..base.origins import with_origins
from ..device.device import Device
from ..errors import ConfigError
from ..execute.task import Limits
from ..policy import bring
from ..running import experiments
from .jobs import Job, run_points
from .points import expanded
from .table import write_table, written
from .traces import write_traces

if TYPE_CHECKING:
    import pandas


def sweep(experiment: Experiment, *, out: Path | None = None, workers: int | None = None, on: str = "local", dask: str | None = None,
          resume: bool = False, adopt: bool = False, traces: Sequence[int] | str = (), limits: Limits = Limits(),
          overrides: Overrides = None, machine: str | None = None, device: Device | Path | None = None, models: Sequence[type] = (),
          policies: Sequence[type] = (), twice: bool = False, progress: Progress | None = None,
          checking: Progress | None = None) -> "pandas.DataFrame":
    """Runs the grid and returns a pandas.DataFrame, one row per point in the grid's order.

    out: a folder for results.parquet, results.csv, report.html and the store of the points (store.py). resume: keeps finished points whose
    identity (identity.py) is still the same. adopt: beside it, points of before the store. A point that fails, or is refused where others
    are not, becomes a row with status "failed". on: "local", "dask", "dask:ADDRESS" or "slurm:FILE". limits: time and tries of each point.
    traces: points, or "all", to be run with a trace in out/traces. device, models, policies: as in run(). twice: runs each point again, and
    it has failed where a policy decides otherwise. checking: told as `progress` is, while points are checked before the first one runs.
    """
    if resume and out is None:
        raise ConfigError("a sweep can only be resumed from a folder (out)")
    if adopt and not resume:
        raise ConfigError("adopt: expected together with resume, which keeps what it adopts")
    if dask and on != "local":
        raise ConfigError(f"--dask: can not be combined with --on {on} (expected one of the two)")
    fixed = inputs.as_overrides(overrides, device) + bring.overrides(policies)
    whole = experiments.compose(experiment, overrides=fixed)
    base, where = whole.resolved, whole.origins
    if not base.get("sweep"):
        raise ConfigError(f"{_name(experiment)}: has no `sweep:`")
    with with_origins(lambda: where):
        points = expanded(base["sweep"])
    listed = [(label, point, {key: where.at(*step) for key, step in steps.items()}) for label, point, steps in points]
    wanted = traced(traces, len(points), out)
    jobs = run_points(experiment, listed, out=out, workers=workers, on=f"dask:{dask}" if dask else on, resume=resume, adopt=adopt,
                      overrides=fixed, machine=machine, models=models, policies=policies, twice=twice, limits=limits, progress=progress,
                      checking=checking)
    frame = table_of(jobs, stored=out is not None)
    if base.get("metrics"):
        frame.attrs["metrics"] = base["metrics"]
    if out:
        folder = outputs.folder(out, "out")
        write_table(frame, folder)
        from .report import write_sweep
        write_sweep(frame, [job.point for job in jobs], (result and result.data for job in jobs for result in [job.result]), base, folder)
        frame.attrs["traces"] = write_traces([jobs[index] for index in wanted], folder, workers, limits)
    return frame


def traced(traces: Sequence[int] | str, count: int, out: Path | None) -> list[int]:
    """The points that `traces` asks for. Raises ConfigError for one that there is not."""
    chosen = list(range(count)) if traces == "all" else [traces] if isinstance(traces, str) else list(traces)
    if chosen and out is None:
        raise ConfigError("traces are written into a folder (out)")
    for index in chosen:
        if not str(index).isdecimal() or int(index) >= count:
            raise ConfigError(f"--trace: {index} (expected the number of a point, 0 to {count - 1}, or all)")
    return list(dict.fromkeys(int(index) for index in chosen))


def _name(experiment: Experiment) -> str:
    return inputs.as_source(experiment)[1]


def table_of(jobs: Sequence[Job], *, stored: bool) -> "pandas.DataFrame":
    """One row per point, in their order. stored: with the columns that tell which row of the store it is."""
    import pandas
    keys = list(dict.fromkeys(key for job in jobs for key in job.point))
    rows = []
    for job in jobs:
        row = {"point": job.index, "status": "failed", "machine": job.machine}
        row |= ({} if job.label is None else {"label": job.label}) | {key: _cell(job.point.get(key)) for key in keys}
        if result := job.result:
            row["status"] = "off" if any(item["status"] == "off" for item in result.expectations) else "ok"
            row |= job.metrics or {}
            row |= {"event_hash": result.get("event_hash"), "simulated_s": result.get("simulated_s"), "wall_s": result.get("wall_s")}
            row["output_tokens"] = len(result.tokens or [])
        row["error"] = job.error
        if stored and job.identity:
            row |= {"identity": job.identity.digest, "repeat": job.repeat}
        rows.append(row)
    frame = pandas.DataFrame(rows)
    for key in keys:  # a column of mixed texts and numbers has no Parquet type
        if frame[key].map(type).nunique() > 1:
            frame[key] = frame[key].map(lambda value: None if pandas.isna(value) else str(value)).astype("string")
    return frame


def _cell(value: Any) -> Any:
    """Of a key that takes a list or a map: as it would be written in the file."""
    return written(value) if isinstance(value, (list, dict)) else value

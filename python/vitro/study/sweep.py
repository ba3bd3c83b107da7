"""Sweeps: every point of an experiment's `sweep:`, several at a time, resumable, in one table.

`sweep: {a.b: [1, 2], seed: [1, 2]}` is a grid; a list of such maps is the union of the grids, for combinations that
are no product: `sweep: [{engine.policy: dense}, {engine.policy: mmap, memory.budget: [4 MiB, 6 MiB]}]`. The value of a key that takes
a list is a list within the list: `engine.units: [[cpu0], [cpu0, cpu1]]`.
"""
import hashlib
import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TYPE_CHECKING, Any

from ..base import inputs, outputs, process
from ..base.inputs import Experiment, Overrides, Path, Progress
from ..base.origins import with_origins
from ..base.trees import flatten
from ..base.version import __version__
from ..device.device import Device
from ..errors import ConfigError, RunError
from ..running import experiments
from ..running.result import Result
from .points import expanded
from .table import written

if TYPE_CHECKING:
    import pandas


def sweep(experiment: Experiment, *, out: Path | None = None, workers: int | None = None, dask: str | None = None, resume: bool = False,
          overrides: Overrides = None, machine: str | None = None, device: Device | Path | None = None, models: Sequence[type] = (),
          progress: Progress | None = None) -> "pandas.DataFrame":
    """Runs the grid and returns a pandas.DataFrame, one row per point in the grid's order.

    out: a folder for results.parquet, results.csv, report.html and the points themselves. resume: keeps finished points
    whose resolved experiment is still the same. A point that fails, or is refused where others are not, becomes a row with status
    "failed". device, models: as in run().
    """
    if resume and out is None:
        raise ConfigError("a sweep can only be resumed from a folder (out)")
    if resume and models:
        raise ConfigError("a sweep with device models in Python can not be resumed: nothing tells whether they are still the same")
    fixed = inputs.as_overrides(overrides, device)
    experiment = _absolute(experiment) if dask else experiment
    whole = experiments.compose(experiment, overrides=fixed)
    base, where = whole.resolved, whole.origins
    if not base.get("sweep"):
        raise ConfigError(f"{_name(experiment)}: has no `sweep:`")
    with with_origins(lambda: where):
        points = expanded(base["sweep"])
    listed = [(label, point, {key: where.at(*step) for key, step in steps.items()}) for label, point, steps in points]
    jobs = run_points(experiment, listed, out=out, workers=workers, dask=dask, resume=resume, overrides=fixed, machine=machine,
                      models=models, progress=progress)
    frame = _table(jobs)
    if base.get("metrics"):
        frame.attrs["metrics"] = base["metrics"]
    if out:
        folder = outputs.folder(out, "out")
        frame.to_parquet(folder / "results.parquet", index=False)
        frame.to_csv(folder / "results.csv", index=False)
        from .report import write_sweep
        write_sweep(frame, [job.point for job in jobs], [job.result and job.result.data for job in jobs], base, folder)
    return frame


def run_points(experiment: Experiment, points: Sequence[tuple[str | None, dict[str, Any], dict[str, str]]], *, out: Path | None,
               overrides: list[str], workers: int | None = None, dask: str | None = None, resume: bool = False, machine: str | None = None,
               models: Sequence[type] = (), progress: Progress | None = None) -> "list[Job]":
    """Runs an experiment at each point: (label, {key: value}, {key: where that was written}). Each job then has a result or an error.
    Raises ConfigError where a point could not be resolved, before any runs, and where all points were refused."""
    jobs = [Job(experiment, index, label, point, overrides + inputs.overrides_with_origin(point, origins), machine, models)
            for index, (label, point, origins) in enumerate(points)]
    for job in jobs:  # a typo in the last point must not surface after hours
        job.resolve()
    _refuse_one_recording_of_many(jobs)
    machines = {job.machine for job in jobs}
    workers = workers or (1 if "host" in machines else os.cpu_count() or 1)
    folder = outputs.folder(out, "out") if out else None
    if folder:
        (folder / "points").mkdir(parents=True, exist_ok=True)
    answers = {job.index: answer for job in jobs if resume and (answer := job.saved(folder)) is not None}
    for index, answer in answers.items():
        jobs[index].judge(answer)
    todo = [job for job in jobs if job.index not in answers]
    if progress:
        progress(len(answers), len(jobs))
    for job, answer in _execute(todo, workers, dask):
        answers[job.index] = answer
        if folder:
            job.save(folder, answer)
        job.judge(answer)
        if progress:
            progress(len(answers), len(jobs))
    if all(answer.get("refused") for answer in answers.values()):
        raise ConfigError(answers[0]["error"])
    return jobs


def _refuse_one_recording_of_many(jobs):
    """The last point to end would be what is in the file."""
    first = {}
    for job in jobs:
        if job.record and (other := first.setdefault(job.record, job)) is not job:
            with with_origins(job.origins):
                raise ConfigError(f"engine.record: {job.record} is that of points {other.index} and {job.index} (expected a file for each)",
                                  ("engine", "record"))


class Job:
    """A point on its way to a result."""

    def __init__(self, experiment, index, label, point, overrides, machine, models):
        self.experiment = experiment
        self.index = index
        self.label = label
        self.point = point
        self.overrides = overrides
        self.machine = machine
        self.models = models
        self.digest, self.record = None, None  # known when resolved
        self.result, self.error = None, None   # of the answer: a Result with its expectations judged, or why there is none

    def resolve(self):
        composed = self.compose()
        experiments.check_outputs(composed)
        resolved = composed.resolved
        self.machine = resolved["machine"]
        self.record = resolved["engine"].get("record")
        text = json.dumps([__version__, self.machine, resolved], sort_keys=True)
        self.digest = hashlib.sha256(text.encode()).hexdigest()[:16]

    def compose(self):
        return experiments.compose(self.experiment, overrides=self.overrides, machine=self.machine)

    def origins(self):
        return self.compose().origins

    def judge(self, answer):
        """Only a result tells whether `expect:` names a metric that there is: the first one does, not the last."""
        self.error = answer.get("error")
        if "result" in answer:
            self.result = Result(answer["result"])
            with with_origins(self.origins):
                self.result.expectations

    def run(self):
        return run_point(self.experiment, self.overrides, self.machine, self.models)

    def file(self, folder):
        return folder / "points" / f"{self.index:05d}.json"

    def save(self, folder, answer):
        temporary = self.file(folder).with_suffix(".tmp")  # renamed at the end: an interrupted sweep leaves no half point
        temporary.write_text(json.dumps({"digest": self.digest, **answer}))
        temporary.replace(self.file(folder))

    def saved(self, folder):
        try:
            kept = json.loads(self.file(folder).read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return None
        return kept if kept.get("digest") == self.digest and "result" in kept else None


def run_point(experiment, overrides, machine, models=()):
    """-> {"result": ...} or {"error": message}, "refused" if nothing ran; a function of its own so that a Dask worker can be sent to it."""
    try:
        return {"result": experiments.run(experiment, overrides=overrides, machine=machine, models=models).data}
    except (ConfigError, RunError) as error:  # a budget that is too small is known when the model is loaded, and is one point's
        return {"error": str(error), "refused": isinstance(error, ConfigError)}


def _execute(jobs, workers, dask):
    """Yields (job, answer) as they finish. Threads are enough: each only waits for its run's process."""
    if dask:
        yield from _execute_dask(jobs, dask)
        return
    pool = ThreadPoolExecutor(workers)
    try:
        futures = {pool.submit(job.run): job for job in jobs}
        for future in as_completed(futures):
            yield futures[future], future.result()
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        process.kill_all()
        raise
    pool.shutdown()


def _execute_dask(jobs, address):
    try:
        from distributed import Client
        from distributed import as_completed as dask_as_completed
    except ImportError:
        raise ConfigError("--dask needs the package dask[distributed]") from None
    try:
        client = Client(address, timeout=5)
    except (OSError, TimeoutError, ValueError) as error:
        raise ConfigError(f"--dask: no scheduler answers at {address} ({error})") from None
    with client:
        # pure=False: equal points are still run, since a repeated point is how determinism is checked.
        futures = {client.submit(run_point, job.experiment, job.overrides, job.machine, job.models, pure=False): job
                   for job in jobs}
        for future in dask_as_completed(futures):
            yield futures[future], future.result()


def _absolute(experiment):
    """Workers stand in other folders; the file has to be visible to them under the same path."""
    source, _, is_path = inputs.as_source(experiment)
    return os.path.abspath(source) if is_path else experiment


def _name(experiment):
    return inputs.as_source(experiment)[1]


def _table(jobs):
    import pandas
    keys = list(dict.fromkeys(key for job in jobs for key in job.point))
    rows = []
    for job in jobs:
        row = {"point": job.index, "status": "failed", "machine": job.machine}
        row |= ({} if job.label is None else {"label": job.label}) | {key: _cell(job.point.get(key)) for key in keys}
        if result := job.result:
            row["status"] = "off" if any(item["status"] == "off" for item in result.expectations) else "ok"
            row |= {name: value for name, value in flatten(result.metrics).items() if not isinstance(value, list)}
            row |= {"event_hash": result.get("event_hash"), "simulated_s": result.get("simulated_s"), "wall_s": result.get("wall_s")}
            row["output_tokens"] = len(result.tokens or [])
        row["error"] = job.error
        rows.append(row)
    frame = pandas.DataFrame(rows)
    for key in keys:  # a column of mixed texts and numbers has no Parquet type
        if frame[key].map(type).nunique() > 1:
            frame[key] = frame[key].map(lambda value: None if pandas.isna(value) else str(value)).astype("string")
    return frame


def _cell(value):
    """Of a key that takes a list or a map: as it would be written in the file."""
    return written(value) if isinstance(value, (list, dict)) else value

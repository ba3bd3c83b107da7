"""Sweeps: every point of an experiment's `sweep:`, several at a time, resumable, in one table.

`sweep: {a.b: [1, 2], seed: [1, 2]}` is a grid; a list of such maps is the union of the grids, for combinations that
are no product: `sweep: [{engine.policy: dense}, {engine.policy: mmap, memory.budget: [4 MiB, 6 MiB]}]`. The value of a key that takes
a list is a list within the list: `engine.units: [[cpu0], [cpu0, cpu1]]`.
"""
import hashlib
import itertools
import json
import os
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import yaml

from . import __version__, api, expect, outputs, process
from .errors import ConfigError, RunError
from .places import placed
from .result import Result, flatten, named


def points(sweep):
    """-> list of {key: value}, the last key running fastest; a key that a point lacks keeps the experiment's own value."""
    return [point for _, point in labelled(sweep)]


def labelled(sweep):
    """-> list of (label, point). No map has a `label:`: all labels are None. Else a label is followed by what its map's lists vary, and a
    point without one is called by its values."""
    return [(label, point) for label, point, _ in _expanded(sweep)]


def _expanded(sweep):
    """As labelled(), with the steps that lead to each value of a point in the file."""
    several = isinstance(sweep, list)
    grids = sweep if several else [sweep]
    found = []
    for index, grid in enumerate(grids):
        at = ("sweep", index) if several else ("sweep",)
        if not isinstance(grid, dict) or not grid.keys() - {"label"}:
            raise ConfigError("sweep: expected a map from keys to lists of values, or a list of such maps", at)
        label = grid.get("label")
        choices = {key: value if isinstance(value, list) else [value] for key, value in grid.items() if key != "label"}
        if not isinstance(label, (str, type(None))):
            raise ConfigError(f"sweep.label: {label} (expected a text)", (*at, "label"))
        for key, values in choices.items():
            if not values:
                raise ConfigError(f"sweep.{key}: the list is empty", (*at, key))
        varied = [key for key, values in choices.items() if label is None or len(values) > 1]
        for chosen in itertools.product(*map(enumerate, choices.values())):
            point = {key: value for key, (_, value) in zip(choices, chosen)}
            steps = {key: (*at, key, position) for key, (position, _) in zip(choices, chosen)}
            told = [f"{key.rpartition('.')[2]} {_written(point[key])}" for key in varied]
            found.append((", ".join([label, *told] if label else told), point, steps))
    if not found:
        raise ConfigError("sweep: is empty (expected a map from keys to lists of values, or a list of such maps)", ("sweep",))
    return found if any("label" in grid for grid in grids) else [(None, *rest) for _, *rest in found]


def sweep(experiment, *, out=None, workers=None, dask=None, resume=False, overrides=None, machine=None, device=None, models=(),
          progress=None):
    """Runs the grid and returns a pandas.DataFrame, one row per point in the grid's order.

    out: a folder for results.parquet, results.csv, report.html and the points themselves. resume: keeps finished points
    whose resolved experiment is still the same. A point that fails, or is refused where others are not, becomes a row with status
    "failed". device, models: as in run().
    """
    if resume and out is None:
        raise ConfigError("a sweep can only be resumed from a folder (out)")
    if resume and models:
        raise ConfigError("a sweep with device models in Python can not be resumed: nothing tells whether they are still the same")
    fixed = api.as_overrides(overrides, device)
    experiment = _absolute(experiment) if dask else experiment
    base = api.resolve(experiment, overrides=fixed)
    if not base.get("sweep"):
        raise ConfigError(f"{_name(experiment)}: has no `sweep:`")
    written = api.places(experiment, overrides=fixed)
    with placed(lambda: written):
        expanded = _expanded(base["sweep"])
    jobs = []
    for index, (label, point, steps) in enumerate(expanded):
        places = {key: written.at(*step) for key, step in steps.items()}
        jobs.append(_Job(experiment, index, label, point, fixed + api.placed_overrides(point, places), machine, models))
    for job in jobs:  # a typo in the last point must not surface after hours
        job.resolve()
    _refuse_one_recording_of_many(jobs)
    machines = {job.machine for job in jobs}
    workers = workers or (1 if "host" in machines else os.cpu_count() or 1)
    folder = outputs.folder(out, "out") if out else None
    if folder:
        (folder / "points").mkdir(parents=True, exist_ok=True)
    answers = {job.index: answer for job in jobs if resume and (answer := job.saved(folder)) is not None}
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
    frame = _table(jobs, answers)
    if base.get("metrics"):
        frame.attrs["metrics"] = base["metrics"]
    if folder:
        frame.to_parquet(folder / "results.parquet", index=False)
        frame.to_csv(folder / "results.csv", index=False)
        from .report import write_sweep
        write_sweep(frame, [job.point for job in jobs], [answers[job.index].get("result") for job in jobs], base, folder)
    return frame


def _refuse_one_recording_of_many(jobs):
    """The last point to end would be what is in the file."""
    first = {}
    for job in jobs:
        if job.record and (other := first.setdefault(job.record, job)) is not job:
            with placed(job.places):
                raise ConfigError(f"engine.record: {job.record} is that of points {other.index} and {job.index} (expected a file for each)",
                                  ("engine", "record"))


class _Job:
    def __init__(self, experiment, index, label, point, overrides, machine, models):
        self.experiment = experiment
        self.index = index
        self.label = label
        self.point = point
        self.overrides = overrides
        self.machine = machine
        self.models = models
        self.digest, self.record = None, None  # known when resolved

    def resolve(self):
        resolved = api.resolve(self.experiment, overrides=self.overrides)
        with placed(self.places):
            expect.check(resolved.get("expect"))
        api.check_outputs(self.experiment, overrides=self.overrides)
        self.machine = self.machine or resolved.get("machine", "sim")
        self.record = (resolved.get("engine") or {}).get("record")
        text = json.dumps([__version__, self.machine, resolved], sort_keys=True)
        self.digest = hashlib.sha256(text.encode()).hexdigest()[:16]

    def places(self):
        return api.places(self.experiment, overrides=self.overrides)

    def judge(self, answer):
        """Only a result tells whether `expect:` names a metric that there is: the first one does, not the last."""
        if "result" in answer:
            with placed(self.places):
                return Result(answer["result"]).expectations

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
        return {"result": api.run(experiment, overrides=overrides, machine=machine, models=models).data}
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
        from distributed import Client, as_completed as dask_as_completed
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
    source, _, is_path = api.as_source(experiment)
    return os.path.abspath(source) if is_path else experiment


def _name(experiment):
    return api.as_source(experiment)[1]


def _table(jobs, answers):
    import pandas
    keys = list(dict.fromkeys(key for job in jobs for key in job.point))
    rows = []
    for job in jobs:
        answer = answers[job.index]
        row = {"point": job.index, "status": "failed", "machine": job.machine}
        row |= ({} if job.label is None else {"label": job.label}) | {key: _cell(job.point.get(key)) for key in keys}
        if "result" in answer:
            result = Result(answer["result"])
            row["status"] = "off" if any(item["status"] == "off" for item in result.expectations) else "ok"
            row |= {name: value for name, value in flatten(result.metrics).items() if not isinstance(value, list)}
            row |= {"event_hash": result.get("event_hash"), "simulated_s": result.get("simulated_s"), "wall_s": result.get("wall_s")}
            row["output_tokens"] = len(result.tokens or [])
        row["error"] = answer.get("error")
        rows.append(row)
    frame = pandas.DataFrame(rows)
    for key in keys:  # a column of mixed texts and numbers has no Parquet type
        if frame[key].map(type).nunique() > 1:
            frame[key] = frame[key].map(lambda value: None if pandas.isna(value) else str(value)).astype("string")
    return frame


def _cell(value):
    """Of a key that takes a list or a map: as it would be written in the file."""
    return _written(value) if isinstance(value, (list, dict)) else value


def _written(value):
    """[cpu0, cpu1], true, 5 MiB: as in a file."""
    if isinstance(value, str):
        return value
    text = yaml.safe_dump(value, default_flow_style=True, width=float("inf"), sort_keys=False)
    return text.removesuffix("...\n").strip()


def as_records(frame):
    """Rows as plain JSON values: NaN, which JSON lacks, becomes null."""
    return json.loads(frame.to_json(orient="records", double_precision=15))


def swept(frame):
    """The columns that tell points apart: their labels, else the keys that were swept."""
    if "label" in frame.columns:
        return ["label"]
    keys = list(frame.columns[3:])
    machine = ["machine"] if frame["machine"].nunique() > 1 else []
    return machine + keys[:next((i for i, key in enumerate(keys) if key in _HEADLINES or key == "error"), len(keys))]


def readable(frame):
    """-> (columns, rows) of the few columns that a person looks at first."""
    from .terminal import number
    keys = swept(frame)
    wanted = frame.attrs.get("metrics")
    shown = [key for key in (named(frame.columns, wanted) if wanted else _HEADLINES) if key in frame.columns and frame[key].notna().any()]
    columns = ["point", *keys, *(">" + key for key in shown), "status"]
    rows = [[row["point"], *("–" if row[key] is None else row[key] for key in keys), *(number(row[key]) for key in shown),
             row["status"]] for row in as_records(frame)]
    return columns, rows


_HEADLINES = ("decode_tokens_per_s", "prefill_tokens_per_s", "ttft_ms", "token_latency_ms.p99", "io_share", "cache_hit_rate",
              "energy_j_per_token", "peak_memory_bytes")

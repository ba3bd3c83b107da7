"""Points on their way to results: resolved before anything runs, taken from the store or executed, judged as they come."""
import dataclasses
import functools
import json
import os
import sys
import time
import zlib
from collections.abc import Sequence
from typing import Any

from ..base import fingerprints, inputs, outputs
from ..base.inputs import Experiment, Path, Progress
from ..base.origins import with_origins
from ..base.remaining import spread
from ..base.trees import flatten
from ..errors import ConfigError, RunError
from ..execute import places
from ..execute.executor import execute
from ..execute.task import Limits, Task
from ..running import budgets, experiments
from ..running.result import Result
from . import list_keys, old_points
from .identity import Identity, identity_of, outputs_of
from .parts import utc
from .store import Store

Listed = Sequence[tuple[str | None, dict[str, Any], dict[str, str]]]
_LOOK = 0.2  # seconds between two looks at points that another process runs


def run_points(experiment: Experiment, points: Listed, *, out: Path | None, overrides: list[str], workers: int | None = None,
               on: str = "local", resume: bool = False, adopt: bool = False, since: str | None = None, machine: str | None = None,
               models: Sequence[type] = (), policies: Sequence[type] = (), twice: bool = False, limits: Limits = Limits(),
               may_be_refused: bool = False, progress: Progress | None = None, checking: Progress | None = None) -> "list[Job]":
    """Runs an experiment at each point: (label, {key: value}, {key: where that was written}). Each job then has a result or an error.
    Raises ConfigError where a point could not be resolved, before any runs, and where all points were refused unless they may be.

    since (UTC): of a later part of what began then: without `resume`, rows that have finished since stay, and others may be at work.
    checking: told as `progress` is, while points are resolved."""
    places.check(on, workers)
    given = functools.cache(lambda: experiments.compose(experiment, overrides=overrides, machine=machine).given)
    jobs = [Job(experiment, index, label, point, overrides + _as_overrides(point, origins, given), machine, models, policies, twice)
            for index, (label, point, origins) in enumerate(points)]
    seen: dict[str, int] = {}
    revision = fingerprints.revision() if out is not None else (None, False)
    for done, job in enumerate(jobs, 1):  # a typo in the last point must not surface after hours
        job.resolve(identify=out is not None or on != "local")
        job.revision = revision
        if job.identity:
            job.repeat = seen[job.identity.digest] = seen.get(job.identity.digest, -1) + 1
        if checking:
            checking(done, len(jobs))
    _refuse_one_file_of_many(jobs)
    if out is None:
        _run(jobs, None, on, workers, limits, progress)
    else:
        folder = outputs.folder(out, "out")
        if resume and not adopt:
            old_points.check(folder)
        with Store(folder) as store:
            if not resume:
                store.forget([job.key for job in jobs], since=since)
            if adopt:
                old = old_points.found(folder)
                for job in jobs if old else ():
                    if (digest := job.old_digest()) in old and store.claim(job.key) == "mine":
                        store.add(job.columns(tries=1, began=utc()) | {"adopted": True}, old[digest])
            if adopt or not resume:
                old_points.decided(folder)
            now = utc()
            if gone := [job.key for job in jobs if not all(map(os.path.exists, job.outputs)) and store.answer(job.key) is not None]:
                store.forget(gone, since=now)  # a recording that the row promises and that is not there
            _run(jobs, store, on, workers, limits, progress)
            store.join_parts()
    if jobs and all(job.refused for job in jobs) and not may_be_refused:
        raise ConfigError(jobs[0].error or "")
    return jobs


def _as_overrides(point, origins, given):
    try:
        written = list_keys.written_out(point, given)
    except ConfigError as error:
        if error.at is None:  # of the experiment itself
            raise
        raise ConfigError(f"{origins[error.at[0]]}: {error}") from None
    places = {key: next(place for name, place in origins.items() if f"{name}.".startswith(f"{key}.")) for key in written}
    return inputs.overrides_with_origin(written, places)


def _run(jobs, store, on, workers, limits, progress):
    done = 0

    def told(job):
        nonlocal done
        done += 1
        if progress:
            progress(done, len(jobs))

    waiting = []
    for job in jobs:
        if store and (answer := store.answer(job.key)) is not None:
            job.take(answer)
            done += 1
        else:
            waiting.append(job)
    if progress:
        progress(done, len(jobs))
    if not waiting:
        return
    waiting = [waiting[index] for index in spread(len(waiting))]  # for the time that remains, and for who looks at the first rows
    enough = budgets.Budgets(limits.seconds)
    with places.opened(on, workers=workers) as place:
        while waiting:
            theirs: list[Job] = []
            for task, outcome in execute(_tasks(waiting, store, theirs, told), place, limits):
                job = task.about
                if outcome.error is None and store and (path := job.identity.changed()):
                    outcome = dataclasses.replace(outcome, error=RunError(
                        f"{path}: was written again while this ran (expected --resume, which runs the point with what is there now)"))
                if outcome.error is None:
                    answer = experiments.completed(outcome.value, outcome.seconds)
                    if store:
                        store.add(job.columns(tries=outcome.tries, began=job.began), answer)
                    job.take(answer)
                else:
                    error = enough.told(outcome.error, job.tree(), job.resolved(), task.attached)
                    job.fail(str(error), isinstance(error, ConfigError))
                    if store:
                        store.add_failure(job.key, job.error, job.refused)
                told(job)
            waiting = theirs
            if waiting:
                time.sleep(_LOOK)


def _tasks(jobs, store, theirs, told):
    """Those that are to be run here, claimed one by one, so that processes share a sweep. theirs: gets those that others run now."""
    for job in jobs:
        claim = store.claim(job.key, waited=job.waited) if store else "mine"
        while claim == "done" and (answer := store.answer(job.key)) is None:  # forgotten by another process since
            claim = store.claim(job.key, waited=job.waited)
        if claim == "mine":
            yield job.task()
        elif claim == "done" and store:
            job.take(answer)
            told(job)
        elif claim == "failed" and store:
            job.fail(*store.index.failure_of(job.key))
            told(job)
        elif store:
            job.waited = True
            theirs.append(job)


def _refuse_one_file_of_many(jobs):
    """The last point to end would be what is in the file."""
    first = {}
    for job in jobs:
        for path in job.outputs:
            if (other := first.setdefault(path, job)) is not job:
                with with_origins(job.origins):
                    raise ConfigError(f"engine.record: {path} is that of points {other.index} and {job.index} (expected a file for each)",
                                      ("engine", "record"))


def _packed(text):
    return zlib.compress(text.encode(), 1)


@dataclasses.dataclass(eq=False)
class Job:
    """A point on its way to a result."""

    experiment: Experiment
    index: int
    label: str | None
    point: dict[str, Any]
    overrides: list[str]
    machine: str | None
    models: Sequence[type] = ()
    policies: Sequence[type] = ()
    twice: bool = False
    # Known when resolved:
    identity: Identity | None = None
    repeat: int = 0             # among equal points
    outputs: list[str] = dataclasses.field(default_factory=list)
    # Known at the end: an answer (`result`) and its metrics by dotted name, without lists; or why there is none.
    metrics: dict[str, Any] | None = None
    error: str | None = None
    refused: bool = False       # nothing ran: the input was wrong
    waited: bool = False        # for another process
    began: str = ""
    revision: tuple[str | None, bool] = None, False  # of the checkout, when it was resolved
    # Packed, since many of them would fill memory: its experiment as it was composed, until it has run; the resolved one without the
    # device, which most points share; and the answer.
    _tree: bytes = b""
    _resolved: bytes = b""
    _device: str = "null"
    _answer: bytes = b""

    @property
    def key(self) -> tuple[str, int]:
        assert self.identity
        return self.identity.digest, self.repeat

    def resolve(self, *, identify: bool) -> None:
        composed = self.compose()
        experiments.check_outputs(composed)
        resolved = composed.resolved
        self.machine = resolved["machine"]
        self.outputs = outputs_of(resolved)
        if identify:
            self.identity = identity_of(resolved, self.models)
        self._tree = _packed(composed.tree)
        self._device = sys.intern(json.dumps(resolved.get("device")))
        self._resolved = _packed(json.dumps({key: None if key == "device" else value for key, value in resolved.items()}))

    def compose(self) -> experiments.Composed:
        return experiments.compose(self.experiment, overrides=self.overrides, machine=self.machine)

    def resolved(self) -> dict[str, Any]:
        resolved = json.loads(zlib.decompress(self._resolved))
        return resolved | ({"device": json.loads(self._device)} if "device" in resolved else {})

    @property
    def result(self) -> Result | None:
        """Made anew each time: as objects, a result takes a third of a megabyte, and there may be ten thousand."""
        if not self._answer:
            return None
        answer, resolved = json.loads(zlib.decompress(self._answer)), self.resolved()
        return Result(answer | {"experiment_resolved": resolved, "experiment": resolved.get("experiment", answer["experiment"])})

    def old_digest(self) -> str:
        return old_points.digest(self.machine or "", self.resolved())

    def origins(self):
        return self.compose().origins

    def task(self, out: Path | None = None) -> Task:
        self.began = utc()
        files = self.identity.files if self.identity else {}
        return experiments.task_of(self.tree(), alone=self.machine == "host", models=self.models, out=out,
                                   policies=self.policies, twice=self.twice, files=files, about=self)

    def tree(self) -> str:
        """As the extension module runs it."""
        return zlib.decompress(self._tree).decode() if self._tree else self.compose().tree

    def take(self, answer: dict[str, Any]) -> None:
        """Only a result tells whether `expect:` names a metric that there is: the first one does, not the last. What a row says of the
        experiment is as it was then; what judges it is as it is now."""
        self.error, self.refused = None, False
        self._answer, self._tree = _packed(json.dumps(answer | {"experiment_resolved": None})), b""
        result = self.result
        assert result
        self.metrics = {name: value for name, value in flatten(result.metrics).items() if not isinstance(value, list)}
        with with_origins(self.origins):
            result.expectations

    def fail(self, error: str, refused: bool) -> None:
        self.error, self.refused = error, refused

    def columns(self, *, tries: int, began: str) -> dict[str, Any]:
        """Of its row, besides the answer."""
        assert self.identity
        revision, dirty = self.revision
        return {"identity": self.identity.digest, "repeat": self.repeat, "machine": self.machine, "label": self.label,
                "experiment": str(self.resolved().get("experiment", "")), "point": json.dumps(self.point), "engine": self.identity.engine,
                "revision": revision, "dirty": dirty, "files": json.dumps(self.identity.files), "host": json.dumps(self.identity.host),
                "tries": tries, "began": began}

"""One experiment: put together once, then run in a process of its own."""
import json
import pathlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..base import fingerprints, native, outputs, process
from ..base.inputs import Experiment, Overrides, Path, Progress, as_overrides, as_source
from ..base.origins import Origins, of_run, with_origins
from ..base.trees import value_at
from ..base.whole_files import in_place
from ..device.device import Device
from ..device.models import attached as attached_models
from ..errors import RunError
from ..execute import places
from ..execute.executor import execute
from ..execute.task import Task
from ..policy import bring
from ..scaling import Sample
from ..scaling import attached as attached_scorer
from . import band as bands
from . import budgets
from . import expect
from .calibrated import beyond_calibration
from .result import Result


@dataclass(frozen=True)
class Composed:
    """An experiment with its parts read and overrides applied: what was given, what that means, and where each value was written."""

    given: dict[str, Any]
    resolved: dict[str, Any]  # every default included
    tree: str  # as the extension module runs it: JSON with the place of each value

    @cached_property
    def origins(self) -> Origins:
        return Origins(json.loads(self.tree))


def compose(experiment: Experiment, *, overrides: Overrides = None, machine: str | None = None,
            device: Device | Path | None = None) -> Composed:
    """Reads an experiment. Raises ConfigError, also for an `expect:` that could not be judged."""
    composed = Composed(**native.call("compose", *as_source(experiment), as_overrides(overrides, device), machine or ""))
    with with_origins(lambda: composed.origins):
        expect.check(composed.resolved.get("expect"))
    return composed


def run(experiment: Experiment, *, overrides: Overrides = None, machine: str | None = None,
        device: Device | Path | None = None, models: Iterable[type] = (), policies: Iterable[type] = (), twice: bool = False,
        scorer: Callable[[Sample], float] | None = None, out: Path | None = None, progress: Progress | None = None) -> Result:
    """Runs one experiment in a process of its own and returns its Result.

    experiment: a path, a YAML text, or a dict; relative paths inside the latter two resolve from the working directory.
    overrides: {"memory.budget": "6 MiB"} or ["memory.budget=6 MiB"]. machine: "host" or "sim", over the file's own.
    device: a vitro.Device or a path, over the file's own. models: classes of device models (vitro.DramModel ...) that it may name.
    policies: classes of policies (vitro.Eviction ...) that it may name. twice: runs again, and raises RunError where they decide otherwise.
    scorer: a function of a vitro.scaling.Sample that returns a number, for workload.scaling: it takes the place of the scorer there.
    out: a folder for trace.json, decisions.jsonl and result.json. progress: called as progress(done, total).
    """
    models, policies = tuple(models), tuple(policies)
    changes = as_overrides(overrides) + (["workload.scaling.scorer={kind: python}"] if scorer is not None else []) + (
        bring.overrides(policies))
    composed = compose(experiment, overrides=changes, machine=machine, device=device)
    return run_composed(composed, models=models, policies=policies, twice=twice, scorer=scorer, out=out, progress=progress)


def run_composed(composed: Composed, *, models: Iterable[type] = (), policies: Sequence[type] = (), twice: bool = False,
                 scorer: Callable[[Sample], float] | None = None, out: Path | None = None, progress: Progress | None = None,
                 band: bool = False) -> Result:
    """The same for one that compose() gave. band: two more simulations give each metric an error band (docs/guide/calibrate.md)."""
    attached = [*attached_models(tuple(models)), *attached_scorer(scorer), *bring.attached(policies, twice=twice)]
    return call_run(composed, attached=attached, out=out, progress=progress,
                    band=(lambda tree: run(tree, policies=policies).metrics) if band else None)


def call_run(composed: Composed, *, attached: Sequence[dict[str, Any]], out: Path | None = None, progress: Progress | None = None,
             band: Callable[[dict[str, Any]], dict[str, Any]] | None = None) -> Result:
    """The same with what run() attaches. band: gives the metrics of another experiment."""
    folder = None if out is None else outputs.folder(out, "out")  # made by the run itself: a wrong experiment leaves no folder behind
    began = time.perf_counter()
    with of_run(lambda: composed.origins), budgets.said(composed.tree, composed.resolved, attached):
        answer = process.call_alike("run", composed.tree, None if folder is None else str(folder), progress=progress, attached=attached,
                                    forks=not measures(composed))
    completed(answer, time.perf_counter() - began)
    if band:
        answer["prediction_band"], note = bands.band_of(answer, band)
        answer.setdefault("notes", []).extend(note)
    if folder is not None:
        write_result(folder, answer)
    return Result(answer, folder)


def measures(composed: Composed) -> bool:
    """Whether its times are those of this machine: it then has an interpreter of its own, and no other run beside it."""
    return bool(composed.resolved["machine"] == "host")


def run_all(wanted: Sequence[tuple[Composed, Path | None]], *, names: Sequence[str], on: str = "local") -> list[Result]:
    """Runs several, beside each other where none is on host, by the executor. wanted: (experiment, folder as in run()). on: as in sweep();
    where it is not here, files that the experiments name are sent, and none may have a folder. -> in their order. Raises the first
    error, a RunError with the run's name before it. names: one for each."""
    folders = [None if out is None else outputs.folder(out, "out") for _, out in wanted]
    tasks = [task_of(composed.tree, alone=measures(composed), out=folder, about=index,
                     files={} if on == "local" else fingerprints.files_read(composed.resolved))
             for index, ((composed, _), folder) in enumerate(zip(wanted, folders))]
    answers: dict[int, dict[str, Any]] = {}
    with places.opened(on) as place:
        for task, outcome in execute(tasks, place):
            try:
                answers[task.about] = completed(outcome.result(), outcome.seconds)
            except RunError as error:
                raise RunError(f"{names[task.about]}: {error}") from None
            if (folder := folders[task.about]) is not None:
                write_result(folder, answers[task.about])
    return [Result(answers[index], folder) for index, folder in enumerate(folders)]


def completed(answer: dict[str, Any], seconds: float) -> dict[str, Any]:
    """What the extension module gave for a run, with what it can not know: how long the caller waited, and what was calibrated."""
    policies_told(answer)
    answer["wall_s"] = round(seconds, 6)  # the native side never looks at a wall clock for this
    if answer.get("machine") == "sim":
        answer.setdefault("notes", []).extend(beyond_calibration(answer))
    return answer


def policies_told(answer: dict[str, Any]) -> None:
    """What policies in Python cost a run is said; what only compares two runs of them is dropped."""
    for policy in answer.get("policies", ()):
        policy.pop("by_token", None)
        if policy.get("calls"):
            measured = " (on host it is part of what was measured)" if answer.get("machine") == "host" else ""
            answer.setdefault("notes", []).append(
                f"the {policy['kind']} policy {policy['name']} is Python: {policy['us_per_call']:.1f} us for each of "
                f"{policy['calls']} calls, {policy['share_of_run']:.0%} of the time that this run took{measured}")


def task_of(tree: str, *, alone: bool, models: Iterable[type] = (), policies: Sequence[type] = (), twice: bool = False,
            out: Path | None = None, files: Mapping[str, str] | None = None, about: Any = None) -> Task:
    """A run for the executor; its value is an answer for completed(). tree: of a Composed, as JSON. alone: a host run, which others would
    disturb. files: what it reads, {path: SHA-256}."""
    attached = (*attached_models(tuple(models)), *bring.attached(policies, twice=twice))
    return Task("run", (tree, None if out is None else str(out)), attached, files or {}, alone, about)


def write_result(folder: pathlib.Path, answer: dict[str, Any]) -> None:
    """result.json of a run's folder, whole at any time."""
    with in_place(folder / "result.json") as unfinished:
        unfinished.write_text(json.dumps(answer, indent=2) + "\n")


def resolve(experiment: Experiment, *, overrides: Overrides = None) -> dict[str, Any]:
    """The experiment with every file, default and override applied, as a dict."""
    return compose(experiment, overrides=overrides).resolved


def check_outputs(composed: Composed) -> None:
    """Raises ConfigError when the experiment names something to be written that can not be. A run looks itself; this is for many."""
    if any(value_at(composed.resolved, key) for key in (*fingerprints.OUTPUTS, "engine.kv.scratch")):  # else reading it again is in vain
        native.call("check_outputs", composed.tree)


def follows_activations(composed: Composed) -> bool:
    """Whether a run decides by the values that it computes: then shapes without weights can not repeat its decisions."""
    return native.call("follows_activations", composed.tree)

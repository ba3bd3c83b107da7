"""Traces of single points, after the table: an odd row is opened by running it again, with a trace."""
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..execute.executor import execute
from ..execute.places import opened
from ..execute.task import Limits

if TYPE_CHECKING:
    from .jobs import Job


def write_traces(jobs: "Sequence[Job]", folder: Path, workers: int | None, limits: Limits) -> list[dict[str, Any]]:
    """-> [{"point", "folder", "error", "same"}]: DIR/traces/POINT with trace.json and decisions.jsonl, always from this machine.
    same: whether the events were those of the row; a simulation repeats them, a host does not."""
    told = {}
    with opened(workers=workers) as place:
        for task, outcome in execute((job.task(_unfinished(folder, job)) for job in jobs), place, limits):
            job, answer = task.about, outcome.value or {}
            _put_in_place(_unfinished(folder, job), _folder(folder, job), whole=outcome.error is None)
            same = job.result is not None and answer.get("event_hash") == job.result.get("event_hash")
            told[job.index] = {"point": job.index, "folder": str(_folder(folder, job)), "same": same,
                               "error": None if outcome.error is None else str(outcome.error)}
    return [told[job.index] for job in jobs]


def _folder(folder, job):
    return folder / "traces" / f"{job.index:05d}"


def _unfinished(folder, job):
    return folder / "traces" / f".{job.index:05d}.{os.getpid()}.part"


def _put_in_place(unfinished, folder, whole):
    """Each file whole: another process may share the sweep and write the same trace."""
    if whole:
        folder.mkdir(parents=True, exist_ok=True)
        for path in unfinished.iterdir():
            path.replace(folder / path.name)
    shutil.rmtree(unfinished, ignore_errors=True)

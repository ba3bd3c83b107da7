"""This machine: a process for each task, as many at a time as there are cores to use."""
import time

from ..base import process
from ..base.cores import usable_cores
from ..errors import ConfigError, RunError
from .machine_lock import room
from .task import Limits, Outcome, Task


class Local:
    """workers: at a time; None: the cores that this process may use."""

    def __init__(self, workers: int | None = None) -> None:
        self._workers = workers or usable_cores()
        self._children = process.Group()

    def slots(self) -> int:
        return self._workers

    def perform(self, task: Task, limits: Limits) -> Outcome:
        return perform_here(task, limits, self._children)

    def cancel(self) -> None:
        self._children.kill()

    def close(self) -> None:
        self._children.close()


def perform_here(task: Task, limits: Limits, children: process.Group, env: dict[str, str] | None = None) -> Outcome:
    """In a child of this process. children: the group that it joins; env: variables over this process's own. A measurement has an
    interpreter of its own, as one alone has."""
    began = time.perf_counter()
    try:
        with room(exclusive=task.exclusive, ended=lambda: children.ended):
            began = time.perf_counter()
            value = process.call_alike(task.function, *task.args, attached=task.attached, limit_s=limits.seconds, group=children, env=env,
                                       forks=not task.exclusive)
            return Outcome(value, seconds=time.perf_counter() - began)
    except (ConfigError, RunError) as error:
        return Outcome(error=error, seconds=time.perf_counter() - began)

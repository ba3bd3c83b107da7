"""Executes tasks at a place, several at a time: isolated, with a time limit, and again where one was lost."""
import queue
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from ..base.inputs import Progress
from ..errors import Lost
from .places import opened
from .task import Limits, Outcome, Task


class Place(Protocol):
    """Where tasks run."""

    def slots(self) -> int:
        """How many at a time, now."""

    def perform(self, task: Task, limits: Limits) -> Outcome:
        """Runs one; called in a thread of its own. Raises only what ends everything, such as a scheduler that went away."""

    def cancel(self) -> None:
        """Ends what is running."""


def execute(tasks: Iterable[Task], place: Place, limits: Limits = Limits()) -> Iterator[tuple[Task, Outcome]]:
    """Yields outcomes as they come. Tasks are taken when there is a slot for one, so that a generator may decide late.
    Leaving the loop ends what is running."""
    finished: queue.SimpleQueue[tuple[Task, Outcome | BaseException]] = queue.SimpleQueue()
    waiting, again, running = iter(tasks), deque[Task](), 0
    tries: dict[Task, int] = {}

    def start(task):
        def perform():
            try:
                finished.put((task, place.perform(task, limits)))
            except BaseException as error:
                finished.put((task, error))
        # Of a daemon: a caller who was interrupted does not wait for it.
        threading.Thread(target=perform, daemon=True).start()

    try:
        while True:
            while running < place.slots():
                task = again.popleft() if again else next(waiting, None)
                if task is None:
                    break
                start(task)
                running += 1
            if not running:
                return
            task, outcome = finished.get()
            running -= 1
            if isinstance(outcome, BaseException):
                raise outcome
            tries[task] = tries.get(task, 0) + 1
            if isinstance(outcome.error, Lost) and tries[task] <= limits.retries:
                again.append(task)
                continue
            yield task, Outcome(outcome.value, outcome.error, outcome.seconds, tries.pop(task))
    finally:
        if running:
            place.cancel()


def execute_all(tasks: list[Task], *, workers: int | None = None, on: str = "local", limits: Limits = Limits(),
                progress: Progress | None = None) -> list[Any]:
    """-> the values, in the order of the tasks. Raises the first error, and ends what is still running then."""
    values = {}
    with opened(on, workers=workers) as place:
        for task, outcome in execute(tasks, place, limits):
            values[task] = outcome.result()
            if progress:
                progress(len(values), len(tasks))
    return [values[task] for task in tasks]

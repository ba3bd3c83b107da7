"""What is to be executed, and what came of it."""
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, eq=False)
class Task:
    """One call of the extension module, in a process of its own.

    function, args, attached: as process.call takes them; args are JSON values. files: {path: SHA-256} of files that texts in args name:
    where a worker does not have them, they are sent to it. exclusive: nothing else runs on the machine meanwhile: a measurement.
    """

    function: str
    args: tuple[Any, ...]
    attached: tuple[Any, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    exclusive: bool = False
    about: Any = None  # the caller's own, to know it by


@dataclass(frozen=True)
class Limits:
    """Of each task. seconds: after which it is ended, not counting its wait; None: never. retries: further tries where one was lost."""

    seconds: float | None = None
    retries: int = 1


@dataclass(frozen=True)
class Outcome:
    """value, or error: a ConfigError or a RunError. seconds: of the try that counts; tries: 1 where none was lost."""

    value: Any = None
    error: Exception | None = None
    seconds: float = 0.0
    tries: int = 1

    def result(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.value

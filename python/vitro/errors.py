"""What can go wrong, and the exit code that says so."""


class VitroError(Exception):
    """Base of everything that vitro raises on purpose; its text is one clear message."""

    exit_code = 1


class ConfigError(VitroError):
    """The user's input was wrong. at: the keys and indices that lead to the value in its file, where its line is still to be
    looked up (origins.py)."""

    exit_code = 2

    def __init__(self, message: str, at: tuple[str | int, ...] | None = None) -> None:
        super().__init__(message)
        self.at = at


class RunError(VitroError):
    """The input was right, and the run failed."""


class Lost(RunError):
    """The process or the worker of a run was ended from outside, as for want of memory: another try may end well."""


class Overtime(RunError):
    """A run was ended at its time limit."""

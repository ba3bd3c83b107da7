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

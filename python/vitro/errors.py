"""What can go wrong, and the exit code that says so."""


class VitroError(Exception):
    """Base of everything that vitro raises on purpose; its text is one clear message."""

    exit_code = 1


class ConfigError(VitroError):
    """The user's input was wrong."""

    exit_code = 2


class RunError(VitroError):
    """The input was right, and the run failed."""

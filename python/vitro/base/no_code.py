"""Code that a study brings can be refused: by `--no-code`, or VITRO_NO_CODE=1 (docs/guide/strangers.md).

Shared objects are refused by the engine itself, where an experiment is composed and where one would be loaded (engine/base/no_code.hpp).
"""
import os

from ..errors import ConfigError

VARIABLE = "VITRO_NO_CODE"


def refused() -> bool:
    return os.environ.get(VARIABLE, "") not in ("", "0")


def is_refusal(error: ConfigError) -> bool:
    """Also of one that the engine gave."""
    return f"({VARIABLE})" in str(error)


def refuse(where: str, what: object) -> None:
    """Raises ConfigError if code is refused. where: the option, or "file:line: key", that brings it; what: its value."""
    if refused():
        raise ConfigError(f"{where}: {what} is code, which --no-code ({VARIABLE}) refuses (expected an experiment that brings none)")

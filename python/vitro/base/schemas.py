"""Versions of files that vitro writes and reads again: `schema: vitro.result/1`."""
from typing import Any

from ..errors import ConfigError
from .version import __version__


def checked(data: Any, name: str, version: int, where: str, what: str) -> dict[str, Any]:
    """-> `data`, a map whose schema is `name` of this version or an older one. what: "a result of vitro". where: the file's name. Raises
    ConfigError for anything else, and for a newer version with what reads it."""
    found, _, number = str(data.get("schema") if isinstance(data, dict) else None).partition("/")
    if found != name or not number.isdigit():
        raise ConfigError(f"{where}: is not {what} (expected schema {name}/{version})")
    if int(number) > version:
        raise ConfigError(f"{where}: schema: {name}/{number} is newer than this vitro {__version__}, which reads up to {name}/{version} "
                          "(expected that version, or a newer vitro)")
    return data

"""Quantities with units, read and written by the engine's own parser (engine/base/units.hpp).

Values are in SI base units.
"""
from ..errors import ConfigError
from . import native

DIMENSIONS = ("none", "time", "bytes", "power", "bandwidth", "frequency", "energy", "ratio")


def parse(text: object, dimension: str) -> float | None:
    """"128 KiB" -> 131072.0. None for what is no quantity of that dimension."""
    return native.call("parse_quantity", str(text), dimension)


def require(text: object, dimension: str, key: str) -> float:
    """The same for the value of `key`. Raises ConfigError for what is no such quantity."""
    value = parse(text, dimension)
    if value is None:
        raise ConfigError(f'{key}: "{text}" (expected {native.call("describe_dimension", dimension)})')
    return value


def share(text: object) -> float | None:
    """"15%" or a bare 0.15 -> 0.15. None for what is neither."""
    found = parse(text, "ratio")
    return parse(text, "none") if found is None else found


def written(value: float, dimension: str) -> str:
    """131072.0 -> "128 KiB": the shortest text that means this value."""
    return native.call("format_quantity", value, dimension)

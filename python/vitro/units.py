"""Quantities of configuration files, for the few that Python reads itself."""
from .errors import ConfigError

_BYTES = {"B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 2 ** 10, "MiB": 2 ** 20, "GiB": 2 ** 30}


def parse_bytes(text, key):
    number, _, unit = str(text).strip().partition(" ")
    try:
        return int(float(number) * _BYTES[unit])
    except (KeyError, ValueError):
        raise ConfigError(f'{key}: "{text}" is no size (expected bytes with a unit, such as 6 GiB)') from None


def parse_share(text, key):
    try:
        share = float(str(text).rstrip("% ")) / (100 if str(text).endswith("%") else 1)
    except ValueError:
        share = -1
    if not 0 <= share <= 1:
        raise ConfigError(f'{key}: "{text}" is no share (expected 0% to 100%)')
    return share

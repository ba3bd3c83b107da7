"""Keys of points that step into a list of the experiment: `engine.placement.splits.0.hot` is `hot` of the first entry."""
import copy
from collections.abc import Callable, Mapping
from typing import Any

from ..base.engine_keys import present_name
from ..errors import ConfigError


def written_out(point: Mapping[str, Any], given: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
    """The point as overrides take it: a key that steps into a list becomes the whole list, changed there. given: the experiment as it is
    written; asked only where a key has a number. Such a key changes the list that the point itself has, where it has one before it.
    Raises ConfigError where the list has no such entry; what steps into no list stays."""
    found: dict[str, Any] = {}
    for key, value in point.items():
        head, number, rest = _split(key)
        if number is None:
            found[key] = value
            continue
        entries = found[head] if head in found else _there(given(), head)
        if not isinstance(entries, list):
            found[key] = value
            continue
        if number >= len(entries):
            raise ConfigError(f"{key}: {head} has {len(entries)} entries in the experiment (expected one of them, counted from 0)")
        found[head] = entries = copy.deepcopy(entries)
        if not rest:
            entries[number] = value
            continue
        if not isinstance(entries[number], dict):
            raise ConfigError(f"{key}: {head}.{number} is no map in the experiment (expected one)")
        node = entries[number]
        *path, leaf = rest.split(".")
        for step in path:
            node = node.setdefault(step, {})
        node[leaf] = value
    return found


def _split(key):
    """"a.b.0.c" -> ("a.b", 0, "c"); without a number: (key, None, "")."""
    parts = key.split(".")
    at = next((at for at, part in enumerate(parts) if at and part.isdecimal()), None)
    return (key, None, "") if at is None else (".".join(parts[:at]), int(parts[at]), ".".join(parts[at + 1:]))


def _there(tree, key):
    """What an experiment has under this name, or under what the name is called by now."""
    for name in dict.fromkeys((key, present_name(key))):
        node = tree
        for step in name.split("."):
            node = node.get(step) if isinstance(node, Mapping) else None
        if node is not None:
            return node
    return None

"""Keys of points that step into a list of the experiment: `engine.placement.splits.0.hot` is `hot` of the first entry."""
import copy
from collections.abc import Callable, Mapping
from typing import Any

from ..base.engine_keys import present_name
from ..errors import ConfigError


def written_out(point: Mapping[str, Any], given: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
    """The point as overrides take it: a key that steps into a list becomes the whole list, changed there. given: the experiment as it is
    written; asked only where a key has a number. Such a key changes the list that the point itself has, where it has one before it.
    Raises ConfigError, with the key as its `at`, where there is nothing to step into; what steps into no list stays."""
    found: dict[str, Any] = {}
    for key, value in point.items():
        head, steps = _split(key)
        entries = None if not steps else found[head] if head in found else _there(given(), head)
        if isinstance(entries, list):
            found[head] = copy.deepcopy(entries)
            _put(found[head], head, steps, value, key)
        else:
            found[key] = value
    return found


def _split(key):
    """"a.b.0.c" -> ("a.b", ["0", "c"]); without a number: (key, [])."""
    parts = key.split(".")
    at = next((at for at, part in enumerate(parts) if at and part.isdecimal()), len(parts))
    return ".".join(parts[:at]), parts[at:]


def _put(node, name, steps, value, key):
    """Changes what `steps` lead to from a list or map of that name; maps are made on the way."""
    step, *rest = steps
    if isinstance(node, list):
        if not step.isdecimal() or int(step) >= len(node):
            raise ConfigError(f"{key}: {name} has {len(node)} entries in the experiment (expected one of them, counted from 0)", (key,))
        step = int(step)
    elif not isinstance(node, dict):
        raise ConfigError(f"{key}: {name} is no map in the experiment (expected one)", (key,))
    if not rest:
        node[step] = value
        return
    inner = node[step] if isinstance(node, list) else node.setdefault(step, {})
    _put(inner, f"{name}.{step}", rest, value, key)


def _there(tree, key):
    """What an experiment has under this name, or under what the name is called by now."""
    for name in dict.fromkeys((key, present_name(key))):
        node = tree
        for step in name.split("."):
            node = node.get(step) if isinstance(node, Mapping) else None
        if node is not None:
            return node
    return None

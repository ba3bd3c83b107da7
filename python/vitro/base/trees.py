"""Nested maps: flattened, nested again, read from YAML."""
from collections.abc import Mapping
from pathlib import Path

from ..errors import ConfigError
from . import native


def flatten(tree, prefix=""):
    """{"a": {"b": 1}} -> {"a.b": 1}; lists stay values."""
    flat = {}
    for key, value in tree.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat


def value_at(tree, name):
    """Of nested maps, by dotted name; None where there is none."""
    for key in name.split("."):
        if not isinstance(tree, Mapping):
            return None
        tree = tree.get(key)
    return tree


def values_of(tree, key):
    """The values of a key wherever it stands in nested maps, in their order."""
    for name, value in tree.items():
        if name == key:
            yield value
        elif isinstance(value, Mapping):
            yield from values_of(value, key)


def nested(flat):
    """{"a.b": 1} -> {"a": {"b": 1}}: metrics as a result has them."""
    tree = {}
    for name, value in flat.items():
        *path, leaf = name.split(".")
        node = tree
        for part in path:
            node = node.setdefault(part, {})
        node[leaf] = value
    return tree


def parse_yaml(text, name):
    """-> what a YAML text holds, read as the engine reads experiments (docs/reference/experiment-keys.md). Raises ConfigError with `name`
    and the line."""
    return native.call("parse_yaml", text, name)


def load_yaml(path):
    """-> what a YAML file holds; it has no `include:`."""
    try:
        return parse_yaml(Path(path).read_text(), str(path))
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: is not a text file") from None

"""Nested maps: flattened, nested again, read from YAML."""
from collections.abc import Mapping
from pathlib import Path

import yaml

from ..errors import ConfigError


def flatten(tree, prefix=""):
    """{"a": {"b": 1}} -> {"a.b": 1}; lists stay values."""
    flat = {}
    for key, value in tree.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat


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


def load_yaml(path):
    try:
        return yaml.safe_load(Path(path).read_text())
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise ConfigError(f"{path}:{mark.line + 1 if mark else 1}: {getattr(error, 'problem', error)}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: is not a text file") from None

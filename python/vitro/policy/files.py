"""`--policy FILE.py:CLASS`: a class from a file that is no installed module."""
import importlib.util
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Optional

import typer

from ..base import no_code
from ..base.inputs import existing
from ..errors import ConfigError
from .bring import check_name, described

Policies = Annotated[Optional[list[str]], typer.Option("--policy", metavar="FILE.py:CLASS", help="A policy written in Python, which the "
                                                       "experiment names by its name; may be repeated.")]


def load(words: Iterable[str] | None) -> list[type]:
    """The classes of texts such as "mine.py:MyRule". Raises ConfigError."""
    return [_load(word) for word in words or ()]


def _load(word):
    path, colon, name = word.rpartition(":")
    if not colon or not path.endswith(".py") or not name.isidentifier():
        raise ConfigError(f"--policy: {word} (expected FILE.py:CLASS)")
    no_code.refuse("--policy", word)
    module = _module_of(Path(existing(path)).resolve())
    if not hasattr(module, name):
        raise ConfigError(f"--policy: {path} has no {name}")
    policy = getattr(module, name)
    try:
        check_name(described(policy))
    except ConfigError as error:
        raise ConfigError(f"--policy: {word}: {error}") from None
    return policy


def _module_of(path):
    import cloudpickle
    name = f"vitro_policy_{path.stem}"
    module = sys.modules.get(name)
    if module is not None and getattr(module, "__file__", None) == str(path):
        return module
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))  # what it imports may lie beside it
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise ConfigError(f"--policy: {path} can not be loaded: {type(error).__name__}: {error}") from None
    cloudpickle.register_pickle_by_value(module)  # the process of a run does not know it
    return module

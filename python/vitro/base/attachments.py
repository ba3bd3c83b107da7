"""Python objects that a native call gets beside its arguments: classes of device models, scorers.

They travel to the process of the call by cloudpickle: what a notebook or a script defines by value, what a module defines by name.
"""
from __future__ import annotations

import base64
import functools
import io
import linecache
import pickle
import random
import sys

from ..errors import ConfigError
from . import no_code

TYPE_CHECKING = False  # see vitro/__init__.py
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def packed(name: str, what: str, make: Callable[[], Any]) -> dict[str, Any]:
    """make: a function that gives, in the process of the call, what the extension module wants under `name`. -> JSON."""
    no_code.refuse(name, what)
    try:
        import cloudpickle
    except ImportError as error:
        raise ConfigError(f"{name}: {what} needs the package cloudpickle, which can not be imported ({error})") from None
    try:
        data = _pickled(make)
    except Exception as error:
        raise ConfigError(f"{name}: {what} can not be sent to the run's process ({error})") from error
    # Cells of a notebook are no files; with their text a traceback can show the line that failed.
    cells = {cell: "".join(entry[2]) for cell, entry in linecache.cache.items() if len(entry) == 4 and entry[1] is None}
    return {"name": name, "make": base64.b64encode(data).decode(), "path": sys.path, "cells": cells}


def unpacked(attachments: list[dict[str, Any]]) -> dict[str, Any]:
    """-> the call's keyword arguments, in its process."""
    if not attachments:
        return {}
    found = {}
    for data in attachments:
        no_code.refuse(str(data["name"]), "a pickled object")
        sys.path += [folder for folder in data["path"] if folder not in sys.path]
        for name, text in data["cells"].items():
            linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        found[data["name"]] = _Loader(io.BytesIO(base64.b64decode(data["make"])), data["name"]).load()()
    random.seed(0)
    return found


class _Loader(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, what: str) -> None:
        super().__init__(file)
        self._what = what

    def find_class(self, module: str, name: str) -> Any:
        try:
            return super().find_class(module, name)
        except (ImportError, AttributeError) as error:
            raise ConfigError(f"{self._what}: {name} of {module} is not known in the run's process ({error}; expected a function, a class, "
                              "an object of one, or something of a module that can be imported)") from None


def _pickled(make: Callable[[], Any]) -> bytes:
    """Cached functions as well by value where functions are: pickle knows them by name alone."""
    import cloudpickle
    by_value = {"__main__", *cloudpickle.list_registry_pickle_by_value()}

    class Pickler(cloudpickle.Pickler):
        def reducer_override(self, value: Any) -> Any:
            if isinstance(value, _CACHED) and (value.__module__ in by_value or "<locals>" in value.__qualname__):
                return _cached, (value.__wrapped__, value.cache_parameters())
            return super().reducer_override(value)

    buffer = io.BytesIO()
    Pickler(buffer).dump(make)
    return buffer.getvalue()


_CACHED = type(functools.cache(len))


def _cached(function: Callable[..., Any], parameters: dict[str, Any]) -> Callable[..., Any]:
    return functools.lru_cache(**parameters)(function)

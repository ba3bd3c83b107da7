"""Python objects that a native call gets beside its arguments: classes of device models, scorers.

They travel to the process of the call by cloudpickle: what a notebook or a script defines by value, what a module defines by name.
"""
from __future__ import annotations

import base64
import linecache
import random
import sys

from ..errors import ConfigError

TYPE_CHECKING = False  # see vitro/__init__.py
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def packed(name: str, what: str, make: Callable[[], Any]) -> dict[str, Any]:
    """make: a function that gives, in the process of the call, what the extension module wants under `name`. -> JSON."""
    try:
        import cloudpickle
    except ImportError as error:
        raise ConfigError(f"{name}: {what} needs the package cloudpickle, which can not be imported ({error})") from None
    try:
        data = cloudpickle.dumps(make)
    except Exception as error:
        raise ConfigError(f"{name}: {what} can not be sent to the run's process ({error})") from error
    # Cells of a notebook are no files; with their text a traceback can show the line that failed.
    cells = {cell: "".join(entry[2]) for cell, entry in linecache.cache.items() if len(entry) == 4 and entry[1] is None}
    return {"name": name, "make": base64.b64encode(data).decode(), "path": sys.path, "cells": cells}


def unpacked(attachments: list[dict[str, Any]]) -> dict[str, Any]:
    """-> the call's keyword arguments, in its process."""
    if not attachments:
        return {}
    import cloudpickle
    found = {}
    for data in attachments:
        sys.path += [folder for folder in data["path"] if folder not in sys.path]
        for name, text in data["cells"].items():
            linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        found[data["name"]] = cloudpickle.loads(base64.b64decode(data["make"]))()
    random.seed(0)
    return found

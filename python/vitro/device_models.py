"""Device models written in Python: a class with a table of parameters and a law (docs/plugins.md).

>>> class FixedDram(vitro.DramModel):
...     parameters = {"latency": vitro.Param("time", "100 ns", "a guess"), "bandwidth": vitro.Param("bandwidth")}
...     def serve(self, now_ps, request):
...         return now_ps + self.params["latency"] + round(request.length / self.params["bandwidth"] * 1e12)
"""
import base64
import linecache
import sys
from dataclasses import dataclass

from .errors import ConfigError


@dataclass(frozen=True)
class Param:
    """One parameter: its dimension (number, time, bytes, bandwidth, frequency or ratio), its default as it would stand in a
    device file (None: required), and where that default comes from."""

    dimension: str
    default: str | None = None
    source: str = ""


class _Model:
    """In a device file `model: NAME` asks for the class; NAME is its `name`, or what the class is called.

    self.params[key] is the value of a parameter: times in picoseconds, bytes as whole numbers, everything else in SI units.
    One object serves one simulation. Equal runs give equal results only if serve() depends on nothing but its arguments, the
    parameters and what it did before; `random` is seeded for it.
    """

    parameters = {}
    _surroundings = {}

    def setup(self):
        """Called once, before the first request."""

    def serve(self, now_ps, request):
        """-> the time at which `request`, submitted at `now_ps`, is complete: whole picoseconds, not before now_ps."""
        raise NotImplementedError


class DramModel(_Model):
    """Memory. A request has port (name of the agent: "cpu0", "npu", "ufs"), cap (bytes per second: the least on its way to the
    memory controller), length, write, pace_ps (the agent needs that time for its own work), chunk, stride, and address (None:
    where the port left off). A request may not end before its pace, nor faster than its cap."""

    _kind = "dram"
    _surroundings = {"capacity": Param("bytes"), "available": Param("bytes")}


class StorageModel(_Model):
    """A flash device behind one queue. A request has address, length, write, sequential and issuer (number of a core). serve()
    answers for an idle DRAM: the transfer is DMA, which a busy one makes later."""

    _kind = "storage"
    _surroundings = {
        "link_bandwidth": Param("bandwidth"),
        "queue_depth": Param("number", "32", "slots of a UFS command queue"),
        "max_transfer": Param("bytes", "512 KiB", "usual limit of a driver"),
        "issue_cycles": Param("number", "10500", "cycles of the core that issues a command, as on the phones of 2024"),
        "issue_fixed": Param("time", "600 ns", "part of it that does not follow the clock, as on the phones of 2024"),
    }


def described(model):
    """A class as the extension module wants it. Throws ConfigError on what is no model."""
    if not (isinstance(model, type) and issubclass(model, (DramModel, StorageModel))):
        raise ConfigError(f"models: {model!r} is no device model (expected a class derived from vitro.DramModel or vitro.StorageModel)")
    name = model.__dict__.get("name", model.__name__)
    if model.serve is _Model.serve:
        raise ConfigError(f"models: {name} has no serve(self, now_ps, request)")
    table = model._surroundings | dict(model.parameters)
    for key, param in table.items():
        if not isinstance(param, Param):
            raise ConfigError(f"models: {name}.parameters[{key!r}] is {param!r} (expected a vitro.Param)")
    rows = [{"key": key, "dimension": param.dimension, "default": param.default or "", "source": param.source}
            for key, param in table.items()]
    summary = (model.__doc__ or f"{model._kind} model written in Python").strip().splitlines()[0]
    return {"class": model, "name": name, "kind": model._kind, "description": summary, "parameters": rows}


def packed(models):
    """Classes as JSON for another process. A class of a notebook or a script travels by value, one of a module by name."""
    for model in models:
        described(model)  # a mistake is the caller's at once
    try:
        import cloudpickle
    except ImportError as error:
        raise ConfigError(f"models: a class reaches the run's process by cloudpickle, which is missing ({error})") from None
    try:
        data = cloudpickle.dumps(list(models))
    except Exception as error:
        raise ConfigError(f"models: the classes can not be sent to the run's process ({error})") from error
    # Cells of a notebook are no files; with their text a traceback can show the line that failed.
    cells = {name: "".join(entry[2]) for name, entry in linecache.cache.items() if len(entry) == 4 and entry[1] is None}
    return {"classes": base64.b64encode(data).decode(), "path": sys.path, "cells": cells}


def unpacked(data):
    """-> the list that the extension module wants, in the process that runs it."""
    import random
    import cloudpickle
    sys.path += [folder for folder in data["path"] if folder not in sys.path]
    for name, text in data["cells"].items():
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    models = [described(model) for model in cloudpickle.loads(base64.b64decode(data["classes"]))]
    random.seed(0)
    return models

"""Device models written in Python: a class with a table of parameters and a law (docs/guide/plugins.md).

>>> class FixedDram(vitro.DramModel):
...     parameters = {"latency": vitro.Param("time", "100 ns", "a guess"), "bandwidth": vitro.Param("bandwidth")}
...     def serve(self, now_ps, request):
...         return now_ps + self.params["latency"] + round(request.length / self.params["bandwidth"] * 1e12)
"""
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..base.attachments import packed
from ..errors import ConfigError


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

    parameters: Mapping[str, Param] = {}
    params: Mapping[str, Any]  # set by who runs it
    _kind = ""
    _surroundings: Mapping[str, Param] = {}

    def setup(self) -> None:
        """Called once, before the first request."""

    def serve(self, now_ps: int, request: Any) -> int:
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


def described(model: type) -> dict[str, Any]:
    """A class as the extension module wants it. Throws ConfigError on what is no model."""
    if not (isinstance(model, type) and issubclass(model, (DramModel, StorageModel))):
        raise ConfigError(f"models: {model!r} is not a device model (expected a class derived from vitro.DramModel or vitro.StorageModel)")
    name = model.__dict__.get("name", model.__name__)
    if model.serve is _Model.serve:
        raise ConfigError(f"models: {name} has no serve(self, now_ps, request)")
    table = dict(model._surroundings) | dict(model.parameters)
    for key, param in table.items():
        if not isinstance(param, Param):
            raise ConfigError(f"models: {name}.parameters[{key!r}] is {param!r} (expected a vitro.Param)")
    rows = [{"key": key, "dimension": param.dimension, "default": param.default or "", "source": param.source}
            for key, param in table.items()]
    summary = (model.__doc__ or f"{model._kind} model written in Python").strip().splitlines()[0]
    return {"class": model, "name": name, "kind": model._kind, "description": summary, "parameters": rows}


def attached(models: Sequence[type]) -> list[dict[str, Any]]:
    """Classes, for a call in another process. -> [attachment]"""
    if not models:
        return []
    for model in models:
        described(model)  # a mistake is the caller's at once
    return [packed("models", "the classes", partial(_described, list(models)))]


def _described(models: Sequence[type]) -> list[dict[str, Any]]:
    return [described(model) for model in models]

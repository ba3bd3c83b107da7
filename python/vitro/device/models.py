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
    fidelity = "flow"  # or "detailed", for which a device file then asks
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


class _Unit(_Model):
    """What computes. A call is a Work: variant and format (contract and weights, such as "int8" and "q4_0"; empty where it has none), rows,
    columns and depth (of a product; columns are 0 where it is none), macs, elementwise, elements, lookups, conversions, read_bytes,
    weight_bytes (of them), written_bytes, weight_bits, group, row_runs, sequence_rows, query_heads, shared_macs and tile_queries. Of a
    core's attention, read_bytes, conversions and row_runs have keys and values once for each tile of rows, and shared_macs are the products
    in which all tile_queries of a tile meet them. serve() answers for a memory that
    answers at once: the bytes move meanwhile through the DRAM of the device, and the call ends when both are through."""

    def capabilities(self) -> Mapping[str, float]:
        """What the unit can not do, and what a graph costs, asked once after setup(): any of static_graphs, fixed_batch (True or False),
        graph_count, graph_axis, shape_multiple, session_limit and graph_weights (bytes), build_ps, load_ps, switch_graph_ps."""
        return {}

    def prices(self, variant: str, format: str) -> bool:
        """Whether serve() knows kernels of that contract and weight format; others are listed under `unpriced_calls` of the result."""
        return True

    def objection(self, op: str, format: str) -> str:
        """Why the unit can not run an operator at all, such as "layernorm runs on the CPU"; empty: it can."""
        return ""


class AcceleratorModel(_Unit):
    """A unit beside the cores, of the section `npu:`, `ane:` or `gpu:`."""

    _kind = "accelerator"
    _surroundings = {
        "bandwidth": Param("bandwidth"),
        "launch": Param("time", "0 us", "from submission to its first instruction: none unless stated"),
        "synchronise": Param("time", "0 us", "from its last instruction to who waits: none unless stated"),
    }


class CoreModel(_Unit):
    """A CPU core, of all clusters of the section `cpu:`. Work of the system interrupts it and makes a call later; that is priced with its
    clock. Where a device gets too hot its calls take longer by as much as the clock is slower."""

    _kind = "core"
    _surroundings = {
        "clock": Param("frequency"),
        "core_bandwidth": Param("bandwidth"),
        "cluster_bandwidth": Param("bandwidth"),
        "wake_up": Param("time", "0 us", "of a thread that sleeps: none unless stated"),
        "spin": Param("time", "0 us", "how long it polls before it sleeps: not at all unless stated"),
        "hand_back": Param("time", "0 us", "from its last instruction to who waits: none unless stated"),
    }


_CLASSES = (DramModel, StorageModel, AcceleratorModel, CoreModel)


def described(model: type) -> dict[str, Any]:
    """A class as the extension module wants it. Throws ConfigError on what is no model."""
    if not (isinstance(model, type) and issubclass(model, _CLASSES)):
        bases = ", ".join(f"vitro.{each.__name__}" for each in _CLASSES)
        raise ConfigError(f"models: {model!r} is not a device model (expected a class derived from one of: {bases})")
    name = model.__dict__.get("name", model.__name__)
    if model.serve is _Model.serve:
        raise ConfigError(f"models: {name} has no serve(self, now_ps, request)")
    if model.fidelity not in ("flow", "detailed"):
        raise ConfigError(f"models: {name}.fidelity is {model.fidelity!r} (expected 'flow' or 'detailed')")
    table = dict(model._surroundings) | dict(model.parameters)
    for key, param in table.items():
        if not isinstance(param, Param):
            raise ConfigError(f"models: {name}.parameters[{key!r}] is {param!r} (expected a vitro.Param)")
    rows = [{"key": key, "dimension": param.dimension, "default": param.default or "", "source": param.source}
            for key, param in table.items()]
    summary = (model.__doc__ or f"{model._kind} model written in Python").strip().splitlines()[0]
    return {"class": model, "name": name, "kind": model._kind, "fidelity": model.fidelity, "description": summary,
            "parameters": rows}


def attached(models: Sequence[type]) -> list[dict[str, Any]]:
    """Classes, for a call in another process. -> [attachment]"""
    if not models:
        return []
    for model in models:
        described(model)  # a mistake is the caller's at once
    return [packed("models", "a class", partial(_described, list(models)))]


def _described(models: Sequence[type]) -> list[dict[str, Any]]:
    return [described(model) for model in models]

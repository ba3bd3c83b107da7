"""vitro: one on-device LLM inference engine, on the real machine and on a simulated phone.

>>> import vitro
>>> result = vitro.run("experiments/quickstart.yaml", overrides={"engine.policy": "mmap", "memory.budget": "6 MiB"})
>>> result.metrics["decode_tokens_per_s"]
"""
from __future__ import annotations

from importlib import import_module

from .base.version import __version__ as __version__
from .errors import ConfigError, RunError, VitroError

TYPE_CHECKING = False  # as in typing, whose import takes a fifth of the start of a run's process
if TYPE_CHECKING:
    from typing import Any

    from . import plot, scaling
    from .device.device import Device
    from .device.models import AcceleratorModel, CoreModel, DramModel, Param, StorageModel
    from .model.files import Gptq, merge, perplexity, quantize, tokenize
    from .policy.classes import Eviction, ExpertDrift, ExpertPlacement, KvKeep, LookAhead
    from .reproducing.paper import reproduce
    from .running.belady import belady
    from .running.experiments import resolve, run
    from .running.result import Result, load_result
    from .study.search import search
    from .study.sensitivity import sensitivity
    from .study.store import rows
    from .study.study import Study
    from .study.sweep import sweep
    from .study.tasks import tasks
    from .trace.recording import Recording
    from .trace.recordings import replay_io
    from .trace.trace import Trace, diff_decisions, load_trace

# Loaded on first use: the command line must start at once, and a run's process needs neither pandas nor matplotlib.
_MODULES = {"plot": ".plot", "scaling": ".scaling"}
_NAMES = {
    "AcceleratorModel": ".device.models", "CoreModel": ".device.models",
    "Device": ".device.device", "DramModel": ".device.models", "Param": ".device.models", "StorageModel": ".device.models",
    "Eviction": ".policy.classes", "ExpertDrift": ".policy.classes", "ExpertPlacement": ".policy.classes",
    "KvKeep": ".policy.classes", "LookAhead": ".policy.classes",
    "belady": ".running.belady",
    "Gptq": ".model.files", "merge": ".model.files", "perplexity": ".model.files", "quantize": ".model.files", "tokenize": ".model.files",
    "reproduce": ".reproducing.paper", "resolve": ".running.experiments", "run": ".running.experiments", "Result": ".running.result",
    "load_result": ".running.result", "rows": ".study.store", "search": ".study.search", "sensitivity": ".study.sensitivity",
    "Study": ".study.study", "sweep": ".study.sweep", "tasks": ".study.tasks", "Recording": ".trace.recording",
    "replay_io": ".trace.recordings", "Trace": ".trace.trace", "diff_decisions": ".trace.trace", "load_trace": ".trace.trace",
}
__all__ = ["AcceleratorModel", "ConfigError", "CoreModel", "Device", "DramModel", "Eviction", "ExpertDrift", "ExpertPlacement", "Gptq",
           "KvKeep", "LookAhead", "Param", "Recording", "Result", "RunError", "StorageModel", "Study", "Trace", "VitroError", "belady",
           "diff_decisions", "load_result", "load_trace", "merge", "perplexity", "plot", "quantize", "replay_io", "reproduce", "resolve",
           "rows", "run", "scaling", "search", "sensitivity", "sweep", "tasks", "tokenize"]


def __dir__() -> list[str]:  # so that notebooks complete what was not loaded yet
    return __all__


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(_MODULES[name], __name__)
    if name not in _NAMES:
        raise AttributeError(f"module 'vitro' has no attribute '{name}'")
    value = getattr(import_module(_NAMES[name], __name__), name)
    globals()[name] = value
    return value

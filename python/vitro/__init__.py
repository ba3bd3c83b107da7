"""vitro: one on-device LLM inference engine, on the real machine and on a SystemC model of a phone.

>>> import vitro
>>> result = vitro.run("experiments/quickstart.yaml", overrides={"engine.policy": "mmap", "memory.budget": "6 MiB"})
>>> result.metrics["decode_tokens_per_s"]
"""
from importlib import import_module

from .errors import ConfigError, RunError, VitroError

__version__ = "0.1.0"

# Loaded on first use: the command line must start at once, and a run's process needs neither pandas nor matplotlib.
_LAZY = {
    "run": ".api", "resolve": ".api", "perplexity": ".api", "tokenize": ".api", "quantize": ".api", "replay_io": ".api",
    "reproduce": ".reproduce_paper",
    "Device": ".device", "DramModel": ".device_models", "StorageModel": ".device_models", "Param": ".device_models",
    "Result": ".result", "sweep": ".grid", "load_trace": ".trace", "Trace": ".trace", "diff_decisions": ".trace",
}
__all__ = ["ConfigError", "RunError", "VitroError", "plot", "scaling", *_LAZY]


def __dir__():  # so that notebooks complete what was not loaded yet
    return __all__


def __getattr__(name):
    if name in ("plot", "scaling"):
        return import_module(f".{name}", __name__)
    if name not in _LAZY:
        raise AttributeError(f"module 'vitro' has no attribute '{name}'")
    value = getattr(import_module(_LAZY[name], __name__), name)
    globals()[name] = value
    return value

"""The extension module's calling convention, in one place: JSON texts become objects, its exceptions become ours."""
import contextlib
import functools
import importlib
import json
import os

from ..errors import ConfigError, RunError
from . import checkout

_JSON = {"compose", "run", "perplexity", "quantize_by_gptq", "weight_error", "list", "bench", "bench_run", "replay_io",
         "characterize_probe", "load_device", "device_parameters", "cross_fidelity_plan", "cross_fidelity", "pack", "firing_statistics",
         "token_statistics", "workload_statistics", "probe", "plan_facts", "plan_profile", "file_origins", "tiles", "torture",
         "shrink_torture", "parse_yaml", "smallest_budget"}


def module():
    # Another module with the same functions may stand in, such as the one that the tests of the command line use.
    name = os.environ.get("VITRO_NATIVE_MODULE", "vitro._vitro")
    try:
        return _with_data(importlib.import_module(name))
    except ImportError as error:
        raise RunError(f"the extension module {name} does not load ({error}): run ./vitro once to build it") from error


@functools.cache
def _with_data(native):
    """Tells the module what names such as vitro:devices/oneplus12 mean."""
    if hasattr(native, "set_data_folder"):
        with contextlib.suppress(ConfigError):
            native.set_data_folder(str(checkout.root()))
    return native


def call(function, *args, **more):
    """Calls in this process. Simulations and everything long go through `process.call` instead."""
    answer = _answer(function, args, more)
    return json.loads(answer) if function in _JSON else answer


def call_as_json(function, *args, **more):
    """The same, and the value is the text of a JSON document: as the module gives it, where it does."""
    answer = _answer(function, args, more)
    return answer if function in _JSON else json.dumps(answer)


def _answer(function, args, more):
    native = module()
    try:
        return getattr(native, function)(*args, **more)
    except native.ConfigError as error:
        raise ConfigError(str(error)) from None
    except native.RunError as error:
        raise RunError(str(error)) from None
    except Exception as error:  # a C++ exception that names neither: our bug, and still one message
        raise RunError(f"internal error in `{function}`: {error}") from error

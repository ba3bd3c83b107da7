"""`vitro.belady`: the rule that no eviction beats, with what a first run found out about the second."""
from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.attachments import packed
from ..base.inputs import Experiment, Overrides, Progress, as_overrides
from ..device.device import Device
from ..device.models import attached as attached_models
from ..errors import ConfigError, RunError
from .experiments import call_run, compose
from .result import Result

if TYPE_CHECKING:
    import numpy

_LOG, _FUTURE = "belady.log", "belady"


def belady(experiment: Experiment, *, overrides: Overrides = None, machine: str | None = None, device: Device | str | None = None,
           models: Iterable[type] = (), out: str | os.PathLike[str] | None = None, progress: Progress | None = None) -> Result:
    """Runs the experiment twice: first to see which blocks of weights each layer uses, then with the cache giving up what is used again
    last (Belady 1966), and taking no newcomer whose own next use is as far. -> the second run's Result, whose hits no rule of eviction
    exceeds.

    Arguments as in run(), but for engine.weights.eviction and engine.weights.admission, which this sets. Raises RunError where the second
    run used other blocks than the first: on host, decisions that depend on time. Experts that are read ahead and not used count as uses,
    and where they are read depends on the cache, so a bound on whole experts needs engine.weights.experts.look_ahead: false.
    """
    given = as_overrides(overrides)
    if any(text.startswith(("engine.weights.eviction=", "engine.weights.admission=", "engine.policies=")) for text in given):
        raise ConfigError("belady: overrides set the eviction, the admission or policies (expected none of them)")
    with tempfile.TemporaryDirectory(prefix="vitro-belady-") as folder:
        def one(name: str, row: Mapping[str, Any], target: Any = None) -> Result:
            policy = [f'engine.policies=[{{kind: eviction, name: "{name}"}}]', f"engine.weights.eviction={name}",
                      "engine.weights.admission=rule"]
            composed = compose(experiment, overrides=given + policy, machine=machine, device=device)
            rows = [{"kind": "eviction", "name": name, "title": name, "description": "", "methods": set(), "follows_budget": False, **row}]
            return call_run(composed, attached=[*attached_models(tuple(models)), packed("policies", "Belady's rule", partial(list, rows))],
                            out=target, progress=progress)
        one(_LOG, {"by": "log", "rule": "lru", "class": partial(_write, folder)})
        result = one(_FUTURE, {"by": "future", "class": partial(_read, folder)}, out)
    told = (result.get("policies") or [{}])[0]
    if not told.get("accesses"):
        raise ConfigError("belady: no cache of this experiment evicts (expected engine.weights.kind: bundles or experts, with less memory "
                          "than its weights need)")
    if told["unforeseen"] and not _looks_ahead(result):
        raise RunError(f"belady: {told['unforeseen']} of {told['accesses']} uses of blocks were not those of the first run, so this is no "
                       "bound (expected a machine and an engine whose decisions do not depend on time)")
    if told["unforeseen"]:
        result.data.setdefault("notes", []).append(
            f"{told['unforeseen']} of {told['accesses']} uses of experts were not those of the first run: what is read ahead depends on "
            "the cache, so this is no bound (engine.weights.experts.look_ahead: false gives one)")
    return result


def _looks_ahead(result: Result) -> bool:
    weights = ((result.get("experiment_resolved") or {}).get("engine") or {}).get("weights") or {}
    return weights.get("kind") == "experts" and bool((weights.get("experts") or {}).get("look_ahead", True))


def _write(folder: str, number: int, ends: "numpy.ndarray", blocks: "numpy.ndarray") -> None:
    import numpy
    numpy.savez(Path(folder) / f"{number}.npz", ends=ends, blocks=blocks)


def _read(folder: str, number: int) -> "Sequence[numpy.ndarray]":
    import numpy
    with numpy.load(Path(folder) / f"{number}.npz") as found:
        return found["ends"], found["blocks"]

"""`vitro.belady`: Belady's rule, an oracle: eviction with what a first run found out about the second."""
from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base import outputs
from ..base.attachments import packed
from ..base.engine_keys import present_name
from ..base.inputs import Experiment, Overrides, Progress, as_overrides
from ..base.trees import flatten, parse_yaml
from ..device.device import Device
from ..device.models import attached as attached_models
from ..errors import ConfigError, RunError
from .experiments import call_run, compose, write_result
from .result import Result

if TYPE_CHECKING:
    import numpy

_LOG, _FUTURE = "belady.log", "belady"
_OWN = ("engine.weights.eviction", "engine.weights.admission", "engine.policies")  # keys that belady() sets


def belady(experiment: Experiment, *, overrides: Overrides = None, machine: str | None = None, device: Device | str | None = None,
           models: Iterable[type] = (), out: str | os.PathLike[str] | None = None, progress: Progress | None = None) -> Result:
    """Runs the experiment twice: first to see which blocks of weights each layer uses, then with the cache giving up what is used again
    last (Belady 1966), and taking no newcomer whose own next use is as far. -> the second run's Result, close to the best that a rule of
    eviction can do. It is no bound: the rule looks at one block at a time, while a layer holds all that it uses, so a rule that decides
    for a whole layer can have more hits. The bound is metrics.belady_hit_rate of a run with engine.weights.report_bound.

    Arguments as in run(), but for engine.weights.eviction, engine.weights.admission and engine.policies, which this sets. Raises RunError,
    and writes nothing, where the second run used other blocks than the first: on host, decisions that depend on time. Experts that are
    read ahead and not used count as uses, and where they are read depends on the cache, so the rule needs
    engine.weights.experts.look_ahead: false to be exact for whole experts; without it a note says how many uses were not foreseen.
    """
    given = as_overrides(overrides)
    if own := [key for key in _changed(given) if key in _OWN]:
        raise ConfigError(f"belady: overrides set {own[0]} (expected neither the eviction, the admission nor policies: this sets them)")
    with tempfile.TemporaryDirectory(prefix="vitro-belady-") as folder, _whole(out) as written:
        def one(name: str, row: Mapping[str, Any], target: Path | None = None) -> Result:
            policy = [f'engine.policies=[{{kind: eviction, name: "{name}"}}]', f"engine.weights.eviction={name}",
                      "engine.weights.admission=rule"]
            composed = compose(experiment, overrides=given + policy, machine=machine, device=device)
            rows = [{"kind": "eviction", "name": name, "title": name, "description": "", "methods": set(), "follows_budget": False, **row}]
            return call_run(composed, attached=[*attached_models(tuple(models)), packed("policies", "Belady's rule", partial(list, rows))],
                            out=target, progress=progress)
        one(_LOG, {"by": "log", "rule": "lru", "class": partial(_write, folder)})
        result = one(_FUTURE, {"by": "future", "class": partial(_read, folder)}, written)
        if note := _unforeseen(result):
            result.data.setdefault("notes", []).append(note)
            if written is not None:
                write_result(written, result.data)
    return replace(result, out=None if out is None else Path(out))


def _changed(overrides: Sequence[str]) -> Iterator[str]:
    """Today's names of all keys that overrides set, also those within maps."""
    for text in overrides:
        key, _, value = text.partition("=")
        with contextlib.suppress(ConfigError, TypeError):  # then the run says so
            yield from map(present_name, flatten({key.strip(): parse_yaml(value, "--set")}))


@contextlib.contextmanager
def _whole(out: str | os.PathLike[str] | None) -> Iterator[Path | None]:
    """Gives a folder to write to. What is there at the end is moved to `out`; nothing is where something failed."""
    if out is None:
        yield None
        return
    above = folder = outputs.folder(out, "out").absolute()
    while not above.exists():
        above = above.parent
    with tempfile.TemporaryDirectory(prefix=".belady-", dir=above) as name:
        yield Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        for earlier in folder.glob("trace.*"):  # as a run does: it may be in another format
            earlier.unlink()
        for path in Path(name).iterdir():
            path.replace(folder / path.name)


def _unforeseen(result: Result) -> str | None:
    """-> what is to be noted of uses that the first run did not have. Raises where that is an error, and where nothing was evicted."""
    told = (result.get("policies") or [{}])[0]
    if not told.get("accesses"):
        raise ConfigError("belady: no cache of this experiment evicts (expected engine.weights.kind: bundles or experts, with less memory "
                          "than its weights need)")
    if not told["unforeseen"]:
        return None
    said = f"{told['unforeseen']} of {told['accesses']} uses"
    if not _looks_ahead(result):
        raise RunError(f"belady: {said} of blocks were not those of the first run, so this is not Belady's rule (expected a machine and an "
                       "engine whose decisions do not depend on time)")
    return (f"{said} of experts were not those of the first run: what is read ahead depends on the cache, so this is Belady's rule but for "
            "those (engine.weights.experts.look_ahead: false makes it exact)")


def _looks_ahead(result: Result) -> bool:
    weights = ((result.get("experiment_resolved") or {}).get("engine") or {}).get("weights") or {}
    experts = weights.get("experts") or {}
    whole = weights.get("kind") == "experts" and bool(experts.get("look_ahead", True))
    return whole or experts.get("neurons_ahead", 0) not in (0, "0 B")


def _write(folder: str, number: int, ends: "numpy.ndarray", blocks: "numpy.ndarray") -> None:
    import numpy
    numpy.savez(Path(folder) / f"{number}.npz", ends=ends, blocks=blocks)


def _read(folder: str, number: int) -> "Sequence[numpy.ndarray]":
    import numpy
    with numpy.load(Path(folder) / f"{number}.npz") as found:
        return found["ends"], found["blocks"]

"""Suites of experiments for `vitro validate` (docs/validate.md): reading them, and making the models that they name."""
import itertools
import os
import re
from dataclasses import dataclass
from pathlib import Path

from . import api
from .characterize import load_yaml
from .errors import ConfigError

KEYS = ("suite", "models", "base", "experiments", "bounds", "description")
_FORMS = {str: "a text", dict: "a map", list: "a list"}
BOUNDS = ("mape_decode", "mape_prefill", "mape_p90", "rank_agreement", "conclusive", "tokens_equal", "bytes_equal", "decisions_equal")


@dataclass(frozen=True)
class Case:
    """One experiment. `point`: what its entry sets, by dotted key; `model`: its name in the suite."""
    id: str
    model: str
    gguf: Path
    point: dict
    base: dict

    @property
    def experiment(self):
        return {"experiment": self.id, "model": {"gguf": str(self.gguf)}} | self.base

    def group(self):
        """Cases that may be compared: one model, one prompt. (vitro's formats of one model are models of their own.)"""
        workload = self.base.get("workload") or {}
        return self.model, *(str(self.point.get(f"workload.{key}", workload.get(key))) for key in ("prompt", "prompt_tokens"))


@dataclass(frozen=True)
class Suite:
    name: str
    cases: list
    bounds: dict


def load(path, *, make=True, progress=None):
    """Reads a suite and, with `make`, sees to its models."""
    path = Path(api.existing(path))
    tree = load_yaml(path)
    if not isinstance(tree, dict):
        raise ConfigError(f"{path}:1: a suite is a map (expected {', '.join(KEYS)})")
    for key in tree:
        if key not in KEYS:
            raise ConfigError(f"{path}: {key}: unknown key (expected one of {', '.join(KEYS)})")
    for key, form in (("suite", str), ("models", dict), ("experiments", list), ("base", dict), ("bounds", dict)):
        if not tree.get(key):
            if key in ("suite", "models", "experiments"):
                raise ConfigError(f"{path}: {key}: is missing")
        elif not isinstance(tree[key], form):
            raise ConfigError(f"{path}: {key}: {tree[key]!r} (expected {_FORMS[form]})")
    for key, bound in (tree.get("bounds") or {}).items():
        if key not in BOUNDS:
            raise ConfigError(f"{path}: bounds.{key}: unknown key (expected one of {', '.join(BOUNDS)})")
        if not isinstance(bound, bool) and not re.fullmatch(r"[0-9]+(\.[0-9]+)?%?", str(bound)):
            raise ConfigError(f'{path}: bounds.{key}: "{bound}" (expected a share such as 10%, or true)')
    cases, seen = [], set()
    for index, entry in enumerate(tree["experiments"]):
        for case in _cases(path, index, entry, tree):
            if case.id in seen:
                raise ConfigError(f"{path}: experiments[{index}]: {case.id} is there twice")
            seen.add(case.id)
            cases.append(case)
    if make:
        for name in dict.fromkeys(case.model for case in cases):
            _see_to(path, name, tree["models"][name], progress)
    return Suite(tree["suite"], cases, tree.get("bounds") or {})


def _cases(path, index, entry, tree):
    where = f"{path}: experiments[{index}]"
    if not isinstance(entry, dict) or "model" not in entry:
        raise ConfigError(f"{where}: is no map with a model")
    choices = [value if isinstance(value, list) else [value] for value in entry.values()]
    swept = [key for key, value in entry.items() if key != "model"]
    for values in itertools.product(*choices):
        point = dict(zip(entry, values))
        model = point.pop("model")
        if model not in tree["models"]:
            raise ConfigError(f'{where}.model: there is no "{model}" (expected one of {", ".join(tree["models"])})')
        name = "-".join([model, *(f"{key.rpartition('.')[2]}={point[key]}" for key in swept)])
        yield Case(name, model, model_path(path, tree["models"][model]), point, tree.get("base") or {})


def model_path(suite, source):
    if not isinstance(source, dict) or ("gguf" in source) == ("make" in source) or set(map(type, source.values())) != {str}:
        raise ConfigError(f"{suite}: models: {source}: expected {{gguf: PATH}}, or {{make: PRESET}} with an optional scheme")
    if "gguf" in source:
        return (Path(suite).absolute().parent / source["gguf"]).resolve()
    from .calibrate import cache_folder
    return cache_folder() / "models" / f"made-{source['make']}.{source.get('scheme', 'f16')}.gguf"


def _see_to(suite, name, source, progress):
    path = model_path(suite, source)
    if path.exists():
        return
    if "gguf" in source:
        raise ConfigError(f"{suite}: models.{name}: {path}: no such file")
    from .make_model import make_model, spec_with
    path.parent.mkdir(parents=True, exist_ok=True)
    plain = path.with_name(f"made-{source['make']}.f16.gguf")
    if not plain.exists():
        make_model(spec_with(source["make"]), plain, progress or (lambda done, total: None))
    if path != plain:
        part = path.with_name(path.name + ".part")
        api.quantize(plain, part, source["scheme"], progress=progress)
        os.replace(part, path)

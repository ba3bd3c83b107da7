"""Suites of experiments for `vitro validate` (docs/guide/validate.md): reading them, and making the models that they name."""
import itertools
import os
import re
from dataclasses import dataclass
from pathlib import Path

from ..base import inputs, native
from ..base.cache import cache_folder
from ..base.origins import Origins, with_origins
from ..base.trees import flatten, load_yaml
from ..base.whole_files import in_place
from ..errors import ConfigError
from ..model import files
from ..running import experiments

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
    overrides: list  # base and point, each value with its place in the suite
    place: str       # of its entry

    @property
    def experiment(self):
        return {"experiment": self.id, "model": {"gguf": str(self.gguf)}}

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
    path = Path(inputs.existing(path))
    tree = load_yaml(path)
    if not isinstance(tree, dict):
        raise ConfigError(f"{path}:1: is not a map (expected {', '.join(KEYS)})")
    origins = Origins(native.call("file_origins", str(path)))
    with with_origins(lambda: origins):
        cases = _read(path, tree, origins)
        for case in cases:  # a typo in the last one shows before models are made and the first one runs
            _resolve(case)
        for name in dict.fromkeys(case.model for case in cases if make):
            _see_to(path, name, tree["models"][name], progress)
    return Suite(tree["suite"], cases, tree.get("bounds") or {})


def _resolve(case):
    try:
        experiments.resolve(case.experiment, overrides=[*case.overrides, "machine=host"])
    except ConfigError as error:  # of what is nowhere: the entry that lacks it
        raise ConfigError(str(error).replace("<dict>:1:", f"{case.place}:", 1)) from None


def _read(path, tree, origins):
    if "experiment" in tree and "suite" not in tree:
        raise ConfigError("experiment: is of an experiment, and this command takes a suite of them (expected suite: NAME, then models:, "
                          "base: and experiments:, as experiments/validation/small.yaml has them)", ("experiment",))
    for key in tree:
        if key not in KEYS:
            raise ConfigError(f"{key}: unknown key (expected one of {', '.join(KEYS)})", (key,))
    for key, form in (("suite", str), ("models", dict), ("experiments", list), ("base", dict), ("bounds", dict)):
        if not tree.get(key):
            if key in ("suite", "models", "experiments"):
                raise ConfigError(f"{key}: is missing", (key,))
        elif not isinstance(tree[key], form):
            raise ConfigError(f"{key}: {tree[key]!r} (expected {_FORMS[form]})", (key,))
    for key, bound in (tree.get("bounds") or {}).items():
        if key not in BOUNDS:
            raise ConfigError(f"bounds.{key}: unknown key (expected one of {', '.join(BOUNDS)})", ("bounds", key))
        if not isinstance(bound, bool) and not re.fullmatch(r"[0-9]+(\.[0-9]+)?%?", str(bound)):
            raise ConfigError(f'bounds.{key}: "{bound}" (expected a share such as 10%, or true)', ("bounds", key))
    cases, seen = [], set()
    for index, entry in enumerate(tree["experiments"]):
        for case in _cases(path, index, entry, tree, origins):
            if case.id in seen:
                raise ConfigError(f"experiments[{index}]: {case.id} is there twice", ("experiments", index))
            seen.add(case.id)
            cases.append(case)
    return cases


def _cases(path, index, entry, tree, origins):
    where, at = f"experiments[{index}]", ("experiments", index)
    if not isinstance(entry, dict) or "model" not in entry:
        raise ConfigError(f"{where}: is not a map with a model", at)
    base = tree.get("base") or {}
    common = flatten(base)
    given = inputs.overrides_with_origin(common, {key: origins.at("base", *key.split(".")) for key in common})
    choices = [value if isinstance(value, list) else [value] for value in entry.values()]
    swept = [key for key, value in entry.items() if key != "model"]
    for values in itertools.product(*choices):
        point = dict(zip(entry, values))
        model = point.pop("model")
        if model not in tree["models"]:
            raise ConfigError(f'{where}.model: there is no "{model}" (expected one of {", ".join(tree["models"])})', (*at, "model"))
        name = "-".join([model, *(f"{key.rpartition('.')[2]}={point[key]}" for key in swept)])
        own = inputs.overrides_with_origin(point, {key: origins.at(*at, key) for key in point})
        yield Case(name, model, model_path(path, model, tree["models"][model]), point, base, [*given, *own],
                   origins.at(*at))


def model_path(suite, name, source):
    if not isinstance(source, dict) or ("gguf" in source) == ("make" in source) or set(map(type, source.values())) != {str}:
        raise ConfigError(f"models.{name}: {source}: expected {{gguf: PATH}}, or {{make: PRESET}} with an optional scheme",
                          ("models", name))
    if "gguf" in source:
        return (Path(suite).absolute().parent / source["gguf"]).resolve()
    return cache_folder() / "models" / f"made-{source['make']}.{source.get('scheme', 'f16')}.gguf"


def _see_to(suite, name, source, progress):
    path = model_path(suite, name, source)
    if path.exists():
        return
    if "gguf" in source:
        raise ConfigError(f"models.{name}: {path}: no such file", ("models", name, "gguf"))
    from ..model.make import make_model, spec_with
    path.parent.mkdir(parents=True, exist_ok=True)
    plain = path.with_name(f"made-{source['make']}.f16.gguf")
    if not plain.exists():
        make_model(spec_with(source["make"]), plain, progress or (lambda done, total: None))
    if path != plain:
        with in_place(path) as part:
            files.quantize(plain, part, source["scheme"], progress=progress)

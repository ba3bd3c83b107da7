"""Designs of experiments: which points of a space are run.

    sweep:
      design: sobol                                     # grid, zip, random, sobol, latin_hypercube
      samples: 64                                       # of the last three
      seed: 1                                           # of the last three; 1 by default
      over:
        memory.ffn_in_dram: {from: 25%, to: 75%}        # a range: of quantities of one unit, or of numbers
        engine.clusters.io_depth: {from: 4, to: 64, scale: log, whole: true}
        engine.policy: [neuron_cluster, mmap]           # a choice

Sobol' points are SciPy's, scrambled (Owen 1998) by the seed; Latin hypercubes (McKay et al. 1979) have one point in each of `samples`
slices of every range. All are drawn whole in advance, so a study that is resumed has the same points.
"""
import math
import re
from dataclasses import dataclass
from typing import Any

from ..errors import ConfigError

DESIGNS = ("grid", "zip", "random", "sobol", "latin_hypercube")
_KEYS = {"design", "samples", "seed", "over", "label"}
_RANGE = {"from", "to", "scale", "whole"}
_NUMBER = re.compile(r"([-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)\s*([^0-9.\s].*)?")
MOST = 100_000  # samples of a design, and points of a grid

At = tuple[str | int, ...]


@dataclass(frozen=True)
class Range:
    """Numbers from low to high, each written with `unit`."""

    low: float
    high: float
    unit: str      # with the space before it, as it was written
    log: bool
    whole: bool

    def value(self, share: float) -> Any:
        """share: from 0 up to 1 -> the number there, as a file would have it."""
        margin = 0.5 if self.whole else 0.0  # whole numbers at the ends are no less likely than others
        low, high = self.low - margin, self.high + margin
        number = math.exp(math.log(low) + share * math.log(high / low)) if self.log else low + share * (high - low)
        return self.written(number)

    def written(self, number: float) -> Any:
        """A number of the range, as a file would have it."""
        number = min(max(float(math.floor(number + 0.5)) if self.whole else float(f"{number:.6g}"), self.low), self.high)
        if not self.unit:
            return int(number) if self.whole else number
        return f"{number:.6g}{self.unit}" if not number.is_integer() else f"{int(number)}{self.unit}"


Axis = Range | list[Any]


def is_design(sweep: Any) -> bool:
    return isinstance(sweep, dict) and "design" in sweep


def axes(over: Any, at: At) -> dict[str, Axis]:
    """`over:` read. Raises ConfigError."""
    if not isinstance(over, dict) or not over:
        raise ConfigError("over: expected a map from keys to lists of values, or to ranges {from: ..., to: ...}", at)
    found: dict[str, Axis] = {}
    for key, value in over.items():
        if isinstance(value, dict) and value.keys() & {"from", "to"}:
            found[key] = _range(key, value, (*at, key))
        else:
            found[key] = value if isinstance(value, list) else [value]
            if not found[key]:
                raise ConfigError(f"over.{key}: the list is empty", (*at, key))
    return found


def _range(key, tree, at):
    for name in tree:
        if name not in _RANGE:
            raise ConfigError(f"over.{key}.{name}: unknown key (expected {', '.join(sorted(_RANGE))})", (*at, name))
    ends = []
    for name in ("from", "to"):
        match = _NUMBER.fullmatch(str(tree.get(name, "")).strip())
        if isinstance(tree.get(name), bool) or not match or not math.isfinite(float(match[1])):
            raise ConfigError(f"over.{key}.{name}: {tree.get(name)!r} (expected a number, with its unit if it has one)", (*at, name))
        ends.append((float(match[1]), match[2] or "", str(tree[name])))
    (low, unit, _), (high, other, text) = ends
    log, whole = tree.get("scale", "linear") == "log", tree.get("whole", False)
    if tree.get("scale", "linear") not in ("linear", "log") or not isinstance(whole, bool):
        raise ConfigError(f"over.{key}: scale: {tree.get('scale')!r}, whole: {whole!r} (expected linear or log, and true or false)", at)
    if unit != other:
        raise ConfigError(f"over.{key}.to: {text!r} (expected the unit of `from`, {unit!r})", (*at, "to"))
    if not low < high or (log and low <= 0):
        raise ConfigError(f"over.{key}: from {low:g} to {high:g} (expected from < to{', from > 0 on a log scale' if log else ''})", at)
    if whole and log and low < 1:
        raise ConfigError(f"over.{key}: from {low:g} (expected 1 or more for whole numbers on a log scale)", at)
    if whole and not (low.is_integer() and high.is_integer()):
        raise ConfigError(f"over.{key}: from {low:g} to {high:g} (expected whole numbers)", at)
    return Range(low, high, unit and (unit if unit == "%" else f" {unit}"), log, whole)


def points_of(design: dict[str, Any], at: At) -> list[tuple[dict[str, Any], dict[str, At]]]:
    """-> [(point, {key: steps to where its value was written})]"""
    kind = design["design"]
    if kind == "search":
        raise ConfigError("sweep.design: is a search (expected `vitro search` in place of `vitro sweep`)", (*at, "design"))
    if kind not in DESIGNS:
        raise ConfigError(f"sweep.design: {kind!r} (expected one of {', '.join(DESIGNS)})", (*at, "design"))
    drawn = kind not in ("grid", "zip")
    for key in design:
        if key not in _KEYS or (not drawn and key in ("samples", "seed")):
            raise ConfigError(f"sweep.{key}: unknown key of a design {kind} (expected one of design, over"
                              f"{', samples, seed' if drawn else ''}, label)", (*at, key))
    space = axes(design.get("over"), (*at, "over"))
    if not drawn:
        return _listed(kind, space, at)
    count, seed = design.get("samples"), design.get("seed", 1)
    if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= MOST:
        raise ConfigError(f"sweep.samples: {count!r} (expected a whole number from 1 to {MOST})", (*at, "samples"))
    if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
        raise ConfigError(f"sweep.seed: {seed!r} (expected a whole number)", (*at, "seed"))
    steps = {key: (*at, "over", key) for key in space}
    return [({key: _pick(axis, share) for (key, axis), share in zip(space.items(), shares)}, steps)
            for shares in _shares(kind, len(space), count, seed)]


def _pick(axis, share):
    return axis.value(share) if isinstance(axis, Range) else axis[min(int(share * len(axis)), len(axis) - 1)]


def _shares(kind, dimensions, count, seed):
    """-> count rows of numbers from 0 up to 1."""
    import warnings

    import numpy
    from scipy.stats import qmc
    generator = numpy.random.default_rng(seed)
    if kind == "random":
        return generator.random((count, dimensions)).tolist()
    if kind == "latin_hypercube":
        return qmc.LatinHypercube(dimensions, rng=generator).random(count).tolist()
    with warnings.catch_warnings():  # other counts than powers of two are balanced a little less; that is for the user to choose
        warnings.simplefilter("ignore", UserWarning)
        return qmc.Sobol(dimensions, rng=generator).random(count).tolist()


def _listed(kind, space, at):
    import itertools
    for key, axis in space.items():
        if isinstance(axis, Range):
            raise ConfigError(f"over.{key}: a range has no end of points (expected a list for a design {kind})", (*at, "over", key))
    lists = {key: list(enumerate(axis)) for key, axis in space.items()}
    if kind == "grid" and (count := math.prod(map(len, lists.values()))) > MOST:
        raise ConfigError(f"sweep.over: has {count:,} points (expected up to {MOST:,})", (*at, "over"))
    if kind == "zip":
        lengths = {key: len(axis) for key, axis in lists.items()}
        if len(set(lengths.values())) > 1:
            raise ConfigError("sweep.over: " + ", ".join(f"{key} has {count}" for key, count in lengths.items())
                              + " values (expected lists of one length)", (*at, "over"))
        chosen = zip(*lists.values())
    else:
        chosen = itertools.product(*lists.values())
    return [({key: value for key, (_, value) in zip(space, values)},
             {key: (*at, "over", key, position) for key, (position, _) in zip(space, values)}) for values in chosen]

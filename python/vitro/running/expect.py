"""`expect:` of an experiment: what its result has to be.

Each entry names a metric and either a value with a tolerance or bounds; without a value it is the published one of that id:
    expect:
      speed: {metric: decode_tokens_per_s, value: 43.9, within: 15%}
      quick_start: {metric: ttft_ms, max: 800}
      pi2_t6_bamboo_tps: {metric: decode_tokens_per_s, within: 15%}
"""
from collections.abc import Mapping
from typing import Any

from ..base import checkout, quantities
from ..base.figures import leaves_of
from ..base.trees import flatten, load_yaml
from ..errors import ConfigError

KEYS = ("metric", "value", "within", "min", "max")


def check(expect: Any) -> None:
    """Raises ConfigError when something could not be judged: better before a run than after."""
    if not isinstance(expect or {}, dict):
        raise ConfigError("expect: is not a map (expected entries such as speed: {metric: decode_tokens_per_s, min: 10})", ("expect",))
    for name, entry in (expect or {}).items():
        if not isinstance(entry, dict) or not isinstance(entry.get("metric"), str):
            _refuse(f"{entry!r} names no metric (expected a map such as {{metric: decode_tokens_per_s, min: 10}})", name)
        for key in entry:
            if key not in KEYS:
                _refuse(f"unknown key (expected one of: {', '.join(KEYS)})", name, key)
        _bounds(name, entry)


def judge(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """-> [{"id", "metric", "expected", "measured", "relation", "status": "ok"|"off"}], in the order of the file."""
    expect = (result.get("experiment_resolved") or {}).get("expect") or {}
    check(expect)
    metrics = flatten(result["metrics"])
    return [row for name, entry in expect.items() for row in _judge_entry(name, entry, metrics)]


def _judge_entry(name, entry, metrics):
    metric = entry["metric"]
    if metric not in metrics:
        _refuse(f"{metric!r} is not a metric (there are {', '.join(sorted(metrics))})", name, "metric")
    measured = metrics[metric]
    for relation, expected, holds in _bounds(name, entry):
        ok = measured is not None and holds(measured)
        yield {"id": name, "metric": metric, "expected": expected, "measured": measured, "relation": relation,
               "status": "ok" if ok else "off"}


def _bounds(name, entry):
    """-> [(relation, expected, function that says whether it holds)]"""
    share = _share(name, entry.get("within", "0%"))
    found = []
    if "value" in entry or "within" in entry:
        value = _number(name, "value", entry["value"]) if "value" in entry else published(name)
        found.append(("=", value, lambda x: abs(x - value) <= share * abs(value)))
    if "min" in entry:
        low = _number(name, "min", entry["min"])
        found.append((">", low, lambda x: x >= low))
    if "max" in entry:
        high = _number(name, "max", entry["max"])
        found.append(("<", high, lambda x: x <= high))
    if not found:
        _refuse("needs value (with within), min or max, or within alone for a published figure", name)
    return found


def published(name):
    """The number that figures.yaml has under an id, or an id and a leaf of its table."""
    figures = load_yaml(checkout.root() / "experiments" / "papers" / "figures.yaml")
    if any(name == entry["id"] or name.startswith(entry["id"] + ".") for entry in figures["reserved"]):
        _refuse("its published value is kept back (expected a value)", name)
    for entry in figures["entries"]:
        for suffix, value in leaves_of(entry["value"]):
            if name == entry["id"] + suffix and isinstance(value, (int, float)):
                return float(value)
    _refuse("is not a single number in experiments/papers/figures.yaml (expected the name of an entry with a value)", name)


def _number(name, key, text):
    try:
        return float(text)
    except (TypeError, ValueError):
        _refuse(f'"{text}" is not a number', name, key)


def _share(name, text):
    if (share := quantities.share(text)) is None:
        _refuse(f'"{text}" is not a share (expected something like 15%)', name, "within")
    return share


def _refuse(problem, *steps):
    """Of a value within `expect:`."""
    at = ("expect", *steps)
    raise ConfigError(f"{'.'.join(at)}: {problem}", at) from None

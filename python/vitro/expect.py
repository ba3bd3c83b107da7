"""`expect:` of an experiment: what its result has to be.

Each entry names a metric and either a value with a tolerance or bounds:
    expect:
      speed: {metric: decode_tokens_per_s, value: 43.9, within: 15%}
      quick_start: {metric: ttft_ms, max: 800}
"""
from .errors import ConfigError
from .result import flatten


def judge(result):
    """-> [{"id", "metric", "expected", "measured", "relation", "status": "ok"|"off"}], in the order of the file."""
    expect = (result.get("experiment_resolved") or {}).get("expect") or {}
    metrics = flatten(result["metrics"])
    return [row for name, entry in expect.items() for row in _judge_entry(name, entry, metrics)]


def _judge_entry(name, entry, metrics):
    metric = entry.get("metric")
    if metric not in metrics:
        raise ConfigError(f"expect.{name}.metric: {metric!r} is no metric (there are {', '.join(sorted(metrics))})")
    measured = metrics[metric]
    bounds = []
    if "value" in entry:
        value, share = float(entry["value"]), _share(name, entry.get("within", "0%"))
        bounds.append(("=", value, lambda x: abs(x - value) <= share * abs(value)))
    if "min" in entry:
        low = float(entry["min"])
        bounds.append((">", low, lambda x: x >= low))
    if "max" in entry:
        high = float(entry["max"])
        bounds.append(("<", high, lambda x: x <= high))
    if not bounds:
        raise ConfigError(f"expect.{name}: needs value (with within), min or max")
    for relation, expected, holds in bounds:
        ok = measured is not None and holds(measured)
        yield {"id": name, "metric": metric, "expected": expected, "measured": measured, "relation": relation,
               "status": "ok" if ok else "off"}


def _share(name, text):
    try:
        return float(str(text).removesuffix("%")) / 100 if str(text).endswith("%") else float(text)
    except ValueError:
        raise ConfigError(f'expect.{name}.within: "{text}" is not a share (expected something like 15%)') from None

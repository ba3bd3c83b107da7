"""The outcome of one run."""
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .errors import ConfigError


def flatten(tree, prefix=""):
    """{"a": {"b": 1}} -> {"a.b": 1}; lists stay values."""
    flat = {}
    for key, value in tree.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat


def named(metrics, names):
    """Of flat metrics (or names of them) those that `metrics:` of an experiment names, in its order. A name stands for its parts, too."""
    if not names:
        return list(metrics)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ConfigError(f"metrics: {names!r} (expected a list of names, such as [decode_tokens_per_s, token_latency_ms])", ("metrics",))
    chosen = {name: [metric for metric in metrics if metric == name or metric.startswith(f"{name}.")] for name in names}
    for name, found in chosen.items():
        if not found:
            raise ConfigError(f"metrics: {name!r} is no metric (there are {', '.join(sorted(metrics))})", ("metrics", names.index(name)))
    return [metric for found in chosen.values() for metric in found]


@dataclass(frozen=True, eq=False)
class Result(Mapping):
    """result.json (docs/results.md) as an immutable mapping, with the fields that everybody wants as attributes."""

    data: dict
    out: Path | None = None  # where trace.json, decisions.jsonl and result.json lie, if they were asked for

    def __getitem__(self, key):
        return self.data[key]

    def __iter__(self):
        return iter(self.data)

    def __len__(self):
        return len(self.data)

    @property
    def metrics(self):
        return self.data["metrics"]

    @property
    def tokens(self):
        return self.data["tokens"]

    @property
    def text(self):
        return self.data["text"]

    @property
    def machine(self):
        return self.data["machine"]

    def metric(self, name):
        """By dotted name, `token_latency_ms.p99`. None where it does not apply."""
        return flatten(self.metrics).get(name)

    @property
    def budget_bytes(self):
        """`memory.budget` of the resolved experiment, or None."""
        text = ((self.get("experiment_resolved") or {}).get("memory") or {}).get("budget")
        match = re.fullmatch(r"\s*([0-9.]+)\s*([kMGT]?)(i?)B\s*", text) if isinstance(text, str) else None
        if not match:
            return None
        value, prefix, binary = match.groups()
        return float(value) * (1024 if binary else 1000) ** " kMGT".index(prefix or " ")

    @property
    def expectations(self):
        """One row per entry of `expect:`, see expect.py."""
        from .expect import judge
        return judge(self.data)

    def to_json(self, indent=None):
        return json.dumps(self.data, indent=indent)

    def __repr__(self):
        speed = self.metrics.get("decode_tokens_per_s")
        return f"Result({self.get('experiment')!r}, machine={self.machine!r}, decode_tokens_per_s={speed})"

"""The outcome of one run."""
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ..base import quantities
from ..base.trees import flatten
from ..errors import ConfigError
from .expect import judge


def named(metrics: Iterable[str], names: Any) -> list[str]:
    """Of flat metrics (or names of them) those that `metrics:` of an experiment names, in its order. A name stands for its parts, too."""
    if not names:
        return list(metrics)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ConfigError(f"metrics: {names!r} (expected a list of names, such as [decode_tokens_per_s, token_latency_ms])", ("metrics",))
    chosen = {name: [metric for metric in metrics if metric == name or metric.startswith(f"{name}.")] for name in names}
    for name, found in chosen.items():
        if not found:
            raise ConfigError(f"metrics: {name!r} is not a metric (there are {', '.join(sorted(metrics))})", ("metrics", names.index(name)))
    return [metric for found in chosen.values() for metric in found]


@dataclass(frozen=True, eq=False)
class Result(Mapping[str, Any]):
    """result.json (docs/reference/results.md) as an immutable mapping, with the fields that everybody wants as attributes."""

    data: dict[str, Any]
    out: Path | None = None  # where trace.json, decisions.jsonl and result.json lie, if they were asked for

    def __getitem__(self, key: str) -> Any:
        return self.data[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.data)

    def __len__(self) -> int:
        return len(self.data)

    @property
    def metrics(self) -> dict[str, Any]:
        return self.data["metrics"]

    @property
    def tokens(self) -> list[int]:
        return self.data["tokens"]

    @property
    def text(self) -> str | None:
        return self.data["text"]

    @property
    def machine(self) -> str:
        return self.data["machine"]

    def metric(self, name: str) -> Any:
        """By dotted name, `token_latency_ms.p99`. None where it does not apply."""
        return flatten(self.metrics).get(name)

    @property
    def budget_bytes(self) -> float | None:
        """`memory.budget` of the resolved experiment, or None."""
        budget = ((self.get("experiment_resolved") or {}).get("memory") or {}).get("budget")
        return None if budget is None else quantities.parse(budget, "bytes")

    @cached_property
    def expectations(self) -> list[dict[str, Any]]:
        """One row per entry of `expect:`, see expect.py."""
        return judge(self.data)

    def to_json(self, indent: int | None = None) -> str:
        return json.dumps(self.data, indent=indent)

    def __repr__(self) -> str:
        speed = self.metrics.get("decode_tokens_per_s")
        return f"Result({self.get('experiment')!r}, machine={self.machine!r}, decode_tokens_per_s={speed})"

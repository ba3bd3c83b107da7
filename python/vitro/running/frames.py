"""The tables that `Result.to_frame` gives, one function per part."""
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..base.metric_units import unit_of
from ..base.trees import flatten
from .expect import judge

if TYPE_CHECKING:
    import pandas

Data = Mapping[str, Any]  # of result.json

_IDENTITY = ("experiment", "machine", "model", "policy", "seed")


def _table(rows: list[dict[str, Any]], columns: list[str]) -> "pandas.DataFrame":
    import pandas
    return pandas.DataFrame(rows, columns=columns if not rows else [*columns, *(name for name in rows[0] if name not in columns)])


def _flat(result: Data) -> dict[str, Any]:
    return {name: value for name, value in flatten(result["metrics"]).items() if not isinstance(value, list)}


def run(result: Data) -> "pandas.DataFrame":
    row = {name: result.get(name) for name in _IDENTITY} | _flat(result)
    return _table([row | {name: result.get(name) for name in ("event_hash", "simulated_s", "wall_s")}], list(_IDENTITY))


def metrics(result: Data) -> "pandas.DataFrame":
    return _table([{"metric": name, "value": value, "unit": unit_of(name)} for name, value in _flat(result).items()],
                  ["metric", "value", "unit"])


def steps(result: Data) -> "pandas.DataFrame":
    told = result.get("steps") or {}
    columns = {"step": list(range(1, len(told.get("latency_ms", [])) + 1)), **told}
    rows = [dict(zip(columns, values)) for values in zip(*columns.values())]
    for row in rows:
        row["tokens_per_s"] = row["sequences"] / row["latency_ms"] * 1e3 if row["latency_ms"] else None
        if "accesses" in row:
            row["hit_rate"] = row["hits"] / row["accesses"] if row["accesses"] else None
    return _table(rows, ["step", "latency_ms", "sequences", "tokens_per_s"])


def memory(result: Data) -> "pandas.DataFrame":
    return _table([{"region": name, "peak_bytes": size} for name, size in (result.get("peak_memory") or {}).items()],
                  ["region", "peak_bytes"])


def energy(result: Data) -> "pandas.DataFrame":
    return _joules(result, "part", "energy_parts_j")


def units(result: Data) -> "pandas.DataFrame":
    return _joules(result, "unit", "energy_by_unit_j")


def _joules(result: Data, name: str, metric: str) -> "pandas.DataFrame":
    parts = result["metrics"].get(metric) or {}
    whole = sum(parts.values())
    return _table([{name: part, "joules": joules, "share": joules / whole if whole else None} for part, joules in parts.items()],
                  [name, "joules", "share"])


def samples(result: Data) -> "pandas.DataFrame":
    scaling = result.get("scaling") or {}
    rows = [{**sample, "tokens": len(sample["tokens"]), "chosen": index == scaling["chosen"]}
            for index, sample in enumerate(scaling.get("samples", []))]
    return _table(rows, ["text", "score", "log_probability", "answer", "tokens", "chosen"])


def expectations(result: Data) -> "pandas.DataFrame":
    return _table(judge(result), ["id", "metric", "measured", "relation", "expected", "status"])

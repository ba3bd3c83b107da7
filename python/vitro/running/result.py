"""The outcome of one run."""
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base import quantities
from ..base.frames import html_table
from ..base.inputs import existing
from ..base.metric_units import unit_of
from ..base.schemas import checked
from ..base.terminal import number
from ..base.trees import flatten
from ..errors import ConfigError
from .expect import judge

if TYPE_CHECKING:
    import pandas

SCHEMA = "vitro.result"
VERSION = 1
PARTS = ("run", "metrics", "steps", "memory", "energy", "units", "samples", "expectations")
_HEADLINES = ("decode_tokens_per_s", "prefill_tokens_per_s", "ttft_ms", "token_latency_ms.p50", "token_latency_ms.p99", "cache_hit_rate",
              "exposed_io_share", "energy_j_per_token", "peak_memory_bytes", "flash_bytes_read.decode")


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
        """As a tree; `metric()` takes dotted names. The ending of a name says the unit: ms, s, bytes, w, j, tokens_per_s, gb_per_s."""
        return self.data["metrics"]

    @property
    def tokens(self) -> list[int]:
        """Ids of the generated tokens, without the prompt."""
        return self.data["tokens"]

    @property
    def text(self) -> str | None:
        """The generated text; None for a model without a tokenizer."""
        return self.data["text"]

    @property
    def machine(self) -> str:
        """"host" or "sim"."""
        return self.data["machine"]

    def metric(self, name: str) -> Any:
        """By dotted name, `token_latency_ms.p99`. None where it does not apply."""
        return flatten(self.metrics).get(name)

    @property
    def budget_bytes(self) -> float | None:
        """`memory.budget` of the resolved experiment in bytes, or None."""
        budget = ((self.get("experiment_resolved") or {}).get("memory") or {}).get("budget")
        return None if budget is None else quantities.parse(budget, "bytes")

    @cached_property
    def expectations(self) -> list[dict[str, Any]]:
        """One row per entry of `expect:`, see expect.py."""
        return judge(self.data)

    def to_frame(self, part: str = "run") -> "pandas.DataFrame":
        """A table of the result. part, one of:

        - "run": one row, the identity of the run and a column per metric by its dotted name; for `pandas.concat` of several
        - "metrics": a row per metric: metric, value, unit
        - "steps": a row per decode step after the first token (of the last request): step (from 1), latency_ms, sequences that it
          decoded, tokens_per_s, and, where steps are told apart, bytes_read (from flash), hits and accesses of the weight cache, hit_rate
        - "memory": a row per region: region, peak_bytes
        - "energy": a row per part: part, joules (of decoding, or of the prompt if one token was generated), share
        - "units": the same energy by who drew it, a row per core and accelerator, DRAM, flash and the phone itself: unit, joules, share
        - "samples": a row per sample of workload.scaling: text, score, log_probability, answer, tokens (their number), chosen
        - "expectations": a row per entry of `expect:`

        A part that this run does not have is an empty table with its columns.
        """
        from . import frames
        if part not in PARTS:
            raise ConfigError(f"to_frame: {part!r} (expected one of: {', '.join(PARTS)})")
        return getattr(frames, part)(self)

    def to_json(self, indent: int | None = None) -> str:
        return json.dumps(self.data, indent=indent)

    def __repr__(self) -> str:
        speed = self.metrics.get("decode_tokens_per_s")
        return f"Result({self.get('experiment')!r}, machine={self.machine!r}, decode_tokens_per_s={speed})"

    def _repr_html_(self) -> str:
        """What a notebook shows: the metrics that people read first, with units, and how many parameters are assumed."""
        flat = flatten(self.metrics)
        rows = [(name, number(flat[name]), unit_of(name)) for name in _HEADLINES if flat.get(name) is not None]
        rows += [(f"expect {row['id']}", row["status"], "") for row in self.expectations]
        assumed = len(self.get("assumed_parameters") or [])
        said = f"{self.get('experiment')}: {self.get('policy')} of {self.get('model')} on {self.machine}"
        return html_table(rows, caption=said + (f"; {assumed} assumed parameters" if assumed else ""))


def check_schema(data: Any, where: str) -> dict[str, Any]:
    """-> a result as read from a file. Raises ConfigError for what is none, and for one of a newer version. where: the file's name."""
    result = checked(data, SCHEMA, VERSION, where, "a result of vitro")
    if not isinstance(result.get("metrics"), dict) or "machine" not in result:
        raise ConfigError(f"{where}: is not a result of vitro (expected schema {SCHEMA}/{VERSION})")
    return result


def _check_parts(result: Mapping[str, Any], where: str) -> None:
    """Raises ConfigError where a part that tables are made of has another form than vitro writes."""
    def need(holds: bool, part: str, expected: str) -> None:
        if not holds:
            raise ConfigError(f"{where}: {part}: is damaged (expected {expected})")
    flatten(result["metrics"])  # maps within maps may be too deep for it
    steps, samples = result.get("steps"), result.get("scaling")
    energy = [(f"metrics.{name}", result["metrics"].get(name)) for name in ("energy_parts_j", "energy_by_unit_j", "energy_by_kind_j")]
    if steps is not None:
        need(isinstance(steps, dict) and {"latency_ms", "sequences"} <= steps.keys() and all(map(_numbers, steps.values())), "steps",
             "latency_ms, sequences and others, each a list of numbers")
    for part, held in (("peak_memory", result.get("peak_memory")), *energy):
        need(held is None or (isinstance(held, dict) and _numbers(list(held.values()))), part, "a map from names to numbers")
    if samples is not None:
        told = samples.get("samples", []) if isinstance(samples, dict) else None
        need(isinstance(told, list) and (not told or "chosen" in samples) and
             all(isinstance(one, dict) and isinstance(one.get("tokens"), list) for one in told), "scaling",
             "chosen, and samples with their tokens")


def _numbers(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(value, (int, float)) for value in values)


def load_result(path: str | os.PathLike[str]) -> Result:
    """Reads result.json, or that file of a run's folder, which then has the trace beside it. Raises ConfigError for a file that is none,
    that is damaged, or that is of a newer version."""
    file = Path(path)
    file = Path(existing(file / "result.json" if file.is_dir() else file))
    try:
        data = check_schema(json.loads(file.read_text()), str(file))
        _check_parts(data, str(file))
    except (UnicodeDecodeError, ValueError) as error:
        raise ConfigError(f"{file}: is not JSON ({error})") from None
    except RecursionError:
        raise ConfigError(f"{file}: is no result of vitro (lists or maps within each other, more than can be read)") from None
    return Result(data, file.parent)

"""`vitro.Study`: the rows of a study's folder for notebooks, read when they are asked for."""
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base import quantities
from ..base.dominance import front
from ..base.frames import html_table, polars_frame
from ..base.terminal import number
from ..base.trees import flatten
from ..errors import ConfigError
from ..running.result import Result
from . import parts, store
from .comparison import Comparison, compare
from .values import several, text_of

if TYPE_CHECKING:
    import pandas
    import polars

Condition = Callable[["pandas.DataFrame"], "pandas.Series"]
_HEAVY = ("answer", "resolved")  # columns of whole documents: read where a result or a resolved key is asked for
_SHOWN = ("decode_tokens_per_s", "ttft_ms", "token_latency_ms.p99", "cache_hit_rate", "energy_j_per_token", "peak_memory_bytes")


@dataclass(frozen=True)
class Study:
    """The finished points of a folder that `vitro sweep` or `vitro search` writes, also while it does.

    >>> study = vitro.Study("out/policies")
    >>> paged = study.where({"engine.policy": "mmap"})
    >>> paged.pivot("memory.budget", "workload.seed", "decode_tokens_per_s")
    >>> paged.compare(study.where({"engine.policy": "dense"}), "decode_tokens_per_s")

    Nothing is read before a table, a result or the length is asked for, and then only the columns that it takes; each time anew, so that
    points which have finished since are there. Immutable: `where` gives another one. Keys of points are called as in the file of the study.
    """

    folder: str | os.PathLike[str]
    conditions: tuple[Condition | tuple[tuple[str, Any], ...], ...] = ()

    def where(self, condition: Mapping[str, Any] | Condition) -> "Study":
        """The rows that hold a condition, and all earlier ones. condition: {key: value, or several: a list, a range, an array}, of swept
        keys, metrics or columns, where 1, 1.0 and "1" are one value; or a function of the table that says True or False for each row,
        `lambda rows: rows["ttft_ms"] < 20`. A study without a finished row has no columns yet: any condition leaves its no rows."""
        if isinstance(condition, Mapping):
            return replace(self, conditions=(*self.conditions, tuple((key, several(wanted)) for key, wanted in condition.items())))
        if not callable(condition):
            raise ConfigError(f"where: {condition!r} (expected a map from keys to values, or a function of the table)")
        return replace(self, conditions=(*self.conditions, condition))

    def to_frame(self, columns: Sequence[str] | None = None) -> "pandas.DataFrame":
        """A table, oldest row first: `identity`, `repeat`, `label` and such (docs/design/study-store.md), `point.KEY` for each key of the
        points, and a column per metric by its dotted name, whose ending says the unit. columns: only these; a swept key without `point.`,
        or a key of the resolved experiment such as "device.name", is a column as well."""
        frame = self._rows(heavy=False)
        if columns is None:
            return frame
        wide = frame if all(_name_in(frame, name) for name in columns) else self._rows(heavy=True)
        return wide.assign(**{name: column_of(wide, name) for name in columns})[list(columns)]

    def to_polars(self, columns: Sequence[str] | None = None) -> "polars.DataFrame":
        """The same for polars. Raises ConfigError where that is not installed."""
        frame = self.to_frame(columns)
        return polars_frame({name: [None if value != value else value for value in frame[name]] for name in frame.columns})

    def pivot(self, index: str | Sequence[str], columns: str | Sequence[str], values: str, aggregate: str = "mean") -> "pandas.DataFrame":
        """A metric over keys: a row per value of `index`, a column per value of `columns`, numbers and quantities by size. Several points
        of one cell are put together by `aggregate`, a name that pandas knows. Raises ConfigError where it does not, or can not for these
        values."""
        rows, across = ([name] if isinstance(name, str) else list(name) for name in (index, columns))
        frame = self.to_frame([*dict.fromkeys([*rows, *across, values])])
        for name in (*rows, *across):
            if frame[name].map(type).eq(str).any():  # sorted by letters, 16 MiB would come before 4 MiB
                import pandas
                frame[name] = pandas.Categorical(frame[name], sorted(frame[name].dropna().unique(), key=_order), ordered=True)
        try:
            return frame.pivot_table(index=rows if len(rows) > 1 else rows[0], columns=across if len(across) > 1 else across[0],
                                     values=values, aggfunc=aggregate, observed=True)
        except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
            raise ConfigError(f"pivot: {aggregate!r} of {values} can not be formed ({error}; expected a metric that is a number, other "
                              "keys on the sides, and mean, median, min, max, std or count)") from None

    def compare(self, other: "Study", metrics: str | Sequence[str] = "decode_tokens_per_s", *, over: str = "workload.seed",
                confidence: float = 0.95) -> Comparison:
        """How another study, or other rows of this one, differ from these, point by point (comparison.py): pairs of equal points and seeds,
        with a t-interval of the mean difference. over: the key whose values are draws of the same thing. Raises ConfigError where nothing
        pairs, where a metric is no number, and where several rows of one study have the same point but another experiment or engine."""
        names = list(dict.fromkeys([metrics] if isinstance(metrics, str) else metrics))
        return compare(self._told(names), other._told(names), names, over=over, confidence=confidence)

    def front(self, objectives: Mapping[str, str]) -> "pandas.DataFrame":
        """The rows that no other one beats in one objective without losing in another. objectives: {metric: "maximize" or "minimize"}.
        A row without one of the metrics does not count."""
        if not objectives or not set(objectives.values()) <= {"maximize", "minimize"}:
            raise ConfigError(f"objectives: {dict(objectives)} (expected metrics, each with maximize or minimize)")
        frame = self.to_frame()
        values = [column_of(frame, name) for name in objectives]
        rows = [None if any(value is None or value != value for value in row) else row for row in zip(*values)]
        return frame[front(rows, list(objectives.values()))]

    def results(self) -> Iterator[Result]:
        """The results as `vitro.run` gives them, in the rows' order."""
        frame = self._rows(heavy=True)
        for row in frame.to_dict("records"):
            yield Result(parts.answer_of({str(key): value for key, value in row.items()}))

    def __len__(self) -> int:
        return len(self._rows(heavy=False))

    def __repr__(self) -> str:  # of the folder alone: what a program prints must not cost a read of thousands of rows
        return f"Study({os.fspath(self.folder)!r}{', filtered' if self.conditions else ''})"

    def _repr_html_(self) -> str:
        """What a notebook shows: the newest rows with their keys and the metrics that people read first."""
        frame = self._rows(heavy=False)
        keys = [name for name in frame.columns if name.startswith("point.") and frame[name].map(str).nunique() > 1]
        shown = [name for name in _SHOWN if name in frame.columns and frame[name].notna().any()]
        rows = [(*("–" if row[key] is None else str(row[key]) for key in keys), *(number(row[name]) for name in shown))
                for row in frame.tail(10).to_dict("records")]
        caption = f"{Path(self.folder).name}: {len(frame)} rows" + (", the newest ten" if len(frame) > 10 else "")
        return html_table(rows, [*(key.removeprefix("point.") for key in keys), *shown], caption)

    def _rows(self, *, heavy: bool) -> "pandas.DataFrame":
        mapped = {key for condition in self.conditions if isinstance(condition, tuple) for key, _ in condition}
        frame = store.rows(self.folder, without=() if heavy else _HEAVY)
        if not len(frame):
            return frame
        if not heavy and any(not _name_in(frame, key) for key in mapped):
            frame = store.rows(self.folder)
        whole = frame  # where no row is left, no key of resolved experiments is known
        for condition in self.conditions:
            if isinstance(condition, tuple):
                for key, wanted in condition:
                    texts = {text_of(value) for value in wanted}
                    frame = frame[column_of(whole, key)[frame.index].map(text_of).isin(texts)]
            else:
                frame = frame[condition(frame)]
        return frame.reset_index(drop=True)

    def _told(self, names: Sequence[str]) -> "pandas.DataFrame":
        frame = self._rows(heavy=False)
        if not len(frame):
            held = " that holds the conditions" if self.conditions else ""
            raise ConfigError(f"{os.fspath(self.folder)}: has no row to compare{held}")
        for name in names:
            if column_of(frame, name).name != name:
                raise ConfigError(f"{name}: is a key of the points (expected a metric to compare)")
        return frame


def _order(value: Any) -> tuple[bool, float, str]:
    """Quantities by size, before texts by letters."""
    parsed = next((found for dimension in quantities.DIMENSIONS if (found := quantities.parse(value, dimension)) is not None), None)
    return parsed is None, parsed or 0.0, str(value)


def _name_in(frame: "pandas.DataFrame", name: str) -> str | None:
    return next((one for one in (name, f"point.{name}") if one in frame.columns), None)


def column_of(frame: "pandas.DataFrame", name: str) -> "pandas.Series":
    """A column, a swept key, or a key of the resolved experiments. Raises ConfigError where it is none of them."""
    if found := _name_in(frame, name):
        return frame[found]
    if "resolved" in frame.columns:
        import pandas
        trees = [_flat(text) for text in frame["resolved"]]
        if any(name in tree for tree in trees):
            return pandas.Series([tree.get(name) for tree in trees], index=frame.index, dtype=object)
    known = [str(column).removeprefix("point.") for column in frame.columns if column not in _HEAVY]
    raise ConfigError(f"{name}: is neither a column, a metric nor a key of this study (there are {', '.join(known)})")


def _flat(text: str) -> dict[str, Any]:
    tree = flatten(json.loads(text) or {})
    return {key.removesuffix(".value"): value for key, value in tree.items()}

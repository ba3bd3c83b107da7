"""`vitro.Study`: the rows of a study's folder for notebooks, read when they are asked for."""
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base import quantities
from ..base.dominance import front
from ..base.engine_keys import present_name
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
_UNKNOWN = object()
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
        `lambda rows: rows["ttft_ms"] < 20`. A point that does not sweep the key has the value that its run resolved to. A study without a
        finished row has no columns yet: any condition leaves its no rows."""
        if isinstance(condition, Mapping):
            return replace(self, conditions=(*self.conditions, tuple((key, several(wanted)) for key, wanted in condition.items())))
        if not callable(condition):
            raise ConfigError(f"where: {condition!r} (expected a map from keys to values, or a function of the table)")
        return replace(self, conditions=(*self.conditions, condition))

    def to_frame(self, columns: Sequence[str] | None = None) -> "pandas.DataFrame":
        """A table, oldest row first: `identity`, `repeat`, `label` and such (docs/design/study-store.md), `point.KEY` for each key of the
        points, and a column per metric by its dotted name, whose ending says the unit. columns: only these; a swept key without `point.`,
        or a key of the resolved experiment such as "device.name", is a column as well. `point.KEY` is empty where a point does not sweep
        the key; KEY has what the run resolved to there."""
        if columns is None:
            return _light(self._rows())
        return _chosen(self._rows(columns), columns)

    def to_polars(self, columns: Sequence[str] | None = None) -> "polars.DataFrame":
        """The same for polars. Raises ConfigError where that is not installed."""
        frame = self.to_frame(columns)
        return polars_frame({name: [None if value != value else value for value in frame[name]] for name in frame.columns})

    def pivot(self, index: str | Sequence[str], columns: str | Sequence[str], values: str, aggregate: str = "mean") -> "pandas.DataFrame":
        """A metric over keys: a row per value of `index`, a column per value of `columns`, numbers and quantities by size. Several points
        of one cell are put together by `aggregate`, a name that pandas knows. Raises ConfigError where it does not, or can not for these
        values, and where there is no row."""
        rows, across = ([name] if isinstance(name, str) else list(name) for name in (index, columns))
        names = list(dict.fromkeys([*rows, *across, values]))
        frame = _chosen(self._some("put into a table", names), names)
        for name in (*rows, *across):
            if frame[name].map(type).eq(str).any():  # sorted by letters, 16 MiB would come before 4 MiB
                import pandas
                frame[name] = pandas.Categorical(frame[name], sorted(frame[name].dropna().unique(), key=_order), ordered=True)
        try:
            return frame.pivot_table(index=rows if len(rows) > 1 else rows[0], columns=across if len(across) > 1 else across[0],
                                     values=values, aggfunc=aggregate, observed=True)
        except (AttributeError, KeyError, IndexError, NotImplementedError, TypeError, ValueError) as error:
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
        A row without one of the metrics does not count. The keys of the points come first, then the objectives, then all else."""
        if not objectives or not set(objectives.values()) <= {"maximize", "minimize"}:
            raise ConfigError(f"objectives: {dict(objectives)} (expected metrics, each with maximize or minimize)")
        wide = self._rows(objectives)
        values = {name: column_of(wide, name) for name in objectives}
        rows = [None if any(value is None or value != value for value in row) else row for row in zip(*values.values())]
        frame = _light(wide.assign(**values))
        first = dict.fromkeys([*(name for name in frame.columns if name.startswith("point.")), *objectives])
        return frame.loc[front(rows, list(objectives.values())), [*first, *(name for name in frame.columns if name not in first)]]

    def results(self) -> Iterator[Result]:
        """The results as `vitro.run` gives them, in the rows' order."""
        frame = self._rows(heavy=True)
        for row in frame.to_dict("records"):
            yield Result(parts.answer_of({str(key): value for key, value in row.items()}))

    def __len__(self) -> int:
        return len(self._rows())

    def __repr__(self) -> str:  # of the folder alone: what a program prints must not cost a read of thousands of rows
        return f"Study({os.fspath(self.folder)!r}{', filtered' if self.conditions else ''})"

    def _repr_html_(self) -> str:
        """What a notebook shows: the newest rows with their keys and the metrics that people read first."""
        frame = self._rows()
        keys = [name for name in frame.columns if name.startswith("point.") and frame[name].map(text_of).nunique() > 1]
        shown = [name for name in _SHOWN if name in frame.columns and frame[name].notna().any()]
        rows = [(*("–" if row[key] is None else str(row[key]) for key in keys), *(number(row[name]) for name in shown))
                for row in frame.tail(10).to_dict("records")]
        caption = f"{Path(self.folder).name}: {len(frame)} rows" + (", the newest ten" if len(frame) > 10 else "")
        return html_table(rows, [*(key.removeprefix("point.") for key in keys), *shown], caption)

    def _rows(self, names: Iterable[str] = (), *, heavy: bool = False) -> "pandas.DataFrame":
        """names: what column_of() is going to be asked for: the columns of whole documents are there where one of these takes them."""
        mapped = {key for condition in self.conditions if isinstance(condition, tuple) for key, _ in condition}
        frame = store.rows(self.folder, without=() if heavy else _HEAVY)
        if not len(frame):
            return frame
        if not heavy and any(_is_resolved(frame, key) for key in mapped):
            frame = store.rows(self.folder)
        whole = frame  # where no row is left, no key of resolved experiments is known
        for condition in self.conditions:
            if isinstance(condition, tuple):
                for key, wanted in condition:
                    texts = {text_of(value) for value in wanted}
                    frame = frame[column_of(whole, key)[frame.index].map(text_of).isin(texts)]
            else:
                frame = frame[condition(frame)]
        if "resolved" not in frame.columns and any(_is_resolved(frame, name) for name in names):
            return self._rows(heavy=True)
        return frame.reset_index(drop=True)

    def _some(self, use: str, names: Iterable[str] = ()) -> "pandas.DataFrame":
        frame = self._rows(names)
        if not len(frame):
            held = " that holds the conditions" if self.conditions else ""
            raise ConfigError(f"{os.fspath(self.folder)}: has no row to {use}{held}")
        return frame

    def _told(self, names: Sequence[str]) -> "pandas.DataFrame":
        frame = self._some("compare")
        swept = [name for name in frame.columns if name.startswith("point.")]
        if frame[swept].isna().any(axis=None):
            frame = self._rows(heavy=True)
        frame = frame.assign(**{name: column_of(frame, name.removeprefix("point.")) for name in swept})
        for name in names:
            if name not in frame.columns and column_of(frame, name) is not None:
                raise ConfigError(f"{name}: is a key of the points (expected a metric to compare)")
        return frame


def _order(value: Any) -> tuple[bool, float, str]:
    """Quantities by size, before texts by letters."""
    parsed = next((found for dimension in quantities.DIMENSIONS if (found := quantities.parse(value, dimension)) is not None), None)
    return parsed is None, parsed or 0.0, str(value)


def _light(frame: "pandas.DataFrame") -> "pandas.DataFrame":
    return frame.drop(columns=[name for name in _HEAVY if name in frame.columns])


def _chosen(frame: "pandas.DataFrame", names: Sequence[str]) -> "pandas.DataFrame":
    return frame.assign(**{name: column_of(frame, name) for name in names})[list(names)]


def _is_resolved(frame: "pandas.DataFrame", name: str) -> bool:
    """Whether column_of() takes resolved experiments: for a key that no point sweeps, and for points that do not sweep this one."""
    swept = f"point.{name}"
    return name not in frame.columns and (swept not in frame.columns or bool(frame[swept].isna().any()))


def column_of(frame: "pandas.DataFrame", name: str) -> "pandas.Series":
    """A column, a swept key, or a key of the resolved experiments, which also says what a point without the swept key ran with: the base's
    value, or that of a map or a preset which it swept. Raises ConfigError where it is none of them."""
    import pandas
    if name in frame.columns:
        return frame[name]
    if (swept := f"point.{name}") in frame.columns:
        if "resolved" not in frame.columns or not frame[swept].isna().any():
            return frame[swept].rename(name)
        values = [_resolved(text, name) if pandas.isna(value) else value for value, text in zip(frame[swept], frame["resolved"])]
        return pandas.Series([json.dumps(value) if isinstance(value, (list, dict)) else value for value in values], index=frame.index,
                             dtype=object).infer_objects()
    if "resolved" in frame.columns:
        values = [_resolved(text, name, _UNKNOWN) for text in frame["resolved"]]
        if any(value is not _UNKNOWN for value in values):
            return pandas.Series([None if value is _UNKNOWN else value for value in values], index=frame.index, dtype=object)
    known = [str(column).removeprefix("point.") for column in frame.columns if column not in _HEAVY]
    raise ConfigError(f"{name}: is neither a column, a metric nor a key of this study (there are {', '.join(known)})")


def _resolved(text: str, name: str, other: Any = None) -> Any:
    """What an experiment, in JSON, has under this name, or under what the name is called by now."""
    tree = {key.removesuffix(".value"): value for key, value in flatten(json.loads(text) or {}).items()}
    return tree.get(name, tree.get(present_name(name), other))

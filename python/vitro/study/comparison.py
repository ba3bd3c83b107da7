"""Two studies beside each other: differences of equal points, paired over seeds, with confidence intervals."""
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..base.frames import html_table
from ..base.terminal import number
from ..errors import ConfigError
from .values import text_of

if TYPE_CHECKING:
    import pandas

SEED = "workload.seed"
TELLING = ("label", "machine", "experiment", "engine", "files", "host", "point")  # columns by which rows of equal keys may differ


@dataclass(frozen=True)
class Comparison:
    """What `vitro.Study.compare` gives.

    frame: a row per point and metric: the keys that tell points apart, metric, pairs, first and second (means over the pairs), difference
    (second less first), low and high (its interval; none for one pair, nor where all pairs differ by the same, since then nothing was
    drawn), relative (difference over first), relative_low, relative_high.
    method: how the interval was made. unpaired: values of the first and of the second without a partner.
    """

    frame: "pandas.DataFrame"
    method: str
    unpaired: tuple[int, int]

    def __repr__(self) -> str:
        return f"{self.frame.to_string(index=False)}\n{self.method}; without a partner: {self.unpaired[0]} and {self.unpaired[1]} values"

    def _repr_html_(self) -> str:
        rows = [tuple("–" if value != value else number(value) if isinstance(value, float) else str(value) for value in row)
                for row in self.frame.itertuples(index=False)]
        said = f"{self.method}; without a partner: {self.unpaired[0]} and {self.unpaired[1]} values"
        return html_table(rows, list(map(str, self.frame.columns)), said)


def compare(first: "pandas.DataFrame", second: "pandas.DataFrame", metrics: Sequence[str], *, over: str, confidence: float) -> Comparison:
    """Rows of two studies, as vitro.rows gives them.

    A pair is a value of each for equal keys and an equal seed (`over`). Rows that repeat a point with its seed are no draws of their own:
    their mean is one value. Where points set no seed, repeats on a real machine are measurements of their own and pair in order, and those
    of a simulation are one value. A key that has one value in the first and one in the second is what the two differ by, or nothing, and
    does not count. The interval of the mean difference d over n pairs is d ± t(n - 1) s / sqrt(n), two-sided, by Student's distribution:
    exact where differences are normal. Raises ConfigError where nothing pairs, and where rows of one point are not repeats.
    """
    import pandas
    if not 0 < confidence < 1:
        raise ConfigError(f"confidence: {confidence!r} (expected a number between 0 and 1, such as 0.95)")
    seed = f"point.{over}"
    if over != SEED and seed not in first.columns and seed not in second.columns:
        raise ConfigError(f"over: {over} is no key of the points (expected the key whose values are draws, such as {SEED})")
    keys = _keys(first, second, seed)
    on = [*keys, *([seed] if seed in first.columns and seed in second.columns else [])]
    if seed not in on and any("machine" in frame.columns and (frame["machine"] != "sim").any() for frame in (first, second)):
        on.append("repeat")
    one, two = (_values(frame, on, metrics) for frame in (first, second))
    pairs = one.merge(two, on=on, suffixes=(".first", ".second"), how="inner", sort=False) if on else one.merge(
        two, how="cross", suffixes=(".first", ".second"))
    if pairs.empty:
        raise ConfigError(f"no point of one study has an equal one in the other (compared by {', '.join(on)})")
    rows: list[dict[str, Any]] = []
    for values, part in pairs.groupby(keys, sort=False) if keys else [((), pairs)]:
        names = dict(zip([key.removeprefix("point.") for key in keys], values))
        rows += [names | {"metric": metric} | _interval(part[f"{metric}.first"], part[f"{metric}.second"], confidence)
                 for metric in metrics]
    seeds = f"paired over {over}" if seed in on else f"not paired over {over}, which the points do not set"
    alike = [row["metric"] for row in rows if row["pairs"] > 1 and row["low"] != row["low"]]
    undrawn = (f"; equal for all {'seeds' if seed in on and over == SEED else 'pairs'}: no draw, and no interval, in {len(alike)} of "
               f"{len(rows)} rows ({', '.join(dict.fromkeys(alike))})") if alike else ""
    return Comparison(pandas.DataFrame(rows), f"{seeds}; two-sided t-interval of the mean difference at {confidence:.0%}, "
                      f"exact for differences that are normal{undrawn}", (len(one) - len(pairs), len(two) - len(pairs)))


def _keys(first: "pandas.DataFrame", second: "pandas.DataFrame", seed: str) -> list[str]:
    """The keys of points by which rows pair."""
    known = [name for name in dict.fromkeys([*first.columns, *second.columns]) if name.startswith("point.") and name != seed]

    def values(frame: "pandas.DataFrame", name: str) -> set[str]:
        return set(frame[name].map(text_of)) if name in frame.columns else set()
    return [name for name in known if len(values(first, name)) > 1 or len(values(second, name)) > 1]


def _values(frame: "pandas.DataFrame", on: Sequence[str], metrics: Sequence[str]) -> "pandas.DataFrame":
    """The metrics of each point, the mean of its repeats. Keys as texts, so that a key which one study lacks pairs with nothing set."""
    import pandas
    columns: dict[str, Any] = {name: frame[name].map(text_of) if name in frame.columns else "None" for name in on}
    for metric in metrics:
        numbers = pandas.to_numeric(frame[metric], errors="coerce")
        if metric in on or frame[metric].map(type).eq(bool).any() or (numbers.isna() & frame[metric].notna()).any():
            raise ConfigError(f"{metric}: is no number (expected a metric, such as decode_tokens_per_s)")
        columns[metric] = numbers
    found = frame.assign(**columns)
    for values, rows in (found.groupby(list(on), sort=False) if on else [((), found)]) if "identity" in found.columns else ():
        if rows["identity"].nunique() > 1:
            point = ", ".join(f"{name.removeprefix('point.')} {value}" for name, value in zip(on, values)) or "the one point"
            raise ConfigError(f"{point}: has {rows['identity'].nunique()} rows of one study that are not repeats; {_told_apart(rows)}")
    return found.groupby(list(on), sort=False, as_index=False)[list(metrics)].mean() if on else found[list(metrics)].mean().to_frame().T


def _told_apart(rows: "pandas.DataFrame") -> str:
    """What rows of one point differ by, and how to choose some."""
    apart = [name for name in TELLING if name in rows.columns and rows[name].map(text_of).nunique() > 1]
    name = apart[0] if apart else "identity"
    return (f"they differ by {', '.join(apart) or 'the experiment itself'} (expected one of them: choose with "
            f"where({{{name!r}: {rows[name].iloc[-1]!r}}}), which is the newest)")


def _interval(first: "pandas.Series", second: "pandas.Series", confidence: float) -> dict[str, Any]:
    from scipy import stats
    differences = (second - first).dropna()
    count, nan = len(differences), float("nan")
    mean = float(differences.mean()) if count else nan
    start = float(first[differences.index].mean()) if count else nan
    half = nan
    if count > 1 and not _alike(differences, first, second):
        half = float(stats.t.ppf((1 + confidence) / 2, count - 1)) * float(differences.std(ddof=1)) / count ** 0.5
    low, high = mean - half, mean + half
    relative = [value / start if start else nan for value in (mean, low, high)]
    return {"pairs": count, "first": start, "second": float(second[differences.index].mean()) if count else nan, "difference": mean,
            "low": low, "high": high, "relative": relative[0], "relative_low": relative[1], "relative_high": relative[2]}


def _alike(differences: "pandas.Series", first: "pandas.Series", second: "pandas.Series") -> bool:
    """Whether they are one value, up to what a subtraction rounds."""
    largest = max(first.abs().max(), second.abs().max())
    return bool(differences.max() - differences.min() <= 8 * sys.float_info.epsilon * largest)

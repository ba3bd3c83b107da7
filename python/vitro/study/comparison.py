"""Two studies beside each other: differences of equal points, paired over seeds, with confidence intervals."""
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..base.frames import html_table
from ..base.terminal import number
from ..errors import ConfigError

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Comparison:
    """What `vitro.Study.compare` gives.

    frame: a row per point and metric: the keys that tell points apart, metric, pairs, first and second (means over the pairs), difference
    (second less first), low and high (its interval; none for one pair), relative (difference over first), relative_low, relative_high.
    method: how the interval was made. unpaired: rows of the first and of the second that have no partner.
    """

    frame: "pandas.DataFrame"
    method: str
    unpaired: tuple[int, int]

    def __repr__(self) -> str:
        return f"{self.frame.to_string(index=False)}\n{self.method}; without a partner: {self.unpaired[0]} and {self.unpaired[1]} rows"

    def _repr_html_(self) -> str:
        rows = [tuple("–" if value != value else number(value) if isinstance(value, float) else str(value) for value in row)
                for row in self.frame.itertuples(index=False)]
        said = f"{self.method}; without a partner: {self.unpaired[0]} and {self.unpaired[1]} rows"
        return html_table(rows, list(map(str, self.frame.columns)), said)


def compare(first: "pandas.DataFrame", second: "pandas.DataFrame", metrics: Sequence[str], *, over: str, confidence: float) -> Comparison:
    """Rows of two studies, as vitro.rows gives them.

    A pair is a row of each with equal values of the keys and an equal seed (`over`) and repeat. A key that has one value in the first and
    one in the second is what the two differ by, or nothing, and does not count. The interval of the mean difference d over n pairs is
    d ± t(n - 1) s / sqrt(n), two-sided, by Student's distribution: exact where differences are normal.
    Raises ConfigError where nothing pairs.
    """
    import pandas
    if not 0 < confidence < 1:
        raise ConfigError(f"confidence: {confidence!r} (expected a number between 0 and 1, such as 0.95)")
    keys = _keys(first, second, over)
    seed = f"point.{over}"
    on = [*keys, *([seed] if seed in first.columns and seed in second.columns else []), "repeat"]
    one, two = (_keyed(frame, on, metrics) for frame in (first, second))
    pairs = one.merge(two, on=on, suffixes=(".first", ".second"), how="inner", sort=False)
    if pairs.empty:
        raise ConfigError(f"no point of one study has an equal one in the other (compared by {', '.join(on)})")
    rows = []
    for values, part in pairs.groupby(keys, sort=False) if keys else [((), pairs)]:
        names = dict(zip([key.removeprefix("point.") for key in keys], values))
        rows += [names | {"metric": metric} | _interval(part[f"{metric}.first"], part[f"{metric}.second"], confidence)
                 for metric in metrics]
    seeds = f"paired over {over}" if seed in on else f"not paired over {over}, which the points do not set"
    return Comparison(pandas.DataFrame(rows), f"{seeds}; two-sided t-interval of the mean difference at {confidence:.0%}, "
                      "exact for differences that are normal", (len(one) - len(pairs), len(two) - len(pairs)))


def _keys(first: "pandas.DataFrame", second: "pandas.DataFrame", over: str) -> list[str]:
    """The keys of points by which rows pair."""
    known = [name for name in dict.fromkeys([*first.columns, *second.columns]) if name.startswith("point.") and name != f"point.{over}"]

    def values(frame: "pandas.DataFrame", name: str) -> set[str]:
        return set(frame[name].map(str)) if name in frame.columns else set()
    return [name for name in known if len(values(first, name)) > 1 or len(values(second, name)) > 1]


def _keyed(frame: "pandas.DataFrame", on: Sequence[str], metrics: Sequence[str]) -> "pandas.DataFrame":
    """Keys as texts, so that a key which one study lacks pairs with nothing set."""
    columns: dict[str, Any] = {name: frame[name].map(str) if name in frame.columns else "None" for name in on}
    return frame.assign(**columns)[[*on, *metrics]].drop_duplicates(list(on), keep="last")


def _interval(first: "pandas.Series", second: "pandas.Series", confidence: float) -> dict[str, Any]:
    from scipy import stats
    differences = (second - first).dropna()
    count, nan = len(differences), float("nan")
    mean = float(differences.mean()) if count else nan
    start = float(first[differences.index].mean()) if count else nan
    half = nan
    if count > 1:
        half = float(stats.t.ppf((1 + confidence) / 2, count - 1)) * float(differences.std(ddof=1)) / count ** 0.5
    low, high = mean - half, mean + half
    relative = [value / start if start else nan for value in (mean, low, high)]
    return {"pairs": count, "first": start, "second": float(second[differences.index].mean()) if count else nan, "difference": mean,
            "low": low, "high": high, "relative": relative[0], "relative_low": relative[1], "relative_high": relative[2]}

"""Short runs that end weak points of a search early: successive halving (Jamieson and Talwalkar 2016) by generated tokens.

    sweep:
      design: search
      prune: {share: 25%, keep: 50%}      # share: of workload.output_tokens, or several shares, ascending; keep: of the points, at each

Every point first runs with that share of its tokens. Of all points that ran so short in this search until then, the best `keep` go on,
whole ranks of dominance at a time (Deb et al. 2002, non-dominated sorting); points that break a constraint come behind all that hold them.
Each run is a point of the store like any other, with workload.output_tokens of its own.
"""
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..base import quantities
from ..base.dominance import front
from ..errors import ConfigError

TOKENS = "workload.output_tokens"
_HERE = ("sweep", "prune")


@dataclass(frozen=True)
class Prune:
    """shares: of a point's tokens, ascending; keep: of the points, those that go on from each."""

    shares: tuple[float, ...]
    keep: float


def read(tree: Any) -> Prune | None:
    """`prune:` of a search. Raises ConfigError, with the steps to what is wrong."""
    if tree is None:
        return None
    if not isinstance(tree, dict) or not tree or not tree.keys() <= {"share", "keep"} or "share" not in tree:
        raise ConfigError(f"sweep.prune: {tree!r} (expected {{share: 25%, keep: 50%}})", _HERE)
    listed = tree["share"] if isinstance(tree["share"], list) else [tree["share"]]
    shares = tuple(_inside(text, "share") for text in listed)
    if not shares or list(shares) != sorted(set(shares)):
        raise ConfigError(f"sweep.prune.share: {tree['share']!r} (expected one share, or several, each larger than the one before)",
                          (*_HERE, "share"))
    return Prune(shares, _inside(tree.get("keep", "50%"), "keep"))


def _inside(text: Any, key: str) -> float:
    share = quantities.share(text)
    if share is None or not 0 < share < 1:
        raise ConfigError(f"sweep.prune.{key}: {text!r} (expected more than 0 % and less than 100 %)", (*_HERE, key))
    return share


def tokens_of(point: dict[str, Any], workload: dict[str, Any]) -> int:
    """That a point generates. workload: the experiment's, resolved. Raises ConfigError where they are no one number."""
    tokens = point.get(TOKENS, workload.get("output_tokens"))
    if not isinstance(tokens, int) or isinstance(tokens, bool):
        raise ConfigError(f"sweep.prune: {TOKENS} is {tokens!r}, of which no share is a run (expected a whole number)", _HERE)
    return tokens


def shortened(tokens: int, share: float, warm_up: int) -> int:
    """Tokens of a short run: one decode step at least behind those of warm-up, and no more than there are."""
    return min(tokens, max(math.ceil(share * tokens), warm_up + 2))


class Rung:
    """The short runs of one share, of all batches so far."""

    def __init__(self, keep: float, ways: Sequence[str]) -> None:
        self._keep, self._ways, self._seen = keep, list(ways), list[tuple[list[float], float] | None]()

    def go_on(self, batch: Sequence[tuple[list[float], float] | None]) -> list[bool]:
        """batch: (objectives, by how much constraints are broken: 0 or less where they hold) of each point, None for a failed one.
        -> which go on."""
        self._seen += batch
        ranks = _ranks(self._seen, self._ways)
        known = sorted(rank for rank in ranks if rank is not None)
        if not known:
            return [False] * len(batch)
        last = known[max(math.ceil(self._keep * len(known)), 1) - 1]  # whole ranks: the one that crosses the border goes on
        return [rank is not None and rank <= last for rank in ranks[-len(batch):]]


def _ranks(rows: Sequence[tuple[list[float], float] | None], ways: list[str]) -> list[int | None]:
    """0 for the front, 1 for that of the rest, and so on; behind them points that break constraints, by how much. None: failed."""
    ranks: list[int | None] = [None] * len(rows)
    rank, left = 0, {index for index, row in enumerate(rows) if row is not None and row[1] <= 0}
    while left:
        best = front([row[0] if row is not None and index in left else None for index, row in enumerate(rows)], ways)
        for index in [index for index in left if best[index]]:
            ranks[index] = rank
            left.discard(index)
        rank += 1
    broken = sorted({row[1] for row in rows if row is not None and row[1] > 0})
    for index, row in enumerate(rows):
        if row is not None and row[1] > 0:
            ranks[index] = rank + broken.index(row[1])
    return ranks

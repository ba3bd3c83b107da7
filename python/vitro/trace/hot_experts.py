"""Whether the hot experts of one recording are those of another: Overlap@K (NPUMoE, sections 5.1 and 5.8)."""
import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ..errors import ConfigError
from .recording import Recording

if TYPE_CHECKING:
    import numpy
    import pandas

UNSEEN, OTHER = "unseen rest", "another recording"
FIRST_OF_JUDGE = 2 ** 31  # sequences of a reward model beside the model (traces/recording.hpp)


def loads(recording: Recording) -> "tuple[numpy.ndarray, numpy.ndarray]":
    """-> how many tokens chose each expert in the first and in the second half of a recording, by sequence and position: both
    [layers, experts], experts up to the last one that was chosen. Raises ConfigError for a recording without experts, and of one token."""
    import numpy
    if not recording.layers:
        raise ConfigError("has no experts (expected the recording of a mixture)")
    chosen = []
    for layer in recording.layers:
        at, ids, _ = recording.experts(layer)
        of_model = at[:, 0] < FIRST_OF_JUDGE
        at, ids = at[of_model], ids[of_model]
        if len(ids) > 0:
            chosen.append(ids[numpy.lexsort((at[:, 1], at[:, 0]))])
    if min(map(len, chosen), default=0) < 2:
        raise ConfigError("has one token (expected two or more, to compare halves)")
    experts = max(int(ids.max()) for ids in chosen) + 1
    halves = [[numpy.bincount(part.ravel(), minlength=experts) for part in (ids[:len(ids) // 2], ids[len(ids) // 2:])] for ids in chosen]
    first, second = (numpy.array([half[at] for half in halves]) for at in (0, 1))
    return first, second


def overlap(one: "numpy.ndarray", other: "numpy.ndarray", k: int) -> "numpy.ndarray":
    """-> [layers]: share of the k experts with most tokens that two loads [layers, experts] have in common; of equals the lower id."""
    import numpy
    hottest = [numpy.argsort(-load, axis=1, kind="stable")[:, :k] for load in (one, other)]
    return numpy.array([len(numpy.intersect1d(*pair)) / k for pair in zip(*hottest)])


def overlaps(recordings: Mapping[str, Recording]) -> "pandas.DataFrame":
    """Of each recording the hot experts of its second half by those of its first; of each two recordings, those of the one by those of the
    other, which is the same both ways.

    -> one row for each pair and K = 1, 2, 4, ... below the number of experts: calibrated_on, asked_on, kind (UNSEEN, OTHER), k, mean,
    median and least over layers, chance (K over the number of experts, which two independent choices share). Raises ConfigError,
    with the name, for a recording without experts, and for one that has other layers.
    """
    import numpy
    import pandas
    found = {}
    for name, recording in recordings.items():
        try:
            found[name] = loads(recording)
        except ConfigError as error:
            raise ConfigError(f"{name}: {error}") from None
    experts = max((first.shape[1] for first, _ in found.values()), default=0)
    wide = {name: [numpy.pad(half, ((0, 0), (0, experts - half.shape[1]))) for half in halves] for name, halves in found.items()}
    layers = {name: len(first) for name, (first, _) in found.items()}
    for name, count in layers.items():
        if count != (expected := next(iter(layers.values()))):
            raise ConfigError(f"{name}: has {count} layers of experts (expected {expected}, as {next(iter(layers))} has)")
    rows = []
    for name, (first, second) in wide.items():
        rows += _rows(name, name, UNSEEN, first, second)
    for (name, one), (asked, other) in itertools.combinations(wide.items(), 2):
        rows += _rows(name, asked, OTHER, sum(one), sum(other))
    return pandas.DataFrame(rows)


def sizes(experts: int) -> Sequence[int]:
    """1, 2, 4, ... below the number of experts; all of them are common to all."""
    return [2 ** power for power in range(experts.bit_length()) if 2 ** power < experts]


def _rows(name, asked, kind, one, other):
    for k in sizes(one.shape[1]):
        shares = sorted(overlap(one, other, k))
        middle = (shares[(len(shares) - 1) // 2] + shares[len(shares) // 2]) / 2
        yield {"calibrated_on": name, "asked_on": asked, "kind": kind, "k": k, "mean": sum(shares) / len(shares), "median": middle,
               "least": shares[0], "chance": k / one.shape[1]}

"""Points that a search is compared with: they run like any point, are no part of it, and are told by how far they are from its front.

    sweep:
      design: search
      ...
      compare:
        planner: {engine.plan: plan.yaml}      # a name, and a point as in a sweep
        as_written: {}                         # the experiment without a change
"""
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..base import dominance
from ..base.origins import Origins
from ..base.terminal import number
from ..base.whole_files import in_place
from ..errors import ConfigError
from .jobs import Listed
from .table import as_records

if TYPE_CHECKING:
    import pathlib

    import pandas

EXPLAINED = ("by it alone: the factor by which this one would have to improve, the others as they are, to reach the best point of the "
             "front that is not worse in those (–: there is none); distance: the smallest factor by which all of them would have to "
             "improve to be on the front (1: on it, below 1: ahead of it)")


def read(tree: Any) -> dict[str, dict[str, Any]]:
    """`compare:` -> the points by their names. Raises ConfigError, with the steps to what is wrong."""
    if tree is None:
        return {}
    if not isinstance(tree, dict) or not tree:
        raise ConfigError(f"sweep.compare: {tree!r} (expected names with points, such as {{planner: {{engine.plan: plan.yaml}}}})",
                          ("sweep", "compare"))
    for name, point in tree.items():
        if not isinstance(name, str) or not isinstance(point, dict) or not all(isinstance(key, str) for key in point):
            raise ConfigError(f"sweep.compare.{name}: {point!r} (expected a map from keys to a value each, such as "
                              "{engine.plan: plan.yaml}; {} for the experiment as it is)", ("sweep", "compare", name))
    return tree


def listed(compare: Mapping[str, Mapping[str, Any]], origins: Origins) -> Listed:
    """As run_points() takes them; names are labels."""
    return [(name, dict(point), {key: origins.at("sweep", "compare", name, key) for key in point}) for name, point in compare.items()]


def records(table: "pandas.DataFrame", values: Sequence[Sequence[float] | None], feasible: Sequence[bool],
            best: Sequence[Sequence[float]], objectives: Mapping[str, str]) -> list[dict[str, Any]]:
    """The rows of a sweep's table in plain JSON values: `label` is the name, and beside `feasible` there are `distance` and
    `behind.METRIC` (dominance.py). values: of the objectives, None for a point that failed or lacks one; best: those of the front."""
    ways, found = list(objectives.values()), []
    for row, value, holds in zip(as_records(table), values, feasible):
        factors = dominance.behind(value, best, ways) if value is not None else [None] * len(ways)
        told = {"label": row["label"], "status": row["status"], "feasible": holds,
                "distance": dominance.distance(value, best, ways) if value is not None else None,
                **{f"behind.{name}": factor for name, factor in zip(objectives, factors)}}
        found.append(told | {key: cell for key, cell in row.items() if key not in told and key != "point"})
    return found


def write(rows: Sequence[Mapping[str, Any]], folder: "pathlib.Path") -> None:
    """compared.csv; one of an earlier search goes where nothing is compared."""
    import pandas
    if not rows:
        return (folder / "compared.csv").unlink(missing_ok=True)
    with in_place(folder / "compared.csv") as path:
        pandas.DataFrame(list(rows)).to_csv(path, index=False)


def readable(rows: Sequence[Mapping[str, Any]], objectives: Mapping[str, str]) -> tuple[list[str], list[list[str]]]:
    """-> (columns, rows) for a person, to go with EXPLAINED."""
    columns = ["compared", *(column for name in objectives for column in (f">{name}", ">by it alone")), ">distance", "status"]
    return columns, [[str(row["label"]), *(number(cell) for name in objectives for cell in (row.get(name), row[f"behind.{name}"])),
                      number(row["distance"]),
                      row["status"] + ("" if row["feasible"] or row["status"] == "failed" else ", breaks a constraint")] for row in rows]

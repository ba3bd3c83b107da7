"""The points of a `sweep:`: a grid, a design (designs.py), or a union of those."""
import itertools
import math

from ..errors import ConfigError
from . import designs
from .table import written


def points(sweep):
    """-> list of {key: value}, the last key running fastest; a key that a point lacks keeps the experiment's own value."""
    return [point for _, point in labelled(sweep)]


def labelled(sweep):
    """-> list of (label, point). No map has a `label:`: all labels are None. Else a label is followed by what its map's lists vary, and a
    point without one is called by its values."""
    return [(label, point) for label, point, _ in expanded(sweep)]


def _of_design(design, at, label):
    _check_label(label, at)
    drawn = designs.points_of(design, at)
    varied = [key for key in drawn[0][0] if label is None or len({written(point[key]) for point, _ in drawn}) > 1]
    return [(_name(label, point, varied), point, steps) for point, steps in drawn]


def _name(label, point, varied):
    told = [f"{key.rpartition('.')[2]} {written(point[key])}" for key in varied]
    return ", ".join([label, *told] if label else told)


def _check_label(label, at):
    if not isinstance(label, (str, type(None))):
        raise ConfigError(f"sweep.label: {label} (expected a text)", (*at, "label"))


def expanded(sweep):
    """As labelled(), with the steps that lead to each value of a point in the file."""
    several = isinstance(sweep, list)
    grids = sweep if several else [sweep]
    found = []
    for index, grid in enumerate(grids):
        at = ("sweep", index) if several else ("sweep",)
        if not isinstance(grid, dict) or not grid.keys() - {"label"}:
            raise ConfigError("sweep: expected a map from keys to lists of values, or a list of such maps", at)
        label = grid.get("label")
        if designs.is_design(grid):
            found += _of_design(grid, at, label)
            continue
        choices = {key: value if isinstance(value, list) else [value] for key, value in grid.items() if key != "label"}
        _check_label(label, at)
        for key, values in choices.items():
            if not values:
                raise ConfigError(f"sweep.{key}: the list is empty", (*at, key))
        if (count := len(found) + math.prod(map(len, choices.values()))) > designs.MOST:
            raise ConfigError(f"sweep: has {count:,} points (expected up to {designs.MOST:,}; a design picks some of a large space)", at)
        varied = [key for key, values in choices.items() if label is None or len(values) > 1]
        for chosen in itertools.product(*map(enumerate, choices.values())):
            point = {key: value for key, (_, value) in zip(choices, chosen)}
            steps = {key: (*at, key, position) for key, (position, _) in zip(choices, chosen)}
            found.append((_name(label, point, varied), point, steps))
    if not found:
        raise ConfigError("sweep: is empty (expected a map from keys to lists of values, or a list of such maps)", ("sweep",))
    return found if any("label" in grid for grid in grids) else [(None, *rest) for _, *rest in found]

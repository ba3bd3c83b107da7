"""Pictures of sweeps."""
import pandas
from vitro import plot

KEYS = ["memory.budget", "engine.io_depth", "engine.policy"]


def table(points):
    rows = [dict(zip(KEYS, point)) for point in points]
    return pandas.DataFrame(rows).assign(machine="sim", decode_tokens_per_s=[float(i) for i in range(len(rows))])


def test_a_grid_has_a_line_for_each_combination_of_the_other_keys():
    frame = table((f"{budget} MiB", depth, policy) for budget in (4, 6, 8, 9) for depth in (1, 2) for policy in ("mmap", "dense"))
    figure = plot.series(frame, KEYS, "decode_tokens_per_s")
    (ax,) = figure.axes
    assert len(ax.lines) == 4 and all(len(line.get_xdata()) == 4 for line in ax.lines)


def test_points_that_share_no_line_have_a_panel_for_each_key():
    frame = table((f"{4 + i / 7:.3f} MiB", 1 + i, ("mmap", "dense")[i % 2]) for i in range(30))
    figure = plot.series(frame, KEYS, "decode_tokens_per_s")
    assert sorted(ax.get_xlabel() for ax in figure.axes) == ["engine.io_depth", "engine.policy", "memory.budget (MiB)"]
    assert not figure.legends and all(len(ax.lines) == 1 and len(ax.lines[0].get_xdata()) == 30 for ax in figure.axes)

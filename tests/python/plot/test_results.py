"""Pictures of sweeps."""
import pandas
import pytest
import vitro
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


def test_draws_become_their_mean_with_the_interval_that_compare_states():
    frame = pandas.DataFrame([{"memory.budget": f"{budget} MiB", "engine.policy": policy, "workload.seed": seed, "machine": "sim",
                               "decode_tokens_per_s": budget + (seed - 2 if policy == "mmap" else 0)}
                              for budget in (4, 6, 8) for policy in ("mmap", None) for seed in (1, 2, 3)])
    figure = plot.series(frame, ["memory.budget", "engine.policy", "workload.seed"], "decode_tokens_per_s", over="workload.seed")
    (ax,) = figure.axes
    assert ax.get_ylabel() == "decode_tokens_per_s\n(mean, 95 % interval)"
    drawn, alike = ax.containers
    assert list(drawn.lines[0].get_ydata()) == list(alike.lines[0].get_ydata()) == [4, 6, 8]
    (bars,) = drawn.lines[2]
    low, high = bars.get_segments()[1][:, 1]
    assert (low, high) == pytest.approx((6 - 4.303 / 3 ** 0.5, 6 + 4.303 / 3 ** 0.5), abs=1e-3), "t(2) = 4.303, s = 1"
    assert [label.get_text() for label in figure.legends[0].texts] == ["policy mmap", "policy –"]


def test_over_has_to_be_a_swept_key():
    with pytest.raises(vitro.ConfigError, match="over: seed is no column of the table .expected a swept key, such as workload.seed"):
        plot.series(table([("4 MiB", 1, "mmap")]), KEYS, "decode_tokens_per_s", over="seed")


def test_points_that_share_no_line_have_a_panel_for_each_key():
    frame = table((f"{4 + i / 7:.3f} MiB", 1 + i, ("mmap", "dense")[i % 2]) for i in range(30))
    figure = plot.series(frame, KEYS, "decode_tokens_per_s")
    assert sorted(ax.get_xlabel() for ax in figure.axes) == ["engine.io_depth", "engine.policy", "memory.budget (MiB)"]
    assert not figure.legends and all(len(ax.lines) == 1 and len(ax.lines[0].get_xdata()) == 30 for ax in figure.axes)


def test_of_many_lines_that_differ_in_one_number_each_has_a_shade():
    frame = table((f"{budget} MiB", depth, "mmap") for budget in range(1, 31) for depth in range(1, 21))
    figure = plot.series(frame, KEYS[:2], "decode_tokens_per_s")
    ax, bar = figure.axes
    assert not figure.legends and len(ax.lines) == 20 and len({line.get_color() for line in ax.lines}) == 20
    assert bar.get_ylabel() == "engine.io_depth" and bar.get_ylim() == (1, 20)


def test_more_lines_than_a_legend_holds_become_a_panel_for_each_key():
    frame = table((f"{budget} MiB", depth, policy) for budget in range(1, 31) for depth in range(1, 11) for policy in ("mmap", "dense"))
    figure = plot.series(frame, KEYS, "decode_tokens_per_s")
    assert not figure.legends and len(figure.axes) == 3

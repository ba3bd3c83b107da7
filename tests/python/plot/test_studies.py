"""Pictures of studies: what is drawn are the table's own numbers, and a column that lacks is named."""
import numpy
import pandas
import pytest
import vitro
from vitro import plot
from vitro.plot import style
from vitro.plot.results import energy_of
from vitro.trace.hot_experts import ALL, DECODED, GENERATED, OTHER, UNSEEN

SWEPT = pandas.DataFrame({"memory.budget": ["512 KiB", "4 MiB", "1 GiB"] * 2, "engine.weights.eviction": ["lru"] * 3 + ["lfu"] * 3,
                          "cache_hit_rate": [0.1, 0.5, 1.0, 0.2, 0.4, 1.0], "belady_hit_rate": [0.3, 0.6, 1.0, 0.3, 0.6, 1.0]})


def line(ax, label):
    return next(one for one in ax.lines if one.get_label() == label)


def test_hits_over_budgets_of_several_units():
    (ax,) = plot.hit_curve(SWEPT, "memory.budget", by="engine.weights.eviction").axes
    assert ax.get_xlabel() == "memory.budget (MiB)"
    assert list(line(ax, "lru").get_xdata()) == [0.5, 4, 1024] and list(line(ax, "lfu").get_ydata()) == [0.2, 0.4, 1]
    assert sum(one.get_linestyle() == "--" and len(one.get_xdata()) == 3 for one in ax.lines) == 2


def test_the_furthest_parameter_is_on_top():
    frame = pandas.DataFrame({"parameter": ["near", "far", "none"], "low": [0.01, -0.2, 0.0], "high": [-0.01, 0.1, 0.0]})
    (ax,) = plot.tornado(frame, metric="speed", top=2).axes
    assert [text.get_text() for text in ax.get_yticklabels()] == ["far", "near"]
    assert [bar.get_width() for bar in ax.patches] == pytest.approx([-20, 1, 10, -1]) and ax.get_xlabel() == "change of speed, %"


def test_effects_have_no_direction():
    frame = pandas.DataFrame({"metric": ["speed"] * 3 + ["ttft"], "parameter": ["near", "far", "none", "far"],
                              "effect": [0.01, 0.2, 0.0, 0.5], "interval": [0.0, 0.05, 0.0, 0.1], "interaction": 0.0})
    (ax,) = plot.tornado(frame, metric="speed", top=2).axes
    assert [text.get_text() for text in ax.get_yticklabels()] == ["far", "near"]
    assert [(bar.get_x(), bar.get_width()) for bar in ax.patches] == [(0, pytest.approx(20)), (0, pytest.approx(1))]
    assert ax.get_xlim() == (0, pytest.approx(27.5)) and len(ax.collections) == 1  # bars of the intervals
    assert plot.tornado(frame[3:]).axes[0].get_xlabel() == "change of ttft, %"


def test_tables_of_a_study_name_their_keys_otherwise():
    renamed = SWEPT.rename(columns={name: f"point.{name}" for name in ("memory.budget", "engine.weights.eviction")})
    (ax,) = plot.hit_curve(renamed, "memory.budget", by="engine.weights.eviction").axes
    assert ax.get_xlabel() == "memory.budget (MiB)" and list(line(ax, "lru").get_xdata()) == [0.5, 4, 1024]
    frame = pandas.DataFrame({"speed": [1, 3], "point.size": [1, 2], "point.kind": ["a", "b"]})
    (ax,) = plot.pareto(frame, {"speed": "maximize", "size": "minimize"}, by="kind").axes
    assert list(line(ax, "b").get_xdata()) == [2] and ax.get_xlabel() == "size"


def test_predictions_have_their_mean_error():
    frame = pandas.DataFrame({"measured": [1.0, 10.0, 0.0], "predicted": [1.1, 8.0, 3.0], "low": [1.0, 7.0, 0], "high": [1.2, 9.0, 4]})
    (ax,) = plot.predicted(frame, unit="tokens/s").axes
    assert ax.texts[0].get_text() == "mean error 15.0% of 2, band ±10%" and ax.get_xlabel() == "measured, tokens/s"
    assert not list(plot.predicted(frame[frame["measured"] == 0]).axes[0].texts)


def test_a_roof_is_bandwidth_until_arithmetic_ends():
    frame = pandas.DataFrame({"intensity": [1.0, 100.0], "operations_per_s": [5e9, 4e11], "unit": ["a", "b"]})
    (ax,) = plot.roofline(frame, {"core": (4e11, 1e10)}, by="unit").axes
    x, y = line(ax, "core").get_data()
    assert numpy.allclose(y, numpy.minimum(400, 10 * x)) and x[0] <= 0.5 and x[-1] >= 200
    assert list(line(ax, "b").get_ydata()) == [400]


@pytest.mark.parametrize("way, best", [("minimize", [(1, 1), (2, 3)]), ("maximize", [(3, 2), (2, 3)])])
def test_the_front_is_drawn_over_its_points(way, best):
    frame = pandas.DataFrame({"speed": [1, 3, 2], "size": [1, 2, 3]})
    (ax,) = plot.pareto(frame, {"speed": "maximize", "size": way}).axes
    front = line(ax, "front")
    assert sorted(zip(front.get_ydata(), front.get_xdata())) == (sorted(best) if way == "maximize" else [(1, 1), (3, 2)])


def result(**metrics):
    return vitro.Result({"metrics": metrics, "machine": "sim"})


def test_energy_is_stacked_to_that_of_a_token():
    one = result(energy_j_per_token=0.02, energy_parts_j={"base": 1.0, "flash": 3.0})
    prompt = result(energy_j_per_token=None, prefill_energy_j_per_token=0.1, energy_parts_j={"base": 1.0})
    (ax,) = plot.energy({"one": one, "prompt": prompt}).axes
    assert [bar.get_x() for bar in ax.patches] == pytest.approx([0, 0, 5, 100])
    assert [bar.get_width() for bar in ax.patches] == pytest.approx([5, 100, 15, 0])
    assert energy_of("one", one) == pytest.approx({"base": 0.005, "flash": 0.015})
    with pytest.raises(vitro.ConfigError, match="host: has no energy"):
        plot.energy({"host": result(energy_parts_j=None)})


def test_energy_is_stacked_by_who_drew_it():
    one = result(energy_j_per_token=0.02, energy_by_unit_j={"cpu0": 1.0, "cpu1": 2.0, "ane": 1.0},
                 energy_by_kind_j={"cores": 3.0, "ane": 1.0})
    (ax,) = plot.energy({"one": one}, by="kind").axes
    assert [bar.get_width() for bar in ax.patches] == pytest.approx([15, 5])
    (ax,) = plot.energy({"one": one}, by="unit").axes
    assert [bar.get_width() for bar in ax.patches] == pytest.approx([5, 10, 5])
    assert len({bar.get_facecolor() for bar in ax.patches}) == 3
    with pytest.raises(vitro.ConfigError, match="energy: by 'core' .expected one of: part, kind, unit"):
        plot.energy({"one": one}, by="core")


@pytest.mark.parametrize("draw, said", [
    (lambda: plot.hit_curve(SWEPT, "budget"), "budget: is not a column of the table .there are memory.budget"),
    (lambda: plot.hit_curve(SWEPT.assign(**{"memory.budget": "much"}), "memory.budget"), "memory.budget: 'much' is no size"),
    (lambda: plot.tornado(pandas.DataFrame({"metric": ["a", "b"], "parameter": "p", "effect": 0.1})),
     "metric: '' .expected one of .* a, b"),
    (lambda: plot.tornado(SWEPT), "parameter: is not a column"), (lambda: plot.predicted(SWEPT), "measured: is not a column"),
    (lambda: plot.roofline(SWEPT, {}), "intensity: is not a column"),
    (lambda: plot.pareto(SWEPT, {"cache_hit_rate": "maximize"}), "expected two metrics"),
    (lambda: plot.save(plot.tornado(pandas.DataFrame({"parameter": ["a"], "low": [0.1], "high": [0.2]})), "a.pdf"), "expected .svg, .png"),
    (lambda: plot.theme("blue").__enter__(), "theme: 'blue' .expected light or dark")])
def test_mistakes_have_one_message(draw, said):
    with pytest.raises(vitro.ConfigError, match=said):
        draw()


def contrast(one, other):
    """Of two colours, by WCAG 2.1."""
    def luminance(color):
        parts = [int(color[i:i + 2], 16) / 255 for i in (1, 3, 5)]
        return sum(weight * (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4)
                   for weight, part in zip((0.2126, 0.7152, 0.0722), parts))
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("name", ["light", "dark"])
def test_texts_can_be_read_and_work_can_be_told_from_the_paper(name):
    on = style.PAPERS[name]
    assert contrast(on["ink"], on["paper"]) > 7 and contrast(on["faint"], on["paper"]) > 4.5
    colors = {*style.COLORS.values(), *style.WORK, *style.MACHINE_COLORS.values()}
    seen = [style.ON_DARK.get(color, color) if name == "dark" else color for color in colors]
    assert all(contrast(color, on["paper"]) > 2.2 for color in seen)


def test_dark_pictures_are_dark_and_both_files_are_written_alike_twice(tmp_path):
    def draw():
        return plot.hit_curve(SWEPT, "memory.budget", by="engine.weights.eviction")
    light = draw()
    with plot.theme("dark"):
        dark = draw()
    assert light.get_facecolor() == (1, 1, 1, 1) and sum(dark.get_facecolor()[:3]) < 0.5
    assert dark.axes[0].lines[0].get_color()[:3] == pytest.approx((0x5b / 255, 0x9f / 255, 0xd0 / 255))
    first, second = plot.save(draw(), tmp_path / "a"), plot.save(draw(), tmp_path / "b")
    assert [path.name for path in first] == ["a.svg", "a.png"]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    assert first[1].read_bytes().startswith(b"\x89PNG") and b"memory.budget (MiB)" in first[0].read_bytes()
    assert plot.save(dark, tmp_path / "c.png") == [tmp_path / "c.png"] and not (tmp_path / "c.svg").exists()


def test_a_notebook_shows_pictures_of_its_own_accord():
    assert plot.hit_curve(SWEPT, "memory.budget")._repr_png_().startswith(b"\x89PNG")


def test_published_values_stand_beside_simulated_ones():
    def row(name, expected, simulated, status="ok", unit="x"):
        return {"id": name, "expected": expected, "simulated": simulated, "status": status, "unit": unit}
    rows = [row("a", 2, 3.0), row("b", [1, 4], 2.0), row("hidden", 9, 9.0, "reserved"), row("none", None, 1.0), row("open", 1, None)]
    (ax,) = plot.published(rows, names={"a": "first"}).axes
    assert [text.get_text() for text in ax.get_yticklabels()] == ["first", "b"] and ax.get_xlabel() == "x"
    assert [bar.get_width() for bar in ax.patches] == [3, 2]
    assert [list(one.get_xdata()) for one in ax.lines if one.get_marker() == "D"] == [[2, 2], [1, 4]]
    with pytest.raises(vitro.ConfigError, match="rows of several units .s, x."):
        plot.published([rows[0], row("c", 1, 1.0, unit="s")])


def test_overlap_of_hot_experts_is_drawn_beside_chance():
    kinds = (("a", "a", UNSEEN, ALL), ("a", "b", OTHER, ALL), ("a", "b", OTHER, GENERATED), ("a", "a", DECODED, GENERATED))
    rows = [{"calibrated_on": one, "asked_on": other, "kind": kind, "tokens": tokens, "k": k, "mean": k / 5, "chance": k / 8}
            for one, other, kind, tokens in kinds for k in (1, 2, 4)]
    (ax,) = plot.overlap(pandas.DataFrame(rows)).axes
    assert line(ax, "a and b (generated)") is not None and line(ax, "a, generated by prompts") is not None
    assert list(line(ax, "a and b").get_ydata()) == [20, 40, 80] and list(line(ax, "a, halves").get_xdata()) == [1, 2, 4]
    assert list(line(ax, "by chance").get_ydata()) == [12.5, 25, 50] and ax.get_xscale() == "log"

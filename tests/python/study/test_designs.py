"""Designs: which points they have, and that they fill the space as they promise."""
import pytest
import vitro
from vitro.study.designs import axes
from vitro.study.points import labelled, points

SPACE = {"a.x": {"from": 0, "to": 1}, "b": {"from": "25%", "to": "75%"}, "c": [["cpu0"], "two"]}


def drawn(kind, samples=64, seed=1, over=None):
    return points({"design": kind, "samples": samples, "seed": seed, "over": over or SPACE})


def test_a_grid_and_a_zip_are_listed():
    over = {"a": [1, 2], "b": ["x", "y"]}
    assert points({"design": "grid", "over": over}) == points(over)
    assert points({"design": "zip", "over": over}) == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]


def test_designs_join_in_a_union_and_have_labels():
    found = labelled([{"label": "drawn", "design": "random", "samples": 2, "over": {"a": {"from": 1, "to": 9, "whole": True}}}, {"a": 3}])
    assert len(found) == 3 and found[0][0].startswith("drawn, a ") and found[2] == ("a 3", {"a": 3})


@pytest.mark.parametrize("kind", ["random", "sobol", "latin_hypercube"])
def test_a_seed_is_a_design_and_another_seed_another_one(kind):
    assert drawn(kind) == drawn(kind) != drawn(kind, seed=2)
    for point in drawn(kind):
        assert 0 <= point["a.x"] <= 1 and 25 <= float(point["b"].removesuffix("%")) <= 75 and point["c"] in (["cpu0"], "two")


def test_a_latin_hypercube_has_one_point_in_each_slice():
    for samples in (7, 64):
        assert sorted(int(point["a.x"] * samples) for point in drawn("latin_hypercube", samples)) == list(range(samples))


def test_sobol_points_are_balanced():
    """Of 64 points, each of the 8 by 8 boxes of two axes has exactly one, as a (0, 6, 2)-net has."""
    found = drawn("sobol", 64, over={"x": {"from": 0, "to": 1}, "y": {"from": 0, "to": 1}})
    assert len({(int(point["x"] * 8), int(point["y"] * 8)) for point in found}) == 64
    assert {point["c"] == "two" for point in drawn("sobol", 4)} == {True, False}


def test_values_are_written_as_in_a_file():
    found = drawn("sobol", 256, over={"budget": {"from": "4 MiB", "to": "64 MiB", "scale": "log"},
                                      "depth": {"from": 1, "to": 3, "whole": True}, "layers": {"from": 1, "to": 64, "scale": "log",
                                                                                              "whole": True}})
    assert all(point["budget"].endswith(" MiB") for point in found)
    below = sum(float(point["budget"].split()[0]) < 16 for point in found)
    assert 118 <= below <= 138, "on a log scale half of the points is below the geometric mean"
    assert {type(point["depth"]) for point in found} == {int} and {point["depth"] for point in found} == {1, 2, 3}
    assert 76 <= sum(point["depth"] == 1 for point in found) <= 94
    layers = [point["layers"] for point in found]
    assert set(layers) <= set(range(1, 65)) and min(layers) == 1 and max(layers) > 58
    assert 51 <= layers.count(1) <= 65, "ln(1.5 / 0.5) / ln(64.5 / 0.5) of 256"


@pytest.mark.parametrize("low, high, found", [
    ("5.", "7", (5, 7, "")), (".5", "2", (0.5, 2, "")), ("1e3 us", "2.5E3us", (1000, 2500, " us")), ("-1", "+1", (-1, 1, "")),
    (1, 2.5, (1, 2.5, "")), ("25 %", "75%", (25, 75, "%"))])
def test_numbers_of_a_range_are_those_of_a_file(low, high, found):
    axis = axes({"a": {"from": low, "to": high}}, ())["a"]
    assert (axis.low, axis.high, axis.unit) == found


@pytest.mark.parametrize("lines, said", [
    ("  design: sobl\n  over: {seed: [1]}", "exp.yaml:3: sweep.design: 'sobl'"),
    ("  design: sobol\n  over: {seed: [1]}", "exp.yaml:3: sweep.samples: None"),
    ("  design: zip\n  samples: 3\n  over: {seed: [1]}", "exp.yaml:4: sweep.samples: unknown key"),
    ("  design: random\n  samples: 3", "over: expected a map"),
    ("  design: random\n  samples: 3\n  over:\n    seed: {from: 3, to: 1}", "exp.yaml:6: over.seed: from 3 to 1"),
    ("  design: random\n  samples: 3\n  over:\n    seed:\n      from: 3\n      to: many", "exp.yaml:8: over.seed.to: 'many'"),
    ("  design: random\n  samples: 3\n  over:\n    seed: {from: 1.2.3, to: 5}", "exp.yaml:6: over.seed.from: '1.2.3'"),
    ("  design: random\n  samples: 3\n  over:\n    seed: {from: ., to: 5}", "exp.yaml:6: over.seed.from: '.'"),
    ("  design: random\n  samples: 3\n  over:\n    seed: {from: 1 MiB, to: 1e999 MiB}", "exp.yaml:6: over.seed.to: '1e999 MiB'"),
    ("  design: random\n  samples: 3\n  over:\n    seed: {from: 1, to: .inf}", "exp.yaml:6: over.seed.to: inf"),
    ("  design: random\n  samples: 3\n  over:\n    memory.budget: {from: 3 MiB, to: 1 GiB}", "exp.yaml:6: over.memory.budget.to: '1 GiB'"),
    ("  design: random\n  samples: 3\n  over:\n    seed: {from: 0, to: 1, scale: log}", "from > 0 on a log scale"),
    ("  design: random\n  samples: 3\n  over:\n    seed: {from: 0, to: 1, step: 2}", "exp.yaml:6: over.seed.step: unknown key"),
    ("  design: zip\n  over: {seed: [1, 2], memory.budget: [4 MiB]}", "seed has 2, memory.budget has 1 values"),
    ("  design: grid\n  over: {seed: {from: 1, to: 2}}", "over.seed: a range has no end of points"),
    ("  design: grid\n  over: {" + ", ".join(f"k{i}: [1, 2, 3, 4]" for i in range(30)) + "}",
     "exp.yaml:4: sweep.over: has 1,152,921,504,606,846,976 points (expected up to 100,000)"),
    ("  " + "\n  ".join(f"k{i}: [1, 2, 3, 4]" for i in range(30)),
     "sweep: has 1,152,921,504,606,846,976 points (expected up to 100,000; a design picks some of a large space)"),
])
def test_what_is_wrong_in_a_design_is_named_by_file_and_line(fake, lines, said):
    answer = fake("sweep", fake.write(f"experiment: x\nsweep:\n{lines}\n"), "--out", "o")
    assert answer.code == 2 and said in answer.err and answer.err.count("\n") == 1, answer.err


def test_a_drawn_study_is_resumed_with_its_points(fake, tmp_path):
    text = "experiment: x\nfake: {log: runs.log}\n" \
        "sweep: {design: latin_hypercube, samples: 6, over: {memory.budget: {from: 4 MiB, to: 8 MiB}}}\n"
    first = vitro.sweep(text, out="o")
    again = vitro.sweep(text.replace("samples: 6", "samples: 6, seed: 1"), out="o", resume=True)
    assert list(first["memory.budget"]) == list(again["memory.budget"])
    assert len((tmp_path / "runs.log").read_text().split()) == 6

"""Keys that step into a list."""
import pytest
import vitro
from vitro.study.list_keys import written_out

TREE = {"engine": {"placement": {"splits": [{"batch": 1, "hot": "5%"}, {"batch": 4}]}, "units": ["cpu0", "cpu1"]}}


def out(point, tree=TREE):
    return written_out(point, lambda: tree)


def test_an_entry_is_changed_and_the_others_stay():
    assert out({"engine.placement.splits.0.hot": "9%", "engine.placement.splits.1.head": "50%", "seed": 2}) == {
        "engine.placement.splits": [{"batch": 1, "hot": "9%"}, {"batch": 4, "head": "50%"}], "seed": 2}
    assert out({"a.0.b.1.c": 7, "a.0.b.0": 8}, {"a": [{"b": [1, {"c": 2}]}]}) == {"a": [{"b": [8, {"c": 7}]}]}, "a list within a list"
    assert out({"engine.units.1": "cpu5"}) == {"engine.units": ["cpu0", "cpu5"]}
    assert out({"engine.placement.splits.0.a.b": 1})["engine.placement.splits"][0]["a"] == {"b": 1}
    assert TREE["engine"]["placement"]["splits"][0] == {"batch": 1, "hot": "5%"}


def test_earlier_names_and_lists_of_the_point_itself_count():
    assert out({"engine.hybrid.splits.0.hot": "9%"})["engine.hybrid.splits"][0]["hot"] == "9%"
    assert out({"a.b": [1, 2], "a.b.0": 7}) == {"a.b": [7, 2]}


def test_what_steps_into_no_list_stays():
    assert out({"seed.0": 1, "engine.placement.0": 2}) == {"seed.0": 1, "engine.placement.0": 2}
    assert written_out({"a.b": 1}, lambda: 1 / 0) == {"a.b": 1}, "the experiment is not asked"


@pytest.mark.parametrize("key, said", [
    ("engine.placement.splits.2.hot", "has 2 entries"), ("engine.units.0.a", "engine.units.0 is no map"),
    ("engine.placement.splits.0.hot.x", "engine.placement.splits.0.hot is no map"),
    ("engine.placement.splits.0.hot.x.y", "engine.placement.splits.0.hot is no map")])
def test_what_is_not_there_is_named(key, said):
    with pytest.raises(vitro.ConfigError, match=said):
        out({key: 1})


def test_a_sweep_takes_such_keys(fake):
    text = """
experiment: swept
engine: {policy: mmap}
memory: {budget: 4 MiB}
model: {parts: [{size: 1}, {size: 2}]}
sweep: {model.parts.1.size: [5, 6]}
"""
    path = fake.write(text)
    frame = vitro.sweep(path, out="o")
    assert list(frame["model.parts.1.size"]) == [5, 6] and (frame["status"] == "ok").all()
    found = [result["experiment_resolved"]["model"]["parts"] for result in vitro.Study("o").results()]
    assert sorted(part["size"] for parts in found for part in parts) == [1, 1, 5, 6]
    wrong = text.replace("{model.parts.1.size: [5, 6]}", "\n  workload.seed: [1]\n  model.parts.7.size: [5]")
    with pytest.raises(vitro.ConfigError, match=r"exp.yaml:8: model.parts.7.size: model.parts has 2 entries"):
        vitro.sweep(fake.write(wrong))

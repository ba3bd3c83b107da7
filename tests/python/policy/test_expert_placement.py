"""Which experts share graphs on which unit, by a rule in Python and by one in a shared object, on both machines."""
import subprocess
import sys

import pytest
import pyrules
import vitro
from conftest import ROOT

sys.path.append(str(ROOT / "tests" / "python" / "engine"))
from test_moe import experiment, large  # noqa: E402
from test_moe_residency import wrong_loads  # noqa: E402

OWN = ("load", "hottest", "cores")
LOADS = [[0.02, 0.1, 0.2, 0.05, 0.25, 0.08, 0.3, 0]] * 3
PLUGIN = """
#include <algorithm>
#include <stdexcept>

#include "engine/parts/plugin.hpp"
using namespace vitro;
struct Coolest final : ExpertPlacement {
  explicit Coolest(PlaceOptions o) : options(o) {}
  std::vector<ExpertGraph> place(const LayerToPlace& at) override {
    const auto& rows = at.load.expected;
    const auto coolest = static_cast<std::uint16_t>(std::min_element(rows.begin(), rows.end()) - rows.begin());
    return {{{coolest}, options.multiple, options.by_load.units - 1}};
  }
  PlaceOptions options;
};
struct Throws final : ExpertPlacement {
  std::vector<ExpertGraph> place(const LayerToPlace&) override { throw std::out_of_range("no such expert"); }
};
VITRO_PARTS(parts) {
  parts.expert_places.add({"coolest", "the coolest alone", [](const PlaceOptions& o) -> std::unique_ptr<ExpertPlacement> {
                             return std::make_unique<Coolest>(o);
                           }});
  parts.expert_places.add({"throws", "", [](const PlaceOptions&) -> std::unique_ptr<ExpertPlacement> {
                             return std::make_unique<Throws>();
                           }});
}
"""


def run(machine, place, *policies, overrides=None, twice=False, **moe):
    given = experiment(machine, **{"loads": LOADS, "overflow": "cpu", "place": place} | moe)
    del given["engine"]["moe"]["calibration"]
    return vitro.run(given, policies=policies, overrides=overrides or {}, twice=twice)


def run_large(place, *policies, **moe):
    return vitro.run(large(loads=wrong_loads(2, 16), place=place, **moe), policies=policies, overrides={
        "model.shape.layers": 2, "engine.prefill_chunk": 256, "workload.requests": [{"prompt_tokens": 512}] * 3})


@pytest.fixture(scope="module")
def plugin(tmp_path_factory):
    folder = tmp_path_factory.mktemp("places")
    (folder / "places.cpp").write_text(PLUGIN)
    flags = ["-std=c++20", "-O1", "-shared", "-fPIC", f"-I{ROOT}"]
    subprocess.run(["c++", *flags, "-o", folder / "places.so", folder / "places.cpp"], check=True)
    return {"engine.plugins": [str(folder / "places.so")]}


@pytest.fixture(scope="module")
def dense():
    return vitro.run(experiment("sim", policy="dense")).tokens


@pytest.mark.parametrize("machine", ["sim", "host"])
def test_no_token_depends_on_where_experts_are(native, machine, dense, plugin):
    graphs = {}
    for place in OWN:
        result = run(machine, place)
        graphs[place] = result["metrics"]["experts"]["graphs"]
        assert result.tokens == dense, place
    for policy in (pyrules.Hottest, pyrules.Pairs):
        result = run(machine, policy.name, policy)
        graphs[policy.name] = result["metrics"]["experts"]["graphs"]
        assert result.tokens == dense, policy.name
    result = run(machine, "coolest", overrides=plugin)
    assert result.tokens == dense and result["metrics"]["experts"]["graphs"] == 3
    assert graphs["cores"] == 0 < graphs["load"] and graphs["py_hottest"] == graphs["hottest"] > 0
    assert graphs["py_pairs"] == 3 * 4


@pytest.mark.parametrize("machine", ["sim", "host"])
@pytest.mark.parametrize("weights", ["streamed", "experts", "bundles"])
def test_nor_where_weights_come_as_they_are_needed(native, machine, weights, dense):
    units = {"units": ["cpu1"]}
    few = {"engine.weights.kind": weights, "memory.ffn_in_dram": "70%"}
    for place, policies in (("hottest", ()), ("cores", ()), ("py_pairs", (pyrules.Pairs,))):
        assert run(machine, place, *policies, overrides=few, **units).tokens == dense, place


def test_a_rule_in_python_is_the_engines_own(native):
    for more in ({}, {"resident": "1500 KiB"}, {"groups": "off"}, {"overflow": "drop", "group": 2}):
        own, python = run("sim", "hottest", **more), run("sim", "py_hottest", pyrules.Hottest, **more)
        assert python["event_hash"] == own["event_hash"] != run("sim", "load", **more)["event_hash"], more
        assert python["metrics"]["experts"] == own["metrics"]["experts"]


def test_a_rule_is_asked_again_when_tiers_follow_the_load(native):
    own, python = run_large("hottest", drift="follow"), run_large("py_hottest", pyrules.Hottest, drift="follow")
    assert python["event_hash"] == own["event_hash"] != run_large("load", drift="follow")["event_hash"]
    assert python.metric("experts.retiers") == own.metric("experts.retiers") >= 1
    (told,) = python["policies"]
    assert told["calls"] == 2 * (1 + python.metric("experts.retiers")), "both layers, ahead of the first token and each time"


def test_graphs_without_a_unit_are_kept_as_far_as_units_hold_them(native):
    few, beyond = {"resident": "1500 KiB"}, {"resident": "1500 KiB", "beyond": "load"}
    cores, comes = run("sim", "py_pairs", pyrules.Pairs, **few), run("sim", "py_pairs", pyrules.Pairs, **beyond)
    kept = cores["metrics"]["experts"]
    assert kept["graphs"] + kept["graphs_left_to_cores"] == 12 and kept["graphs_left_to_cores"] > 0
    assert comes.tokens == cores.tokens


def test_slices_of_a_rules_own_size_say_what_they_drop(native):
    class Narrow(vitro.ExpertPlacement):
        def place(self, layer, expected, capacity, rooms, rows):
            return [([e], self.multiple, e % self.units) for e in range(self.experts)]

    class Wide(Narrow):
        def place(self, layer, expected, capacity, rooms, rows):
            return [([6], self.chunk, 0)]
    narrow = run("sim", "Narrow", Narrow, overflow="drop", shape_multiple=4, units=["cpu1"])["metrics"]["experts"]
    assert narrow["expected_overflow"] > 0.5 and narrow["token_drop_rate"] > 0.3
    assert run("sim", "Wide", Wide, overflow="drop")["metrics"]["experts"]["token_drop_rate"] == 0


@pytest.mark.parametrize("answer, message", [
    (None, r"place\(\) returned None \(expected a list of \(experts, rows\) or \(experts, rows, unit\), for layer 2"),
    ([3], r"place\(\) returned 3 \(expected a list of"),
    ([([0], 32, 0, 1)], r"place\(\) returned \(\[0\], 32, 0, 1\) \(expected a list of"),
    ([([8], 32)], r"place\(\) returned 8 \(expected experts 0 to 7, for layer 2"),
    ([("0", 32)], r"place\(\) returned '0' \(expected experts 0 to 7"),
    ([([0], 1.5)], r"place\(\) returned 1.5 \(expected whole numbers of rows, for layer 2"),
    ([([0], 32, "ane0")], r"place\(\) returned 'ane0' \(expected units 0 to 1 or None, for layer 2"),
    ([([0], 32, 2)], r"place\(\) returned 2 \(expected units 0 to 1"),
    ([([0], 32), ([1, 0], 32)], r"layer 2 has expert 0 twice \(expected each expert once, or on cores"),
    ([([], 32)], r"layer 2 has a graph without experts"),
    ([([0], 0)], r"layer 2 has slices of 0 rows for experts 0 \(expected 1 to 64, a multiple of"),
    ([([0], 640)], r"layer 2 has slices of 640 rows for experts 0 \(expected 1 to 64"),
    ([([0], 32), ([1], 32, 1)], r"layer 2 has graphs with and without a unit.* \(expected units for all graphs, or for none"),
])
def test_nonsense_is_told_with_rule_and_layer(native, answer, message):
    class Odd(pyrules.PlacesAny):
        pass
    Odd.answer = answer
    with pytest.raises(vitro.RunError, match="the place policy Odd: " + message):
        run("sim", "Odd", Odd)


def test_more_than_a_unit_holds_is_told(native):
    class Greedy(pyrules.PlacesAny):
        answer = [([e], 32, 0) for e in range(8)]
    with pytest.raises(vitro.RunError, match="policy Greedy: layer 2 has a graph on unit 0, which holds no more .expected another unit"):
        run("sim", "Greedy", Greedy, overrides={"device.ane.graph_count": 6})
    with pytest.raises(vitro.RunError, match=r"layer 2 has a graph of [0-9]+ B on unit 0 .expected at most the [0-9]+ that the unit still"):
        run("sim", "Greedy", Greedy, resident="700 KiB")
    assert run("sim", "hottest", overrides={"device.ane.graph_count": 6})["metrics"]["experts"]["graphs"] > 0


@pytest.mark.parametrize("machine", ["sim", "host"])
def test_what_a_rule_raises_is_told_by_name(native, machine, plugin):
    with pytest.raises(vitro.RunError, match=r"(?s)the place policy place_raises \(PlaceRaises\) failed:.*pyrules\.py.*no_such_thing"):
        run(machine, "place_raises", pyrules.PlaceRaises)
    with pytest.raises(vitro.RunError, match="the place policy throws failed for layer 0: no such expert"):
        run(machine, "throws", overrides=plugin)


def test_a_rule_that_decides_by_something_else_is_found_out(native):
    assert run("sim", "py_hottest", pyrules.Hottest, twice=True)["event_hash"] == run("sim", "py_hottest", pyrules.Hottest)["event_hash"]
    with pytest.raises(vitro.RunError, match="the place policy place_moody decides differently in two runs of one seed"):
        run("sim", "place_moody", pyrules.PlaceMoody, twice=True)


def test_what_does_not_fit_together_is_refused(native):
    with pytest.raises(vitro.ConfigError, match="place: can not be combined with cold: by_time .expected load, or cold as a share"):
        run("sim", "hottest", cold="by_time")
    with pytest.raises(vitro.ConfigError, match='place: "nobody" .expected one of: load, hottest, cores'):
        run("sim", "nobody")


def test_a_rule_that_fails_costs_its_points_and_a_changed_one_reruns_its_own(native, tmp_path):
    tree = experiment("sim", loads=LOADS, overflow="cpu") | {"sweep": {"engine.moe.place": ["load", "changes", "place_raises"]}}
    del tree["engine"]["moe"]["calibration"]

    class First(pyrules.PlacesAny):
        name = "changes"
        answer = [([0], 32)]

    class Second(pyrules.PlacesAny):
        name = "changes"
        answer = [([1], 32)]

    def identities(policy):
        frame = vitro.sweep(tree, out=tmp_path / "out", policies=[policy, pyrules.PlaceRaises], resume=True)
        assert list(frame["status"] == "failed") == [False, False, True]
        assert "the place policy place_raises (PlaceRaises) failed" in frame["error"][2]
        return list(frame["identity"])
    first, again, second = identities(First), identities(First), identities(Second)
    assert again == first and second[0] == first[0] and second[1] != first[1]

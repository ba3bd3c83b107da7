"""Belady's rule is a bound, on both machines; where it would not be one it says so."""
import sys

import pytest
import vitro
from conftest import ROOT

sys.path.append(str(ROOT / "tests" / "python" / "policy"))
import pyrules  # noqa: E402
from test_classes import experts, neurons, run  # noqa: E402

HITS = "cache_hit_rate"


def test_no_rule_has_more_hits(native):
    bound = vitro.belady(neurons("sim", "lru"))
    others = {rule: run(neurons("sim", rule)) for rule in ("lru", "step_lru", "lfu", "arc", "none")}
    for rule, result in others.items():
        assert result.tokens == bound.tokens and result.metric(HITS) < bound.metric(HITS), rule
    assert bound["policies"][0]["unforeseen"] == 0 < bound["policies"][0]["accesses"]


def test_it_comes_near_the_bound_of_single_accesses(native):
    """What the layer at hand uses is held, and what comes for it may come in any order: this bound knows of neither."""
    given = neurons("sim", "lru", report_bound=True)
    bound = vitro.belady(given)
    assert bound.metric(HITS) <= bound.metric("belady_hit_rate") * (1 + 1e-12)
    assert bound.metric(HITS) > run(given).metric(HITS)


def test_it_runs_on_host(native):
    sim, host = (vitro.belady(neurons(machine, "lru")) for machine in ("sim", "host"))
    assert host.tokens == sim.tokens and host.metric(HITS) == sim.metric(HITS)


def test_of_experts_it_is_a_bound_without_look_ahead(native):
    bound = vitro.belady(experts("sim", look_ahead=False))
    for rule in ("lru", "step_lru", "lfu", "arc", "popularity", "router"):
        assert run(experts("sim", rule, look_ahead=False)).metric(HITS) <= bound.metric(HITS), rule
    assert len(bound["policies"]) == 1 and bound["policies"][0]["objects"] == 3


def test_where_nothing_goes_it_refuses(native):
    whole = neurons("sim", "lru")
    del whole["memory"]
    whole["engine"] = {"policy": "dense", "threads": 2}
    with pytest.raises(vitro.ConfigError, match="no cache of this experiment evicts"):
        vitro.belady(whole)
    with pytest.raises(vitro.ConfigError, match="belady: overrides set the eviction"):
        vitro.belady(neurons("sim", "lru"), overrides={"engine.weights.eviction": pyrules.PyLru.name})


def test_it_follows_a_recording(native):
    first = str(native.folder / "first.vtrc")
    run(neurons("sim", "lru"), overrides={"engine.record": first})
    replayed = neurons("sim", "lru")
    replayed["engine"] |= {"replay": first, "function": "replay"}
    assert vitro.belady(replayed).metric(HITS) == vitro.belady(neurons("sim", "lru")).metric(HITS)

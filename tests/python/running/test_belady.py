"""Belady's rule knows the future, on both machines; where it does not it says so."""
import importlib
import json
import sys

import pytest
import vitro
from conftest import ROOT

sys.path.append(str(ROOT / "tests" / "python" / "policy"))
import pyrules  # noqa: E402
from test_classes import experts, neurons, run  # noqa: E402

HITS = "cache_hit_rate"
belady_module = importlib.import_module("vitro.running.belady")


def test_the_engines_rules_have_fewer_hits(native):
    oracle = vitro.belady(neurons("sim", "lru"))
    others = {rule: run(neurons("sim", rule)) for rule in ("lru", "step_lru", "lfu", "arc", "none")}
    for rule, result in others.items():
        assert result.tokens == oracle.tokens and result.metric(HITS) < oracle.metric(HITS), rule
    assert oracle["policies"][0]["unforeseen"] == 0 < oracle["policies"][0]["accesses"]


def test_it_stays_below_the_bound_of_single_accesses(native):
    """What the layer at hand uses is held, and what comes for it may come in any order: this bound knows of neither."""
    given = neurons("sim", "lru", report_bound=True)
    oracle = vitro.belady(given)
    assert oracle.metric(HITS) <= oracle.metric("belady_hit_rate") * (1 + 1e-12)
    assert oracle.metric(HITS) > run(given).metric(HITS)


def test_it_runs_on_host(native):
    sim, host = (vitro.belady(neurons(machine, "lru")) for machine in ("sim", "host"))
    assert host.tokens == sim.tokens and host.metric(HITS) == sim.metric(HITS)


def test_of_experts_no_rule_of_the_engine_has_more_hits_without_look_ahead(native):
    oracle = vitro.belady(experts("sim", look_ahead=False))
    for rule in ("lru", "step_lru", "lfu", "arc", "popularity", "router"):
        assert run(experts("sim", rule, look_ahead=False)).metric(HITS) <= oracle.metric(HITS), rule
    assert len(oracle["policies"]) == 1 and oracle["policies"][0]["objects"] == 3


def test_where_nothing_goes_it_refuses(native):
    whole = neurons("sim", "lru")
    del whole["memory"]
    whole["engine"] = {"policy": "dense", "threads": 2}
    with pytest.raises(vitro.ConfigError, match="no cache of this experiment evicts"):
        vitro.belady(whole)


@pytest.mark.parametrize("overrides, key", [
    ({"engine.weights.eviction": pyrules.PyLru.name}, "weights.eviction"), ({"engine.clusters.eviction": "lru"}, "weights.eviction"),
    ({"engine.weights": {"eviction": "lru"}}, "weights.eviction"), ('engine={clusters: {admission: bypass}}', "weights.admission"),
    ({"engine.weights.admission": "rule"}, "weights.admission"), ({"engine.policies": []}, "policies")])
def test_what_it_sets_itself_is_refused_by_name(native, overrides, key):
    with pytest.raises(vitro.ConfigError, match=f"belady: overrides set engine.{key} "):
        vitro.belady(neurons("sim", "lru"), overrides=overrides)


def test_keys_beside_it_are_the_users(native):
    given = neurons("sim", "lru")
    assert vitro.belady(given, overrides={"engine.weights": {"report_bound": True}}).metric("belady_hit_rate") is not None


def test_what_is_written_is_whole(native, monkeypatch, tmp_path):
    out = tmp_path / "new" / "out"
    written = vitro.belady(neurons("sim", "lru"), out=out)
    assert written.out == out and vitro.load_result(out).data == written.data
    assert sorted(path.name for path in out.iterdir()) == ["decisions.jsonl", "result.json", "trace.json"]
    before = (out / "result.json").read_bytes()
    sure = belady_module._unforeseen

    def doubtful(result):
        result.data["policies"][0]["unforeseen"] = 1
        return sure(result)
    monkeypatch.setattr(belady_module, "_unforeseen", doubtful)
    with pytest.raises(vitro.RunError, match="belady: 1 of [0-9]+ uses of blocks were not those of the first run"):
        vitro.belady(neurons("sim", "lru"), out=out)
    assert (out / "result.json").read_bytes() == before and len(list(out.iterdir())) == 3 and len(list(out.parent.iterdir())) == 1
    with pytest.raises(vitro.RunError):
        vitro.belady(neurons("sim", "lru"), out=tmp_path / "other")
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "run") == ["new"]
    noted = vitro.belady(experts("sim"), out=tmp_path / "experts")
    assert json.loads((tmp_path / "experts/result.json").read_text())["notes"] == noted["notes"]
    assert any("1 of " in note and "not those of the first run" in note for note in noted["notes"])


def test_it_follows_a_recording(native):
    first = str(native.folder / "first.vtrc")
    run(neurons("sim", "lru"), overrides={"engine.record": first})
    replayed = neurons("sim", "lru")
    replayed["engine"] |= {"replay": first, "function": "replay"}
    assert vitro.belady(replayed).metric(HITS) == vitro.belady(neurons("sim", "lru")).metric(HITS)

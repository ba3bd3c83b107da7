"""Short runs that end weak points of a search: who goes on, what is kept, and that the front is the same for fewer tokens."""
import pandas
import pytest
import vitro
from conftest import ROOT
from vitro.errors import ConfigError
from vitro.study import halving, store
from vitro.study.halving import Prune, Rung, read, shortened, tokens_of

SHAPE = {"family": "llama", "name": "wide", "layers": 3, "width": 1024, "heads": 8, "kv_heads": 8, "ffn": 2048, "vocab": 512,
         "context": 256, "norm_eps": 1e-5, "activation": "relu", "rope_base": 10000, "predictor_rank": 64}
STUDY = {
    "experiment": "halved", "machine": "sim", "device": str(ROOT / "configs/devices/oneplus12.yaml"),
    "model": {"format": "q4_0", "shape": SHAPE},
    "engine": {"policy": "neuron_cluster", "layout": "bundles", "units": ["cpu1", "cpu2"], "clusters": {"io_core": "cpu0"},
               "activations": "int8", "profile": {"fraction": "12%", "skew": 0.8}},
    "workload": {"prompt_tokens": 4, "output_tokens": 32, "stop_at_eos": False, "seed": 1}, "memory": {"ffn_in_dram": "50%"},
    "sweep": {"design": "search", "trials": 32, "batch": 8, "seed": 3,
              "objectives": {"decode_tokens_per_s": "maximize", "peak_memory_bytes": "minimize"},
              "over": {"memory.ffn_in_dram": ["20%", "40%", "60%"], "engine.ffn.clusters.io_depth": [1, 4, 16]}}}


def test_the_best_share_goes_on_in_whole_ranks():
    rung = Rung(0.5, ["maximize"])
    assert rung.go_on([([value], 0.0) for value in (4, 1, 3, 2)]) == [True, False, True, False]
    assert rung.go_on([([value], 0.0) for value in (1, 5)]) == [False, True], "of all that ran so short until then"
    assert Rung(0.25, ["maximize", "minimize"]).go_on([([4, 4], 0), ([2, 2], 0), ([1, 3], 0), ([3, 5], 0)]) == [True, True, False, False]


def test_who_breaks_a_constraint_is_behind_all_others_and_who_fails_ends():
    rung = Rung(0.5, ["maximize"])
    assert rung.go_on([([9], 2.0), ([1], 0.0), None, ([8], 1.0), ([2], 0.0)]) == [False, True, False, False, True]
    assert Rung(0.5, ["maximize"]).go_on([None, None]) == [False, False]
    assert Rung(0.5, ["maximize"]).go_on([([9], 2.0), ([8], 1.0)]) == [False, True], "the least broken of those that are left"


def test_short_runs_have_a_step_behind_the_warm_up():
    assert [shortened(32, share, 0) for share in (0.01, 0.25, 0.26)] == [2, 8, 9]
    assert shortened(32, 0.1, 16) == 18 and shortened(4, 0.5, 16) == 4
    assert tokens_of({}, {"output_tokens": 5}) == 5 and tokens_of({halving.TOKENS: 7}, {"output_tokens": 5}) == 7


@pytest.mark.parametrize("tree, said", [
    (3, "sweep.prune: 3"), ({}, "sweep.prune: "), ({"keep": 0.5}, "sweep.prune: "), ({"share": "25%", "most": 1}, "sweep.prune: "),
    ({"share": 1}, "sweep.prune.share: 1"), ({"share": "0%"}, "sweep.prune.share: '0%'"), ({"share": [0.5, 0.2]}, "each larger"),
    ({"share": []}, "sweep.prune.share"), ({"share": 0.2, "keep": "x"}, "sweep.prune.keep: 'x'")])
def test_what_is_wrong_is_named(tree, said):
    with pytest.raises(ConfigError) as caught:
        read(tree)
    assert said in str(caught.value)


def test_what_is_said():
    assert read(None) is None and read({"share": "25%"}) == Prune((0.25,), 0.5)
    assert read({"share": [0.1, "30%"], "keep": 0.25}) == Prune((0.1, 0.3), 0.25)
    with pytest.raises(ConfigError, match="of which no share is a run"):
        tokens_of({}, {"output_tokens": [3, 4]})


def points(frame):
    return {(row["memory.ffn_in_dram"], row["engine.ffn.clusters.io_depth"]) for _, row in frame.iterrows()}


def test_the_front_is_the_same_for_fewer_tokens_and_a_search_that_is_resumed_runs_nothing(native, tmp_path):
    whole = vitro.search(STUDY, out=tmp_path / "whole")
    study = STUDY | {"sweep": STUDY["sweep"] | {"prune": {"share": "25%", "keep": "40%"}}}
    half = vitro.search(study, out=tmp_path / "half", trials=16)
    halved = vitro.search(study, out=tmp_path / "half", resume=True)
    assert points(halved[halved["front"]]) == points(whole[whole["front"]])
    tokens = halved.attrs["tokens"]
    assert tokens["generated"] < 0.85 * tokens["without"] and 0 < halved["pruned"].sum() < len(halved)
    assert not (halved["pruned"] & (halved["front"] | halved["feasible"])).any()
    assert set(halved[halved["pruned"]]["output_tokens"]) == {8} and set(halved[~halved["pruned"]]["output_tokens"]) == {32}
    assert halved.attrs["keys"] == whole.attrs["keys"] and halving.TOKENS not in halved
    pandas.testing.assert_frame_equal(halved.drop(columns="wall_s")[:16][["identity", "pruned"]], half[["identity", "pruned"]])
    rows = store.rows(tmp_path / "half")
    again = vitro.search(study, out=tmp_path / "half", resume=True)
    pandas.testing.assert_frame_equal(again, halved)
    pandas.testing.assert_frame_equal(store.rows(tmp_path / "half"), rows)

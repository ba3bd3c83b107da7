"""Neurons of experts that are read before their router has chosen: no token changes, and every byte is a miss or was read ahead."""
import random

import pytest
import vitro
from conftest import ROOT
from vitro.errors import ConfigError

MODELS = ROOT / "configs" / "models" / "embedded"
MODEL = MODELS / "stories-moe-6m.f16.gguf"
TEXT = (MODELS / "eval.txt").read_text()
DEVICE = ROOT / "configs" / "devices" / "oneplus12.yaml"
SHAPE = {"family": "mixtral", "layers": 4, "width": 512, "heads": 4, "ffn": 1024, "vocab": 512, "context": 512, "norm_eps": 1e-5,
         "activation": "relu", "rope_base": 10000, "experts": 8, "experts_used": 2, "predictor_rank": 64}


def experiment(machine, ahead, share=25, *, weights=None, clusters=None, engine=None, **workload):
    """ahead: bytes for a layer."""
    given = {"kind": "bundles", "eviction": "lru", "experts": {"neurons_ahead": ahead}} | (weights or {})
    return {"experiment": "ahead", "machine": machine, "device": str(DEVICE), "model": {"gguf": str(MODEL)},
            "engine": {"policy": "neuron_cluster", "units": ["cpu0", "cpu1"], "prefill_chunk": 16, "weights": given,
                       "ffn": {"clusters": clusters or {}}} | (engine or {}),
            "workload": {"prompt": TEXT[2000:2120], "output_tokens": 12, "stop_at_eos": False} | workload,
            "memory": {"ffn_in_dram": f"{share}%"}}


@pytest.fixture(scope="module")
def dense():
    return vitro.run(experiment("sim", 0) | {"engine": {"policy": "dense", "threads": 2, "prefill_chunk": 16}, "memory": {}})["tokens"]


@pytest.mark.parametrize("machine, seeds", [("sim", range(3)), ("host", range(2)), pytest.param("sim", range(3, 20), marks=pytest.mark.all),
                                            pytest.param("host", range(3, 12), marks=pytest.mark.all)])
def test_tokens_are_those_of_dense(machine, seeds, dense):
    for seed in seeds:
        rng = random.Random(seed)
        weights = {"kind": rng.choice(("bundles", "experts")), "eviction": rng.choice(("lru", "step_lru", "lfu", "arc", "none", "window")),
                   "admission": rng.choice(("rule", "always", "bypass")), "layout": rng.choice(("bundles", "bundles_two_phase"))}
        clusters = {"pipeline": rng.choice(("cluster", "matrix", "none")), "neurons": rng.choice((5, 64)),
                    "dense_rows": rng.choice((1, 16))}
        weights["staging"] = rng.choice(("16 KiB", "4 MiB"))
        ahead = rng.choice(("4 KiB", "64 KiB", "2 MiB"))
        given = experiment(machine, ahead, rng.choice((0, 5, 25, 60, 100)), weights=weights, clusters=clusters)
        assert vitro.run(given)["tokens"] == dense, (seed, weights, clusters, ahead)


@pytest.mark.parametrize("machine", ["sim", "host"])
def test_bytes_are_misses_and_what_was_read_ahead(machine, tmp_path):
    result = vitro.run(experiment(machine, "128 KiB", weights={"layout": "bundles"}), out=tmp_path)
    lines = (tmp_path / "decisions.jsonl").read_text().splitlines()
    loads = sum('"load"' in line and ("cold" in line or "staging" in line) and "and the next" not in line for line in lines)
    metrics, told = result["metrics"], result["metrics"]["neurons_ahead"]
    flash = metrics["flash_bytes_read"]["prefill"] + metrics["flash_bytes_read"]["decode"]
    block = 3 * 2 * 256 + (-3 * 2 * 256) % 4096
    assert flash == loads * block + metrics["neurons_ahead"]["bytes_read"]
    assert sum('"load"' in line and '"ahead"' in line for line in lines) == metrics["neurons_ahead"]["blocks"]
    assert told["bytes_read"] <= told["blocks"] * block <= 128 * 1024 * 12 * 2, "two layers are foreseen for each of the tokens"
    assert 0 < told["used"] < 1 and 0.3 < told["look_ahead_recall"] < 0.8
    assert 0 < told["bytes_in_vain"] <= told["blocks"] * block * (1 - told["used"]) + 1


def test_host_and_simulation_decide_alike(tmp_path):
    logs = {}
    for machine in ("sim", "host"):
        vitro.run(experiment(machine, "64 KiB"), out=tmp_path / machine)
        logs[machine] = (tmp_path / machine / "decisions.jsonl").read_text().splitlines()
    assert logs["sim"] == logs["host"]
    assert sum("ahead" in line for line in logs["sim"]) > 100


@pytest.mark.parametrize("machine", ["sim", "host"])
def test_with_hot_neurons_on_an_accelerator(machine, dense):
    splits = [{"batch": 1, "hot": "25%", "attention": "25%", "head": "25%"}]
    engine = {"units": ["cpu0"], "placement": {"unit": "npu" if machine == "sim" else "cpu1", "splits": splits}}
    tokens = {ahead: vitro.run(experiment(machine, ahead, 40, clusters={"hot_cluster": 64}, engine=engine))["tokens"]
              for ahead in ("0 B", "64 KiB", "1 MiB")}
    assert tokens["0 B"] == tokens["64 KiB"] == tokens["1 MiB"]


@pytest.mark.parametrize("machine", ["sim", "host"])
def test_batches(machine):
    for workload in ({"batch": 4}, {"sampling": {"temperature": 1}, "batch": 3}):
        kept, ahead = (vitro.run(experiment(machine, bytes_, **workload))["sequences"] for bytes_ in ("0 B", "64 KiB"))
        assert kept == ahead


def test_shapes_without_numbers_and_a_perfect_router_read_little_in_vain():
    """An expert's last neurons are named again with the persistence of its text; where the router is always right, they alone are wrong."""
    profile = {"fraction": "20%", "skew": 0.4, "persistence": "95%", "stretch": 64, "ordered": True,
               "predictor": {"recall": 1, "precision": 0.8}}
    told = {}
    for foresight in ("0%", "100%"):
        given = experiment("sim", "512 KiB", 12, engine={"numerics": False, "profile": profile | {"expert_foresight": foresight}})
        given["model"] = {"format": "q4_0", "shape": SHAPE}
        given["workload"] = {"prompt_tokens": 8, "output_tokens": 24, "stop_at_eos": False, "seed": 1}
        told[foresight] = vitro.run(given)["metrics"]["neurons_ahead"]
    assert told["0%"]["look_ahead_recall"] == 0 and told["100%"]["look_ahead_recall"] == 1
    assert told["0%"]["used"] == 0 and told["100%"]["used"] > 0.5


@pytest.mark.parametrize("weights, message", [
    ({"kind": "bundles", "experts": {"neurons_ahead": "1 MiB", "look_ahead": False}}, "experts.neurons_ahead: can not be combined with"),
    ({"kind": "dram"}, "engine.weights.experts.neurons_ahead: is of the experts of a mixture that are computed neuron by neuron"),
    ({"kind": "paged"}, "engine.weights.experts.neurons_ahead: is of the experts of a mixture")])
def test_where_there_is_nothing_to_foresee_it_is_refused(weights, message):
    given = experiment("sim", "1 MiB", 100, weights=weights)
    given.pop("memory")
    with pytest.raises(ConfigError, match=message):
        vitro.run(given)


def test_a_dense_model_and_whole_experts_are_refused():
    given = experiment("sim", "1 MiB")
    given["model"] = {"gguf": str(MODELS / "stories-reglu-3m.f16.gguf")}
    with pytest.raises(ConfigError, match="and a mixture"):
        vitro.run(given)
    given = experiment("sim", "1 MiB")
    given["engine"] = {"policy": "dense", "weights": {"kind": "experts", "experts": {"neurons_ahead": "1 MiB"}}}
    with pytest.raises(ConfigError, match="neurons_ahead: can not be combined with engine.weights.kind: experts of whole matrices"):
        vitro.run(given)

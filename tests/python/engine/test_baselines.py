"""The systems that neuron clusters are compared with: right tokens, bytes that are misses, and mechanisms that are worth having."""
import json

import pytest
import vitro
import yaml
from conftest import ROOT
from vitro.commands import catalog

CONFIGS = ROOT / "configs"
MODELS = CONFIGS / "models" / "embedded"
RELU = "stories-reglu-3m.f16.gguf"
MIXTURE = "stories-moe-6m.f16.gguf"
REFERENCE = json.loads((MODELS / "reference.json").read_text())
CASE = REFERENCE["models"][RELU]["greedy"][0]
POLICIES = ("neuron_cluster", "llmflash", "powerinfer")


def experiment(policy, machine, share, clusters=None, model=RELU):
    case = REFERENCE["models"][model]["greedy"][0]
    return {
        "experiment": "baselines", "machine": machine, "model": {"gguf": str(MODELS / model)},
        "device": str(CONFIGS / "devices" / "oneplus12.yaml"),
        "engine": {"policy": policy, "units": ["cpu0", "cpu1"], "clusters": clusters or {}},
        "workload": {"prompt": case["prompt"], "output_tokens": 12, "stop_at_eos": False},
        "memory": {"ffn_in_dram": f"{share}%"},
    }


@pytest.mark.parametrize("machine", ["host", "sim"])
@pytest.mark.parametrize("share", [25, 50, 75])
@pytest.mark.parametrize("policy", ["llmflash", "powerinfer"])
def test_tokens_are_those_of_memory(policy, share, machine):
    result = vitro.run(experiment(policy, machine, share))
    assert result["tokens"] == CASE["ids"][:12]
    assert 0 < result["metrics"]["cache_hit_rate"] < 1


@pytest.mark.parametrize("clusters", [{"bundle": False}, {"cache": False}, {"eviction": "none"}, {"eviction": "window", "window": 2},
                                      {"bundle": False, "cache": False, "pipeline": "none"}])
@pytest.mark.parametrize("machine", ["host", "sim"])
def test_no_ablation_changes_a_token(clusters, machine):
    assert vitro.run(experiment("neuron_cluster", machine, 40, clusters))["tokens"] == CASE["ids"][:12]


@pytest.mark.parametrize("policy", POLICIES)
def test_host_and_simulation_decide_alike(policy, tmp_path):
    logs = []
    for machine in ("host", "sim"):
        vitro.run(experiment(policy, machine, 30), out=tmp_path / machine)
        logs.append((tmp_path / machine / "decisions.jsonl").read_text())
    assert logs[0] == logs[1]


@pytest.mark.parametrize("policy", POLICIES)
def test_as_many_reads_are_in_flight_as_the_storage_has_slots(policy, tmp_path):
    def most(**overrides):
        vitro.run(experiment(policy, "sim", 30), overrides=overrides, out=tmp_path)
        events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
        return max(e["args"]["value"] for e in events if e["ph"] == "C" and e["name"] == "outstanding")

    assert most(**{"device.ufs.queue_depth": 6}) == 6
    assert most(**{"device.ufs.queue_depth": 12}) == 12
    assert most(**{"device.ufs.queue_depth": 12, "engine.clusters.io_depth": 7}) == 7


# Shapes and a drawn workload: what fires is skewed, half of it as before, the hottest neurons first in the file.
DRAWN = {"fraction": "10%", "skew": 0.8, "persistence": "50%", "ordered": True, "predictor": {"recall": 0.98, "precision": 0.9}}


def drawn(policy, clusters=None, engine=None, share=50, profile=DRAWN):
    """The metrics of a run on the simulated phone, in simulated time."""
    shape = {"family": "llama", "name": "small", "layers": 3, "width": 2048, "heads": 16, "kv_heads": 4, "ffn": 4096, "vocab": 512,
             "context": 512, "norm_eps": 1e-5, "activation": "relu", "rope_base": 10000, "predictor_rank": 64}
    units = {"units": ["cpu1", "cpu2", "cpu3"], "clusters": {"io_core": "cpu0"} | (clusters or {})}
    return vitro.run({
        "experiment": "drawn", "machine": "sim", "device": str(CONFIGS / "devices" / "oneplus12.yaml"),
        "model": {"format": "f16", "shape": shape},
        "engine": {"policy": policy, "numerics": False, "profile": profile} | (units if engine is None else engine),
        "workload": {"prompt_tokens": 4, "output_tokens": 24, "stop_at_eos": False}, "memory": {"ffn_in_dram": f"{share}%"},
    })["metrics"]


def dense(policy, engine=None, share=100):
    return drawn(policy, engine=engine or {}, share=share)


def slower(without, with_it):
    return without["decode_tokens_per_s"] < 0.99 * with_it["decode_tokens_per_s"]


@pytest.mark.parametrize("policy, mechanism", [
    ("llmflash", {"predictors": False}), ("llmflash", {"bundle": False}), ("llmflash", {"cache": False}), ("llmflash", {"window": 1}),
    ("llmflash", {"io_depth": 1}), ("powerinfer", {"predictors": False}), ("powerinfer", {"cache": False}),
    ("powerinfer", {"pipeline": "none"}), ("powerinfer", {"io_depth": 1}), ("neuron_cluster", {"predictors": False}),
    ("neuron_cluster", {"bundle": False}),
    ("neuron_cluster", {"cache": False}), ("neuron_cluster", {"pipeline": "none"}),
])
def test_without_a_mechanism_of_its_own_a_policy_is_slower(policy, mechanism):
    assert slower(drawn(policy, mechanism), drawn(policy))


def test_a_split_that_does_not_follow_the_profile_is_slower():
    """PowerInfer's hot part is the beginning of the file: worth as much as the order in which neurons are stored."""
    assert slower(drawn("powerinfer", profile=DRAWN | {"ordered": False}), drawn("powerinfer"))


def test_replacing_is_worth_it_where_the_first_fill_is_not_the_hottest():
    anywhere = DRAWN | {"ordered": False}
    assert slower(drawn("neuron_cluster", {"eviction": "none"}, profile=anywhere), drawn("neuron_cluster", profile=anywhere))


def test_a_longer_window_hits_more_and_the_longest_is_what_the_budget_holds():
    rates = [drawn("llmflash", {"window": window})["cache_hit_rate"] for window in (1, 4, 0)]
    assert rates == sorted(rates) and rates[0] < rates[-1]
    assert drawn("llmflash", {"eviction": "lru"})["cache_hit_rate"] == rates[-1]


def test_each_step_of_the_ablation_is_faster_than_the_one_before():
    """The order of PowerInfer-2's section 7.5, up to the accelerator."""
    off = {"bundle": False, "cache": False, "pipeline": "none"}
    steps = [off]
    for mechanism in off:
        steps.append({key: value for key, value in steps[-1].items() if key != mechanism})
    speeds = [drawn("neuron_cluster", clusters)["decode_tokens_per_s"] for clusters in steps]
    assert speeds == sorted(speeds) and len(set(speeds)) == 4


@pytest.mark.parametrize("policy", POLICIES)
def test_bytes_read_are_the_misses_and_no_choice_beats_the_bound(policy):
    """With predictors that are right, and every access a block: then what is read is what fired and was not there."""
    exact = DRAWN | {"predictor": {"recall": 1, "precision": 1}}
    metrics = drawn(policy, {"report_bound": True}, profile=exact, share=25)
    block, accesses = 3 * 2048 * 2, 0
    misses = metrics["flash_bytes_read"]["decode"] / block
    assert misses == int(misses) > 0
    accesses = misses / (1 - metrics["cache_hit_rate"])
    assert accesses == pytest.approx(round(accesses), abs=1e-3)
    assert metrics["cache_hit_rate"] <= metrics["belady_hit_rate"] < 1


def test_without_a_cache_every_neuron_that_fires_is_read():
    metrics = drawn("neuron_cluster", {"cache": False, "report_bound": True})
    assert metrics["cache_hit_rate"] == metrics["belady_hit_rate"] == 0


def test_llmflash_never_reads_while_it_computes(tmp_path):
    clusters = {"io_core": "cpu2", "neurons": 16}
    vitro.run(experiment("llmflash", "sim", 25, clusters), out=tmp_path / "llmflash")
    vitro.run(experiment("powerinfer", "sim", 25, clusters), out=tmp_path / "powerinfer")
    assert vitro.load_trace(tmp_path / "llmflash").overlap_us("storage", "units") == pytest.approx(0, abs=1e-3)
    assert vitro.load_trace(tmp_path / "powerinfer").overlap_us("storage", "units") > 0


@pytest.mark.parametrize("machine", ["host", "sim"])
@pytest.mark.parametrize("share", [0, 25, 50, 75])
@pytest.mark.parametrize("model", [RELU, MIXTURE])
def test_streamed_matrices_give_the_tokens_of_memory(model, share, machine):
    case = REFERENCE["models"][model]["greedy"][0]
    whole = experiment("qnn", machine, share, model=model)
    whole["engine"] = {"policy": "qnn", "units": ["cpu0"]}
    result = vitro.run(whole)
    assert result["tokens"] == case["ids"][:12]
    hits = result["metrics"]["cache_hit_rate"]
    assert hits <= 1 if share == 75 else hits < 1, "of so small a model the buffers hold the rest"


def test_what_streams_is_read_once_a_token():
    matrix, decoded = 2048 * 4096 * 2, 23
    for share, read in ((100, 0), (50, 4), (0, 9)):
        metrics = dense("qnn", {"units": ["cpu0"]}, share=share)
        assert metrics["flash_bytes_read"]["decode"] == decoded * read * matrix, "at 50 % one of five has a buffer to itself"
        if share == 100:
            fastest = metrics["decode_tokens_per_s"]
    assert metrics["decode_tokens_per_s"] < fastest / 2


def test_the_gpu_computes_everything_and_keeps_everything():
    metrics = dense("gpu_dense")
    assert metrics["flash_bytes_read"]["decode"] == 0 and metrics["cpu_utilization"] < 0.05
    with pytest.raises(vitro.ConfigError, match="memory.ffn_in_dram"):
        dense("gpu_dense", share=50)


@pytest.mark.parametrize("change, message", [
    ({"clusters": {"eviction": "lru", "window": 4}}, "engine.clusters.window"),
    ({"layout": "rows"}, "engine.layout"),
])
def test_keys_that_exclude_each_other_are_refused(change, message):
    wrong = experiment("llmflash", "sim", 50)
    wrong["engine"] |= change
    with pytest.raises(vitro.ConfigError, match=message):
        vitro.run(wrong)


@pytest.mark.parametrize("change", [{"clusters": {"pipeline": "cluster"}}, {"clusters": {"two_phases": True}},
                                    {"layout": "bundles_two_phase"}])
def test_what_a_published_design_lacks_can_be_added_to_it(change):
    plain = vitro.run(experiment("llmflash", "sim", 50))
    added = experiment("llmflash", "sim", 50)
    added["engine"] |= change
    assert vitro.run(added)["tokens"] == plain["tokens"]


def test_every_policy_is_listed():
    others = {"dense", "mmap", "qnn", "gpu_dense", "gpu_matmuls", "npu_dense", "llm_npu", "npumoe", "coreml_naive", "coreml_cpu",
              "anemll"}
    assert set(POLICIES) | others == {row["name"] for row in catalog.rows("policies")}


# llm_npu is for a model of shapes (test_npu_engines.py). Others are for mixtures on another machine (test_moe.py).
ELSEWHERE = ("llm_npu", "npumoe", "coreml_naive", "coreml_cpu", "anemll")


@pytest.mark.parametrize("path", [path for path in sorted((CONFIGS / "engines").glob("*.yaml")) if path.stem not in ELSEWHERE],
                         ids=lambda path: path.stem)
def test_every_engine_file_runs_on_the_simulated_phone(path):
    policy = yaml.safe_load(path.read_text())["policy"]
    share = 100 if policy in ("dense", "npu_dense", "gpu_dense", "gpu_matmuls") or path.stem == "llama_cpp_resident" else 50
    result = vitro.run(experiment("dense", "sim", share) | {"engine": str(path)})
    assert len(result["tokens"]) == 12
    if "int8" not in path.read_text():
        assert result["tokens"] == CASE["ids"][:12]


def test_one_graph_of_the_npu_serves_all_layers(tmp_path):
    vitro.run(experiment("qnn", "sim", 100) | {"engine": {"policy": "qnn"}}, out=tmp_path)
    log = (tmp_path / "decisions.jsonl").read_text()
    # Decode: embedding, a layer, the head; the prefill as many.
    assert log.count('"graph"') == 6, log

"""The neuron-cluster policy on a real model, on both machines: equal tokens whatever is in flash, and overlap that a trace shows."""
import json

import pytest
import vitro
from conftest import ROOT
from vitro.model.make import PRESETS, make_model, spec_with
from vitro.trace import recordings

CONFIGS = ROOT / "configs"
MODELS = CONFIGS / "models" / "embedded"
REFERENCE = json.loads((MODELS / "reference.json").read_text())
RELU, MIXTURE = "stories-reglu-3m.f16.gguf", "stories-moe-6m.f16.gguf"
Q4 = "stories-reglu-3m.q4_0.gguf"


def experiment(model, machine, share, clusters=None, engine=None, **workload):
    return {
        "experiment": "clusters", "machine": machine, "model": {"gguf": str(model)},
        "device": str(CONFIGS / "devices" / "oneplus12.yaml"),
        "engine": {"policy": "neuron_cluster", "units": ["cpu0", "cpu1"], "clusters": clusters or {}} | (engine or {}),
        "workload": {"prompt": "Once upon a time", "output_tokens": 12, "stop_at_eos": False} | workload,
        "memory": {"ffn_in_dram": f"{share}%"},
    }


@pytest.mark.parametrize("machine", ["host", "sim"])
@pytest.mark.parametrize("share", [25, 50, 75])
@pytest.mark.parametrize("model", [RELU, MIXTURE])
def test_tokens_are_those_of_memory_wherever_the_neurons_are(model, share, machine):
    case = REFERENCE["models"][model]["greedy"][0]
    result = vitro.run(experiment(MODELS / model, machine, share, prompt=case["prompt"]))
    assert result["tokens"] == case["ids"][:12]
    assert 0 < result["metrics"]["cache_hit_rate"] < 1


@pytest.mark.parametrize("clusters", [{"pipeline": "none"}, {"pipeline": "matrix"}, {"eviction": "lfu"}, {"eviction": "arc"},
                                      {"neurons": 5}, {"staging": "16 KiB"}, {"io_depth": 1}, {"io_together": 1},
                                      {"io_together": 3}, {"io_core": "cpu2"},
                                      {"dense_rows": 1}])
def test_no_switch_changes_a_token(clusters):
    case = REFERENCE["models"][RELU]["greedy"][0]
    result = vitro.run(experiment(MODELS / RELU, "sim", 40, clusters, prompt=case["prompt"]))
    assert result["tokens"] == case["ids"][:12]


@pytest.mark.parametrize("machine", ["host", "sim"])
@pytest.mark.parametrize("share", [40, 100])
def test_a_window_stands_still_where_every_neuron_is_computed(share, machine):
    case = REFERENCE["models"][RELU]["greedy"][0]
    window = {"eviction": "window", "window": 1}
    result = vitro.run(experiment(MODELS / RELU, machine, share, window, {"ffn": {"kind": "dense"}}, prompt=case["prompt"]))
    assert result["tokens"] == case["ids"][:12]


@pytest.mark.parametrize("machine", ["host", "sim"])
@pytest.mark.parametrize("layout", ["bundles", "bundles_two_phase"])
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.all), pytest.param(3, marks=pytest.mark.all)])
def test_reads_one_by_one_and_together_give_the_same_tokens(machine, layout, seed):
    found = {}
    for together in (1, 2, 8):
        sampled = {"sampling": {"temperature": 0.8}, "seed": seed, "output_tokens": 8}
        result = vitro.run(experiment(MODELS / RELU, machine, 30 + 10 * seed, {"io_together": together}, {"layout": layout}, **sampled))
        found[together] = (result["tokens"], result["metrics"]["cache_hit_rate"])
    assert found[1] == found[2] == found[8]


def test_reads_together_cost_fewer_events_and_a_small_ffn_reads_one_by_one_unless_told():
    one, many, default = (vitro.run(experiment(MODELS / RELU, "sim", 25, clusters))
                          for clusters in ({"io_together": 1}, {"io_together": 8}, {}))
    assert many["counts"]["events"] < 0.8 * one["counts"]["events"]
    assert many["counts"]["reads"] == one["counts"]["reads"]
    assert default["event_hash"] == one["event_hash"] != many["event_hash"]


def test_batches_and_both_layouts_agree_with_the_dense_policy():
    wanted = vitro.run(experiment(MODELS / RELU, "sim", 100, engine={"policy": "dense", "clusters": {}}, batch=3))["tokens"]
    for layout in ("bundles", "bundles_two_phase"):
        assert vitro.run(experiment(MODELS / RELU, "sim", 50, engine={"layout": layout}, batch=3))["tokens"] == wanted


@pytest.mark.parametrize("machine", ["host", "sim"])
@pytest.mark.parametrize("activations", ["float", "int8"])
def test_where_the_scales_of_4_bit_neurons_stand_changes_no_token(machine, activations):
    engine = {"activations": activations}
    tokens, regions = {}, {}
    for layout in ("bundles", "scales_inline", "scales_resident", "auto"):
        result = vitro.run(experiment(MODELS / Q4, machine, 40, engine=engine | {"layout": layout}))
        tokens[layout], regions[layout] = result["tokens"], result["peak_memory"]
    assert len({tuple(ids) for ids in tokens.values()}) == 1
    assert "scales" not in regions["scales_inline"] and regions["auto"] == regions["scales_resident"]
    layers, width, ffn = 4, 256, 768
    assert layers * 3 * ffn * width // 32 * 2 <= regions["auto"]["scales"] < layers * (3 * ffn * width // 32 * 2 + 4096)


def test_a_layout_for_4_bits_refuses_other_formats(native):
    with pytest.raises(vitro.ConfigError, match="layout scales_resident: is for 4-bit weights, but the FFN's are f16"):
        vitro.run(experiment(MODELS / RELU, "host", 50, engine={"layout": "scales_resident"}))


@pytest.mark.parametrize("layout", ["scales_resident", "scales_inline"])
def test_layouts_of_side_by_side_refuse_matrices_apart(layout):
    with pytest.raises(vitro.ConfigError, match=f"engine.layout: {layout} needs neurons side by side, but engine.clusters.bundle is false"):
        vitro.run(experiment(MODELS / Q4, "host", 50, {"bundle": False}, {"layout": layout}))


@pytest.mark.parametrize("layout", ["auto", "bundles_two_phase"])
def test_4_bit_neurons_apart_give_the_tokens_of_bundles(layout):
    wanted = vitro.run(experiment(MODELS / Q4, "sim", 40, engine={"layout": "bundles"}))
    apart = vitro.run(experiment(MODELS / Q4, "sim", 40, {"bundle": False}, {"layout": layout}))
    assert apart["tokens"] == wanted["tokens"] and "scales" not in apart["peak_memory"]


@pytest.mark.parametrize("layout", ["scales_resident", "scales_inline"])
def test_4_bit_neurons_of_8_kib_can_be_read_whole(layout):
    shape = {"family": "llama", "name": "wide", "layers": 1, "width": 4096, "heads": 32, "kv_heads": 8, "ffn": 2048, "vocab": 512,
             "context": 64, "norm_eps": 1e-5, "activation": "relu", "rope_base": 10000, "predictor_rank": 64}
    profile = {"fraction": "20%", "predictor": {"recall": 1, "precision": 0.5}}
    read = {}
    for two_phases in (True, False):
        run = experiment(None, "sim", 0, {"two_phases": two_phases}, {"layout": layout, "numerics": False, "profile": profile})
        run["model"], run["workload"] = {"format": "q4_0", "shape": shape}, {"prompt_tokens": 4, "output_tokens": 6}
        read[two_phases] = vitro.run(run)["metrics"]["flash_bytes_read"]["decode"]
    assert read[False] % 8192 == 0
    assert read[True] == pytest.approx(0.75 * read[False], rel=0.05), "half of what is predicted does not fire: 4 of its 8 KiB stay"


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """Models whose neurons are padded in flash, behind Gate and at the end, by layout."""
    folder = tmp_path_factory.mktemp("wide")
    made = {"bundles_two_phase": folder / "768.gguf", "scales_resident": folder / "3072.q4_0.gguf"}
    make_model(spec_with("tiny", layers=2, width=768, ffn=512), made["bundles_two_phase"])
    make_model(spec_with("tiny", layers=1, width=3072, ffn=256), folder / "3072.gguf")
    vitro.quantize(folder / "3072.gguf", made["scales_resident"], scheme="q4_0")
    return made


@pytest.mark.parametrize("machine", ["host", "sim"])
@pytest.mark.parametrize("layout, neurons, kept", [("bundles_two_phase", 2 * 512, 3 * 2 * 768), ("scales_resident", 256, 3 * 3072 // 2)])
def test_padding_stays_in_flash_and_changes_no_token(wide, machine, layout, neurons, kept):
    """Neurons of 8 KiB in flash, two reads each, of which DRAM has the `kept` bytes."""
    runs = {}
    for share in (25, 50, 75, 100):
        clusters = {"predictors": False, "staging": "256 KiB"}
        runs[share] = vitro.run(experiment(wide[layout], machine, share, clusters, {"layout": layout}))
        metrics, staging = runs[share]["metrics"], 256 * 1024  # blocks on their way, and where they land
        arena = runs[share]["peak_memory"]["cold"] + runs[share]["peak_memory"]["staging"]
        assert arena - staging == pytest.approx(neurons * share // 100 * kept, abs=8192)
        if share < 100:
            assert 0 < metrics["cache_hit_rate"] < 1
            assert metrics["flash_bytes_read"]["decode"] % 4096 == 0 and metrics["flash_bytes_read"]["decode"] > 0
    assert len({tuple(run["tokens"]) for run in runs.values()}) == 1


def test_the_4_bit_pack_of_another_layout_is_refused(native, tmp_path):
    assert native("pack", MODELS / Q4, "inline.vpack", "--layout", "scales_inline", "--verify").code == 0
    run = experiment(MODELS / Q4, "host", 50, engine={"layout": "scales_resident"})
    run["model"]["pack"] = str(tmp_path / "inline.vpack")
    with pytest.raises(vitro.ConfigError, match="holds an FFN in layout scales_inline .expected layout scales_resident"):
        vitro.run(run)


def test_host_and_simulation_decide_alike(tmp_path):
    logs = []
    for machine in ("host", "sim"):
        vitro.run(experiment(MODELS / RELU, machine, 30), out=tmp_path / machine)
        logs.append((tmp_path / machine / "decisions.jsonl").read_text())
    assert logs[0] == logs[1]
    assert '"evict"' in logs[0]


def test_only_a_pipeline_reads_while_it_computes(tmp_path):
    """With one I/O core apart and one sequence, so that nothing else can overlap."""
    overlaps, speeds = {}, {}
    for kind in ("none", "matrix", "cluster"):
        clusters = {"pipeline": kind, "io_core": "cpu2", "neurons": 16}
        result = vitro.run(experiment(MODELS / RELU, "sim", 25, clusters), out=tmp_path / kind)
        overlaps[kind] = vitro.load_trace(tmp_path / kind).overlap_us("storage", "units")
        speeds[kind] = result["metrics"]["decode_tokens_per_s"]
    assert overlaps["none"] == pytest.approx(0, abs=1e-3)  # microseconds, from sums of floats
    assert 0 < overlaps["matrix"] and 0 < overlaps["cluster"]
    assert speeds["none"] < speeds["cluster"]


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "tiny.gguf"
    make_model(spec_with("tiny", layers=3), path)
    return path


def test_a_made_model_has_the_sparsity_that_was_planted(planted, tmp_path):
    spec = PRESETS["tiny"]
    recording = tmp_path / "recording.vtrc"
    vitro.run(experiment(planted, "host", 100, engine={"policy": "dense", "clusters": {}, "record": str(recording)}, output_tokens=60,
                         sampling={"temperature": 1}))
    layers = recordings.firing_statistics(recording, planted)
    assert len(layers) == 3
    for layer in layers:
        assert spec.active < layer["active"] < 2 * spec.active
        assert layer["hot_share"] > 0.4
        assert layer["repeated"] > 2 * layer["active"], "neighbouring tokens have more in common than chance"


def test_predictors_save_reads_and_hardly_change_what_the_model_says(planted, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("".join(chr(33 + i * 7 % 90) for i in range(300)))
    nll, read = {}, {}
    for predictors in (True, False):
        clusters = {"predictors": predictors, "dense_rows": 100000}
        overrides = {"engine.policy": "neuron_cluster", "engine.clusters": clusters, "memory.ffn_in_dram": "40%"}
        nll[predictors] = vitro.perplexity(planted, text, overrides=overrides)["nll"]
        result = vitro.run(experiment(planted, "sim", 40, clusters, sampling={"temperature": 1}))
        read[predictors] = result["metrics"]["flash_bytes_read"]["decode"]
    assert nll[True] == pytest.approx(nll[False], rel=0.01)
    assert read[True] < read[False] / 2


@pytest.mark.parametrize("change, message", [
    ({"memory.budget": "1 MiB", "memory.ffn_in_dram": None}, "memory.budget"),
    ({"engine.clusters.io_core": "cpu99"}, "cpu99"),
    ({"engine.clusters.pipeline": "wide"}, 'engine.clusters.pipeline'),
    ({"engine.clusters.eviction": "random"}, "lru, lfu, arc"),
    ({"engine.layout": "rows"}, "engine.layout"),
])
def test_wrong_settings_end_in_one_message(change, message):
    wrong = experiment(MODELS / RELU, "sim", 50)
    for key, value in change.items():
        *path, last = key.split(".")
        part = wrong
        for name in path:
            part = part[name]
        part[last] = value
        if value is None:
            del part[last]
    with pytest.raises(vitro.ConfigError, match=message):
        vitro.run(wrong)


def test_a_token_multiplies_the_predictors_first_matrix_once_for_all_its_experts(tmp_path):
    shape = {"family": "mixtral", "layers": 2, "width": 256, "heads": 4, "kv_heads": 2, "ffn": 512, "vocab": 512, "context": 64,
             "norm_eps": 1e-5, "activation": "relu", "experts": 4, "experts_used": 2, "predictor_rank": 96}
    run = experiment("", "sim", 100, engine={"units": ["cpu0"], "function": "draw"})
    run["model"] = {"shape": shape, "format": "q4_0", "profile": {"fraction": "20%", "predictor": {"precision": 0.8}}}
    run["workload"] = {"prompt_tokens": 1, "output_tokens": 4}
    vitro.run(run, out=tmp_path)
    spans = [event for event in json.loads((tmp_path / "trace.json").read_text())["traceEvents"] if event.get("ph") == "X"]
    first = [event for event in spans if event["name"] == "matmul" and event["args"]["detail"].endswith("0+96")]
    scores = [event for event in spans if event["name"] == "matmul" and event["args"]["detail"].endswith("0+512")
              and "expert" in event["args"]["detail"]]
    assert len(scores) == 2 * len(first) > 0


def drawn(profile, activation="relu", **engine):
    """Of a model that is shapes alone, with predictors."""
    run = experiment("", "sim", 50, engine={"numerics": False, "profile": profile} | engine, prompt_tokens=4, output_tokens=4)
    del run["workload"]["prompt"], run["workload"]["stop_at_eos"]
    shape = {"family": "mistral", "name": "small", "layers": 3, "width": 512, "heads": 8, "kv_heads": 4, "ffn": 1024, "vocab": 512,
             "context": 64, "norm_eps": 1e-5, "activation": activation, "rope_base": 10000, "predictor_rank": 64}
    return run | {"model": {"format": "q4_0", "shape": shape}}


def test_a_drawn_run_is_replayed_in_its_own_experiment(tmp_path):
    """Its predictor named what was looked at, wrong guesses included: the replayed one names the same."""
    profile = {"fraction": "20%", "predictor": {"recall": 0.9, "precision": 0.7}}
    recording = str(tmp_path / "drawn")
    first = vitro.run(drawn(profile, record=recording))
    again = vitro.run(drawn(profile, replay=recording))
    assert first["metrics"]["predictor_precision"] < 0.9
    for key in ("event_hash", "tokens"):
        assert again[key] == first[key]


def test_a_draw_without_a_stated_share_says_so():
    def notes(profile, activation):
        return [note for note in vitro.run(drawn(profile, activation))["notes"] if "no share of active neurons" in note]
    assert [("silu" in note) for note in notes({"persistence": "50%"}, "relu")] == [False]
    assert [("silu" in note) for note in notes({"persistence": "50%"}, "silu")] == [True]
    assert notes({"fraction": "10%"}, "silu") == []

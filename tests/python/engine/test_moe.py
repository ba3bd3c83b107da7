"""A mixture's experts on units of static graphs: right tokens, real drops and padding, and cores that work beside the accelerator."""
import json

import pytest
import vitro
from conftest import ROOT
from vitro.errors import ConfigError, RunError

CONFIGS = ROOT / "configs"
MODEL = CONFIGS / "models" / "embedded" / "stories-moe-6m.f16.gguf"
TEXT = (CONFIGS / "models" / "embedded" / "eval.txt").read_text()
PROMPT = TEXT[2000:2500]
UNITS = {"sim": ["ane0", "ane1"], "host": ["cpu1"]}  # on host a core stands for the unit, with the same fixed shapes
OUTPUTS = 6


@pytest.fixture(scope="module")
def calibration(tmp_path_factory):
    folder = tmp_path_factory.mktemp("calibration")
    text, recording = folder / "text.txt", folder / "experts.vtrc"
    text.write_text(TEXT[:1500])
    vitro.perplexity(MODEL, text, overrides={"engine.record": str(recording)})
    return recording


def experiment(machine, recording=None, *, policy="npumoe", **moe):
    engine = {"policy": policy, "units": ["cpu0", "cpu1"], "kv_format": "f16", "prefill_chunk": 64}
    if policy in ("npumoe", "coreml_naive"):
        moe = {"units": UNITS[machine], "calibration": str(recording), "graph_rows": 16, **moe}
    if policy == "anemll":
        moe = {"units": UNITS[machine], **moe}
    if moe:
        engine["moe"] = moe
    return {"experiment": "moe", "machine": machine, "device": str(CONFIGS / "devices" / "m2_ultra.yaml"), "model": {"gguf": str(MODEL)},
            "engine": engine, "workload": {"prompt": PROMPT, "output_tokens": OUTPUTS, "stop_at_eos": False}}


@pytest.fixture(scope="module")
def dense():
    return vitro.run(experiment("sim", policy="dense"))["tokens"]


@pytest.mark.parametrize("machine", ["sim", "host"])
@pytest.mark.parametrize("moe", [{}, {"tiers": "off"}, {"groups": "off"}, {"residency": "off"}, {"side_by_side": "off"}, {"base": 1},
                                 {"residency": "off", "groups": "off", "tiers": "off", "capacity": 16}])
def test_what_overflows_to_the_cores_changes_no_token(machine, moe, dense, calibration):
    result = vitro.run(experiment(machine, calibration, overflow="cpu", **moe))
    assert result["tokens"] == dense
    assert result["metrics"]["experts"]["token_drop_rate"] == 0
    assert result["metrics"]["experts"]["launches_per_layer"] > 0


@pytest.mark.parametrize("machine", ["sim", "host"])
def test_decoding_may_take_the_graphs_of_the_prompt_padded(machine, dense, calibration):
    """As NPUMoE's prototype does (5.8, Limitation): each launch computes its graph's capacities for one row."""
    runs = {rows: vitro.run(experiment(machine, calibration, overflow="cpu", graph_rows=rows, cold="0%")) for rows in (16, 1)}
    assert [run["tokens"] for run in runs.values()] == [dense, dense]
    assert runs[1]["metrics"]["unit_submissions_per_token"] != runs[16]["metrics"]["unit_submissions_per_token"]
    if machine == "sim":
        more = runs[1]["counts"]["launches"] - runs[16]["counts"]["launches"]
        assert more >= 3 * (OUTPUTS - 1), "a launch per layer and token at least"
        latency = {rows: run["metrics"]["token_latency_ms"]["mean"] for rows, run in runs.items()}
        assert latency[1] > 1.5 * latency[16]


@pytest.mark.parametrize("begin", [0, 4000, 9000, 13000])
def test_so_it_is_for_other_texts(begin, calibration):
    prompt = {"workload.prompt": TEXT[begin:begin + 600]}
    tokens = vitro.run(experiment("sim", policy="dense"), overrides=prompt)["tokens"]
    kept = vitro.run(experiment("sim", calibration, overflow="cpu", base=1), overrides=prompt)
    lossy = vitro.run(experiment("sim", calibration, base=1, shape_multiple=16, multiples=[1], max_drop="100%"), overrides=prompt)
    assert kept["tokens"] == tokens
    assert lossy["metrics"]["experts"]["token_drop_rate"] > 0


@pytest.mark.parametrize("machine", ["sim", "host"])
def test_room_for_every_row_drops_none(machine, dense, calibration):
    result = vitro.run(experiment(machine, calibration, tiers="off", residency="off", capacity=64))
    experts = result["metrics"]["experts"]
    assert result["tokens"] == dense
    assert experts["token_drop_rate"] == 0 and experts["cpu_share"] < 0.5  # the rest of the prompt is smaller than a chunk
    assert experts["padded_share"] > 0.3


@pytest.mark.parametrize("policy", ["coreml_cpu", "coreml_naive", "anemll"])
@pytest.mark.parametrize("machine", ["sim", "host"])
def test_baselines_compute_the_same(machine, policy, dense, calibration):
    moe = {"capacity": 64} if policy == "coreml_naive" else {}
    assert vitro.run(experiment(machine, calibration, policy=policy, **moe))["tokens"] == dense


def test_host_and_simulation_drop_and_pad_alike(calibration, tmp_path):
    found = {}
    for machine in ("sim", "host"):
        units = {"units": UNITS["host"]}
        result = vitro.run(experiment(machine, calibration, base=1, shape_multiple=4, residency="off", **units), out=tmp_path / machine)
        found[machine] = (result["tokens"], result["metrics"]["experts"], (tmp_path / machine / "decisions.jsonl").read_text())
    assert found["sim"] == found["host"]
    assert found["sim"][1]["token_drop_rate"] > 0 and found["sim"][1]["padded_share"] > 0
    assert '"drop"' in found["sim"][2]


def spans(folder):
    events = json.loads((folder / "trace.json").read_text())["traceEvents"]
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    return [{**e, "unit": names.get((e["pid"], e["tid"]))} for e in events if e["ph"] == "X"]


def overlap(trace, one, other):
    """Time in which both units compute products of experts, in us."""
    def busy(unit):
        return [(e["ts"], e["ts"] + e["dur"]) for e in trace
                if e["unit"] == unit and e["name"] == "matmul" and "expert" in e["args"]["detail"]]
    return sum(max(0, min(a[1], b[1]) - max(a[0], b[0])) for a in busy(one) for b in busy(other))


@pytest.mark.parametrize("machine", ["sim", "host"])
def test_one_after_the_other_nothing_runs_beside_the_unit(machine, calibration, tmp_path):
    given = experiment(machine, calibration, cold="50%", side_by_side="off")
    given["engine"]["units"] = ["cpu0"]
    vitro.run(given, out=tmp_path)
    assert overlap(spans(tmp_path), UNITS[machine][0], "cpu0") == 0


def large(**moe):
    """One chunk through two layers of PhiMoE, whose experts take longer than a launch does."""
    return {"experiment": "moe", "device": str(CONFIGS / "devices" / "m2_ultra.yaml"),
            "model": str(CONFIGS / "models" / "phi-3.5-moe.yaml"),
            "engine": {"policy": "npumoe", "numerics": False, "units": ["cpu0", "cpu1", "cpu2", "cpu3"], "kv_format": "f16",
                       "prefill_chunk": 256, "moe": {"units": ["ane0", "ane1"], **moe}},
            "workload": {"prompt_tokens": 256, "output_tokens": 1, "stop_at_eos": False}}


def test_cold_experts_and_both_units_compute_at_once(tmp_path):
    times = {}
    for side_by_side in ("on", "off"):
        result = vitro.run(large(side_by_side=side_by_side), overrides={"model.shape.layers": 2}, out=tmp_path / side_by_side)
        trace = spans(tmp_path / side_by_side)
        times[side_by_side] = (overlap(trace, "ane0", "cpu1"), overlap(trace, "ane0", "ane1"), result["metrics"]["ttft_ms"])
    assert times["off"][:2] == (0, 0)
    # Two layers: the cores' share of each is done while a unit computes, and most of what one unit does is beside the other.
    assert times["on"][0] > 2000 and times["on"][1] > 20000
    assert times["on"][2] < times["off"][2]


def test_a_graph_beyond_the_units_limit_is_never_made():
    result = vitro.run(large(group=16, residency="off", tiers="off"), overrides={"model.shape.layers": 2})
    assert result["metrics"]["experts"]["launches_per_layer"] == 2  # 8 experts of 150 MiB fill one
    assert not [note for note in result["notes"] if "ran on the CPU" in note]


def test_each_switch_takes_launches_away(calibration):
    def launches(**moe):
        return vitro.run(experiment("sim", calibration, **moe))["metrics"]["experts"]["launches_per_layer"]
    one_by_one = launches(groups="off", residency="off")
    assert one_by_one > launches(residency="off") > 0
    assert one_by_one > launches(groups="off", cold="50%")


def test_attention_of_a_chunk_is_the_first_units(calibration, tmp_path):
    vitro.run(experiment("sim", calibration), out=tmp_path)
    trace = spans(tmp_path)
    assert {e["unit"] for e in trace if e["name"] == "attention"} == {"ane0", "cpu0", "cpu1"}  # cores: the rest of the prompt, and decoding
    assert not [e for e in trace if e["name"] == "rms_norm" and e["unit"].startswith("ane")]


def test_parts_add_up_to_the_prompt(calibration):
    metrics = vitro.run(experiment("sim", calibration))["metrics"]
    parts = metrics["prefill_parts_ms"]
    assert set(parts) >= {"attention", "router", "experts", "combine"}
    assert sum(parts.values()) == pytest.approx(metrics["ttft_ms"], rel=0.05)
    assert metrics["cpu_cycles"] == pytest.approx(metrics["cpu_busy_s"] * 3.49e9)  # two performance cores


@pytest.mark.parametrize("engine", ["npumoe", "coreml_naive", "coreml_cpu", "anemll"])
@pytest.mark.parametrize("model", ["phi-3.5-moe", "phi-tiny-moe", "qwen3-30b-a3b"])
def test_every_engine_file_runs_every_mixture(engine, model):
    given = {**large(), "engine": str(CONFIGS / "engines" / f"{engine}.yaml"), "model": str(CONFIGS / "models" / f"{model}.yaml")}
    result = vitro.run(given, overrides={"model.shape.layers": 1, "engine.numerics": False})
    assert result["metrics"]["ttft_ms"] > 0 and not result["unpriced_calls"]
    assert (result["metrics"]["experts"]["launches_per_layer"] > 0) == (engine in ("npumoe", "coreml_naive"))


def test_a_runtimes_own_thread_takes_time_and_changes_nothing_else():
    runs = [vitro.run(large(host_per_token=time), overrides={"model.shape.layers": 1}) for time in ("0 us", "10 us")]
    assert runs[1]["metrics"]["ttft_ms"] - runs[0]["metrics"]["ttft_ms"] == pytest.approx(2.56, rel=0.05)  # 256 tokens
    assert runs[0]["metrics"]["experts"] == runs[1]["metrics"]["experts"]


@pytest.mark.parametrize("moe, message", [
    ({"units": ["ane7"]}, 'ane7'),
    ({"shape_multiple": 8}, "expected a multiple of 16"),
    ({"multiples": [2, 1]}, "is not ascending"),
    ({"capacity": 64}, "can not be combined with tiers"),
    ({"loads": [[0.5, 0.5]]}, "can not be combined with calibration"),
    ({"calibration": None, "loads": [[0.5, 0.5]]}, "expected the loads of this model"),
    ({"calibration": None}, "calibration: is missing"),
    ({"calibration": None, "loads": [["nan"] + [0.5, 0.5] + [0] * 5] * 3}, "expected numbers of 0 to 1"),
    ({"calibration": None, "loads": [["0.5x", 0.5] + [0] * 6] * 3}, "expected numbers of 0 to 1"),
    ({"units": ["ane0", "ane0"]}, '"ane0" is named twice'),
    ({"host_per_token": "1000 s"}, "longer than 1 s"),
    ({"overflow": "spill"}, "overflow"),
    ({"tier": "on"}, "tiers"),
])
def test_what_can_not_be_is_refused(moe, message, calibration):
    with pytest.raises(ConfigError, match=message):
        vitro.run(experiment("sim", calibration, **moe))


def test_weights_that_the_unit_does_not_take_end_the_run():
    with pytest.raises(RunError, match="ane0: .*computes in f16 and matmul came with q4_0"):
        vitro.run(large(), overrides={"model.shape.layers": 1, "model.format": "q4_0"})


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_equal_seeds_give_equal_runs(seed):
    first, second = (vitro.run(large(), overrides={"model.shape.layers": 2, "seed": seed}).data for _ in range(2))
    assert first["event_hash"] == second["event_hash"] and first["metrics"] == second["metrics"]


def test_a_recording_of_another_model_is_no_calibration(tmp_path):
    text, recording = tmp_path / "text.txt", tmp_path / "neurons.vtrc"
    text.write_text(TEXT[:200])
    vitro.perplexity(MODEL.with_name("stories-reglu-3m.f16.gguf"), text, overrides={"engine.record": str(recording)})
    with pytest.raises(ConfigError, match="calibration: the recording has no experts"):
        vitro.run(experiment("sim", recording))


def test_a_dense_model_is_refused():
    given = experiment("sim", policy="coreml_cpu")
    given["model"] = {"gguf": str(MODEL.with_name("stories-reglu-3m.f16.gguf"))}
    with pytest.raises(ConfigError, match="experts needs a model with experts"):
        vitro.run(given)


def test_keys_and_values_have_to_suit_the_unit(calibration):
    given = experiment("sim", calibration)
    given["engine"]["kv_format"] = "f32"
    on_cores = vitro.run(given, overrides={"engine.moe.overflow": "cpu"})  # the engine computes in f16, so the cores attend
    given["engine"] = {"policy": "dense", "units": ["cpu0", "cpu1"], "kv_format": "f32", "prefill_chunk": 64}
    assert on_cores["tokens"] == vitro.run(given)["tokens"]


@pytest.mark.parametrize("policy", ["anemll", "coreml_cpu"])
def test_a_composition_without_graphs_computes_experts_on_cores(policy, dense):
    result = vitro.run(experiment("sim", policy=policy, tiers="on"))
    assert result["tokens"] == dense and result["metrics"]["experts"]["launches_per_layer"] == 0

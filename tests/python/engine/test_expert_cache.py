"""A mixture's experts behind a cache: tokens are those of `dense` whatever the budget, reads are misses, and look-ahead hides them."""
import random

import oracle
import pytest
import vitro
from conftest import ROOT
from vitro.errors import ConfigError

CONFIGS = ROOT / "configs"
MODEL = CONFIGS / "models" / "embedded" / "stories-moe-6m.f16.gguf"
TEXT = (CONFIGS / "models" / "embedded" / "eval.txt").read_text()
DEVICE = CONFIGS / "devices" / "oneplus12.yaml"
EXPERTS, LAYERS = 8, 3
UNIT = {"sim": "npu", "host": "cpu1"}
LOADS = [[1 / EXPERTS] * EXPERTS] * LAYERS
OUTPUTS = 12


def experiment(machine, engine, *, prompt=TEXT[2000:2120], **workload):
    base = {"experiment": "experts", "machine": machine, "model": {"gguf": str(MODEL)},
            "engine": {"policy": "dense", "threads": 2, "prefill_chunk": 16} | engine,
            "workload": {"prompt": prompt, "output_tokens": OUTPUTS, "stop_at_eos": False} | workload}
    return base | ({"device": str(DEVICE)} if machine == "sim" else {})


def cached(machine, experts=None, eviction="lru", **engine):
    weights = {"kind": "experts", "eviction": eviction} | ({"experts": experts} if experts else {})
    return experiment(machine, {"weights": weights} | engine)


@pytest.fixture(scope="module")
def dense():
    return vitro.run(experiment("sim", {}))["tokens"]


@pytest.fixture(scope="module")
def expert_bytes():
    return vitro.run(cached("sim"))["metrics"]["expert_cache"]["expert_bytes"]


@pytest.mark.parametrize("machine", ["sim", "host"])
def test_tokens_are_those_of_dense_from_the_smallest_budget_up(machine, dense, expert_bytes):
    rules = ("lru", "step_lru", "lfu", "arc", "popularity", "router", "none")
    for seed in range(14):
        rng = random.Random(seed)
        slots = 1 if seed == 0 else rng.randint(1, EXPERTS * LAYERS - 1)
        experts = {"budget": f"{slots * expert_bytes} B", "look_ahead": rng.random() < 0.6, "window": rng.randint(1, 8)}
        result = vitro.run(cached(machine, experts, rng.choice(rules), threads=rng.randint(1, 2), prefill_chunk=rng.choice((1, 5, 16, 64))))
        assert result["tokens"] == dense, seed
        assert result["metrics"]["expert_cache"]["slots"] == 3 * slots, seed


@pytest.mark.parametrize("machine", ["sim", "host"])
def test_bytes_read_are_misses_times_the_bytes_of_a_matrix(machine, expert_bytes):
    """On host by O_DIRECT, where the folder of the model has it. Matrices of the embedded mixture fill whole pages."""
    given = cached(machine, {"budget": f"{5 * expert_bytes} B", "look_ahead": False})
    result = vitro.run(given)
    cache, flash = result["metrics"]["expert_cache"], result["metrics"]["flash_bytes_read"]
    assert cache["loads"] > 3 * EXPERTS
    assert flash["prefill"] + flash["decode"] == cache["bytes_read"] == cache["loads"] * expert_bytes / 3
    if machine == "host":
        assert "O_DIRECT" in result["storage_path"], "else the page cache would answer"


def test_host_and_simulation_decide_alike(tmp_path, expert_bytes):
    logs = {}
    for machine in ("sim", "host"):
        vitro.run(cached(machine, {"budget": f"{6 * expert_bytes} B", "look_ahead": True}, threads=1), out=tmp_path / machine)
        lines = (tmp_path / machine / "decisions.jsonl").read_text().splitlines()
        logs[machine] = [line for line in lines if '"cold"' in line]
    assert logs["sim"] == logs["host"]
    assert len(logs["sim"]) > 30


def test_below_one_expert_is_refused(expert_bytes):
    with pytest.raises(ConfigError) as said:
        vitro.run(cached("sim", {"budget": f"{expert_bytes - 1} B"}))
    assert "memory.budget" in str(said.value) and "smallest working set" in str(said.value)


def test_a_model_without_experts_is_refused():
    given = cached("sim")
    given["model"] = {"gguf": str(CONFIGS / "models" / "embedded" / "stories-reglu-3m.f16.gguf")}
    with pytest.raises(ConfigError, match="engine.weights.kind: experts"):
        vitro.run(given)


@pytest.mark.parametrize("machine", ["sim", "host"])
def test_look_ahead_names_experts_better_than_chance(machine, expert_bytes):
    """Two of eight are named: by chance a quarter of the chosen ones would be among them. Some 600 experts, so 0.35 is five standard errors
    above that."""
    given = cached(machine, {"budget": f"{10 * expert_bytes} B"}, prefill_chunk=2, prefill_order="chunks")
    given["workload"]["prompt"] = TEXT[2000:2600]
    cache = vitro.run(given)["metrics"]["expert_cache"]
    assert 0.35 < cache["look_ahead_recall"] < 0.65
    assert cache["read_ahead"] > 0 and cache["read_ahead_used"] > 0.3


@pytest.mark.parametrize("machine", ["sim", "host"])
def test_look_ahead_names_what_the_next_router_makes_of_this_input(machine, tmp_path):
    """Its recall is that of the definition, in NumPy."""
    model = oracle.random_model(oracle.Shape(layers=4, experts=8, experts_used=2), seed=3)
    oracle.write_gguf(model, tmp_path / "model.gguf")
    given = cached(machine, prefill_chunk=1, prefill_order="chunks")
    given["model"] = {"gguf": str(tmp_path / "model.gguf")}
    text = "a mixture of experts that no one has trained"
    given["workload"] |= {"prompt": text, "output_tokens": 1}
    recall = vitro.run(given)["metrics"]["expert_cache"]["look_ahead_recall"]
    assert recall == pytest.approx(oracle.foreseen(model, [1] + oracle.tokenize(text)))
    assert recall > 0.25


@pytest.mark.parametrize("machine", ["sim", "host"])
def test_tiers_keep_their_experts_and_cores_have_the_others_from_flash(machine, dense, expert_bytes):
    moe = {"loads": LOADS, "overflow": "cpu", "graph_rows": 4, "group": 2, "cold": "50%"}
    engine = {"policy": "npumoe", "units": ["cpu0"], "placement": {"graph_units": [UNIT[machine]]}, "ffn": {"experts": moe}}
    engine["weights"] = {"kind": "experts", "experts": {"budget": f"{14 * expert_bytes} B"}}
    given = experiment(machine, engine)
    given["engine"].pop("threads")
    result = vitro.run(given)
    assert result["tokens"] == dense
    metrics = result["metrics"]
    assert metrics["expert_cache"]["kept"] > 0 and metrics["experts"]["graphs"] > 0
    assert 0 < metrics["experts"]["cpu_share"] < 1 and metrics["expert_cache"]["loads"] > 0
    assert metrics["expert_cache"]["kept"] < metrics["expert_cache"]["slots"]


@pytest.mark.parametrize("machine", ["sim", "host"])
@pytest.mark.parametrize("workload", [{"batch": 4}, {"sampling": {"temperature": 1}, "batch": 3}])
def test_batches_decode_alike(machine, workload, expert_bytes):
    kept = vitro.run(experiment(machine, {}, **workload))
    given = cached(machine, {"budget": f"{3 * expert_bytes} B"})
    given["workload"] |= workload
    assert vitro.run(given)["sequences"] == kept["sequences"]


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    folder = tmp_path_factory.mktemp("popularity")
    text, out = folder / "text.txt", folder / "experts.vtrc"
    text.write_text(TEXT[:1500])
    vitro.perplexity(MODEL, text, overrides={"engine.record": str(out)})
    return str(out)


@pytest.mark.parametrize("machine", ["sim", "host"])
def test_a_calibrated_cache_decides_otherwise_and_changes_no_token(machine, dense, expert_bytes, recording):
    runs = {}
    for popularity in ("seen", "calibrated"):
        given = cached(machine, {"budget": f"{8 * expert_bytes} B", "look_ahead": False, "popularity": popularity}, "popularity",
                       ffn={"experts": {"calibration": recording}})
        runs[popularity] = vitro.run(given)
        assert runs[popularity]["tokens"] == dense
    loads = {name: run["metrics"]["expert_cache"]["loads"] for name, run in runs.items()}
    assert loads["calibrated"] != loads["seen"]


@pytest.mark.parametrize("overrides, message", [
    ({"engine.weights.eviction": "lru"}, "can not be combined with eviction: lru"),
    ({"engine.weights.kind": "dram"}, "popularity: calibrated"), ({"engine.ffn.experts.calibration": None}, "calibration: is missing"),
    ({"engine.ffn.experts.calibration": None, "engine.ffn.experts.loads": [[0.5, 0.5]]}, "expected the loads of this model")], ids=str)
def test_a_calibration_that_can_not_be_is_refused(overrides, message, recording):
    given = cached("sim", {"popularity": "calibrated"}, "popularity", ffn={"experts": {"calibration": recording}})
    with pytest.raises(ConfigError, match=message):
        vitro.run(given, overrides=overrides)

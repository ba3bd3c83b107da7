"""`vitro plan`: shares follow from the device, the batch and the memory; a plan runs where it was made for, and nowhere else."""
import json
import re

import pytest
import vitro
import yaml
from conftest import ROOT
from plans import CORES, PHONE, phone, plan_and_answers, two_layers
from vitro.base.native import call as native_call
from vitro.plan.balance import Balance
from vitro.plan.inputs import memory_of
from vitro.plan.planner import compose, make_plan, own_activations
from vitro.plan.text import text_of

CONFIGS = ROOT / "configs"
MODELS = CONFIGS / "models" / "embedded"
RELU = MODELS / "stories-reglu-3m.f16.gguf"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return two_layers(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def recording(tmp_path_factory, has_native):
    folder = tmp_path_factory.mktemp("recording")
    text = folder / "text.txt"
    text.write_text((MODELS / "eval.txt").read_text()[:1500])
    vitro.perplexity(RELU, text, overrides={"engine.record": str(folder / "r.vtrc")})
    return folder / "r.vtrc"


@pytest.fixture(scope="module")
def plan(tmp_path_factory, has_native):
    return plan_and_answers(tmp_path_factory)[0]


@pytest.fixture(scope="module")
def bench(model, tmp_path_factory, has_native):
    return phone(model, plan_and_answers(tmp_path_factory)[1])


def percent(text):
    return float(text.rstrip("%"))


def shares(plan, key="hot"):
    return [percent(split[key]["value"]) for split in plan["engine"]["hybrid"]["splits"]]


@pytest.mark.all
def test_more_rows_are_worth_more_of_the_accelerator(plan):
    hot = shares(plan)
    assert hot == sorted(hot) and hot[3] > hot[0] + 10
    assert all(later >= sooner for sooner, later in zip(shares(plan, "head"), shares(plan, "head")[1:]))


@pytest.mark.all
def test_a_slower_accelerator_gets_less(plan, model, tmp_path):
    slow = tmp_path / "slow.yaml"
    vitro.Device(str(PHONE)).override({"npu.dma_bandwidth": "8 GB/s"}).save(slow)
    assert all(less < more for less, more in zip(shares(make_plan(model, device=slow, cores=CORES)), shares(plan)))


@pytest.mark.all
def test_less_memory_leaves_less_for_hot_neurons(plan, model, bench):
    tight = make_plan(model, device=PHONE, cores=CORES, bench=bench, overrides=["memory.ffn_in_dram=30%"])
    # A share that memory does not bound may grow, since what stays cold has to be read.
    bound = [(less, more) for less, more in zip(shares(tight), shares(plan)) if more > 30.001]
    assert bound and all(less < more for less, more in bound)
    assert max(shares(tight)) <= 30.001
    missing = [float(row["hot"]["why"].split("reads ")[1].split(" of ")[1].split()[0]) for row in tight["engine"]["hybrid"]["splits"]]
    assert missing[0] > 0


@pytest.mark.all
def test_sides_meet_where_the_plan_says(plan):
    """No share of the table is predicted to be faster than the chosen one, and both sides have work there."""
    for batch, rows in plan["balance"].items():
        chosen = next(split for split in plan["engine"]["hybrid"]["splits"] if split["batch"] == batch)["hot"]["value"]
        times = {row["hot"]: float(row["layer"].split()[0]) for row in rows}
        mine = next(time for hot, time in times.items() if abs(percent(hot) - percent(chosen)) < 0.001)
        assert mine <= 1.002 * min(times.values())
        assert times["0%"] > mine and times["100%"] > mine


@pytest.mark.all
def test_a_share_that_is_not_the_fastest_says_why(model, bench):
    halved = make_plan(model, device=PHONE, cores=CORES, bench=bench, overrides=["memory.ffn_in_dram=50%"])
    not_fastest = 0
    for split in halved["engine"]["hybrid"]["splits"]:
        rows = halved["balance"][split["batch"]]
        mine = next(row for row in rows if abs(percent(row["hot"]) - percent(split["hot"]["value"])) < 0.001)
        if any(float(row["layer"].split()[0]) < 0.998 * float(mine["layer"].split()[0]) for row in rows):
            not_fastest += 1
            assert "within 3%" in split["hot"]["why"] or "would balance better" in split["hot"]["why"]
    assert not_fastest > 0


@pytest.mark.all
def test_a_plan_is_the_same_every_time(plan, model, bench):
    """Also where all that it asks was asked before, as plans of the other tests do."""
    assert text_of(make_plan(model, device=PHONE, cores=CORES)) == text_of(plan)
    assert text_of(make_plan(model, device=PHONE, cores=CORES, bench=bench)) == text_of(plan)


def test_the_text_says_what_the_tree_says(plan):
    assert yaml.safe_load(text_of(plan)) == json.loads(json.dumps(plan), object_hook=lambda d: {
        int(key) if key.isdigit() else key: value for key, value in d.items()})


def test_its_head_names_a_page_that_is_there(plan):
    text = text_of(plan)
    page = re.search(r"\((docs/\S+\.md)\)", text)
    assert page and (ROOT / page[1]).is_file()
    kept = (ROOT / "experiments/offload-plan.yaml").read_text()
    assert text.partition("vitro_plan:")[0] == kept.partition("vitro_plan:")[0]


def test_every_choice_has_a_reason(plan):
    engine = plan["engine"]
    for part in (engine, engine["clusters"], engine["hybrid"]):
        for key, value in part.items():
            if key not in ("policy", "pipeline", "unit", "clusters", "hybrid", "splits"):
                assert value["why"], key
    assert "npu" in engine["hybrid"]["splits"][0]["hot"]["why"]


@pytest.mark.all
def test_the_accelerator_is_planned_for_in_its_contract(plan, model, tmp_path, has_native):
    bench = phone(model)
    fp16 = make_plan(model, device=PHONE, cores=CORES, bench=bench, overrides=["engine.placement.activations=fp16"])
    parts = [part for key in bench.asked if key.startswith("phase") for part in json.loads(key.removeprefix("phase"))["parts"]]
    probed = {tuple(part["units"]) == ("npu",): set() for part in parts}
    for part in parts:
        if part["op"] == "matmul":
            probed[tuple(part["units"]) == ("npu",)].add(part["variant"])
    assert probed == {True: {"hmx"}, False: {"int8"}}
    assert fp16["engine"]["hybrid"]["activations"]["value"] == "fp16" and fp16["engine"]["activations"]["value"] == "int8"
    assert "activations" not in plan["engine"]["hybrid"]
    # In int8 the accelerator waits for the sums of each block.
    assert all(more > less for key in ("attention", "hot") for less, more in [(shares(plan, key)[-1], shares(fp16, key)[-1])])
    assert text_of(make_plan(model, device=PHONE, cores=CORES, bench=bench, activations="fp16")) == text_of(fp16)
    (tmp_path / "plan.yaml").write_text(text_of(fp16))
    result = run_with(tmp_path / "plan.yaml", str(model), engine={"function": "draw"})
    assert result["experiment_resolved"]["engine"]["placement"]["activations"] == "fp16"
    with pytest.raises(vitro.ConfigError, match="placement.activations: same is another contract.*balanced in fp16"):
        run_with(tmp_path / "plan.yaml", str(model), engine={"function": "draw", "placement": {"activations": "same"}})
    with pytest.raises(vitro.ConfigError, match="of an accelerator's matmuls, and the plan has none"):
        make_plan(model, device=PHONE, cores=CORES, accelerator="", activations="fp16")


def test_the_accelerators_contract_is_stated_beside_any_units(model, has_native):
    own = "engine.placement.activations=fp16"
    assert own_activations(["engine.threads=4", own]) == (["engine.threads=4"], own)
    assert own_activations(["engine.hybrid={cluster: 64, activations: fp16}"]) == (
        ['engine.hybrid={"cluster": 64}'], 'engine.placement.activations="fp16"')
    assert own_activations([own, "engine.placement={}"]) == (["engine.placement={}"], None)
    for others in (["engine.threads=4", own], ["engine.units=[cpu1, cpu2]", own], ["engine.placement={activations: fp16}"]):
        with pytest.raises(vitro.ConfigError, match="fp16 is of an accelerator's matmuls, and the plan has none"):
            make_plan(model, device=PHONE, cores=CORES, accelerator="", overrides=others)
    for wrong in ("engine.placement.activations=int9", "engine.placement={activations: int9}"):
        with pytest.raises(vitro.ConfigError, match="placement.activations.*int9.*int8_tables"):
            make_plan(model, device=PHONE, cores=CORES, overrides=[wrong])


@pytest.mark.all
def test_a_plan_of_float16_weights_runs_with_the_preset_in_int8(model, bench, tmp_path, has_native):
    """Such weights have no int8, so both say float32."""
    f16 = tmp_path / "f16.yaml"
    f16.write_text(model.read_text().replace("format: q4_0", "format: f16"))
    made = make_plan(f16, device=PHONE, cores=CORES, bench=bench, overrides=["engine.placement.activations=int8"])
    assert made["engine"]["activations"]["value"] == "float"
    (tmp_path / "plan.yaml").write_text(text_of(made))
    preset = yaml.safe_load((CONFIGS / "engines" / "powerinfer2_planned.yaml").read_text())
    assert preset["activations"] == "int8"
    assert len(run_with(tmp_path / "plan.yaml", str(f16), engine=preset | {"function": "draw"})["tokens"]) == 6
    with pytest.raises(vitro.ConfigError, match="fp16 is another contract.*balanced in float"):
        run_with(tmp_path / "plan.yaml", str(f16), engine=preset | {"function": "draw", "activations": "fp16"})


@pytest.mark.all
def test_the_planner_finds_cores_of_its_own(model, bench, has_native):
    free = make_plan(model, device=PHONE, bench=bench, overrides=["memory.ffn_in_dram=50%"])["engine"]
    at_work = {*free["units"]["value"], free["clusters"]["io_core"]["value"]}  # one may be left for reading
    assert {"cpu1", "cpu2", "cpu3", "cpu4", "cpu5"} <= at_work
    assert not {"cpu6", "cpu7"} & at_work  # the small ones would be waited for
    assert free["clusters"]["io_core"]["value"] in free["clusters"]["io_core"]["why"]


def test_a_misspelt_key_is_no_plan(native):
    answer = native("plan", RELU, "--device", PHONE, "--set", "memory.ffn_in_drm=50%", "-o", "plan.yaml")
    assert answer.code == 2 and 'did you mean "ffn_in_dram"' in answer.err and not (native.folder / "plan.yaml").exists()


def run_with(plan_file, model, **more):
    experiment = {"experiment": "planned", "machine": "sim", "device": str(PHONE), "model": model,
                  "engine": {"plan": str(plan_file)} | more.pop("engine", {}),
                  "workload": {"prompt_tokens": 4, "output_tokens": 6, "stop_at_eos": False}}
    return vitro.run(experiment | more)


def test_a_plan_runs_on_drawn_neurons(plan, model, tmp_path, native):
    (tmp_path / "plan.yaml").write_text(text_of(plan))
    result = run_with(tmp_path / "plan.yaml", str(model), engine={"function": "draw"})
    assert len(result["tokens"]) == 6
    engine = result["experiment_resolved"]["engine"]
    assert engine["placement"]["units"] == CORES
    assert percent(str(engine["placement"]["splits"][0]["hot"])) == shares(plan)[0]
    fewer = run_with(tmp_path / "plan.yaml", str(model), engine={"function": "draw", "units": ["cpu1"]})
    assert fewer["metrics"]["decode_tokens_per_s"] < result["metrics"]["decode_tokens_per_s"]


@pytest.mark.all
def test_tokens_of_a_planned_run_are_those_of_memory(recording, tmp_path, native):
    """From a recording of the embedded ReGLU model, at 75 % in DRAM, to its reference tokens."""
    case = json.loads((MODELS / "reference.json").read_text())["models"][RELU.name]["greedy"][0]
    out = tmp_path / "plan.yaml"
    made = native("plan", RELU, "--device", PHONE, "--profile", recording, "--cores", "cpu1,cpu2", "--set", "memory.ffn_in_dram=75%",
                  "-o", out, "--json")
    assert made.code == 0, made.err
    assert made.json["profile"]["kind"] == "recording" and made.json["model"]["gguf_bytes"] == RELU.stat().st_size
    other = tmp_path / "other.yaml"
    tree = yaml.safe_load(out.read_text())
    tree["engine"]["hybrid"]["splits"] = [{"batch": 1, "hot": "50%", "attention": "50%"}]
    tree["graphs"] = []
    other.write_text(yaml.safe_dump(tree))
    for planned in (out, other):
        result = run_with(planned, {"gguf": str(RELU)}, memory={"ffn_in_dram": "75%"},
                          workload={"prompt": case["prompt"], "output_tokens": 12, "stop_at_eos": False})
        assert result["tokens"] == case["ids"][:12]


@pytest.mark.all
@pytest.mark.parametrize("name, experts", [(RELU.name, 0), ("stories-moe-6m.f16.gguf", 8)])
def test_layers_and_experts_that_differ_get_shares_of_their_own(name, experts, tmp_path, has_native):
    """As many neurons are hot in all as with one share, and tokens are those of memory."""
    text, recording, model = tmp_path / "text.txt", tmp_path / "r.vtrc", MODELS / name
    text.write_text((MODELS / "eval.txt").read_text()[:1500])
    vitro.perplexity(model, text, overrides={"engine.record": str(recording)})
    apart = "experts" if experts else None
    plan = make_plan(model, device=PHONE, profile=recording, cores=["cpu1", "cpu2"], accelerator="npu", apart=apart)
    differ = [split for split in plan["engine"]["hybrid"]["splits"] if "hot_by_layer" in split]
    assert differ
    for split in differ:
        layers = split["hot_by_layer"]["value"]
        assert len(layers) == plan["model"]["layers"]
        every = [percent(share) for layer in layers for share in (layer if experts else [layer])]
        assert len(every) == len(layers) * max(1, experts) and len(set(every)) > 1
        grain = 100 * plan["engine"]["hybrid"]["cluster"]["value"] / plan["model"]["ffn"]
        assert abs(sum(every) - len(every) * percent(split["hot"]["value"])) <= grain + 0.01 * len(every)
    (tmp_path / "plan.yaml").write_text(text_of(plan))
    case = json.loads((MODELS / "reference.json").read_text())["models"][name]["greedy"][0]
    result = run_with(tmp_path / "plan.yaml", {"gguf": str(model)}, memory={"ffn_in_dram": "75%"},
                      workload={"prompt": case["prompt"], "output_tokens": 12, "stop_at_eos": False})
    assert result["tokens"] == case["ids"][:12]


def test_splits_beside_those_of_a_plan_are_refused(plan, model, tmp_path, native):
    (tmp_path / "model.yaml").write_text(model.read_text())
    (tmp_path / "plan.yaml").write_text(text_of(plan))
    assert "engine.hybrid.splits: can not be combined with engine.plan" in refused(
        native, tmp_path, "plan.yaml", "engine.hybrid.splits=[{batch: 1, hot: 10%}]")


def refused(native, folder, plan_file, *sets):
    (folder / "e.yaml").write_text(f"experiment: e\nmachine: sim\ndevice: {PHONE}\nmodel: {folder / 'model.yaml'}\n"
                                   "engine: {plan: plan.yaml, function: draw}\nworkload: {prompt_tokens: 4, output_tokens: 2}\n")
    answer = native("run", folder / "e.yaml", *(part for item in sets for part in ("--set", item)))
    assert answer.code == 2 and answer.out == ""
    assert answer.err.count("\n") == 1, answer.err
    return answer.err


@pytest.mark.all
@pytest.mark.parametrize("key", ["kv_per=query_head", "kv_format=int8_fp8", "kv_format=int4_e5m2"])
def test_what_a_cache_holds_is_priced(key, model, bench, native):
    """Heads of queries, and bytes that an accelerator does not read."""
    assert make_plan(model, device=PHONE, cores=CORES, bench=bench, overrides=[f"engine.{key}"])["engine"]


def test_heads_stay_with_cores_where_the_accelerator_can_not_read_them():
    class Curves:
        wake = launch = 0.0
        cores, core_streams, fast_streams = ["cpu0"], None, None
        core = fast = {1: {"dense": lambda rows: 0.0, "attention": 8.0}}

    balance = object.__new__(Balance)
    balance.device, balance.model, balance.row = Curves(), {"heads": 4, "kv_heads": 4, "head_dim": 64, "width": 256}, 512
    for on_cores, expected in ((False, (4.0, 4.0)), (True, (0.0, 8.0))):
        Curves.heads_on_cores = on_cores
        times = Balance.attention(balance, 1, 0.5)
        assert (times.accelerator, times.cores) == expected


def test_a_position_takes_what_its_format_and_its_heads_take(model, has_native):
    kv, dim = native_call("plan_facts", compose(model, PHONE, []).tree)["kv"], 128
    assert {form: of["pair_bytes"] for form, of in kv.items()} == {
        "f32": 8 * dim, "f16": 4 * dim, "int8_fp8": 2 * dim + 8, "int8_e5m2": 2 * dim + 8,
        "int4_fp8": 20 * -(-dim // 32) + dim, "int4_e5m2": 20 * -(-dim // 32) + dim}
    assert [form for form, of in kv.items() if not of["for_cores"]] == ["f32", "f16"]


def test_keys_and_values_in_flash_leave_more_memory_to_neurons():
    facts = {"model": {"layers": 4, "experts": 0, "kv_heads": 8, "head_dim": 128}, "fixed_bytes": 0, "runtime_bytes": 0,
             "kv": {"f32": {"pair_bytes": 1024}}, "layouts": {"bundles": {"resident": 0, "blocks": 1024, "kept": 1 << 20}}}

    def share(**kv):
        tree = {"device": {}, "memory": {"budget": "1 GiB"}, "engine": {"kv": {"format": "f32", "block_tokens": 16} | kv}}
        return memory_of(tree, facts, "sim", "bundles").share
    assert share(dram_tokens=32) > share() and share(dram_tokens=10 ** 6) == share()


def test_a_plan_is_refused_where_it_does_not_belong(plan, model, tmp_path, native):
    (tmp_path / "model.yaml").write_text(model.read_text())
    text = text_of(plan)
    (tmp_path / "plan.yaml").write_text(text)
    lines = text.splitlines()
    place = next(i for i, line in enumerate(lines) if line.startswith("device:")) + 3
    assert f"plan.yaml:{place}: device.fingerprint: " in refused(native, tmp_path, "plan.yaml", "device.ufs.queue_depth=16")
    assert "model.fingerprint" in refused(native, tmp_path, "plan.yaml", "model.shape.vocab=16000")
    assert "memory.hot" in refused(native, tmp_path, "plan.yaml", "memory.ffn_in_dram=10%")
    assert "memory.fixed" in refused(native, tmp_path, "plan.yaml", "memory.budget=64 MiB")
    (tmp_path / "plan.yaml").write_text(text.replace("vitro_plan: 1", "vitro_plan: 9"))
    assert "plan version" in refused(native, tmp_path, "plan.yaml")


@pytest.mark.parametrize("args, said", [
    (["--device", "nowhere.yaml"], "nowhere.yaml: no such file"),
    (["--device", str(PHONE), "--machine", "phone"], "neither sim nor host"),
    (["--device", str(PHONE), "--machine", "host"], "--storage-file: is missing: machine: host needs a file to read"),
    (["--device", str(PHONE), "--set", "workload.batch=2"], "has no effect on a plan"),
    (["--device", str(PHONE), "--cores", "cpu9"], "is not a core of this device"),
    (["--device", str(PHONE), "--set", "memory.budget=64 MiB"], "memory.budget: 64 MiB is less than"),
    (["--device", str(PHONE), "--profile", str(PHONE)], "is not a profile"),
    (["--device", str(PHONE), "--apart", "neurons"], '--apart: "neurons" is neither none, layers nor experts'),
])
def test_what_is_wrong_is_said_in_one_line(args, said, model, native):
    answer = native("plan", model, *args, "-o", "plan.yaml")
    assert answer.code == 2 and said in answer.err and answer.err.strip().count("\n") == 0, answer.err


def test_what_is_available_may_be_stated_without_a_source():
    facts = {"model": {"layers": 1, "experts": 0, "kv_heads": 1, "head_dim": 64}, "kv": {"f16": {"pair_bytes": 256}},
             "fixed_bytes": 0, "runtime_bytes": 0, "layouts": {"bundles": {"resident": 0, "blocks": 1024, "kept": 1 << 20}}}
    engine = {"kv": {"format": "f16", "block_tokens": 16}}
    sourced, plain = (memory_of({"device": {"dram": {"available": stated}}, "engine": engine}, facts, "sim", "bundles")
                      for stated in ({"value": "1 GB", "kind": "spec", "source": "x"}, "1 GB"))
    assert plain == sourced and plain.share < 1


def test_a_model_without_a_profile_asks_for_one(native):
    answer = native("plan", RELU, "--device", PHONE, "-o", "plan.yaml")
    assert answer.code == 2 and "--profile: is missing" in answer.err and f"vitro profile {RELU} TEXT" in answer.err


@pytest.mark.all
def test_hot_neurons_are_streamed_where_memory_is_short_and_never_more_than_attention_hides(plan, model, bench, tmp_path):
    tight = make_plan(model, device=PHONE, cores=CORES, bench=bench, overrides=["memory.ffn_in_dram=25%"])
    splits = tight["engine"]["hybrid"]["splits"]
    streamed = [split for split in splits if "streamed" in split]
    assert streamed
    for split in splits:
        bound = percent(re.search(r"flash brings ([\d.]+%) of an FFN", split["hot"]["why"])[1])
        assert bound > 0
        if "streamed" in split:
            assert 0 < percent(split["streamed"]["value"]) <= bound + 0.001 and percent(split["hot"]["value"]) >= percent(
                split["streamed"]["value"])
    assert not any("streamed" in split or "flash brings" in split["hot"]["why"] for split in plan["engine"]["hybrid"]["splits"])
    (tmp_path / "plan.yaml").write_text(text_of(tight))
    result = run_with(tmp_path / "plan.yaml", str(model), engine={"function": "draw"}, memory={"ffn_in_dram": "25%"})
    given = result["experiment_resolved"]["engine"]["placement"]["splits"]
    assert [percent(str(split.get("streamed", "0%"))) for split in given] == [
        percent(split["streamed"]["value"]) if "streamed" in split else 0 for split in splits]

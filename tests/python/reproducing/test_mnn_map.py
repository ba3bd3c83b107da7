"""The map of MNN-LLM: every run resolves, and a compared system has what its sources give and nothing more."""
import pytest
import vitro
import yaml
from conftest import ROOT
from vitro.reproducing import paper as reproducing
from vitro.reproducing import paper_map as maps

MNN = maps.load("mnn")
GRID = ROOT / "experiments" / "papers" / "mnn" / "grid.yaml"
CONFIGS = ROOT / "configs"
TABLES = ("macs_per_cycle", "macs_per_cycle_batch", "macs_per_cycle_batch_4", "macs_per_cycle_batch_8", "cycles_per_conversion")
OWN = {"llamacpp": "llamacpp", "llamacpp_plain": "llamacpp-plain", "fastllm": "fastllm"}


def question(name):
    return next(asked for asked in MNN.questions if asked.id == name)


def clusters(device):
    run = {"experiment": "cores", "machine": "sim", "device": str(CONFIGS / "devices" / device),
           "model": str(CONFIGS / "models" / "qwen2-1.5b.yaml"), "engine": {"policy": "dense", "numerics": False},
           "workload": {"prompt_tokens": 1, "output_tokens": 1}}
    return vitro.resolve(run)["device"]["cpu"]["clusters"]


def test_every_run_and_diagnosis_resolves(native):
    asked = [*MNN.questions, *MNN.checks]
    diagnosed = [one.diagnosed() for one in MNN.questions if "diagnosis" in one.answer]
    for words in sorted({words for one in (*asked, *diagnosed) for words in reproducing.words_of(one)}):
        vitro.resolve(MNN.experiment, overrides=MNN.overrides(words))


@pytest.mark.parametrize("kind", OWN)
def test_cores_with_other_kernels_differ_from_the_phone_by_their_prices_alone(native, kind):
    ours, others = clusters("xiaomi14.yaml"), clusters(f"other_kernels/xiaomi14_{kind}.yaml")
    for mine, other in zip(ours, others):
        assert all(other[key] == value for key, value in mine.items() if key not in TABLES) and other.keys() == mine.keys()
        assert all(other[table]["kind"] in ("derived", "assumed") and other[table]["source"] for table in TABLES)


@pytest.mark.parametrize("core", ["x4", "a720"])
@pytest.mark.parametrize("kind", OWN.values())
def test_what_is_said_to_be_as_in_our_table_is(kind, core):
    ours = yaml.safe_load((CONFIGS / "kernels" / f"cpu-{core}.yaml").read_text())
    for table, content in yaml.safe_load((CONFIGS / "kernels" / f"{kind}-{core}.yaml").read_text()).items():
        same = {name: rate for name, rate in content["neon-i8mm"].get("float", {}).items() if (kind, name) != ("fastllm", "f32.attention")}
        assert same.items() <= ours[table]["neon-i8mm"].get("float", {}).items()


def test_cores_compute_a_prompt_slower_with_the_kernels_of_others(native):
    asked = question("mnn_cpu_prefill_vs_llamacpp")
    speeds = [vitro.run(MNN.experiment, overrides=MNN.overrides(f"qwen1.5 p64 {words}")).metric("prefill_tokens_per_s")
              for words in ("mnn_cpu", "llamacpp_cpu", "llamacpp_cpu own_kernels", "llamacpp_cpu own_kernels plain", "fastllm own_kernels")]
    mnn, like, own, plain, fastllm = speeds
    assert mnn > 0.9 * like > own > plain and own > fastllm
    assert asked.formula and asked.answer["fold"] == "max" and len(asked.answer["each"]) == 9


def test_a_gpu_that_unpacks_for_two_rows_is_slower_than_for_four(native):
    fused, buffer = (vitro.run(MNN.experiment, overrides=MNN.overrides("qwen1.5 p64 mlc") | {"engine.products.prefill": way})
                     .metric("prefill_tokens_per_s") for way in ("fused", "buffer"))
    assert fused < buffer


def test_the_grid_has_each_system_on_its_unit_in_both_readings():
    labels = [point["label"] for point in yaml.safe_load(GRID.read_text())["sweep"]]
    assert {label for label in labels if "CPU" in label} == {
        "MNN-LLM, CPU", "llama.cpp, CPU, like for like", "llama.cpp, CPU, as published", "fastllm, CPU, like for like",
        "fastllm, CPU, as published"}
    assert sum("GPU" in label for label in labels) == 5

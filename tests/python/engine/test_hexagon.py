"""engine.units: hexagon on the command line: HVX code in qemu-hexagon, with the tokens of the CPU."""
import json
import re
import shutil
import subprocess

import pytest
import vitro
from conftest import ROOT

MODELS = ROOT / "configs" / "models" / "embedded"
TOOLS = ROOT / "build" / "release" / "tools" / "hexagon"
QUICKSTART = ROOT / "experiments" / "quickstart.yaml"
TOKENS = 4  # the emulator takes most of the time
REFERENCE = json.loads((MODELS / "reference.json").read_text())["models"]["stories-reglu-3m.f16.gguf"]["greedy"][0]

needs_worker = pytest.mark.skipif(not (ROOT / "build/release/hexagon/vitro-hexagon-worker").exists() or not shutil.which("qemu-hexagon"),
                                  reason="needs qemu-hexagon and a worker program")


def arguments(model, units, **settings):
    settings = {"engine.units": units, "engine.activations": "int8", "model.gguf": MODELS / f"stories-reglu-3m.{model}.gguf",
                "workload.output_tokens": TOKENS, "sweep": "{}"} | settings
    overrides = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    return ["run", QUICKSTART, "--json", "--machine", "host", *overrides]


@needs_worker
@pytest.mark.parametrize("model", ["q8_0", "q4_0"])
def test_quickstart_decodes_with_hvx_code(native, model):
    cpu, hexagon = (native(*arguments(model, units)).json for units in ("cpu0", "hexagon"))
    assert hexagon["tokens"] == cpu["tokens"] and len(cpu["tokens"]) == TOKENS
    assert hexagon["counts"]["hexagon_hvx_packets"] > 10000
    assert hexagon["counts"]["hexagon_operators"] == TOKENS * 4 * 7
    assert any("qemu-hexagon" in note for note in hexagon["notes"])


@needs_worker
@pytest.mark.parametrize("attention", ["exact", *(pytest.param(kind, marks=pytest.mark.all) for kind in ("lut_exp", "exp_f16"))])
def test_activations_in_float16_are_rounded_as_a_core_rounds_them(native, attention):
    keys = {"engine.graph.activations": "f16", "engine.attention": attention}
    cpu, hexagon = (native(*arguments("q8_0", units, **keys)).json for units in ("cpu0", "hexagon"))
    assert hexagon["tokens"] == cpu["tokens"] and len(cpu["tokens"]) == TOKENS
    assert hexagon["counts"]["hexagon_operators"] >= TOKENS * 4 * 7
    assert not any("instead" in note for note in hexagon["notes"])


@needs_worker
@pytest.mark.all
def test_the_quickstart_as_it_is_has_the_tokens_of_the_reference(native):
    """One key beside the file: its float16 weights go through the matrix unit's interface."""
    answer = native("run", QUICKSTART, "--machine", "host", "--set", "engine.units=hexagon", "--json").json
    assert answer["tokens"] == REFERENCE["ids"] and answer["text"] == REFERENCE["text"]
    counts = answer["counts"]
    assert counts["hexagon_operators"] == 48 * 4 * 7 and counts["hexagon_requests"] == 48 * 4 * 4
    # HVX makes tiles of all weights in each step: at best 80 packets for 2048.
    weights = 4 * (2 * 256 * 256 + 2 * 256 * 128 + 3 * 256 * 768)
    assert counts["hexagon_packets"] > counts["hexagon_hvx_packets"] > 48 * weights * 80 / 2048


def test_the_simulated_npu_takes_the_quickstart_by_the_same_policy(native):
    """In the contract of the run above: its tokens, one launch per request."""
    both = native("run", QUICKSTART, "--set", "engine.units=[cpu0, npu]", "--set", "engine.activations=fp16", "--json").json
    assert both["tokens"] == REFERENCE["ids"]
    assert both["counts"]["launches"] == 48 * 4 * 4
    assert "hmx.f16 on npu" not in both["unpriced_calls"]


def test_the_simulated_npu_takes_the_same_operators(native):
    """The policy is the same code: one launch per run of products, the tokens of the core."""
    core, both = (native(*arguments("q8_0", units), "--machine", "sim").json for units in ("cpu0", "[cpu0, npu]"))
    assert both["tokens"] == core["tokens"]
    assert both["counts"]["launches"] == TOKENS * 4 * 4 and core["counts"]["launches"] == 0


def test_attention_by_table_costs_a_simulated_core_what_attention_costs(native):
    exact, table = (native(*arguments("q8_0", "cpu0", **{"engine.attention": kind}), "--machine", "sim").json
                    for kind in ("exact", "lut_exp"))
    assert table["metrics"]["decode_tokens_per_s"] == exact["metrics"]["decode_tokens_per_s"]
    both = native(*arguments("q8_0", "[cpu0, npu]", **{"engine.attention": "lut_exp"}), "--machine", "sim").json
    assert both["tokens"] == table["tokens"]
    assert both["counts"]["launches"] == TOKENS * 4 * 4  # attention and the product behind it are one graph


def test_a_simulated_npu_pays_for_the_exponential_that_it_runs(native):
    """A table is gathered from, polynomials are packets: in float32 more than in fp16."""
    prompts = [native("run", ROOT / "experiments/papers/tts/decode.yaml", "--json", "--set", f"engine.attention={kind}",
                      "--set", "workload.output_tokens=1").json for kind in ("lut_exp", "exp_f16", "exp_f32")]
    table, halves, floats = (answer["metrics"]["ttft_ms"] for answer in prompts)
    assert table < halves < floats


def test_the_policy_says_what_it_can_not_do(native):
    answer = native(*arguments("q8_0", "npu"), "--machine", "sim")
    assert answer.code == 2 and "needs a core beside its accelerator" in answer.err and "such as cpu0" in answer.err, answer.err


def test_each_of_several_cores_hands_its_share_of_the_products_over(native):
    one, two = (native(*arguments("q8_0", units), "--machine", "sim").json for units in ("[cpu0, npu]", "[cpu0, cpu1, npu]"))
    assert two["tokens"] == one["tokens"]
    assert two["counts"]["launches"] > one["counts"]["launches"]


@pytest.mark.all
@needs_worker
def test_activations_are_the_placements(native):
    """W4A16 in the worker beside int8 on the core that has the output matrix: host and sim draw the same tokens."""
    keys = {"engine.placement.activations": "fp16", "workload.sampling": "{temperature: 1}", "workload.output_tokens": 24}
    host = native(*arguments("q4_0", "[cpu0, hexagon]", **keys)).json
    sim = native(*arguments("q4_0", "[cpu0, npu]", **keys), "--machine", "sim").json
    assert host["tokens"] == sim["tokens"]
    assert host["counts"]["hexagon_stage_steps"] >= host["counts"]["hexagon_operators"] == 24 * 4 * 7
    assert not any(name.startswith("int8") for name in sim["unpriced_calls"])
    refused = native(*arguments("q4_0", "cpu0", **{"engine.placement.activations": "fp16"}))
    assert refused.code == 2 and "engine.placement.activations" in refused.err and "such as npu or hexagon" in refused.err


@needs_worker
def test_hot_neurons_have_the_activations_of_the_placement(native):
    """Gate and Up of hot neurons are the accelerator's, so they follow its contract: one text on both machines, another in int8."""
    def run(unit, activations, machine, layout="scales_inline"):
        keys = {"engine.policy": "neuron_cluster", "engine.placement.unit": unit, "engine.placement.activations": activations,
                "engine.placement.splits": "[{batch: 1, hot: 100%, attention: 50%}]", "engine.ffn.clusters.hot_cluster": 64,
                "engine.weights.layout": layout, "workload.sampling": "{temperature: 1}", "workload.output_tokens": 16}
        return native(*arguments("q4_0", "[cpu1]", **keys), "--machine", machine).json
    host, sim, same = run("hexagon", "fp16", "host"), run("npu", "fp16", "sim"), run("npu", "same", "sim")
    assert host["tokens"] == sim["tokens"]
    assert sim["tokens"] != same["tokens"]
    # Gate, Up and Down of every layer are the worker's, wherever their scales are, and in stages.
    apart = run("hexagon", "fp16", "host", "scales_resident")
    for answer in (host, apart):
        assert answer["counts"]["hexagon_operators"] >= 16 * 4 * 3 and answer["counts"]["hexagon_stage_steps"] >= 16 * 4 * 3
        assert not any("row offsets ran on the CPU" in note for note in answer["notes"]), answer["notes"]
    assert apart["counts"]["hexagon_operators"] == host["counts"]["hexagon_operators"]
    of_sim = run("npu", "fp16", "sim", "scales_resident")
    assert apart["tokens"] == of_sim["tokens"] == sim["tokens"]
    assert not any(name.startswith("int8") for name in of_sim["unpriced_calls"])


@pytest.mark.parametrize("policy, on_sim, on_host", [
    ("llm_npu", {"engine.units": "[cpu0, npu]"}, {"engine.units": "[cpu0]", "engine.placement.unit": "cpu1"}),
    ("qnn", {"engine.units": "[npu]"}, {"engine.units": "[cpu0]"})])
def test_a_core_in_place_of_the_npu_computes_in_its_contract(native, policy, on_sim, on_host):
    """A prompt's matmuls, and all of them: the tokens of the simulated NPU, others than in the contract of the cores."""
    def run(machine, activations, units):
        keys = {"engine.policy": policy, "engine.placement.activations": activations, "engine.products.decode_rows": 1,
                "workload.sampling": "{temperature: 1}", "workload.output_tokens": 24}
        return native(*arguments("q4_0", "", **keys, **units), "--machine", machine).json["tokens"]
    sim = run("sim", "fp16", on_sim)
    assert run("host", "fp16", on_host) == sim
    assert run("sim", "same", on_sim) != sim


@needs_worker
def test_tile_groups_are_one_format_for_host_and_sim(native, tmp_path):
    """Test-time scaling 5.1: the file's super-groups are what the worker computes with, what cores read and what the NPU's table prices."""
    model = tmp_path / "tile.gguf"
    vitro.quantize(MODELS / "stories-reglu-3m.f16.gguf", model, "q4_0_tile")
    keys = {"model.gguf": model, "engine.activations": "fp16"}
    cores, hexagon = (native(*arguments("f16", units, **keys)).json for units in ("[cpu0, cpu1]", "hexagon"))
    sim = native(*arguments("f16", "[cpu0, npu]", **keys), "--machine", "sim").json
    assert hexagon["tokens"] == cores["tokens"] == sim["tokens"] and len(sim["tokens"]) == TOKENS
    assert hexagon["counts"]["hexagon_stage_steps"] >= hexagon["counts"]["hexagon_operators"] == TOKENS * 4 * 7
    # Its own price, by the packets of tile groups: more than those of q4_0 in this contract, whose scales need no look-up.
    assert not any("q4_0_tile on npu" in call for call in sim["unpriced_calls"])
    keys = {"model.gguf": model, "engine.activations": "float"}
    float_host, float_sim = (native(*arguments("f16", "[cpu0, cpu1]", **keys), "--machine", machine).json for machine in ("host", "sim"))
    assert float_host["tokens"] == float_sim["tokens"]
    assert any("q4_0_tile" in call and "(as q4_0)" in call for call in float_sim["unpriced_calls"])


@needs_worker
def test_outliers_are_computed_as_stored_in_fp16_and_are_the_cores_in_int8(native, tmp_path):
    """PowerInfer-2, section 7.6: in fp16 the worker has loops for them, which price the NPU; of int8 it says what it lacks."""
    model = tmp_path / "outliers.gguf"
    vitro.quantize(MODELS / "stories-reglu-3m.f16.gguf", model, "w4_outliers")
    for activations, computed in (("fp16", True), ("int8", False)):
        keys = {"model.gguf": model, "engine.activations": activations, "workload.output_tokens": 4}
        cores, hexagon = (native(*arguments("f16", units, **keys)).json for units in ("[cpu0, cpu1]", "[cpu0, hexagon]"))
        sim = native(*arguments("f16", "[cpu0, npu]", **keys), "--machine", "sim").json
        assert hexagon["tokens"] == cores["tokens"] == sim["tokens"] and len(sim["tokens"]) == 4
        assert (hexagon["counts"].get("hexagon_operators", 0) > 0) == computed
        assert any("no kernel for w4_outliers" in note for note in hexagon["notes"]) != computed
        assert any("w4_outliers on npu" in call for call in sim["unpriced_calls"]) != computed
    keys = {"model.gguf": model, "engine.placement.activations": "fp16", "workload.output_tokens": 4}
    beside = native(*arguments("f16", "[cpu0, hexagon]", **keys)).json
    alone = native(*arguments("f16", "hexagon", **keys | {"engine.activations": "fp16"})).json
    assert beside["counts"]["hexagon_operators"] > 0 and alone["counts"]["hexagon_operators"] == 4 * 4 * 7
    assert not any("no kernel for w4_outliers" in note for note in beside["notes"] + alone["notes"])
    # 4.5 bits a weight, and what a strip adds; in fp16 it would be 16.
    copies = next(re.search(r"([\d.]+) (KiB|MiB) from copies", note) for note in alone["notes"] if "from copies" in note)
    copied = float(copies[1]) * {"KiB": 1 << 10, "MiB": 1 << 20}[copies[2]]
    assert model.stat().st_size * 0.4 < copied < 1.2 * model.stat().st_size, alone["notes"]
    # Nibbles as q4_0's and outliers beside: dearer than q4_0, in bytes about the same.
    fp16 = {"engine.placement.activations": "fp16"}
    nibbles, outliers = (native(*arguments("q4_0", "[cpu0, npu]", **fp16 | more), "--machine", "sim").json["metrics"]["ttft_ms"]
                         for more in ({}, {"model.gguf": model}))
    assert outliers > nibbles


@needs_worker
def test_tables_of_int16_are_a_contract_of_their_own(native, tmp_path):
    """T-MAN Table 1: 16-bit activations. One contract on cores, in the worker and in sim, with prices of its own on the NPU."""
    model = tmp_path / "w2g64z.gguf"
    vitro.quantize(MODELS / "stories-reglu-3m.f16.gguf", model, "w2g64z")
    keys = {"model.gguf": model, "engine.activations": "int16_tables"}
    core, hexagon = (native(*arguments("f16", units, **keys)).json for units in ("cpu0", "hexagon"))
    sim = native(*arguments("f16", "[cpu0, npu]", **keys), "--machine", "sim").json
    assert hexagon["tokens"] == core["tokens"] == sim["tokens"] and len(sim["tokens"]) == TOKENS
    assert hexagon["counts"]["hexagon_operators"] == TOKENS * 4 * 7
    assert not any("on npu" in call for call in sim["unpriced_calls"])
    rounded = native(*arguments("f16", "[cpu0, npu]", **keys | {"engine.activations": "int8_tables"}), "--machine", "sim").json
    assert sim["metrics"]["decode_tokens_per_s"] != rounded["metrics"]["decode_tokens_per_s"]


@needs_worker
@pytest.mark.all
@pytest.mark.parametrize("threads", [2, 4])
def test_the_quickstart_runs_in_stages_with_threads_of_hvx(native, threads):
    answer = native("run", QUICKSTART, "--machine", "host", "--set", "engine.units=hexagon", "--set", "workload.output_tokens=6",
                    "--set", f"engine.placement.hvx_threads={threads}", "--json").json
    assert answer["tokens"] == REFERENCE["ids"][:6]
    counts = answer["counts"]
    assert counts["hexagon_stage_steps"] >= counts["hexagon_operators"] == 6 * 4 * 7
    of_threads = [counts[f"hexagon_packets.vector.hvx{i}"] for i in range(threads)]
    assert f"hexagon_packets.vector.hvx{threads}" not in counts
    assert max(of_threads) < 1.3 * min(of_threads)
    stages = sum(value for name, value in counts.items() if name.startswith("hexagon_packets."))
    assert stages == counts["hexagon_packets"] and counts["hexagon_packets.matrix.matrix"] > 0


def test_keys_of_the_worker_are_a_hexagons(native):
    answer = native("run", QUICKSTART, "--machine", "sim", "--set", "engine.placement.hvx_threads=2")
    assert answer.code == 2
    assert "engine.placement.hvx_threads" in answer.err and "expected hexagon among the units" in answer.err
    answer = native("run", QUICKSTART, "--machine", "host", "--set", "engine.units=hexagon", "--set", "engine.placement.stage_buffers=3")
    assert answer.code == 2 and "stage_buffers" in answer.err
    answer = native("run", QUICKSTART, "--machine", "host", "--set", "engine.units=hexagon", "--set", "engine.placement.spill=flash")
    assert answer.code == 2 and "engine.placement.spill" in answer.err and "tcm" in answer.err


@needs_worker
def test_without_the_emulator_it_says_what_is_missing(native):
    answer = native(*arguments("q8_0", "hexagon"), env={"PATH": "/nonexistent"})
    assert answer.code == 2
    assert "engine.units: hexagon needs qemu-hexagon on the PATH (Debian: qemu-user)" in answer.err


@pytest.mark.all
def test_the_tiling_search_prints_its_choice():
    tool = TOOLS / "hexagon-tiling"
    if not tool.exists():
        pytest.skip("needs a build")
    said = subprocess.run([tool, "--bits", "2", "--group", "128"], capture_output=True, text=True)
    assert said.returncode == 0 and "VLUT16: 16 registers of tables" in said.stdout
    assert subprocess.run([tool, "--bits", "5"], capture_output=True).returncode == 2

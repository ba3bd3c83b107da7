"""Compute units written in Python: cores and accelerators."""
import pytest
import vitro
from conftest import ROOT

QUICKSTART = ROOT / "experiments" / "quickstart.yaml"
ONEPLUS12 = ROOT / "configs" / "devices" / "oneplus12.yaml"
SHORT = {"workload.output_tokens": 4}
CORE = {"clock": "3 GHz", "core_bandwidth": "20 GB/s", "cluster_bandwidth": "40 GB/s", "class": "big", "cores": 2}


class SteadyCore(vitro.CoreModel):
    """so many multiply-adds a second, everything else for nothing"""

    parameters = {"macs_per_second": vitro.Param("number", "10e9", "any")}

    def serve(self, now_ps, work):
        return now_ps + round((work.macs + work.elementwise) / self.params["macs_per_second"] * 1e12)


class Picky(SteadyCore):
    def prices(self, variant, format):
        return format == "f16"

    def objection(self, op, format):
        return ""


class Array(vitro.AcceleratorModel):
    """a square of multipliers with static graphs"""

    parameters = {"side": vitro.Param("number", "64", "any"), "clock": vitro.Param("frequency", "1 GHz", "any")}

    def capabilities(self):
        return {"static_graphs": True, "fixed_batch": True, "load_ps": 10**8, "shape_multiple": 8}

    def serve(self, now_ps, work):
        side = self.params["side"]
        tiles = -(-max(work.columns, 1) // side) * -(-max(work.depth, 1) // side) * work.rows
        return now_ps + round((tiles * side + work.elementwise / side) / self.params["clock"] * 1e12)


class Detailed(SteadyCore):
    fidelity = "detailed"


def phone(core="SteadyCore", **more):
    cluster = CORE | more
    fidelity = cluster.pop("fidelity", None)
    cpu = {"model": core, "bandwidth": "40 GB/s", "clusters": [cluster]}
    cpu |= {"fidelity": fidelity} if fidelity else {}
    return vitro.Device(ONEPLUS12).override({"cpu": None}).override({"cpu": cpu})


def run(device, models, **overrides):
    overrides = SHORT | {"engine.units": ["cpu0", "cpu1"]} | overrides
    return vitro.run(QUICKSTART, machine="sim", device=device, overrides=overrides, models=models)


@pytest.fixture(scope="module")
def tokens():
    return vitro.run(QUICKSTART, machine="sim", overrides=SHORT).tokens


def test_a_core_decides_the_speed_and_no_token(native, tokens):
    slow, slower = (run(phone(macs_per_second=rate), [SteadyCore]) for rate in ("1e8", "0.5e8"))
    assert slow.tokens == slower.tokens == tokens
    assert slow.metric("decode_tokens_per_s") / slower.metric("decode_tokens_per_s") == pytest.approx(2, rel=0.01)
    assert run(phone(macs_per_second="1e8"), [SteadyCore])["event_hash"] == slow["event_hash"]
    memory = run(phone(macs_per_second="1e15"), [SteadyCore])
    assert memory.metric("dram_bandwidth_gb_per_s") == pytest.approx(40, rel=0.35), "bytes go through the DRAM's ports"


def test_work_of_the_system_interrupts_it(native, tokens):
    paging = {"engine.policy": "mmap", "memory.budget": "6 MiB"}
    result = run(phone(), [SteadyCore], **paging)
    assert result.tokens == tokens and result.metric("flash_bytes_read.decode") > 0


def test_an_accelerator_runs_graphs_beside_cores(native, tokens):
    npu = {"model": "Array", "bandwidth": "50 GB/s", "side": 32}
    device = vitro.Device(ONEPLUS12).override({"npu": None}).override({"npu": npu})
    placed = {"engine.policy": "npu_dense", "engine.units": ["cpu0", "npu"]}
    overrides = SHORT | placed
    result = vitro.run(QUICKSTART, machine="sim", device=device, overrides=overrides, models=[Array])
    assert result.tokens == tokens
    slower = vitro.run(QUICKSTART, machine="sim", device=device.override({"npu.side": 4}), overrides=overrides, models=[Array])
    assert slower.metric("decode_tokens_per_s") < result.metric("decode_tokens_per_s")


def test_kernels_without_a_price_are_told_and_fidelity_is_asked_for(native):
    assert run(phone("Picky"), [Picky])["unpriced_calls"]
    assert run(phone(), [SteadyCore])["unpriced_calls"] == []
    assert run(phone("Detailed", fidelity="detailed"), [Detailed]).tokens


@pytest.mark.parametrize("body, message", [
    ({"serve": lambda self, now, work: now - 1}, r"serve\(\) returned .* \(expected a whole number of picoseconds"),
    ({"serve": lambda self, now, work: 1 / 0}, "ZeroDivisionError"),
    ({"capabilities": lambda self: {"graphs": 3}}, r"capabilities\(\) says graphs, which is none \(expected some of: .*graph_count"),
    ({"capabilities": lambda self: {"graph_count": 1.5}}, r"capabilities\(\) says graph_count: 1.5 \(expected a whole number\)"),
    ({"capabilities": lambda self: {"static_graphs": 2}}, r"expected True or False"),
    ({"capabilities": lambda self: [1]}, r"capabilities\(\) returned \[1\]"),
    ({"prices": lambda self, variant, format: "perhaps"}, r"prices\(\) returned 'perhaps'"),
    ({"prices": lambda self, variant, format: None}, r"prices\(\) returned None"),
    ({"setup": lambda self: self.params["nothing"]}, "KeyError")])
def test_nonsense_ends_the_run_with_the_class_named(native, body, message):
    model = type("Odd", (SteadyCore,), body)
    with pytest.raises(vitro.RunError, match=message) as error:
        run(phone("Odd"), [model])
    assert "the device model Odd" in str(error.value)


def test_what_is_no_model_and_wrong_keys_are_named(native):
    with pytest.raises(vitro.ConfigError, match="vitro.AcceleratorModel, vitro.CoreModel"):
        run(phone(), [int])
    with pytest.raises(vitro.ConfigError, match="fidelity is 'fast'"):
        run(phone(), [type("Fast", (SteadyCore,), {"fidelity": "fast"})])
    with pytest.raises(vitro.ConfigError, match="cpu.big.speed"):
        run(phone(speed=3), [SteadyCore])
    with pytest.raises(vitro.ConfigError, match='there is no model "Missing.flow"'):
        run(phone("Missing"), [SteadyCore])
    with pytest.raises(vitro.ConfigError, match='"Array.flow" is not a model of a CPU core'):
        run(phone("Array"), [Array])

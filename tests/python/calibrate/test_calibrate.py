"""`vitro calibrate`: parameters follow from what was measured, and the simulated machine gives the measurements back."""
import json

import pytest
import yaml
from conftest import ROOT
from vitro.base import process
from vitro.calibrate import probes as calibration_probes
from vitro.calibrate import measure as calibrate
from vitro.calibrate.fit import LINE, Fit, _line, covered
from vitro.calibrate.probes import (
    BATCHES,
    BLOCKS,
    COLUMNS,
    DEPTHS,
    FAR_MIB,
    FLUSH_ROWS,
    PRODUCTS,
    ROWS,
    SETS_MIB,
    SMALL,
    STREAMS,
    SUMS,
    Sample,
    is_steady,
    one_pass,
    plan,
)
from vitro.errors import RunError
from vitro.running import band

CLOCK, OVERHEAD = 2e9, 100e-9
RATE, CONVERSION = 16, 1e-10  # multiply-adds per cycle of every kernel, seconds per quantised activation
LATENCY, SERIAL, PACE = 90e-6, 8e-6, 0.5e-9  # of a round of reads, of each in it, and of each byte
ISSUE, FAULT = 4e-6, 1e-6                     # of a read, of a page
OWN, OTHER = 3e-6, 2e-6                       # hand-off at once: on the policy's core, on another
WEIGHT = {"f32": 4, "f16": 2, "q8_0": 34 / 32, "q4_0": 18 / 32, "q4_k": 144 / 256, "q5_k": 176 / 256,  # bytes
          "q6_k": 210 / 256}
MISS, SLOW = 2e-9, 3                          # a line from DRAM, and of the kernel that is slowed down more


@pytest.fixture(scope="module")
def measured():
    """What the probes would say of a machine with the laws above. -> (samples, counts)"""
    values, counts = {}, {}

    def kernel(name, macs, conversions=0, elementwise=0, rate=RATE):
        values[f"kernel {name}"] = OVERHEAD + (macs + elementwise) / rate / CLOCK + conversions * CONVERSION
        counts[f"kernel {name}"] = {"macs": macs, "elementwise": elementwise, "row_runs": ROWS}
        if name in SMALL:
            counts[f"kernel {name}"]["each_call"] = True
        else:  # chains of ten
            counts[f"kernel {name}"]["calls"] = 10
            values[f"kernel {name}"] += (OWN + OVERHEAD) / 10

    for variant, form, layout in PRODUCTS:
        int8 = variant == "int8"
        for batch in BATCHES:
            kernel(f"{variant}.{form}.{layout} x{batch}", ROWS * COLUMNS * batch, COLUMNS * batch * int8)
        kernel(f"{variant}.{form}.{layout} narrow", 16 * COLUMNS, COLUMNS)
    for name in SUMS:
        kernel(f"accumulate {name}", ROWS * COLUMNS)
    for form in ("f16", "q8_0"):
        kernel(f"straight {form}", ROWS * COLUMNS)
        kernel(f"scattered {form}", ROWS * COLUMNS)
        values[f"kernel scattered {form}"] += ROWS * 10 / CLOCK
    values |= {"kernel nothing": OVERHEAD, "clock": CLOCK, "call_building": 2e-7, "load_latency": 9e-8, "policy": 5e-7,
               "cache hit": 3e-8, "cache miss": 5e-8, "interrupt queued": 4e-6, "interrupt cost": 11e-6, "interrupt latency": 15e-6,
               "answer between calls": 2e-6, "reads x1": 30e9, "reads x2": 40e9}
    counts["kernel nothing"] = {"each_call": True}
    for name in ("attention f32", "attention f16"):
        kernel(name, 100_000)
    for name in ("add", "rms_norm", "glu", "rope", "select", "reduce"):
        kernel(name, 0, elementwise=40_000)

    def stream(name, kernel, mib, factor=1):
        size = WEIGHT[kernel.split(".")[1]] * ROWS * COLUMNS
        counts[name] = {"read_bytes": size, "calls": 10}
        values[name] = values[kernel] + size / LINE * (factor * MISS if mib > 48 else factor * MISS / 4 if mib > 1 else 0)

    for variant, form, layout in PRODUCTS:
        base = f"kernel {variant}.{form}.{layout} x1"
        if (variant, form, layout) in STREAMS:
            for mib in SETS_MIB:
                stream(f"stream {variant}.{form} {mib:g} MiB", base, mib)
        else:
            for mib in FAR_MIB:
                stream(f"stream {variant}.{form}.{layout} {mib} MiB", base, mib, SLOW if (variant, form) == ("float", "q8_0") else 1)
    for variant, form, _ in STREAMS:
        counts[f"streams {variant}.{form}"] = {"read_bytes": 4 * ROWS * COLUMNS}
        values[f"streams {variant}.{form}"] = 4 * ROWS * COLUMNS / 40e9
    for core, warm, cold in (("policy's core", OWN, 5e-6), ("other core", OTHER, 60e-6)):
        values |= {f"hand_off {core} 0 us": warm + OVERHEAD, f"hand_off {core} 200 us": cold + OVERHEAD}
    for block in BLOCKS:
        for depth in DEPTHS:
            values[f"storage random {block} x{depth}"] = LATENCY / depth + SERIAL + block * PACE
        values[f"storage sequential {block} x1"] = values[f"storage random {block} x1"]
    values |= {"storage cpu": ISSUE, "storage pages used": 2e-4, "storage pages fresh": 2e-4 + 24 * FAULT}
    return {name: Sample([value]) for name, value in values.items()}, counts


@pytest.fixture(scope="module")
def device(measured):
    here = {"cpu": "a test", "kernel": "1", "cores": 2, "private_cache": 2 ** 21, "memory": 2 ** 34}
    tree = calibrate.device_tree(Fit(*measured), here, False, measured[0], True, "test")
    return tree | {"calibration": tree["calibration"] | {"residuals": {}}}


def number(entry):
    return float(str(entry["value"]).split()[0])


def test_rates_and_conversions_are_told_apart(device):
    core = device["cpu"]["clusters"][0]
    for table in ("macs_per_cycle", "macs_per_cycle_batch", "macs_per_cycle_batch_4", "macs_per_cycle_batch_64"):
        assert core[table]["int8.q4_0"] == pytest.approx(RATE, rel=1e-3) and core[table]["float.f16"] == pytest.approx(RATE, rel=1e-3)
    assert core["cycles_per_conversion"]["int8.q8_0.rows"] == pytest.approx(CONVERSION * CLOCK, rel=1e-3)
    assert core["macs_per_cycle"]["op.rope"] == pytest.approx(RATE, rel=1e-3)
    assert number(core["call_overhead"]) == pytest.approx(100, rel=1e-3)
    assert number(core["cycles_per_row_run"]) == pytest.approx(10, rel=1e-3)


def test_what_misses_add_is_told_apart_from_arithmetic(device):
    table = device["cpu"]["clusters"][0]["miss_time"]
    assert table["1"] == pytest.approx(0, abs=1e-6) and table["48"] == pytest.approx(0.5, rel=1e-3)
    assert table["1024"] == pytest.approx(2, rel=1e-3) and table["private_cache"] == 2
    assert table["float.q8_0"] == pytest.approx(SLOW, rel=1e-3) and table["int8.q4_0"] == pytest.approx(1, rel=1e-3)


def test_interruptions_and_bookkeeping_are_the_policys(device):
    cpu = device["cpu"]
    wakes = cpu["wake_costs"]
    assert wakes["interrupt_cost_us"] == pytest.approx(11) and wakes["switch_cost_us"] == pytest.approx(4)
    assert wakes["answer_between_calls_us"] == pytest.approx(2)
    assert wakes["interrupt_latency_us"] == pytest.approx(15 - 2 - 0.1, rel=1e-3)
    assert number(cpu["cache_lookup_cycles"]) == pytest.approx(60) and number(cpu["cache_update_cycles"]) == pytest.approx(100)
    assert wakes["page_fault_cycles"] == pytest.approx(FAULT * CLOCK, rel=1e-3)


def test_a_sleeping_worker_is_woken_and_a_polling_one_is_not(device):
    policy, other = device["cpu"]["clusters"]
    assert number(policy["wake_up"]) + number(policy["hand_back"]) == pytest.approx(3, rel=1e-3) and number(policy["spin"]) == 0
    assert number(other["hand_back"]) == pytest.approx(2, rel=1e-3) and number(other["wake_up"]) == pytest.approx(58, rel=1e-3)


def test_what_a_further_core_adds_is_the_price_of_a_barrier(measured, device):
    assert number(device["cpu"]["barrier_cycles"]) == 0 and device["cpu"]["barrier_cycles"]["kind"] == "derived"
    names = [name for name in plan(quick=True, cores=4, file="-", file_bytes=2 ** 30) if "other cores" in name]
    assert names == ["hand_off 3 other cores 0 us"]
    samples = measured[0] | {names[0]: Sample([2e-6 + OVERHEAD + 2 * 0.25e-6])}
    fit = Fit(samples, measured[1])
    assert fit.policy()["barrier_cycles"].value == pytest.approx(0.25e-6 * CLOCK)
    assert fit.hand_off(other=True)["hand_back"].value == pytest.approx(1.75)


def test_the_simulated_machine_gives_a_barrier_back(native, device):
    tree = {key: value for key, value in device.items() if key != "calibration"}
    tree["cpu"] = tree["cpu"] | {"barrier_cycles": 500, "clusters": [tree["cpu"]["clusters"][0], tree["cpu"]["clusters"][1] | {"cores": 3}]}
    times = [process.call("probe", "hand_off", json.dumps({"units": [f"cpu{core}" for core in range(cores)], "gap": "0 us", "skip": 1,
                                                           "rounds": 20, "machine": "sim", "device": tree}))["samples"] for cores in (2, 4)]
    assert times[1][0] - times[0][0] == pytest.approx(2 * 500 / CLOCK, rel=1e-3)


def test_latency_and_pace_of_storage_come_from_rounds_of_reads(device):
    flash = device["ufs"]
    assert number(flash["link_bandwidth"]) == pytest.approx(2, rel=1e-3)
    assert number(flash["transfer_overhead"]) == pytest.approx(8, rel=1e-3)
    assert number(flash["issue_fixed"]) + number(flash["latency_random"]) == pytest.approx(90, rel=1e-3)
    assert flash["completions"] == "together"


def test_a_device_that_serves_reads_side_by_side_is_told(measured):
    samples = dict(measured[0])
    for block in BLOCKS:
        for depth in DEPTHS:
            samples[f"storage random {block} x{depth}"] = Sample([max(SERIAL + block * PACE, (LATENCY + SERIAL + block * PACE) / depth)])
    flash = Fit(samples, measured[1]).storage()
    assert flash["completions"] == "each"
    assert flash["transfer_overhead"].value == pytest.approx(8, rel=1e-3) and flash["link_bandwidth"].value == pytest.approx(2, rel=1e-3)


def test_lines_have_no_negative_ends():
    assert _line({1000: 1e-6, 2000: 2e-6}) == (pytest.approx(0, abs=1e-12), pytest.approx(1e-9))
    assert _line({1000: 2e-6, 2000: 1e-6})[1] == 0
    assert _line({1000: 1e-6, 4000: 8e-6})[0] == 0


def test_the_simulated_machine_gives_the_measurements_back(native, measured, device):
    probes = plan(quick=False, cores=2, file="-", file_bytes=2 ** 30)
    some = {name: probes[name] for name in probes if name.startswith(("storage random", "stream float")) or name.endswith("tiled x8")}
    samples = {name: measured[0].get(name) for name in some}
    for name in [name for name, sample in samples.items() if sample is None]:
        del some[name]
    found = calibrate.residuals(device, some, measured[0], False)
    # With 32 in flight a probe does not begin and end in the steady state.
    assert {name: error for name, error in found.items() if abs(error) > 0.16} == {}
    assert len(found) >= 15


def test_the_device_file_is_one_and_every_value_has_its_source(native, device, tmp_path):
    calibrate.write(device, tmp_path / "host.yaml")
    listed = native("run", ROOT / "experiments/quickstart.yaml", "--set", f"device={tmp_path / 'host.yaml'}", "--json").json
    assert not [name for name in listed["assumed_parameters"] if "macs_per_cycle" in name or name.startswith("dram")]
    tree = yaml.safe_load((tmp_path / "host.yaml").read_text())
    for block in (tree["dram"], tree["ufs"], *tree["cpu"]["clusters"]):
        for name, entry in block.items():
            assert not isinstance(entry, dict) or ("kind" in entry and "source" in entry), name


@pytest.mark.all
def test_what_lies_beyond_the_calibration_is_said(native, device, tmp_path):
    calibrate.write(device, tmp_path / "host.yaml")
    arguments = ["run", ROOT / "experiments/quickstart.yaml", "--set", f"device={tmp_path / 'host.yaml'}", "--json"]
    assert not any("beyond" in note for note in native(*arguments).json["notes"])
    batch = native(*arguments, "--set", "workload.batch=70").json
    assert "beyond the calibration: rows of a batch 70 (measured: 1 to 64)" in batch["notes"]
    window = native(*arguments, "--set", "engine.policy=mmap", "--set", "memory.budget=6 MiB", "--set", "engine.read_ahead=1 MiB").json
    assert any("reads 1.04858e+06" in note for note in window["notes"])


@pytest.mark.all
def test_the_band_holds_the_prediction_and_grows_with_the_spread(native, device, tmp_path):
    def width(spread):
        tree = json.loads(json.dumps(device))
        tree["calibration"]["spread"] = {name: spread for name in tree["calibration"]["spread"]}
        calibrate.write(tree, tmp_path / "host.yaml")
        found = native("run", ROOT / "experiments/quickstart.yaml", "--set", f"device={tmp_path / 'host.yaml'}", "--band", "--json").json
        low, high = found["prediction_band"]["decode_tokens_per_s"]
        assert low <= found["metrics"]["decode_tokens_per_s"] <= high
        return (high - low) / found["metrics"]["decode_tokens_per_s"]
    assert width(0.0) < width(0.05) < width(0.2)


def test_corners_move_rates_and_times_apart(native):
    entry = lambda value, kind="measured": {"value": value, "kind": kind, "source": ""}
    tree = {"dram": {"bandwidth": entry("10 GB/s"), "latency": entry("100 ns"), "capacity": entry("1 GB", "assumed")},
            "cpu": {"clusters": [{"class": "big", "macs_per_cycle": {"kind": "measured", "source": "", "int8.q4_0": 8.0}}]},
            "calibration": {"spread": {"dram.bandwidth": 0.25, "dram.latency": 0.5, "cpu.big.macs_per_cycle": 0.25}}}
    slow = band.corner(tree, 1)
    assert number(slow["dram"]["bandwidth"]) == 8 and number(slow["dram"]["latency"]) == 150 and slow["dram"]["capacity"]["value"] == "1 GB"
    assert slow["cpu"]["clusters"][0]["macs_per_cycle"]["int8.q4_0"] == 6.4
    assert tree["dram"]["bandwidth"]["value"] == "10 GB/s"


def test_what_is_steady_moves_little_from_pass_to_pass(monkeypatch):
    answers = iter([1.0, 1.01, 1.0, 9.0, 2.0, 5.0])
    monkeypatch.setattr("vitro.calibrate.probes.ask", lambda kind, args: next(answers))
    probes = {"one": ("", {}, lambda answer: answer)}
    samples, kept = {"one": Sample()}, {}
    one_pass(probes, samples, kept)
    assert not is_steady(samples, 0.05), "one pass says nothing of the spread"
    one_pass(probes, samples, kept)
    assert is_steady(samples, 0.05) and kept == {"one": 1.01}
    for _ in range(2):
        one_pass(probes, samples, kept)
    assert not is_steady(samples, 0.05) and len(samples["one"].values) == 4


def test_the_suite_uses_none_of_the_calibrated_shapes():
    from vitro.model.make import PRESETS
    widths = {size for spec in PRESETS.values() for size in (spec.width, spec.ffn, spec.kv_heads * spec.head_dim)}
    assert not widths & {ROWS, COLUMNS, FLUSH_ROWS, 2560, 1536}
    assert 128 * 1024 not in BLOCKS


def test_covered_is_what_was_measured(measured):
    found = covered(measured[0])
    assert found["threads"] == [1, 2] and found["working_set_mib"] == [1, 1024] and found["read_bytes"] == [4096, 786432]


def test_wrong_folders_are_the_users_mistake(native):
    assert native("calibrate", "--out", "no/such/folder.yaml").code == 2
    answer = native("calibrate", "--out", "host.yaml", "--storage", "nowhere")
    assert answer.code == 2 and "nowhere" in answer.err


def test_a_core_that_answers_nothing_is_a_machine_that_is_too_busy():
    answer = {"alone": [1.0, 1.1], "disturbed": [1.5, 1.6], "answers": [0, 0, 3]}
    with pytest.raises(RunError, match="answered no call in half of the samples.*too busy"):
        calibration_probes._interruption(answer)
    assert calibration_probes._interruption(answer | {"answers": [5, 5]}) == pytest.approx(0.1)
    with pytest.raises(RunError, match="too busy"):
        calibration_probes._trip({"trips": []})


def test_a_probe_of_a_machine_that_is_too_busy_is_asked_again(monkeypatch):
    asked = []
    answers = iter([[], [], [2.0], *[[]] * calibration_probes.TRIES])
    monkeypatch.setattr("vitro.calibrate.probes.ask", lambda kind, args: asked.append(kind) or {"trips": next(answers)})
    probes, samples = {"one": ("interrupt", {}, calibration_probes._trip)}, {"one": Sample()}
    one_pass(probes, samples, {})
    assert samples["one"].values == [2.0] and len(asked) == 3
    with pytest.raises(RunError, match="too busy"):
        one_pass(probes, samples, {})
    assert len(asked) == 3 + calibration_probes.TRIES

"""Published microbenchmarks: each has an answer, and what the models claim to reproduce they reproduce."""
import functools

import pytest
from conftest import ROOT
from vitro.base import native as _native
from vitro.device import characterize as probing
from vitro.device import sensitivity
from vitro.errors import ConfigError

DEVICE = ROOT / "configs" / "devices" / "oneplus12.yaml"
FIGURES, ANSWERS = probing.load_figures(ROOT / "experiments" / "papers")


once = functools.cache(lambda: probing.characterize(DEVICE))


@pytest.fixture
def rows(native):
    return {row["id"]: row for row in once()["rows"]}


def test_every_hardware_figure_is_mapped_and_nothing_else():
    assert set(ANSWERS) == set(FIGURES)


@pytest.mark.parametrize("key", ANSWERS)
def test_an_answer_is_complete(key):
    figure, answer = FIGURES[key], ANSWERS[key]
    assert answer["class"] in probing.CLASSES and answer["part"] in probing.PARTS and answer["device"]
    # A contradiction is the verdict of figures.yaml, or names the published figure that says otherwise and both numbers.
    assert (answer["class"] == "contradictory") == (figure.get("verdict") == "contradictory" or "contradicts" in answer)
    assert "contradicts" not in answer or (any(name.split(".")[0] == answer["contradicts"] for name in FIGURES) and answer["why"])
    assert ("relation" in answer) >= (answer["class"] == "bound")
    if answer["class"] in ("simulated", "bound"):
        assert {"probe", "args", "measure"} <= set(answer)
        assert figure["unit"] in probing._UNITS
    elif answer["class"] != "contradictory":
        assert "probe" not in answer or answer["class"] == "elsewhere"
        assert answer.get("why") or (answer["class"] == "given" and answer.get("parameter"))
    assert ("against" in answer) == ("as" in answer)


@pytest.mark.all
def test_each_mapped_figure_of_the_phone_has_its_rows(rows):
    expected = {key + suffix for key, answer in ANSWERS.items() if answer["device"] == "oneplus12" and answer["class"] != "given"
                for suffix, _ in probing.leaves_of(FIGURES[key]["value"])}
    assert set(rows) == expected
    assert {"tman_vlut16_a8.cpi", "pi2_membw_cpu_only"} <= set(rows)


@pytest.mark.parametrize("key", [
    "pi2_membw_cpu_only", "pi2_membw_npu_only", "pi2_membw_cpu_npu", "mnn_lpddr5x_bw", "tts_hmx_fp16_gflops", "tts_hvx_fp16_gflops",
    "pi2_ufs4_seq_read_4kb", "pi2_ufs4_seq_read_512kb", "pi2_ufs4_rand_read_512kb", "pi2_ufs4_rand_4kb_range_128mb",
    "pi2_ufs_rand4k_big_core", "pi2_ufs_rand4k_mid_core", "pi2_ufs_rand4k_little_core", "pi2_ufs_multicore_io_degradation",
    "tts_dma_mem_bw", "tts_hvx_mem_bw", "tman_bw_dma_1t", "tman_bw_dma_4t", "tman_bw_l2fetch_1t", "tman_bw_l2fetch_4t",
    "tman_bw_vectorload_1t", "tman_bw_vectorload_4t",
])
def test_the_phone_reproduces(rows, key):
    assert rows[key]["status"] == "ok"
    assert rows[key]["simulated"] == pytest.approx(FIGURES[key]["value"], rel=0.03)


@pytest.mark.parametrize("key", ["tman_vlut16_a8", "tman_vlut16_a16", "tman_vlut32_a8", "tman_vlut32_a16"])
def test_each_number_of_a_figure_has_a_measure_of_its_own(rows, key):
    for leaf, published in FIGURES[key]["value"].items():
        assert rows[f"{key}.{leaf}"]["status"] == "ok"
        assert rows[f"{key}.{leaf}"]["simulated"] == pytest.approx(published, rel=0.03)


def test_a_published_range_agrees_with_a_parameter_inside_it():
    figure = {"id": "a", "unit": "threads", "value": [4, 6]}
    answer = {"parameter": "npu.hvx_threads"}
    agree = [probing.given_rows(figure, answer, {"npu": {"hvx_threads": {"value": n}}})[0]["agrees"] for n in (3, 4, 6, 7)]
    assert agree == [False, True, True, False]


def test_bounds_and_contradictions_keep_their_meaning(rows):
    assert rows["tts_hvx_mem_bw_bound"]["status"] == rows["tts_vgather_latency"]["status"] == "ok"
    assert rows["pi2_ufs4_rand_4kb_range_512mb"]["relation"] == "<"
    assert rows["tts_hmx_over_hvx"]["relation"] == ">"
    for key, row in rows.items():
        if FIGURES[key.split(".")[0]].get("verdict") == "contradictory":
            assert row["status"] == "contradictory"
    assert rows["pi2_ufs_rand_iops_intro"]["simulated"] > 0


@pytest.mark.all
def test_the_command_prints_the_same_rows_and_off_ones_are_no_failure(native, rows):
    answer = native("characterize", DEVICE, "--json")
    assert answer.code == 0, answer.err
    assert answer.json["schema"] == "vitro.characterize/1"
    assert answer.json["rows"] == list(rows.values())
    fields = {"id", "expected", "simulated", "unit", "relative_error", "source", "status", "relation", "why"}
    assert all(fields <= set(row) for row in answer.json["rows"])
    assert {"ok", "contradictory", "not modelled"} <= {row["status"] for row in answer.json["rows"]}


def test_the_table_names_units_errors_and_what_is_missing(native):
    out = native("characterize", DEVICE, "--only", "dram").out
    assert "pi2_membw_cpu_only" in out and "GB/s" in out and " ok" in out
    assert "no simulated value" in native("characterize", DEVICE.with_name("m2_ultra.yaml"), "--only", "ane").out


def test_nothing_that_the_models_claim_is_off(rows):
    assert not [row["id"] for row in rows.values() if row["status"] == "off"]


def test_what_differs_and_is_not_scored_says_why(rows):
    apart = [row for row in rows.values() if row["status"] != "ok" and row["simulated"] is not None]
    assert {"pi2_prefill_7b_int4_cpu", "mnn_ufs4_bw_range"} <= {row["id"] for row in apart}
    assert {row["status"] for row in apart} <= {"contradictory", "not modelled", "reserved"}
    assert all(row["why"] for row in apart if row["class"] == "elsewhere" or "contradicts" in ANSWERS[row["id"]])


def test_an_outcome_of_a_policy_is_shown_and_never_scored():
    figure = {"id": "a", "unit": "GB/s", "source": "here", "value": 10}
    row, = probing.rows_of(figure, {"class": "elsewhere", "part": "dram", "why": "it"}, 10e9)
    assert (row["status"], row["simulated"], row["relative_error"], row["why"]) == ("not modelled", 10, 0, "an outcome of a policy: it")


def test_a_probe_is_deterministic_and_follows_its_parameter(native):
    args = {"units": ["npu"], "variant": "float", "format": "f16", "n": 14336, "k": 4096}  # nothing to unpack: memory alone limits it
    device = _native.call("load_device", str(DEVICE))
    slower = sensitivity.scaled(device, {"npu.dma_bandwidth": 0.5})
    first = probing.run_probes([(str(DEVICE), "memory_bandwidth", args)])
    second = probing.run_probes([(str(DEVICE), "memory_bandwidth", args), (slower, "memory_bandwidth", args)])
    (key, once), = first.items()
    assert second.pop(key) == once
    (half,) = second.values()
    assert half["measures"]["bytes_per_second"] == pytest.approx(once["measures"]["bytes_per_second"] / 2, rel=0.04)


def test_only_takes_one_part(native):
    answer = native("characterize", DEVICE, "--only", "ufs", "--json")
    assert answer.code == 0
    assert {row["part"] for row in answer.json["rows"]} == {"ufs"}


def test_the_device_file_states_what_was_published(native):
    on_npu = [row for row in native("characterize", DEVICE, "--only", "npu", "--json").json["given"] if "parameter" in row]
    assert len(on_npu) == 11 and all(row["agrees"] for row in on_npu)
    given = native("characterize", DEVICE, "--only", "cpu", "--json").json["given"]
    compared = [row for row in given if "parameter" in row]
    assert len(compared) == 6 and all(row["agrees"] for row in compared)


@pytest.mark.all
def test_sensitivity_names_the_assumed_parameter_that_matters(native):
    answer = native("characterize", DEVICE, "--only", "cpu", "--sensitivity", "--json")
    assert answer.code == 0, answer.err
    moved = {(row["id"], row["parameter"]): row for row in answer.json["sensitivity"]}
    rate = moved["pi2_prefill_7b_int4_cpu", "cpu.big.macs_per_cycle_batch_8"]
    assert rate["low"] < -0.03 < 0.02 < rate["high"]
    assert "cpu.little.conversions_per_cycle" in answer.json["without_effect"]  # the probe runs on big and mid


def test_energies_follow_what_units_are_assumed_to_draw_and_times_do_not(native):
    path = str(DEVICE.with_name("m2_ultra.yaml"))
    key = "npumoe_table8_gpu_vs_npu_attention"
    answers = {name: ANSWERS[name] for name in (f"{key}.gpu.runtime_ms", f"{key}.gpu.energy_mj")}
    results = probing.run_probes([(path, probe, args) for answer in answers.values() for probe, args, _ in probing.wanted(answer)])
    for result in results.values():
        assert {"power.active_watts", "power.voltage_floor"} <= set(result["assumed_parameters"])
        result["assumed_parameters"] = ["power.active_watts", "power.voltage_floor", "gpu.launch"]
    moved, without_effect = sensitivity.sensitivities(_native.call("load_device", path), path, answers, results)
    follows = {(row["id"].removeprefix(key + "."), row["parameter"]): row for row in moved}
    assert follows["gpu.energy_mj", "power.active_watts"]["low"] < -0.15 < 0.15 < follows["gpu.energy_mj", "power.active_watts"]["high"]
    assert not any(row == "gpu.runtime_ms" and name.startswith("power.") for row, name in follows)
    assert without_effect == ["power.voltage_floor"]  # the GPU runs at its full clock


@pytest.mark.parametrize("value, more", [("60%", "72.0%"), ("20 pJ/B", "24.0 pJ/B"), ("16.5e9", 19.8e9), (1, 1.2),
                                         ({"a": 5, "source": "b"}, {"a": 6, "source": "b"})])
def test_a_value_of_any_unit_can_be_moved(value, more):
    moved = sensitivity._times(value, 1.2)
    assert moved == (pytest.approx(more) if isinstance(more, float) else more)


@pytest.mark.parametrize("value, factor, moved", [
    (0.8, 0.8, 0.64), (0.0156, 0.5, 0.0078), (1.5, 0.5, 0.75), (1, 0.8, 1), (2, 0.4, 1), (4, 0.5, 2), (0, 0.5, 0), ("90%", 1.2, "100.0%"),
    ("90 %", 0.5, "45.0 %"), ("150%", 1.2, "180.0%")])
def test_fractions_move_both_ways_and_counts_and_shares_have_an_end(value, factor, moved):
    assert sensitivity._times(value, factor) == (moved if isinstance(moved, str) else pytest.approx(moved))


@pytest.mark.parametrize("text, part", [
    ("name: nobody\n", "dram"),
    ("dram: {}\n", "name"),
    ("name: [\n", ":2:"),
    ("name: oneplus12\n", "dram"),
])
def test_a_wrong_device_is_exit_2_with_one_message(native, text, part):
    answer = native("characterize", native.write(text, "device.yaml"))
    assert (answer.code, answer.out) == (2, "")
    assert part in answer.err and answer.err.count("\n") == 1


def test_wrong_parts_and_files_are_exit_2(native):
    assert "dram, ufs" in native("characterize", DEVICE, "--only", "dragons").err
    assert native("characterize", "nowhere.yaml").code == 2


@pytest.mark.parametrize("probe, args, part", [
    ("juggling", {}, "flash_read"),
    ("flash_read", {"block": "4 KiB", "range": "1 MiB", "pattern": "random", "reads": 1, "issuers": ["huge"]}, "huge"),
    ("flash_read", {"block": "4", "range": "1 MiB", "pattern": "random", "reads": 1, "issuers": ["big"]}, "no unit"),
    ("flash_read", {"block": "4 KiB", "range": "1 MiB", "pattern": "random", "reads": 1, "issuers": ["big", "big"]}, "issuers"),
    ("gemm", {"unit": "npu", "variant": "float", "format": "f16", "n": 32, "k": 33}, "multiple of 32"),
    ("gemm", {"unit": "npu", "variant": "float", "format": "f16", "n": 32, "k": 32, "speed": 1}, "speed"),
    ("memory_bandwidth", {"units": [], "work": "copy"}, "units"),
    ("npu_read", {"path": "post"}, "l2fetch"),
    ("npu_read", {"path": "dma", "block": "0 KiB"}, "block"),
    ("npu_lookup", {"entries": 1, "entry_bits": 16, "value_bits": 8}, "entries"),
    ("npu_gather", {"table": "128 KiB"}, "table"),
])
def test_wrong_probe_arguments_are_one_message(native, probe, args, part):
    with pytest.raises(ConfigError, match=part):
        probing.run_probes([(str(DEVICE), probe, args)])


@pytest.mark.parametrize("expected, relation, simulated, status", [
    (10, "=", 10.29, "ok"), (10, "=", 9.69, "off"), ([2, 4], "range", 2, "ok"), ([2, 4], "range", 4.01, "off"), (10, "<", 9, "ok"),
    (10, "<", 10.1, "off"), (10, ">", 11, "ok"), (10, ">", 9.9, "off"),
])
def test_status(expected, relation, simulated, status):
    figure = {"id": "a", "unit": "GB/s", "source": "here", "value": expected}
    row, = probing.rows_of(figure, {"class": "simulated", "part": "dram", "relation": relation}, simulated * 1e9)
    assert (row["status"], row["relation"]) == (status, relation)


def test_a_reserved_figure_keeps_its_simulated_value():
    figure = {"id": "a", "unit": "x", "source": "here", "status": "reserved"}
    row, = probing.rows_of(figure, {"class": "simulated", "part": "dram"}, 2.0)
    assert (row["expected"], row["simulated"], row["status"], row["relative_error"]) == (None, 2.0, "reserved", None)

"""The committed device files: what they are made of, that they simulate, and what a wrong one is told."""
import copy
import json

import pytest
from conftest import ROOT
from vitro.base import native as _native
from vitro.base import process
from vitro.commands import catalog
from vitro.device import characterize as probing

FOLDER = ROOT / "configs" / "devices"
PHONES = ["oneplus12", "oneplus13t", "oneplus_ace2", "oneplus_ace3", "oneplus_ace5pro", "what_if_ufs5", "xiaomi14"]
GEMM = {"unit": "mid", "variant": "int8", "format": "q4_0", "m": 64, "n": 4096, "k": 4096}


def load(name):
    return _native.call("load_device", str(FOLDER / f"{name}.yaml"))


def probe(tree, name, args):
    return process.call("characterize_probe", json.dumps(tree), name, json.dumps(args))["measures"]


def test_lists_say_where_the_numbers_of_each_device_come_from(native):
    rows = {row["name"]: row for row in native("list", "devices", "--json").json["rows"]}
    assert set(PHONES) <= set(rows)
    for name in PHONES:
        assert set(rows[name]["parameters"]) <= set(catalog.PROVENANCES)
        assert rows[name]["parameters"].get("default", 0) == 0, f"{name} leaves defaults unsaid"
    assert rows["oneplus12"]["processors"] == {"big": 1, "mid": 5, "little": 2, "npu": 1, "gpu": 1}
    assert rows["oneplus13t"]["processors"] == {"big": 2, "mid": 6, "npu": 1}
    assert rows["xiaomi14"]["parameters"]["scaled"] > rows["oneplus12"]["parameters"].get("scaled", 0)
    table = native("list", "devices").out
    assert "where their numbers come from" in table and "assumed or default" in table
    line = next(line for line in table.splitlines() if line.startswith("oneplus12 ") and "%" in line).split()
    assert int(line[1]) == sum(rows["oneplus12"]["parameters"].values())


def test_the_table_counts_defaults_as_assumed():
    columns, cells = catalog.provenance_table([{"name": "a", "parameters": {"spec": 1, "assumed": 2, "default": 1}}, {"name": "broken"}])
    assert columns == ["name", ">numbers", ">spec", ">assumed", ">default", ">assumed or default"]
    assert cells == [("a", "4", "1", "2", "1", "75%")]


@pytest.mark.parametrize("name", PHONES)
def test_each_device_simulates_its_cores_its_npu_and_its_flash(native, name):
    tree = load(name)
    assert tree["name"] == name
    assert probe(tree, "gemm", GEMM)["flop_per_second"] > 0
    stream = {"units": ["npu"], "variant": "int8", "format": "q4_0", "n": 14336, "k": 4096}
    assert 0 < probe(tree, "memory_bandwidth", stream)["bytes_per_second"] < 100e9
    read = {"block": "512 KiB", "range": "1 GiB", "pattern": "sequential", "depth": 8, "reads": 200, "issuers": ["big"]}
    assert 0 < probe(tree, "flash_read", read)["bytes_per_second"] < 11e9


def test_the_flash_that_does_not_exist_is_faster_and_the_rest_stays(native):
    read = {"block": "512 KiB", "range": "1 GiB", "pattern": "sequential", "depth": 8, "reads": 200, "issuers": ["big"]}
    old, new = (probe(load(name), "flash_read", read)["bytes_per_second"] for name in ("oneplus12", "what_if_ufs5"))
    assert new > 2 * old
    assert probe(load("oneplus12"), "gemm", GEMM) == probe(load("what_if_ufs5"), "gemm", GEMM)


def test_published_figures_that_device_files_state_are_stated_right(native):
    figures, answers = probing.load_figures()
    seen = []
    for key, answer in answers.items():
        if answer["class"] == "given" and answer["device"] in PHONES:
            for row in probing.given_rows(figures[key], answer, load(answer["device"])):
                assert row.get("agrees", True), row
                seen.append(row["id"])
    assert {"pi2_ace2_dram", "pi2_ace2_avail_mem", "tman_op13t_ram", "tts_npu_va_limit_8g2"} <= set(seen)


@pytest.mark.parametrize("name", ["oneplus_ace5pro", "m2_max"])
def test_a_device_that_nothing_was_published_about_has_microbenchmarks_of_its_own(native, name):
    answer = native("characterize", FOLDER / f"{name}.yaml", "--json")
    assert answer.code == 0, answer.err
    rows = {row["id"]: row for row in answer.json["rows"]}
    assert all(row["status"] == "unpublished" and row["expected"] is None and row["simulated"] > 0 for row in rows.values())
    assert {"own_membw_cpu", "own_flash_rand_4kb", "own_prompt_cpu"} <= set(rows)
    assert ("own_membw_npu" in rows) == (name == "oneplus_ace5pro")


def test_published_facts_of_a_device_stand_beside_its_own_microbenchmarks(native):
    answer = native("characterize", FOLDER / "oneplus_ace2.yaml", "--only", "dram", "--json")
    assert answer.code == 0 and {row["id"] for row in answer.json["rows"]} == {"own_membw_cpu", "own_membw_npu"}
    answer = native("characterize", FOLDER / "oneplus_ace2.yaml", "--json")
    assert {row["id"] for row in answer.json["given"]} == {"pi2_ace2_dram", "pi2_ace2_avail_mem", "pi2_ace2_ufs_version"}


def test_a_changed_kernel_moves_the_simulated_phone(native):
    tree = load("oneplus12")
    slower = copy.deepcopy(tree)
    for cluster in slower["cpu"]["clusters"]:
        rates = cluster["macs_per_cycle_batch_8"]["neon-i8mm"]["int8"]
        rates["q4_0"] /= 2
    before, after = (probe(device, "gemm", GEMM)["flop_per_second"] for device in (tree, slower))
    assert after == pytest.approx(before / 2, rel=0.05)  # quantising the activations costs what it did


def test_matrix_products_beat_dot_products_by_what_the_kernels_make_of_them(native):
    rate = {kernel_set: probe(load("oneplus12"), "gemm", GEMM | {"kernel_set": kernel_set})["flop_per_second"]
            for kernel_set in ("neon", "neon-dotprod", "neon-i8mm")}
    assert rate["neon"] < rate["neon-dotprod"] < rate["neon-i8mm"]


@pytest.mark.parametrize("keys,expected", [
    ("dram:\n", "dram: is missing"),
    ("ufs:\n", "ufs: is missing"),
    ("cpu: {model: abacus}\n", 'cpu.model: there is no model "abacus.flow" (expected one of: '),
    ("dram: {bandwidth: 60}\n", 'device.yaml:3: dram.bandwidth: "60" has no unit (expected bytes per second'),
    ("dram: {bandwith: 60 GB/s}\n", 'device.yaml:3: dram.bandwith: unknown key (did you mean "bandwidth"?)'),
    ("npu: {include: part.yaml}\n", 'includes itself ('),
    ("npu:\n  kernels:\n    hmx: {dma: {float: {q4_0: {packets: 1}}}}\n",
     "device.yaml:5: npu.kernels.hmx.dma.float.q4_0.packets: is not known (expected packets_per_weight, "),
    ("npu:\n  kernels:\n    hxm: {dma: {float: {q4_0: {bits: 8}}}}\n",
     "device.yaml:5: npu.kernels.hxm.dma.float.q4_0.bits: is not known (expected a name that starts with hmx or hvx)"),
    ("npu:\n  hvx_threads: 0\n", "device.yaml:4: npu.hvx_threads: is 0 (expected more)"),
    ("dram:\n  efficiency: {sequential: 10e9,\n    chnk: {64: 0.2}}\n",
     "device.yaml:5: dram.efficiency.chnk.64: is not known (expected sequential, "),
    ("npu: {include: nowhere.yaml}\n", 'device.yaml:3: npu.include: "nowhere.yaml" is not a file'),
])
def test_a_wrong_device_ends_in_one_line_and_exit_code_2(native, keys, expected):
    native.write("a: {include: device.yaml}\n", "part.yaml")
    device = native.write(f"include: {FOLDER}/oneplus12.yaml\nname: oneplus12\n{keys}", "device.yaml")
    answer = native("characterize", device, "--only", "cpu")
    assert answer.code == 2 and answer.out == ""
    assert expected in answer.err
    assert len(answer.err.strip().splitlines()) == 1


def test_a_run_on_a_device_with_a_circle_says_which_files_make_it(native):
    native.write("include: device.yaml\n", "part.yaml")
    native.write("include: part.yaml\n", "device.yaml")
    answer = native("run", native.write("experiment: x\nmachine: sim\ndevice: device.yaml\nworkload: {prompt_tokens: 1}\n"))
    assert answer.code == 2 and len(answer.err.strip().splitlines()) == 1
    assert "part.yaml:1: include:" in answer.err and answer.err.count("device.yaml ->") == 1

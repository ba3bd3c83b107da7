"""Apple's devices: published rows come out of simulated requests, and what the device files state was published."""
import functools

import pytest
from conftest import ROOT
from vitro import characterize as probing

DEVICES = ROOT / "configs" / "devices"
once = functools.cache(lambda: probing.characterize(DEVICES / "m2_ultra.yaml"))


@pytest.fixture
def rows(native):
    return {row["id"]: row for row in once()["rows"]}


@pytest.mark.parametrize("key", [
    "npumoe_graph_limit_m2ultra", "npumoe_npu_vs_cpu_matmul", "npumoe_group_serial_slowdown", "npumoe_table8_gpu_attention_ms",
    "npumoe_table8_npu_attention_ms", *(f"npumoe_table8_gpu_vs_npu_attention.{leaf}" for leaf in (
        "gpu.runtime_ms", "gpu.energy_mj", "gpu.power_w", "npu.runtime_ms", "npu.energy_mj", "npu.power_w", "gpu_over_npu.speed",
        "gpu_over_npu.energy", "gpu_over_npu.power")),
    *(f"npumoe_table5_serial.{leaf}" for leaf in ("1x128", "4x32", "4x64", "8x32", "8x64", "8x96", "8x128", "8x192", "8x256")),
    *(f"npumoe_table5_parallel.{leaf}" for leaf in ("1x32", "8x32", "8x64")),
])
def test_m2_ultra_reproduces(rows, key):
    assert rows[key]["status"] == "ok", rows[key]


def test_a_table_of_pairs_has_a_row_for_each_number(rows):
    latency, energy = rows["npumoe_table5_serial.8x32"], rows["npumoe_table5_serial.8x32.energy"]
    assert (latency["expected"], latency["unit"], energy["expected"], energy["unit"]) == (0.26, "ms/token", 1.16, "mJ/token")


def test_what_is_off_says_how_it_was_read(rows):
    assert all("read as" in row["why"] for row in rows.values() if row["status"] == "off")


@pytest.mark.parametrize("device", ["m2_max", "m2_ultra"])
def test_the_file_states_what_was_published(native, device):
    answer = native("characterize", DEVICES / f"{device}.yaml", "--only", "ane", "--json")
    assert answer.code == 0, answer.err
    given = [row for row in answer.json["given"] if "parameter" in row]
    assert given and all(row["agrees"] for row in given)

"""Flow models stay beside their detailed twins, and a device that has none says so."""
import pytest
from conftest import ROOT
from vitro.device import cross_fidelity

DEVICE = ROOT / "configs" / "devices" / "oneplus12.yaml"


def variant(native, part):
    """The phone with another line `part:` of its memory; what the file includes stays where it is."""
    lines = [part if line.startswith("  part:") else line for line in DEVICE.read_text().splitlines()]
    return native.write("\n".join(lines).replace("../", f"{DEVICE.parents[1]}/"), "device.yaml")


@pytest.mark.parametrize("part, some", [pytest.param("dram", {"sequential", "strided_64b_4kib", "random_32b", "chunks_4kib", "chunks_16kib",
                                                  "write_sequential", "mixed_cpu_npu.npu", "pointer_chase"}, marks=pytest.mark.all),
                                        ("ufs", {"random_4kib_range_128mib_depth_32_big", "pi2_ufs4_seq_read_512kb"}),
                                        ("npu", {"product_m1_q4_0_14336x4096", "product_m512_f16_4096x4096"})])
def test_the_phones_twins_agree(native, part, some):
    answer = native("characterize", DEVICE, "--cross-fidelity", "--only", part, "--json")
    assert answer.code == 0, answer.err
    assert answer.json["schema"] == "vitro.cross_fidelity/1"
    rows = {row["id"]: row for row in answer.json["rows"]}
    assert some <= set(rows) and {row["part"] for row in rows.values()} == {part}
    assert all(row["flow"] > 0 and row["detailed"] > 0 for row in rows.values())
    assert not [key for key, row in rows.items() if not row["ok"]]
    assert all(row["ok"] == (abs(row["flow"] / row["detailed"] - 1) <= 0.05) for row in rows.values())
    assert len(answer.json["reference"]) == (10 if part == "dram" else 0)
    assert all(row["ok"] for row in answer.json["reference"])


@pytest.mark.all
@pytest.mark.parametrize("memory", ["lpddr5_6400", "lpddr5x_8533", "m2_lpddr5_6400"])
def test_other_memories_twins_agree(native, memory):
    answer = native("characterize", variant(native, f"  part: {memory}"), "--cross-fidelity", "--only", "dram", "--json")
    assert answer.code == 0, answer.err
    assert answer.json["rows"] and not [row["id"] for row in answer.json["rows"] if not row["ok"]]


def test_memory_without_a_part_is_named(native):
    answer = native("characterize", variant(native, ""), "--cross-fidelity", "--only", "dram", "--json")
    assert answer.code == 0 and answer.json["rows"] == []
    assert "dram.part" in answer.json["without_twin"][0]["why"]


def test_a_share_of_nothing_is_compared_as_it_is():
    nothing = {"part": "ufs", "id": "loss", "unit": "", "detailed": 0.0, "other": 0.0}
    assert cross_fidelity._twin(nothing)["ok"] and not cross_fidelity._twin(nothing | {"other": 0.2})["ok"]


def test_a_difference_beyond_five_percent_is_off():
    assert not cross_fidelity._twin({"part": "dram", "id": "a", "unit": "GB/s", "detailed": 100, "other": 106})["ok"]
    assert cross_fidelity._reference({"part": "dram", "id": "a", "unit": "ns", "detailed": 96, "other": 100})["ok"]


def test_wrong_combinations_are_exit_2(native):
    assert native("characterize", DEVICE, "--cross-fidelity", "--sensitivity").code == 2
    assert native("characterize", DEVICE, "--cross-fidelity", "--only", "dragons").code == 2


@pytest.mark.parametrize("what", [("--cross-fidelity", "--only", "npu"), pytest.param(("--only", "cpu"), marks=pytest.mark.all),
                                  pytest.param(("--only", "cpu", "--sensitivity"), marks=pytest.mark.all)])
def test_answers_do_not_depend_on_where_they_are_computed(native, what):
    here = native("characterize", DEVICE, *what, "--json")
    there = native("characterize", DEVICE, *what, "--json", "--on", "dask", "--workers", "2")
    assert here.code == there.code == 0, here.err + there.err
    assert here.json["rows"] and here.json == there.json


def test_a_place_that_there_is_not_is_named(native):
    for more in ((), ("--cross-fidelity",)):
        answer = native("characterize", DEVICE, *more, "--on", "moon")
        assert answer.code == 2 and "--on: 'moon' (expected local, dask" in answer.err

"""The planner's balance with made-up devices: what two sides lose that read from one memory at once."""
from types import SimpleNamespace

import pytest
from vitro.plan.balance import Balance, Times, best
from vitro.plan.inputs import core_sets, decision_costs, io_cores
from vitro.plan.probes import Bench, Device

GB = 1e9


def balance(core=(40 * GB, 30 * GB), fast=(50 * GB, 30 * GB)):
    """Bytes per second of each side: alone, and beside the other."""
    made = Balance.__new__(Balance)
    made.device = SimpleNamespace(core_streams=core, fast_streams=fast)
    made.row = 1
    return made


def test_the_slower_side_goes_on_alone_when_the_other_is_done():
    """60 MB at 30 GB/s take the cores 2 ms instead of 1.5; in these the accelerator reads 60 MB as well, and then 40 more at 50 GB/s."""
    waits, core_waits, shared = balance()._share_memory(100e6 / (50 * GB), 100e6, 60e6)
    assert shared == pytest.approx(2e-3) and core_waits == pytest.approx(0.5e-3)
    assert 100e6 / (50 * GB) + waits == pytest.approx(2e-3 + 40e6 / (50 * GB))


def test_neither_side_loses_while_the_other_has_nothing_to_do():
    assert balance()._share_memory(0.0, 0, 60e6) == (0, 0, 0)
    assert balance()._share_memory(1e-3, 50e6, 0) == (0, 0, 0)
    assert balance(None, None)._share_memory(1e-3, 50e6, 60e6) == (0, 0, 0), "nothing was probed"


def test_an_accelerator_that_computes_leaves_its_share_of_memory_to_the_cores():
    """10 of the 30 GB/s that it could have beside the cores: it loses nothing, and the cores have all that they can take."""
    waits, core_waits, shared = balance()._share_memory(1e-3, 10e6, 60e6)
    assert waits == core_waits == 0 and shared == pytest.approx(1e-3)


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.7, 0.9])
def test_no_order_of_work_moves_more_than_memory_gives(share):
    """Rows split between both sides take at least as long as all bytes at the sum of both rates, and as each side's own alone."""
    made, rows = balance(), 1e9
    alone = share * rows / (50 * GB), (1 - share) * rows / (40 * GB)
    times = made._meet(*alone, rows, share)
    assert times.total >= rows / (60 * GB) - 1e-12 and times.total >= max(alone)
    assert times.accelerator >= alone[0] and times.cores >= alone[1]


class Probed(Bench):
    """Two sides that share 60 GB/s evenly; alone cores have 40 and the accelerator 50."""

    def __init__(self):
        super().__init__(machine="sim", device={})

    def phase(self, *parts):
        size = [part["rows"] * part["columns"] * part["copies"] for part in parts]
        alone = [40 * GB if part["units"] == ["cpu0"] else 50 * GB for part in parts]
        if len(parts) == 1:
            return [size[0] / alone[0]], size
        first = min(range(2), key=lambda i: size[i])
        both = size[first] / (30 * GB)
        later = both + (size[1 - first] - size[first]) / alone[1 - first]
        return ([both, later] if first == 0 else [later, both]), size


@pytest.mark.parametrize("own, of_bundle", [(None, "int8"), ("hmx", "hmx"), ("int8_tables", "int8")])
def test_each_side_is_probed_in_the_contract_that_it_computes_in(own, of_bundle):
    """The accelerator's own where such weights have it, else that of the cores, else float32."""
    device = Device.__new__(Device)
    device.accelerator, device.variant, device.own_variant = "npu", "int8", own
    device.formats = {"ffn_bundle": "q4_0", "output": "f16"}
    device.facts = {"contracts": {"q4_0": ["float", "int8", "hmx"], "f16": ["float", "hmx"]}}
    assert device.variant_for("ffn_bundle", ["cpu0", "cpu1"]) == "int8" and device.variant_for("output", ["cpu0"]) == "float"
    assert device.variant_for("ffn_bundle", ["npu"]) == of_bundle
    assert device.variant_for("output", ["npu"]) == ("hmx" if own == "hmx" else "float")


@pytest.mark.parametrize("units, others, alone", [(["cpu0"], ["npu"], 40), (["npu"], ["cpu0"], 50)])
def test_a_rate_beside_the_other_side_is_probed_while_that_side_reads_all_the_time(units, others, alone):
    found = Probed().stream_rates(units, others, 4096, 1024, form="q4_0", variants=("int8", "hmx"))
    assert found == (pytest.approx(alone * GB), pytest.approx(30 * GB))


def test_a_core_may_be_left_for_reading():
    classes = [("big", ["cpu0"]), ("mid", ["cpu1", "cpu2", "cpu3"])]
    sets = core_sets(classes)
    assert ["cpu0", "cpu1", "cpu2", "cpu3"] in sets and ["cpu0", "cpu1", "cpu2"] in sets and ["cpu1", "cpu2", "cpu3"] in sets
    assert io_cores(classes, ["cpu0", "cpu1", "cpu2"]) == ["cpu0", "cpu1", "cpu2", "cpu3"], "the last one has nothing else to do"
    assert "cpu0" in io_cores(classes, ["cpu1", "cpu2", "cpu3"])


def test_decisions_cost_what_the_device_file_says():
    tree = {"cpu": {"clusters": [{"clock": {"value": "2 GHz"}}], "cache_lookup_cycles": {"value": 60}, "submit_cycles": 500}}
    costs = decision_costs(tree)
    assert costs == {"cache_lookup": pytest.approx(30e-9), "submit": pytest.approx(250e-9)}
    device = Device.__new__(Device)
    device.decisions = costs
    assert device.deciding(1000, 50, 10) == pytest.approx(1000 * 30e-9 + 20 * 250e-9)
    device.decisions = {}
    assert device.deciding(1000, 50, 10) == 0


def test_in_two_reads_the_second_comes_for_those_that_fire_at_last():
    made = balance()
    made.layout, made.first_s, made.rest_s = {"first_part": 4096}, 2e-6, 3e-6
    assert made.reads([(10, 100), (30, 100)], 0.9) == (pytest.approx(40 * 2e-6 + 36 * 3e-6), pytest.approx(76))


def test_of_shares_that_are_as_good_the_smallest_is_taken():
    seconds = {0: 4.0, 1: 3.06, 2: 3.02, 3: 3.0, 4: 9.0}
    timed = lambda share: Times(seconds[share])
    assert best(seconds, timed)[0] == 3
    assert best(seconds, timed, 0.01)[0] == 2 and best(seconds, timed, 0.03)[0] == 1


def streaming(sequential=4 * GB, kept=8192):
    """Blocks of 8 KiB, four cores that copy 20 GB/s together, an FFN of 1000 neurons."""
    made = balance()
    made.layout, made.sequential, made.row = {"block": 8192, "kept": kept, "per_block": 1, "blocks": 1000}, sequential, kept / 3
    made.model = {"ffn": 1000, "layers": 10}
    made.memory = SimpleNamespace(share=0.5)
    made.device = SimpleNamespace(cores=["a", "b", "c", "d"], core={1: {"gate": lambda rows: rows * made.row / (20 * GB)}})
    return made


def test_no_more_is_streamed_than_flash_brings_within_attention():
    """PowerInfer-2, section 5: bandwidth times time."""
    made = streaming()
    assert made.most_streamed(0.4e-3) == int(0.4e-3 * 4 * GB / 8192) == 195
    assert streaming(8 * GB).most_streamed(0.4e-3) == 390 and made.most_streamed(0.0) == 0


def test_one_core_copies_what_lands_beside_its_place():
    """8 KiB at 4 GB/s, and then 6 KiB read and written by a core that has a quarter of the 20 GB/s."""
    assert streaming(kept=6144).most_streamed(0.4e-3) == int(0.4e-3 / (8192 / (4 * GB) + 2 * 6144 / (5 * GB)))


def test_what_is_streamed_leaves_its_room_to_cold_blocks_but_for_the_buffer():
    made = streaming()
    assert made.cold_blocks(200) == 300
    assert made.cold_blocks(200, 100) == pytest.approx(300 + 100 - 10), "ten layers share the buffer"

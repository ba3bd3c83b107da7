"""The planner's balance with made-up devices: what two sides lose that read from one memory at once."""
from types import SimpleNamespace

import pytest
from vitro.plan_balance import Balance
from vitro.plan_probes import Bench

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


@pytest.mark.parametrize("units, others, alone", [(["cpu0"], ["npu"], 40), (["npu"], ["cpu0"], 50)])
def test_a_rate_beside_the_other_side_is_probed_while_that_side_reads_all_the_time(units, others, alone):
    found = Probed().stream_rates(units, others, 4096, 1024, form="q4_0", variant="int8")
    assert found == (pytest.approx(alone * GB), pytest.approx(30 * GB))

"""The commands behind tables of measured numbers still give such tables, and tiles give each other's bits."""
import importlib.util
import re
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def script(path):
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.all
@pytest.mark.parametrize(("isa", "flags"), [("avx2", {"avx2", "fma", "f16c"}), ("avx512", {"avx512f", "avx512bw", "avx512_vnni"})])
def test_tiles_are_timed_by_turns_and_agree_to_the_bit(isa, flags):
    cpu = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    if not flags <= set(re.findall(r"\w+", cpu)) or not shutil.which("g++"):
        pytest.skip(f"needs g++ and a processor with {isa}")
    found = script("tools/tiles/measure.py").x86(isa, 3)  # ends with the tile's name where bits differ
    tiles = {tile for tile, _ in found}
    assert {"avx2": {"2 x 16", "4 x 8", "8 x 8"}, "avx512": {"8 x 16", "4 x 64"}}[isa] <= tiles
    assert set(found) == {(tile, name) for tile in tiles for name in ("q4_0", "q8_0")}
    assert all(0.1 < low <= middle <= high < 10 and rate > 1 for low, middle, high, rate in found.values())


@pytest.mark.all
def test_neon_tiles_are_priced_and_columns_of_eight_cost_single_rows():
    measure = script("tools/tiles/measure.py")
    if not all(map(shutil.which, (measure.generate.COMPILER, "llvm-mca-19"))):
        pytest.skip(f"needs {measure.generate.COMPILER} and llvm-mca-19")
    measure.CORES = {"Cortex-A720": "cortex-a720"}
    found = {(tile, name): rate for (tile, name, _), rate in measure.neon().items()}
    for name in measure.FORMATS:
        assert found["8 x 4, l_p = 8 in memory", name] > found["`smmla` 8 x 4", name]
        assert found["1 x 16, l_p = 8 in memory", name] < found["`sdot` 1 x 16", name]


def test_shares_of_another_ratio_take_longer_and_shares_of_their_own_do_not():
    rates = script("experiments/validation/format_rates.py")
    assert rates.longer(2, 2) == pytest.approx(1) and rates.longer(1, 3) == pytest.approx(1.5)
    assert rates.longer(2, 1.9) > 1 and rates.longer(2, 2.1) > 1
    found = rates.ratios(["x4", "a720"])
    assert all(1.5 < ratio < 2.5 for of_formats in found.values() for ratio in of_formats.values())
    assert len({round(ratio, 1) for ratio in found["macs_per_cycle_batch"].values()}) == 1

"""experiments/offload.yaml, the set-up that is recommended to begin with."""
import re

import pytest
import vitro
import yaml
from conftest import ROOT

OFFLOAD = ROOT / "experiments" / "offload.yaml"


def speed(**changes):
    return vitro.run(OFFLOAD, overrides=changes).metrics["decode_tokens_per_s"]


@pytest.mark.all
def test_it_beats_pages_of_the_operating_system_and_the_cores_alone(native):
    best = speed()
    cores = ["cpu0", "cpu1", "cpu2", "cpu3", "cpu4", "cpu5"]
    mapped = speed(**{"engine": '{policy: mmap, activations: int8, numerics: false}', "engine.units": cores})
    alone = speed(**{"engine": str(ROOT / "configs/engines/powerinfer2_cpu.yaml"), "engine.numerics": False})
    assert best > alone > mapped and best > 5 * mapped
    predicted = yaml.safe_load((ROOT / "experiments/offload-plan.yaml").read_text())["predicted"][0]["tokens_per_s"]
    said = re.search(r"It predicts ([\d.]+) tokens/s .*?The run\W+says ([\d.]+) tokens/s", OFFLOAD.read_text(), re.DOTALL)
    assert said and said.groups() == (f"{predicted:.1f}", f"{best:.1f}")


@pytest.mark.all
def test_its_plan_is_what_the_planner_chooses(native, tmp_path):
    answer = native("plan", ROOT / "configs/models/bamboo-7b.yaml", "--device", ROOT / "configs/devices/oneplus12.yaml", "--set",
                    "memory.ffn_in_dram=50%", "-o", tmp_path / "plan.yaml")
    assert answer.code == 0, answer.err
    assert (tmp_path / "plan.yaml").read_text() == (ROOT / "experiments/offload-plan.yaml").read_text()

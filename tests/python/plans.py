"""A plan that several files of tests look at: of a large model with few layers, for the simulated phone."""
from conftest import ROOT
from shared import once
from vitro.plan.planner import make_plan

PHONE = ROOT / "configs" / "devices" / "oneplus12.yaml"
CORES = ["cpu1", "cpu2", "cpu3", "cpu4"]


def two_layers(folder):
    """Shapes of a 7B model with two layers: a plan looks at one, and runs are short."""
    path = folder / "model.yaml"
    path.write_text((ROOT / "configs/models/bamboo-7b.yaml").read_text().replace("layers: 32", "layers: 2"))
    return path


def plan_of_two_layers(tmp_path_factory):
    return once(tmp_path_factory, "plan of two layers",
                lambda: make_plan(two_layers(tmp_path_factory.mktemp("plan")), device=PHONE, cores=CORES))

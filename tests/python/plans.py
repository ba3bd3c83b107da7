"""A plan that several files of tests look at: of a large model with few layers, for the simulated phone."""
from conftest import ROOT
from shared import once
from vitro.plan.planner import compose, make_plan
from vitro.plan.probes import Bench

PHONE = ROOT / "configs" / "devices" / "oneplus12.yaml"
CORES = ["cpu1", "cpu2", "cpu3", "cpu4"]


def two_layers(folder):
    """Shapes of a 7B model with two layers: a plan looks at one, and runs are short."""
    path = folder / "model.yaml"
    path.write_text((ROOT / "configs/models/bamboo-7b.yaml").read_text().replace("layers: 32", "layers: 2"))
    return path


def phone(model, answers=()):
    """-> a bench of the phone. answers: what such a bench was asked before, and the answers."""
    bench = Bench(machine="sim", device=compose(model, PHONE, ()).resolved["device"])
    bench.asked |= dict(answers)
    return bench


def plan_of_two_layers(tmp_path_factory):
    return plan_and_answers(tmp_path_factory)[0]


def plan_and_answers(tmp_path_factory):
    """-> the plan, and what the phone answered to it."""
    def make():
        model = two_layers(tmp_path_factory.mktemp("plan"))
        bench = phone(model)
        return make_plan(model, device=PHONE, cores=CORES, bench=bench), bench.asked
    return once(tmp_path_factory, "plan of two layers", make)

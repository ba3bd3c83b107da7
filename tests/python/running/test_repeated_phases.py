"""device.cpu.phases: a phase that is replayed has the results of one that is simulated."""
import pytest
import vitro
from conftest import ROOT

EXPERIMENTS = ROOT / "experiments"


@pytest.mark.parametrize("experiment, overrides", [
    ("quickstart.yaml", {}),  # with tokens
    ("quickstart.yaml", {"engine.policy": "neuron_cluster"}),
    ("papers/mnn/decode.yaml", {"workload.output_tokens": 4}),
    ("papers/npumoe/qwen3.yaml", {"workload.output_tokens": 4}),  # beside experts on an accelerator
    ("benchmarks/decode_7b.yaml", {"workload.output_tokens": 4, "device.cpu.calls": "together"}),
], ids=lambda value: value if isinstance(value, str) else "")
def test_no_number_of_a_result_depends_on_whether_phases_are_replayed(native, experiment, overrides):
    repeated, each = (dict(vitro.run(EXPERIMENTS / experiment, overrides=overrides | {"device.cpu.phases": way}))
                      for way in ("repeated", "each"))
    assert repeated["counts"].pop("repeated_phases") > 100 and each["counts"].pop("repeated_phases") == 0
    for result in (repeated, each):
        del result["experiment_resolved"], result["wall_s"]
    assert repeated == each


def test_a_way_that_there_is_not_is_refused_with_those_that_there_are(native):
    with pytest.raises(vitro.ConfigError, match=r"cpu\.phases.*repeated"):
        vitro.run(EXPERIMENTS / "quickstart.yaml", overrides={"device.cpu.phases": "twice"})

"""Faults that lose nothing change no decision: host and sim decide alike under one plan, and as without it."""
import pytest
import vitro
from conftest import ROOT

QUICKSTART = ROOT / "experiments/quickstart.yaml"
ENGINES = {
    "paged": {"engine.policy": "mmap", "memory.budget": "6 MiB"},
    "clusters": {"engine.policy": "neuron_cluster", "memory.ffn_in_dram": "30%"},
    "keys and values in flash": {"engine.kv_dram_tokens": 4, "engine.kv_block_tokens": 4},
    "streamed": {"engine.policy": "neuron_cluster", "memory.ffn_in_dram": "30%", "engine.clusters.pipeline": "none"},
}
HARMLESS = [{"fault": "latency", "at": 2, "count": 6, "delay": "1 ms"}, {"fault": "reorder", "at": 10, "count": 12, "delay": "300 us"},
            {"fault": "stall", "at": 30, "count": 3, "delay": "1 ms"}, {"fault": "queue_full", "at": 40, "count": 8},
            {"fault": "slow_launch", "at": 20, "count": 5, "delay": "200 us"}]


def decided(machine, engine, folder, faults):
    changes = ENGINES[engine] | {"workload.output_tokens": 8, "engine.units": ["cpu0", "cpu1"]}
    changes |= {"faults": {"entries": faults}} if faults else {}
    result = vitro.run(QUICKSTART, machine=machine, overrides=changes, out=folder)
    return result, (folder / "decisions.jsonl").read_text()


@pytest.mark.parametrize("engine", ENGINES)
def test_harmless_faults_change_no_decision_on_either_machine(native, tmp_path, engine):
    calm, expected = decided("sim", engine, tmp_path / "calm", [])
    for machine in ("sim", "host"):
        struck, log = decided(machine, engine, tmp_path / machine, HARMLESS)
        assert struck.tokens == calm.tokens
        assert log == expected
        said = " ".join(struck.data["notes"])
        assert "faults" in said and "struck nothing" not in said
    assert expected.count("\n") > 10

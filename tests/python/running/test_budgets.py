"""A budget that is too small is refused with the smallest that works: it does, and a granule less does not."""
import re

import pytest
import vitro
from conftest import ROOT
from vitro.errors import ConfigError
from vitro.running import budgets, experiments

QUICKSTART = ROOT / "experiments" / "quickstart.yaml"
SHORT = {"workload.output_tokens": 12}
MIXTURE = {"model": {"gguf": str(ROOT / "configs/models/embedded/stories-moe-6m.f16.gguf")}}
FLASH_KV = {"engine.policy": "dense", "engine.kv.dram_tokens": 0, "engine.kv.block_tokens": 16, "engine.prefill_chunk": 16,
            "workload.prompt_tokens": 180, "workload.prompt": None, "workload.output_tokens": 40}
SET_UPS = {
    "dense": {"engine.policy": "dense"}, "paged": {"engine.policy": "mmap"}, "clusters": {"engine.policy": "neuron_cluster"},
    "experts": {**MIXTURE, "engine.policy": "dense", "engine.weights.kind": "experts", "engine.weights.eviction": "lru"},
    "keys and values in flash": FLASH_KV,
    "long keys and values": {**FLASH_KV, "engine.kv.dram_tokens": None, "workload.batch": 3},
    "requests that keep": {"workload": {"output_tokens": 12, "seed": 1, "stop_at_eos": False, "requests": [
        {"prompt_tokens": 120, "keep_as": "a"}, {"prompt_tokens": 20, "continue": "a"}]}},
}


def refusal(overrides, machine):
    with pytest.raises(ConfigError) as said:
        vitro.run(QUICKSTART, machine=machine, overrides=overrides)
    return str(said.value)


def smallest(message):
    count, unit = re.search(r"; the smallest that works is (\d+) (KiB|MiB) \(found by trying\)$", message).groups()
    return int(count) * {"KiB": 2 ** 10, "MiB": 2 ** 20}[unit]


@pytest.mark.parametrize("machine, set_up", [*(("sim", name) for name in SET_UPS), ("host", "dense"), ("host", "clusters")])
def test_the_smallest_budget_works_and_a_page_less_is_refused(machine, set_up):
    base = {**({} if "workload" in SET_UPS[set_up] else {"workload.stop_at_eos": False, **SHORT}), **SET_UPS[set_up]}
    told = refusal({**base, "memory.budget": "300 KiB"}, machine)
    assert "memory.budget: 300 KiB is too little: " in told
    least = smallest(told)
    result = vitro.run(QUICKSTART, machine=machine, overrides={**base, "memory.budget": f"{least} B"})
    assert least - 2 ** 20 < result.metric("peak_memory_bytes") <= least
    # Where keys and values do not fit into what the set-up left, the run itself finds out, after some tokens.
    assert smallest(refusal({**base, "memory.budget": f"{least - 4096} B"}, machine)) == least


def test_a_model_of_gigabytes_is_tried_to_a_mebibyte():
    exp, base = ROOT / "experiments" / "benchmarks" / "offload_7b.yaml", {"memory.ffn_in_dram": None, "workload.output_tokens": 2}
    with pytest.raises(ConfigError) as said:
        vitro.run(exp, overrides={**base, "memory.budget": "512 MiB"})
    least = smallest(str(said.value))
    assert least % 2 ** 20 == 0
    vitro.run(exp, overrides={**base, "memory.budget": f"{least} B"})
    with pytest.raises(ConfigError, match="smallest that works is"):
        vitro.run(exp, overrides={**base, "memory.budget": f"{least - 2 ** 20} B"})


def test_of_a_long_run_only_a_bound_is_known():
    told = refusal({"engine.policy": "dense", "engine.function": "draw", "engine.numerics": False, "workload.prompt": None,
                    "workload.prompt_tokens": 16, "workload.output_tokens": 1200, "memory.budget": "64 KiB",
                    "model": {"format": "q4_0", "shape": {"family": "llama", "layers": 1, "width": 64, "heads": 2, "ffn": 64, "vocab": 64,
                                                          "context": 4096}}}, "sim")
    assert re.search(r"the smallest that works is at least \d+ [KM]iB \(found by trying with the first tokens alone\)$", told), told


@pytest.mark.parametrize("overrides", [
    {"memory.ffn_in_dram": "30%", "engine.policy": "neuron_cluster", "faults": {"draw": 1, "lease_error": "100%"}},
    {"memory.budget": "64 MiB", "engine.units": ["cpu99"]},
])
def test_what_a_larger_budget_does_not_mend_is_told_as_it_was(overrides):
    with pytest.raises(vitro.VitroError) as said:
        vitro.run(QUICKSTART, machine="sim", overrides=overrides)
    assert "smallest that works" not in str(said.value)


def test_the_command_line_names_file_key_value_and_the_smallest(native):
    text = QUICKSTART.read_text().replace("../configs", f"{ROOT}/configs")
    (native.folder / "exp.yaml").write_text(text + "memory:\n  budget: 300 KiB\n")
    answer = native("run", native.folder / "exp.yaml")
    assert answer.code == 2, answer.err
    assert re.search(r"exp.yaml:\d+: memory.budget: 300 KiB is too little: .*; the smallest that works is \d+ KiB", answer.err), answer.err


def test_bytes_are_written_without_a_rest():
    assert [budgets.written(count) for count in (12 * 2 ** 20, 12324 * 2 ** 10, 5)] == ["12 MiB", "12324 KiB", "5 B"]


def test_a_budget_that_works_has_no_smallest_to_look_for():
    composed = experiments.compose(QUICKSTART, overrides={"memory.budget": "1 GiB"})
    with pytest.raises(vitro.RunError, match="^these do not fit$"), budgets.said(composed.tree, composed.resolved, []):
        raise vitro.RunError("these do not fit")
